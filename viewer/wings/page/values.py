"""The content of live pages, as JSON values: that of `wiretape.viewer.wings.page`, and the state of recorder and tape.

A run is its newest exchanges: figures are made of those and of no others, so that the page of a large tape opens at
once, and is made again in a fraction of a second.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.decode.exchange import RecordedExchange
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.errors import NoResultFound, NotFound
from wiretape.recorder.process import RecorderRun
from wiretape.viewer.exchange import states
from wiretape.viewer.exchange.opened import StoredAnswer
from wiretape.viewer.listing import notices
from wiretape.viewer.query.syntax import Filter
from wiretape.viewer.record.rows import ListRow
from wiretape.viewer.source.base import Columns, FollowerKind, Selection
from wiretape.viewer.source.tape_source import TapeSource
from wiretape.viewer.text import formatting
from wiretape.viewer.wings.page import run, sources, stream

MOST_ROWS: Final = 2_000
"""Limit of exchanges when a page opens; it grows to twice as many."""

MOST_GAPS: Final = 200_000
"""Limit of gaps in a live page, whose columns are compared with the ones before at each reading."""
MANY: Final = 5_000
"""Size of a tape, in exchanges, from which a page opens without conversations, and gets them a moment later."""

REST_SECONDS: Final = 5.0
"""Longest interval between two readings of a run; silences of its exchanges grow meanwhile."""
_WHOLE_NS: Final = 1_000_000_000
"""Interval at which a running exchange is analysed as a whole, in ns; the player is updated more often."""

_PIECE: Final = 48 << 10
"""Size of a list element of a body, in bytes: elements that are complete are not sent again."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The content to show: tape, exchanges, limits of verdicts, and whether with bodies."""

    tape: Path
    filter: Filter | None
    limits: Thresholds
    bodies: bool = False


class PageSource(Protocol):
    """A source of a page's content, read again and again."""

    follower: FollowerKind
    """The kind of follower, which says how often it is read."""

    rest_seconds: float
    """Longest interval between two readings: silences grow even on a tape that nobody writes to."""

    def read(self, source: TapeSource) -> JsonObject:
        """Read it. Raises `WiretapeError`."""


class RunSource:
    """The exchanges that a filter selects: the newest ones."""

    follower: FollowerKind = "run page"
    rest_seconds = 0.0

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._first_no = 0
        self._has_begun = False

    def read(self, source: TapeSource) -> JsonObject:
        """Read the page of the run."""
        settings = self._settings
        selection = Selection(settings.filter)
        total = source.count(selection)
        newest_first = source.numbers(selection, 2 * MOST_ROWS + 1)
        # The page begins with the same exchange until it is twice as long: a window that slid with each new exchange
        # would change all places in its columns, and no patch would be shorter than the whole.
        if not self._first_no or len([no for no in newest_first if no >= self._first_no]) > 2 * MOST_ROWS:
            self._first_no = min(newest_first[:MOST_ROWS], default=0)
        has_conversations = self._has_begun or total <= MANY
        content = sources.PageContent(
            replace(selection, first=self._first_no),
            is_whole=False,
            has_conversations=has_conversations,
            most_gaps=MOST_GAPS,
        )
        self._has_begun, self.rest_seconds = True, REST_SECONDS if has_conversations else 0.0
        page = sources.read_run(source, content, settings.limits)
        state = _fill(source, page.columns) | {"tape": settings.tape.name}
        shown_count = len(page.columns)
        banner = [(
            "Left out:",
            "texts, headers and bodies, which the page of an exchange has, and comparisons: wiretape export --html.",
        )]  # fmt: skip
        if shown_count < total:
            text = f"the newest {shown_count:,} of {total:,} exchanges; all figures are of these."
            banner.insert(0, ("Shown:", text))
        counts, middles, low, high = run.pack_gap_bytes(page.columns.gaps)
        return run.data(page) | {
            "total": total,
            "title": f"live: {settings.tape.name}{f' · {formatting.line(page.filter)}' if page.filter else ''}",
            "banner": banner,
            "live": state,
            "gaps": {"count": counts, "middle": middles},
            "parts": {"gaps": [[_base64(data) for data in part] for part in (low, high)]},
        }


