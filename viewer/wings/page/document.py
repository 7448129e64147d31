"""Pure: the frame of a page: one HTML file with its own style, script and data, which reaches no network.

The assets are concatenated in a fixed order, without indentation and comments: there is no build step. The data of a
page is one JSON value, and bytes beside it, each gzipped and in base64 in a block that no browser runs. Nothing
recorded is ever markup: the markup is the same for every page but for these blocks, and the script makes text nodes
only, which the policy enforces (`require-trusted-types-for`).
"""

import base64
import functools
import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import BinaryIO, Final

from wiretape.recorder.tape.redact import Redactor

ASSETS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "stream": (
        ("frame.css", "stream.css"),
        ("frame.js", "tables.js", "canvas.js", "exchange.js", "timeline.js", "player.js", "stream.js"),
    ),
    "run": (
        ("frame.css", "stream.css", "run.css"),
        ("frame.js", "tables.js", "canvas.js", "exchange.js", "timeline.js", "player.js", "filter.js", "rows.js",
         "lanes.js", "plots.js", "trend.js", "compare.js", "sessions.js", "run.js"),
    ),
}  # fmt: skip
"""Styles and scripts of each page, in their order; the last script begins with the definitions of the others."""

MASKED: Final = "what looks like a key is masked, and nothing else redacted"
"""The rule for texts and bodies in a page that is made to be passed on."""

LIVE: Final = "live.js"
"""The script that a live page has besides, before its last."""

MOST_CHARACTERS: Final = 500
"""Limit of a name, a path, a label or an error message in a page, in characters."""

_POLICY: Final = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; img-src data: blob:; "
    "connect-src {connect}; form-action 'none'; base-uri 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_MARKUP: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>wiretape</title>{icon}
<style>{style}</style>
</head>
<body>
<main id="page"><p id="loading">This page needs JavaScript and a browser of 2024 or later.</p></main>
{blocks}
<script>{script}</script>
</body>
</html>
"""
_SKIPPED: Final = re.compile(r"^\s+(?://.*\n\s*)*|^(?://.*\n\s*)+", re.MULTILINE)
_REDACTOR: Final = Redactor(None)
_BLOCK: Final = '<script type="application/octet-stream" id="{name}">{data}</script>'


def write(out: BinaryIO, page: str, data: Mapping[str, object], parts: Mapping[str, bytes] | None = None) -> int:
    """Write a page of `ASSETS` and return its size in bytes.

    The script finds `data` by the name data, and each of the `parts`, bytes, by its own name, a word.
    """
    styles, scripts = ASSETS[page]
    style, script = _joined(styles), _joined(scripts)
    blocks = {"data": encoded(data), **(parts or {})}
    # Without a time in gzip's head, the same data make the same page, byte for byte.
    markup = _MARKUP.format(
        policy=_policy(style, script, "'none'"),
        icon="",
        style=style,
        script=script,
        blocks="\n".join(
            _BLOCK.format(name=name, data=base64.b64encode(gzip.compress(block, 9, mtime=0)).decode("ascii"))
            for name, block in blocks.items()
        ),
    )
    return out.write(markup.encode())


@functools.cache
def live(page: str) -> tuple[bytes, str]:
    """Return a page of `ASSETS` without data, which it gets from where it came from, and its policy."""
    styles, scripts = ASSETS[page]
    style, script = _joined(styles), _joined((*scripts[:-1], LIVE, scripts[-1]))
    policy = _policy(style, script, "'self'")
    icon = '\n<link rel="icon" href="data:,">'  # browsers ask for /favicon.ico otherwise, without the secret word
    return _MARKUP.format(policy=policy, icon=icon, style=style, script=script, blocks="").encode(), policy


def _policy(style: str, script: str, connect: str) -> str:
    return _POLICY.format(script=_digest(script), style=_digest(style), connect=connect)


def encoded(value: Mapping[str, object]) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # JSON has escapes for the lone surrogates that UTF-8 has no bytes for.
    return text.encode("utf-8", "backslashreplace")


def without_credentials(message: str | None) -> str | None:
    """Return an error message without what looks like a credential: an API may repeat the key that it refuses."""
    return None if message is None else _REDACTOR.text(message)


def shortened(text: str) -> str:
    """Return the beginning of a text: what names an exchange is short, unless somebody means harm."""
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def deltas(values: Iterable[int | None]) -> list[int | None]:
    """Return a column with each value as its difference from the known one before; None stays where it is.

    Timestamps and offsets only grow: as differences they are short, and compress well.
    """
    coded, previous = list[int | None](), 0
    for value in values:
        coded.append(None if value is None else value - previous)
        previous = previous if value is None else value
    return coded


def _joined(names: Sequence[str]) -> str:
    """Return assets one after the other, without indentation, blank lines and lines that are comments."""
    assets = resources.files(__package__) / "assets"
    return "\n" + _SKIPPED.sub("", "".join((assets / name).read_text("utf-8") for name in names))


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
