"""Recordings played again: to a terminal or a pipe, and to a client over HTTP."""

from wiretape.viewer.contracts import Command, Wing

WING = Wing((
    Command(
        "play", f"{__name__}.play_command:play", "Look", "report", "Write an answer again with its recorded timing.",
        ("play", "play @stall --speed 4", "play @ --as sse | wc -c"),
    ),
    Command(
        "serve", f"{__name__}.serve_command:serve", "Replay", "",
        "Answer requests from a tape, with timing and failures.",
        ("serve", "serve --filter 'is:ok' --speed 4", "serve --fault cut@50% --listen 127.0.0.1:0"),
    ),
))  # fmt: skip