def _fill(source: TapeSource, columns: Columns) -> JsonObject:
    """Fill in preliminary measures of the running exchanges.

    Return the recorder, the number of exchanges being recorded, and their last reads by id, in µs.
    """
    places = {no: at for at, no in enumerate(columns.numbers) if columns.values["ended_by"][at] is None}
    recorder = source.newest_run()
    wall_ns, running_count, last_us = SYSTEM.wall_ns(), 0, dict[str, int | None]()
    for row in source.visible(list(places)):
        is_recording = source.exchange(row.no).recorder().state(wall_ns) == "running"
        running_count += is_recording
        passed = states.elapsed_ms(row, states.Look(wall_ns=wall_ns, recording=is_recording))
        for name, value in _so_far(row, passed):
            columns.values[name][places[row.no]] = value
        last_us[row.id] = None if row.last_read_ms is None else round(row.last_read_ms * 1000)
    return {"recorder": _line(recorder), "open": running_count, "last": last_us}


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
        self._final: tuple[StoredAnswer, JsonObject] | None = None
        self._last_data: JsonObject = {}
        self._last_data_ns = 0
        self._has_begun = False

    def read(self, source: TapeSource) -> JsonObject:
        """Read the page of the exchange."""
        number = source.find(self._id)
        try:
            if self._final is not None and source.exchange(number).is_final(self._final[0]):
                return self._final[1]
            return self._read(source, number)
        except NoResultFound as error:
            raise NotFound(f"exchange {self._id} is not on the tape any more") from error

    def _read(self, source: TapeSource, number: int) -> JsonObject:
        settings = self._settings
        has_conversations = self._has_begun or number <= MANY
        page = sources.exchange(source, number, settings.limits, has_conversations=has_conversations)
        self._has_begun, self.rest_seconds = True, 1.0 if has_conversations else 0.0
        row = page.detail.row
        shared = stream.Shared(text=True, bodies=settings.bodies)
        is_open = page.opened.live and page.recording
        if not is_open or not has_conversations or SYSTEM.now() - self._last_data_ns >= _WHOLE_NS:
            self._last_data, self._last_data_ns = stream.data(page, shared), SYSTEM.now()
            value = dict(self._last_data)
        else:
            value = self._last_data | stream.played(page, shared)
        value["live"] = {
            "tape": settings.tape.name,
            "open": is_open,
            "recorder": _line(page.detail.recorder),
            "silence": _silence(page) if is_open else None,
        }
        request_body, body = page.detail.request.plain or b"", page.opened.transcript.data
        bodies = {"body": body, "asked": request_body} if settings.bodies else {}
        value["parts"] = {
            name: [[_base64(data[at : at + _PIECE]) for at in range(0, len(data), _PIECE)]]
            for name, data in bodies.items()
        }
        stored = StoredAnswer(row.id, RecordedExchange(page.full.exchange, page.full.reads, b""), row.outcome)
        is_final = has_conversations and row.ended_by is not None and row.outcome != "open"
        self._final = (stored, value) if is_final else None
        return value


def _silence(page: stream.StreamPage) -> str | None:
    """Return since when nothing has come, where that is long."""
    row = page.detail.row
    passed = states.elapsed_ms(row, states.Look(wall_ns=SYSTEM.wall_ns(), recording=True))
    last_ns = max(page.full.reads.at_ns, default=None)
    if passed is None or page.opened.transcript.is_idle_at(round(passed * 1e6)):
        return None
    silence = states.silence(round(passed * 1e6), last_ns, page.opened.limits)
    return None if silence is None else str(silence)


def _line(recorder: RecorderRun | None) -> str:
    return "".join(text for text, _ in notices.recorder_line(recorder, SYSTEM.wall_ns()))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
