"""Tapes of recorded LLM streams in Python: `record` makes one, `open_tape` reads one, such as that of `wiretape demo`.

    >>> import wiretape
    >>> with wiretape.open_tape("demo.db") as tape:
    ...     complete = tape.exchanges(filter="model:demo-* outcome:complete")
    ...     figures = tape.stats(by="model", slo="ttft<800ms")
    ...     difference = tape.compare("@-14", "@stall").set_index("metric")["difference"]
    ...     stalled = tape.show("@stall")
    >>> bool(complete["ttft_ms"].max() > 1000)
    True
    >>> float(figures.set_index("model").loc["demo-burst", "goodput_pct"])
    0.0
    >>> bool(difference["max_gap_ms"] > 2000)
    True
    >>> stalled["content"]
    'The model begins to speak, and goes on as if nothing had happened.'

Tables and figures are pandas frames: `exchanges`, `texts`, `chunks`, `reads`, `gaps`, `stats` and `compare`; unknown is
NA, never 0. `records` are `DetailRow`s, without pandas. `help(wiretape.Tape)` explains them, `wiretape help filters`
the filters.

`record` relays the calls of the program itself to an API, and records them: `help(wiretape.record)` has an example. Its
value, a `LiveTape`, is also a `Tape`.

`WiretapeServer` is the type of the pytest plugin's fixture, and `RequestTimeline` the return type of its `timeline()`.
Its `control` raises `ControlError`.

Importing this package is cheap: pandas and the database library are loaded when a name that needs them is first used.
Every error that wiretape foresees is a `WiretapeError`, except that an invalid filter is a `ValueError`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wiretape.recorder import __version__

if TYPE_CHECKING:
    from wiretape.recorder.errors import (
        ForeignFile,
        NotFound,
        SchemaMismatch,
        TapeBusy,
        TapeDamaged,
        TapeError,
        WiretapeError,
    )
    from wiretape.viewer.export.frames import Tape, open_tape
    from wiretape.viewer.record.rows import DetailRow
    from wiretape.viewer.wings.replay.background import WiretapeServer
    from wiretape.viewer.wings.replay.live_tape import LiveTape, record
    from wiretape.viewer.wings.replay.streams import ControlError
    from wiretape.viewer.wings.replay.timeline import RequestTimeline

__all__ = [
    "ControlError",
    "DetailRow",
    "ForeignFile",
    "LiveTape",
    "NotFound",
    "RequestTimeline",
    "SchemaMismatch",
    "Tape",
    "TapeBusy",
    "TapeDamaged",
    "TapeError",
    "WiretapeError",
    "WiretapeServer",
    "__version__",
    "open_tape",
    "record",
]

_IN = {
    "ControlError": "wiretape.viewer.wings.replay.streams",
    "DetailRow": "wiretape.viewer.record.rows",
    "LiveTape": "wiretape.viewer.wings.replay.live_tape",
    "Tape": "wiretape.viewer.export.frames",
    "RequestTimeline": "wiretape.viewer.wings.replay.timeline",
    "WiretapeServer": "wiretape.viewer.wings.replay.background",
    "open_tape": "wiretape.viewer.export.frames",
    "record": "wiretape.viewer.wings.replay.live_tape",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_IN.get(name, "wiretape.recorder.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
