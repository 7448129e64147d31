"""The exchanges of a run as columns, for its page: bounded, however many there are and however long they were."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wiretape.recorder.decode.elements import SOURCES
from wiretape.recorder.decode.runs import ItemRun
from wiretape.recorder.tape.masking import Masker
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import null, select
from wiretape.recorder.tape.tables import exchanges, measures
from wiretape.viewer.record.chunks import chunk
from wiretape.viewer.source.tape import queries
from wiretape.viewer.source.tape.columns import among, column
from wiretape.viewer.source.tape.conditions import Condition

TEXTS: Final = (
    "method", "path", "upstream", "model", "request_model", "response_model", "operation", "api", "outcome",
    "outcome_detail", "error_code", "error_message", "finish_reason", "framing", "ended_by", "clock", "flags",
    "conversation", "sparkline", "cache_verdict", "cache_broken_at", "protocol", "rpc_method",
    "tool_name",
)  # fmt: skip
"""The text fields of an exchange whose values often repeat."""

NUMBERS: Final = (
    "status", "gap_bytes", "connection_reused", "connect_ms", "ttfb_ms", "ttfc_ms", "ttft_ms", "ttfo_ms", "thinking_ms",
    "latency_ms", "duration_ms", "max_gap_ms", "max_silence_ms", "max_output_silence_ms", "first_output_silence_ms",
    "last_silence_ms", "tpot_ms", "tps_user", "icl_p50_ms", "icl_p99_ms",
    "coalesced_fraction", "input_tokens", "output_tokens", "reasoning_tokens", "cache_read_input_tokens", "reads",
    "events", "output_chunks", "bytes", "cost", "cache_hit_rate",
)  # fmt: skip
"""Those that are numbers: durations in ns."""

CONTEXT: Final = tuple(f"context_{source}_bytes" for source in SOURCES)
"""The bytes of a request by source."""

BELONGING: Final = ("conversation", "cache_verdict", "cache_broken_at")
"""The fields that need the other exchanges of the tape."""

_FIELDS: Final = ("id", "started_at", "labels", *TEXTS, *NUMBERS, *CONTEXT, "tool_spans")


_FREE_TEXTS: Final = ("path", "labels", "error_code", "error_message", "model", "request_model", "response_model")


@dataclass(frozen=True, slots=True)
class Columns:
    """Exchanges in the order of their numbers: the values of each field, and the gaps of those that are kept.

    Values are as on the tape: durations in ns. `gaps` are between output chunks, packed int64 in ns; None where they
    were left out.
    """

    numbers: list[int]
    values: dict[str, list[Any]]
    gaps: list[bytes | None]

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, slots=True)
class OutputText:
    """The text of an exchange's output chunks: all of it, and the number of characters in each chunk."""

    text: str
    sizes: list[int]


def columns(
    connection: Connection,
    where: Condition | None,
    most: int,
    most_gaps: int,
    without: Collection[str] = (),
    mask: Masker | None = None,
) -> Columns:
    """Return the newest exchanges that fit, at most `most`, with at most `most_gaps` gaps of those that waited longest.

    Fields that are left out, `without`, are unknown; texts are masked.
    """
    named = ((null() if field in without else column(field)).label(field) for field in _FIELDS)
    statement = select(exchanges.c.no, *named)
    newest = queries.in_batches(connection, statement, where, newest_first=True, limit=most)
    found = [row for batch in newest for row in batch][::-1]
    numbers, *values = map(list, zip(*found, strict=True)) if found else ([] for _ in ("no", *_FIELDS))
    by_name = dict(zip(_FIELDS, values, strict=True))
    if mask is not None:
        by_name |= {name: list(map(mask.value, by_name[name])) for name in _FREE_TEXTS}
    kept = _with_gaps(numbers, by_name, most_gaps)
    gaps = dict(_gaps(connection, kept))
    return Columns(numbers, by_name, [gaps.get(no) for no in numbers])


def _with_gaps(numbers: Sequence[int], values: dict[str, list[Any]], most: int) -> set[int]:
    """Return the exchanges whose gaps are kept: those with the longest gap come first, up to the limit of gaps."""
    longest_first = sorted(
        zip(values["max_gap_ms"], values["output_chunks"], numbers, strict=True), key=lambda one: -(one[0] or 0)
    )
    kept, held = set[int](), 0
    for _, chunks, no in longest_first:
        held += chunks or 0
        if held > most:
            break
        kept.add(no)
    return kept


def _gaps(connection: Connection, numbers: set[int]) -> list[tuple[int, bytes]]:
    statement = select(exchanges.c.no, measures.c.icl)
    return [
        (no, gaps or b"") for batch in queries.in_batches(connection, statement, among(numbers)) for no, gaps in batch
    ]


def texts(connection: Connection, numbers: Sequence[int], most: int) -> dict[int, OutputText]:
    """Return the texts of these exchanges, in their order, up to a limit of characters."""
    found, held = dict[int, OutputText](), 0
    for no, decoded in queries.decoded_bodies(connection, ((no, no) for no in numbers)):
        said = [text for run in decoded.runs if run.chunk.output for text in _said(run)]
        found[no] = OutputText("".join(said), list(map(len, said)))
        held += len(found[no].text)
        if held > most:
            break
    return found


def _said(run: ItemRun) -> list[str]:
    """Return the text of each chunk of a run: texts, and names and arguments of tool calls."""
    if run.part is not None:
        return run.texts
    each = chunk("", run.chunk)
    names = ("reasoning", "content", "refusal", "tool_name", "tool_arguments")
    return ["".join(row[name] or "" for row in each for name in names)]
