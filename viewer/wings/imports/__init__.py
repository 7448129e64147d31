"""Other programs' recordings, read and put on a tape."""

from wiretape.viewer.contracts import Command, Extra, Import, Wing

WING = Wing(
    commands=(
        Command(
            "import", f"{__name__}.command:import_", "Record", "demo",
            "Copy exchanges of other programs to a tape: HAR, vcrpy, mitmproxy.",
            ("import chat.har", "import chat.har --label source=browser --db imported.db",
             "import stream.sse --url https://api.openai.com/v1/chat/completions"),
        ),
    ),
    imports=(
        Import(
            "har", f"{__name__}.har:read",
            "HTTP archives: the phases of an exchange, and bodies without their content coding (then rebuilt); for an "
            "event stream the time of each event, if the archive has _eventSourceMessages (coarse_clock), else no "
            "times within it (no_timing). An answer is refused if the archive does not have all of its body, as of a "
            "stream that mitmproxy passed on. An export of wiretape keeps each read and its time",
            rb'(?:\xef\xbb\xbf)?\s*\{\s*"log"\s*:', suffix=".har",
        ),
        Import(
            "mitmproxy", f"{__name__}.mitmproxy:read",
            "flows that mitmdump -w saves: when an answer began and ended, nothing within it (no_timing); no byte of "
            "an answer that broke off or was streamed past it",
            rb"\d{1,12}:\d{1,12}:[\w,;]",
        ),
        Import(
            "vcrpy", f"{__name__}.vcrpy:read",
            "cassettes of vcrpy, which pytest-recording and pytest-vcr use, in YAML or JSON: whole bodies without "
            "times (no_timing), at the second of the answer's Date header, else of the file. A body that is kept as a "
            "value is JSON again (rebuilt). YAML needs PyYAML, the extra vcr",
            rb"(?:\xef\xbb\xbf)?(?:#[^\n]*\n|---[^\n]*\n|version: *\d+ *\r?\n|\s)*interactions: *\r?\n"
            rb'|(?:\xef\xbb\xbf)?\s*\{\s*(?:"version"\s*:\s*\d+\s*,\s*)?"interactions"\s*:',
        ),
        Import(
            "sse", f"{__name__}.formats:read_body",
            "the bytes of one body, as curl -N -o FILE saves them: an event stream, or JSON of an API known here. "
            "Their times are unknown (no_timing), and so is the request, but for its URL if --url names it; taken to "
            "answer a POST with the status 200, at the time of the file",
            rb"(?:\xef\xbb\xbf)?\s*(?:(?:data|event|id|retry)[:\r\n]|:|[{\[])", is_guess=True,
        ),
    ),
    extras=(Extra("vcr", "yaml", "import of YAML"),),
)  # fmt: skip
