"""The content of live pages, as JSON values: that of `wiretape.viewer.wings.page`, and the state of recorder and tape.

A run is its newest exchanges: figures are made of those and of no others, so that the page of a large tape opens at
once, and is made again in a fraction of a second.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from sqlalchemy import Connection
from sqlalchemy.exc import NoResultFound

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.decode.exchange import RecordedExchange
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.errors import NotFound
from wiretape.recorder.process import RecorderRun
from wiretape.recorder.tape import reading
from wiretape.recorder.tape.schema import exchanges
from wiretape.viewer.exchange import states
from wiretape.viewer.exchange.opened import StoredAnswer
from wiretape.viewer.listing import notices
from wiretape.viewer.query.syntax import Filter
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.source.base import FollowerKind
from wiretape.viewer.source.tape import conditions, live, queries
from wiretape.viewer.source.tape import exchange as tape_exchange
from wiretape.viewer.source.tape.conditions import Condition
from wiretape.viewer.source.tape.run import Columns
from wiretape.viewer.text import formatting
from wiretape.viewer.wings.page import run, sources, stream

MOST_ROWS: Final = 2_000
"""Limit of exchanges when a page opens; it grows to twice as many."""

MOST_GAPS: Final = 200_000
MANY: Final = 5_000
"""Size of a tape, in exchanges, from which a page opens without conversations, and gets them a moment later."""

REST_SECONDS: Final = 5.0
_WHOLE_NS: Final = 1_000_000_000
"""Interval at which a running exchange is analysed as a whole, in ns; the player is updated more often."""

_PIECE: Final = 48 << 10
"""Size of a list element of a body, in bytes: elements that are complete are not sent again."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The content to show: tape, exchanges, limits of verdicts, and whether with bodies."""

    tape: Path
    where: Filter | None
    limits: Thresholds
    bodies: bool = False


class PageSource(Protocol):
    """A source of a page's content, read again and again."""

    follower: FollowerKind
    """The kind of follower, which says how often it is read."""

    rest_seconds: float
    """Longest interval between two readings: silences grow even on a tape that nobody writes to."""

    def read(self, connection: Connection) -> JsonObject:
        """Read it. Raises `WiretapeError`."""


class RunSource:
    """The exchanges that a filter selects: the newest ones."""

    follower: FollowerKind = "run page"
    rest_seconds = 0.0

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._first = 0
        self._has_begun = False

    def read(self, connection: Connection) -> JsonObject:
        """Read the page of the run."""
        settings = self._settings
        selected = None if settings.where is None else conditions.condition(settings.where)
        total = queries.count(connection, selected)
        self._slide(connection, selected)
        newest = exchanges.c.no >= self._first
        newest = newest if selected is None else newest & selected
        belonging = self._has_begun or total <= MANY
        wanted = sources.PageContent(settings.where, newest, whole=False, belonging=belonging, most_gaps=MOST_GAPS)
        self._has_begun, self.rest_seconds = True, REST_SECONDS if belonging else 0.0
        found = sources.read_run(connection, wanted, settings.limits)
        state = _fill(connection, found.columns) | {"tape": settings.tape.name}
        shown = len(found.columns)
        return run.data(found) | {
            "total": total,
            "title": f"live: {settings.tape.name}{f' · {formatting.line(found.filter)}' if found.filter else ''}",
            "banner": list(_banner(total, shown)),
            "live": state,
            **_gaps(found.columns),
        }

    def _slide(self, connection: Connection, selected: Condition | None) -> None:
        """Choose the page's first exchange: always the same one, until there are too many."""
        numbers = live.newest(connection, selected, 2 * MOST_ROWS + 1)
        if not self._first or len([no for no in numbers if no >= self._first]) > 2 * MOST_ROWS:
            self._first = min(numbers[:MOST_ROWS], default=0)


def _gaps(columns: Columns) -> JsonObject:
    counts, middles, low, high = run.pack_gap_bytes(columns.gaps)
    packed = [[_base64(one) for one in part] for part in (low, high)]
    return {"gaps": {"count": counts, "middle": middles}, "parts": {"gaps": packed}}


def _banner(total: int, shown: int) -> Iterator[tuple[str, str]]:
    if shown < total:
        yield "Shown:", f"the newest {shown:,} of {total:,} exchanges; all figures are of these."
    yield (
        "Left out:",
        "texts, headers and bodies, which the page of an exchange has, and comparisons: wiretape export --html.",
    )


