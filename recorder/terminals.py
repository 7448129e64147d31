"""Terminals: whether one has UTF-8, and similar signs of ASCII for those that it lacks.

click writes UTF-8 to a stream whose encoding is ASCII, and Python in a C locale has UTF-8 itself. So a stream to a
terminal without UTF-8 gets an encoding of its own, and all that is printed takes the same way.
"""

import codecs
import os
import re
from typing import Final, TextIO

SIGNS: Final = str.maketrans(
    "▁▂▃▄▅▆▇█▌▐▎▏░▒▓▚·•…–—−→←↑↓⇧▲▼▶▸▾‖│┃╷┊┆─━┄╱┌┐└┘├┤┬┴┼╭╮╰╯×≥≤′’‘“”Δµ◆○",
    ".:-=+*#@||||:+#%..~---><^v^^v>>v|||'::-=-/+++++++++++++x><''`\"\"du*o",
)
"""Signs of ASCII, as many cells wide, by those that drawings and texts of ours have."""
_ENCODING: Final = "ascii_signs"


def has_utf8() -> bool:
    """Return True if the locale is a UTF-8 one, or if there is none."""
    everything, characters, language = (os.environ.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    if characters == "C.UTF-8" and language in ("C", "POSIX"):
        characters = ""  # Python itself has set it
    return re.search(r"utf-?8", everything or characters or language or "utf-8", re.IGNORECASE) is not None


def adapt(stream: TextIO) -> None:
    """Make a stream write similar signs for those that its terminal lacks, or ? for any other."""
    encoding = stream.encoding
    if codecs.lookup(encoding).name in ("ascii", "utf-8") and stream.isatty() and not has_utf8():
        encoding = _ENCODING
    stream.reconfigure(encoding=encoding, errors=_ENCODING)  # type: ignore[attr-defined] # a TextIOWrapper


def _similar(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end].translate(SIGNS)
    return "".join(sign if sign.isascii() else "?" for sign in lacking), error.end


class _Encoder(codecs.IncrementalEncoder):
    """Encodes to ASCII."""

    def encode(self, input: str, final: bool = False) -> bytes:
        return input.encode("ascii", _ENCODING)


_CODEC: Final = codecs.CodecInfo(
    lambda text, errors="strict": (text.encode("ascii", _ENCODING), len(text)),
    lambda data, errors="strict": codecs.ascii_decode(data, errors),
    incrementalencoder=_Encoder,
    name=_ENCODING,
)
codecs.register_error(_ENCODING, _similar)
codecs.register(lambda name: _CODEC if name == _ENCODING else None)
