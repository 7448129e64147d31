"""Films: the replay of an exchange, or the race of two, as a terminal recording or an animated GIF."""

from wiretape.viewer.contracts import Export, Extra, Options, Wing

WING = Wing(
    options=(
        Options(
            "export", "film", f"{__name__}.export:film",
            "--speed, --max-gap and --size are of films: add --format gif or asciicast",
        ),
    ),
    exports=(
        Export(
            "asciicast", f"{__name__}.export:write_asciicast", "event", "the replay of one or the race of two",
            suffix=".cast", options="film",
        ),
        Export(
            "gif", f"{__name__}.export:write_gif", "frame", "the same as a picture", suffix=".gif", options="film",
            unprintable="raw bytes may upset a terminal: send them to a file or a pipe",
        ),
    ),
    extras=(Extra("gif", "PIL", "export --format gif"),),
)  # fmt: skip
