"""Read what wiretape has recorded: a tape as pandas frames.

    >>> import wiretape
    >>> tape = wiretape.open_tape("tape.db")
    >>> frame = tape.exchanges("model:gpt-* since:2h")

Importing this package is cheap: pandas and the database library are loaded when `open_tape` or `Tape` is first used.
Every error that wiretape foresees is a `WiretapeError`, except that a filter that cannot be read is a `ValueError`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from recorder import __version__

if TYPE_CHECKING:
    from recorder.errors import (
        ForeignFile,
        NotFound,
        SchemaMismatch,
        TapeBusy,
        TapeDamaged,
        TapeError,
        WiretapeError,
    )
    from viewer.export.frames import Tape, open_tape

__all__ = [
    "ForeignFile",
    "NotFound",
    "SchemaMismatch",
    "Tape",
    "TapeBusy",
    "TapeDamaged",
    "TapeError",
    "WiretapeError",
    "__version__",
    "open_tape",
]

_IN_FRAMES = ("Tape", "open_tape")


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module("viewer.export.frames" if name in _IN_FRAMES else "recorder.errors"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