def _fill(connection: Connection, columns: Columns) -> JsonObject:
    """Fill in preliminary measures of the running exchanges.

    Return the recorder, the number of exchanges being recorded, and their last reads by id, in µs.
    """
    places = {no: at for at, no in enumerate(columns.numbers) if columns.values["ended_by"][at] is None}
    with connection.begin():
        recorder = reading.newest_run(connection)
        runs = {no: reading.run_of(connection, no) for no in places}
    wall_ns, running, last = SYSTEM.wall_ns(), 0, dict[str, int | None]()
    for row in live.listed(connection, list(places)):
        recording = runs[row.no].state(wall_ns) == "running"
        running += recording
        passed = states.elapsed_ms(row, states.Look(wall_ns=wall_ns, recording=recording))
        for name, value in _so_far(row, passed):
            columns.values[name][places[row.no]] = value
        last[row.id] = None if row.last_read_ms is None else round(row.last_read_ms * 1000)
    return {"recorder": _line(recorder), "open": running, "last": last}


def _so_far(row: ListRow, passed_ms: float | None) -> Iterator[tuple[str, object]]:
    """Yield the values of a row that still runs by the names of their columns, as a tape has them."""
    measured = {name: getattr(row, name) for name in _GROWING} | {"duration_ms": passed_ms}
    for name, value in measured.items():
        in_ns = name.endswith("_ms") and value is not None
        yield name, round(value * 1_000_000) if in_ns else value


_GROWING: Final = (
    "ttft_ms", "icl_p50_ms", "icl_p99_ms", "max_gap_ms", "max_silence_ms", "events", "output_chunks",
    "output_tokens", "reads", "bytes", "sparkline",
)  # fmt: skip


class ExchangeSource:
    """One exchange, by its id."""

    follower: FollowerKind = "page"
    rest_seconds = 1.0

    def __init__(self, settings: Settings, id: str) -> None:
        self._settings, self._id = settings, id
        self._ended: tuple[StoredAnswer, JsonObject] | None = None
        self._whole: JsonObject = {}
        self._whole_ns = 0
        self._has_begun = False

    def read(self, connection: Connection) -> JsonObject:
        """Read the page of the exchange."""
        no = queries.find(connection, self._id)
        try:
            if self._ended is not None and tape_exchange.is_final(connection, no, self._ended[0]):
                return self._ended[1]
            return self._read(connection, no)
        except NoResultFound as error:
            raise NotFound(f"exchange {self._id} is not on the tape any more") from error

    def _read(self, connection: Connection, no: int) -> JsonObject:
        settings = self._settings
        belonging = self._has_begun or no <= MANY
        one = sources.exchange(connection, no, settings.limits, belonging=belonging)
        self._has_begun, self.rest_seconds = True, 1.0 if belonging else 0.0
        row = one.known.row
        shared = stream.Shared(text=True, bodies=settings.bodies)
        is_open = one.opened.live and one.recording
        if not is_open or not belonging or SYSTEM.now() - self._whole_ns >= _WHOLE_NS:
            self._whole, self._whole_ns = stream.data(one, shared), SYSTEM.now()
            value = dict(self._whole)
        else:
            value = self._whole | stream.played(one, shared)
        value["live"] = {
            "tape": settings.tape.name,
            "open": is_open,
            "recorder": _line(one.known.recorder),
            "silence": _silence(one) if is_open else None,
        }
        asked, body = one.known.request.plain or b"", one.opened.transcript.data
        bodies = {"body": body, "asked": asked} if settings.bodies else {}
        value["parts"] = {name: [_pieces(data)] for name, data in bodies.items()}
        ended = StoredAnswer(row.id, RecordedExchange(one.full.exchange, one.full.reads, b""), row.outcome)
        is_final = belonging and row.ended_by is not None and row.outcome != "open"
        self._ended = (ended, value) if is_final else None
        return value


def _silence(one: stream.StreamPage) -> str | None:
    """Return since when nothing has come, where that is long."""
    row = one.known.row
    passed = states.elapsed_ms(row, states.Look(wall_ns=SYSTEM.wall_ns(), recording=True))
    last_ns = max(one.full.reads.at_ns, default=None)
    found = None if passed is None else states.silence(round(passed * 1e6), last_ns, one.opened.limits)
    return None if found is None else str(found)


def _line(recorder: RecorderRun | None) -> str:
    return "".join(text for text, _ in notices.recorder_line(recorder, SYSTEM.wall_ns()))


def _pieces(data: bytes) -> list[str]:
    return [_base64(data[at : at + _PIECE]) for at in range(0, len(data), _PIECE)]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
