"""Other programs' recordings, read and put on a tape."""

from wiretape.viewer.contracts import Command, Wing

WING = Wing((
    Command(
        "import", f"{__name__}.command:import_", "Record", "demo",
        "Copy exchanges of other programs to a tape: HAR, vcrpy, mitmproxy.",
        ("import chat.har", "import chat.har --label source=browser --db imported.db",
         "import stream.sse --url https://api.openai.com/v1/chat/completions"),
    ),
))  # fmt: skip
