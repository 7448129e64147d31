"""Pure: the page of a run: what `ls`, `stats` and `compare` say of many exchanges, as data for the script of the page.

Figures, intervals and verdicts are made by the same functions as there, of all exchanges that were selected; the script
draws them, counts, and repeats the definition of a percentile for a selection on the page. Exchanges are columns
(`document.deltas` where values grow), durations in µs, and unknown values are null; texts that repeat are numbers of a
list. Gaps are packed as steps of a logarithmic scale, two bytes each. The banner lists the omissions.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from wiretape.recorder import __version__
from wiretape.recorder.decode import causes
from wiretape.recorder.decode.causes import Ending
from wiretape.recorder.decode.exchange import FAILURES, OUTCOMES
from wiretape.recorder.decode.operation import GENERATIONS
from wiretape.recorder.decode.stalls import Thresholds, without_tools
from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.plurals import counted
from wiretape.viewer.exchange import states
from wiretape.viewer.query import fields
from wiretape.viewer.record import units
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.report.stats import explained
from wiretape.viewer.sessions.exchanges import Turn
from wiretape.viewer.source.base import Columns, OutputText
from wiretape.viewer.stats import compare
from wiretape.viewer.stats.metrics import QUANTITIES
from wiretape.viewer.stats.summary import (
    AttemptCounts,
    Sample,
    field_name,
    moving,
    percentiles,
    row,
    supported,
    without_nan,
)
from wiretape.viewer.stats.trend import Trend
from wiretape.viewer.text import formatting
from wiretape.viewer.wings.page import document, sessions, stream
from wiretape.viewer.wings.page.document import deltas, shortened
from wiretape.viewer.wings.page.sessions import PageSessions

GAP_STEP: Final = 1.02
"""The ratio of the scale's steps: rounded to the nearest one, a gap is off by at most 1 %."""

LEAST_GAP_NS: Final = 1000
"""The gap of step 1; step 0 is a gap of 0."""

TEXTS: Final = (
    "method", "path", "upstream", "model", "request_model", "response_model", "operation", "api", "outcome",
    "outcome_detail", "error_code", "error_message", "finish_reason", "framing", "ended_by", "clock", "flags",
    "conversation", "sparkline", "cache_verdict", "cache_broken_at", "protocol", "rpc_method",
    "tool_name",
)  # fmt: skip
"""The text fields of an exchange whose values often repeat."""

NUMBERS: Final = (
    "status", "gap_bytes", "connection_reused", "connect_ms", "ttfb_ms", "ttfc_ms", "ttft_ms", "ttfo_ms", "thinking_ms",
    "latency_ms", "duration_ms", "max_gap_ms", "max_silence_ms", "max_event_silence_ms", "max_output_silence_ms",
    "first_silence_ms", "first_event_silence_ms", "first_output_silence_ms", "last_silence_ms",
    "tpot_ms", "tps_user", "icl_p50_ms", "icl_p99_ms",
    "coalesced_fraction", "input_tokens", "output_tokens", "reasoning_tokens", "cache_read_input_tokens", "reads",
    "events", "output_chunks", "bytes", "cost", "cache_hit_rate",
)  # fmt: skip
"""Those that are numbers: durations in ns."""

Gaps = NDArray[np.int64]
Steps = NDArray[np.int64]


MOST_ROWS: Final = 20_000
"""Limit of exchanges in a page: the newest."""

MOST_GAPS: Final = 1_000_000
"""Limit of gaps in a page: those of the exchanges that waited longest."""

MOST_TEXT: Final = 4_000_000
"""Approximate limit of text in a page, in characters: that of the newest exchanges."""

MOST_GROUPS: Final = 12
TREND: Final = 160
"""Limit of intervals in the trend."""

PLAYED: Final = 12
"""Number of exchanges that can be played; there are more as long as they have few events."""

MOST_PLAYED: Final = 40
FEW_EVENTS: Final = 3_000
MOST_EVENTS: Final = 50_000
"""Limit of events in all exchanges that can be played."""

COMPARED: Final = "compared"
"""The field of the two groups that `--base` and `--new` name."""

GAP_PERCENTS: Final = (5, 25, 50, 75, 90, 95, 99)
"""The percentiles of gaps in the tables of distributions."""

_STATISTICS: Final = ("n", "p50", "p90", "p95", "p99", "max")
_SHOWN: Final = ("ttft", "gap", "tps_user", "latency", "max_silence", "max_event_silence", "max_output_silence")
_HEADLINES: Final = {
    "TTFT p50": ("ttft", "p50"), "TTFT p95": ("ttft", "p95"), "gap p99": ("gap", "p99"), "longest gap": ("gap", "max"),
    "latency p50": ("latency", "p50"), "latency p95": ("latency", "p95"), "speed p50": ("tps_user", "p50"),
}  # fmt: skip
"""The figures at the top of the page by their names: those of `stats`, of a quantity and its statistic."""


@dataclass(frozen=True, slots=True)
class Group:
    """The exchanges of one group, as `stats` counts them; `spread` counts the gaps between their reads by step.

    `gap_shares` are `GAP_PERCENTS` of those gaps, exactly, in ms; none without a gap.
    """

    name: str | None
    row: TableRow
    spread: list[tuple[int, int]]
    gap_shares: list[float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two groups compared, with the exchange of each that went longest without output; None if none did.

    `by` is the field of the names, None if they are filters. `members` are the exchanges of the page, by their rows.
    """

    by: str | None
    names: tuple[str | None, str | None]
    rows: list[TableRow]
    worst: list[str | None]
    members: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class RunPage:
    """The data of the page of a run; `total` exchanges were selected, and `trend` is theirs if some are left out.

    Figures are of generations, unless they are of `every_operation`; `left_out` says which others there are.

    `groups` are keyed by field; without a field, there is one of all. `smaller` is the number of groups left out.
    """

    filter: str
    columns: Columns
    total: int
    every_operation: bool
    left_out: str | None
    headlines: list[JsonObject]
    groups: Mapping[str, list[Group]]
    smaller: Mapping[str, int]
    endings: Mapping[Ending, int]
    comparisons: Sequence[Comparison]
    streams: Mapping[str, stream.StreamPage]
    limits: Thresholds
    trend: Trend | None = None
    texts: Mapping[int, OutputText] | None = None
    is_masked: bool = False
    sessions: PageSessions = sessions.NONE


def write(out: BinaryIO, run: RunPage) -> int:
    """Write the page of a run and return its size in bytes."""
    shared = stream.Shared(text=run.texts is not None)
    counts, middles, packed = pack_gaps(run.columns.gaps)
    parts = {"gaps": packed}
    parts["streams"] = document.encoded({id: stream.played(page, shared) for id, page in run.streams.items()})
    if run.texts is not None:
        parts["texts"] = document.encoded(_texts(run.columns, run.texts))
    return document.write(out, "run", data(run) | {"gaps": {"count": counts, "middle": middles}}, parts)


def data(run: RunPage) -> JsonObject:
    """Return the page's data except for the gaps, the exchanges that can be played, and the texts."""
    return {
        "version": __version__,
        "title": f"{counted(run.total, 'exchange')}{' · ' if run.filter else ''}{formatting.line(run.filter)}",
        "filter": run.filter,
        "total": run.total,
        "all_operations": run.every_operation,
        "left_out": run.left_out,
        "banner": list(_banner(run)),
        "headlines": run.headlines,
        "groups": {by: [_group(item) for item in members] for by, members in run.groups.items()},
        "smaller": run.smaller,
        "verdict": list(_verdict(run.endings)),
        "comparisons": [_comparison(item) for item in run.comparisons],
        "compared": compare.FIELDS,
        "trend": None if run.trend is None else asdict(run.trend),
        "rows": _rows(run.columns),
        "stalls": _stalls(run.columns, run.limits),
        "stall_ns": run.limits.stall_ns,
        "states": {name: [item.sign, item.tone] for name, item in states.STATES.items()},
        "outcomes": OUTCOMES,
        "quantities": {name: [item.unit, item.meaning, item.of_every_outcome] for name, item in QUANTITIES.items()},
        "step": [GAP_STEP, LEAST_GAP_NS],
        "language": _language(),
        "playable": list(run.streams),
        "sessions": sessions.data(run.sessions, run.columns, text=run.texts is not None),
    }


def headlines(sample: Sample, figures: TableRow) -> list[JsonObject]:
    """Return the headline figures of a sample, taken from its `figures`, with their n and, if known, their interval."""
    attempts = AttemptCounts.of(sample.outcomes)
    share = compare.wilson(attempts.failed, attempts.judged) if attempts.judged else None
    rate = {
        "name": "error rate",
        "unit": "%",
        "n": attempts.judged,
        "meaning": "failed, of those that were not cancelled",
        "pooled": False,
    }
    value = 100 * attempts.failed / attempts.judged if attempts.judged else None
    error_rate = rate | {"value": value, "interval": share and [100 * end for end in share]}
    return [error_rate, *(_headline(sample, figures, name, *figure) for name, figure in _HEADLINES.items())]


def _headline(sample: Sample, figures: TableRow, name: str, of: str, statistic: str) -> JsonObject:
    """Return a figure; a pooled one has no interval, as gaps of one exchange are correlated."""
    quantity, interval = QUANTITIES[of], None
    if quantity.column is not None:
        values = without_nan(sample.columns[of][sample.measured])
        interval = compare.percentile_interval(values, int(statistic.removeprefix("p")))
    return {
        "name": name,
        "unit": quantity.unit,
        "n": figures[field_name(quantity, "n")],
        "meaning": quantity.meaning,
        "value": supported(figures, field_name(quantity, statistic)),
        "interval": interval,
        "pooled": quantity.column is None,
    }


_COUNTED: Final = (
    "n", "measured_n", "error_rate_pct", "error_rate_n", "stream_error_rate_pct", "stream_error_rate_n",
    "cancel_rate_pct", "cancel_rate_n", "coalesced_pct", "usage_n", "usage_missing_n", "input_tokens", "output_tokens",
    "reasoning_tokens", "total_tokens", "first_at", "last_at", "cost", "cost_n", "cost_unknown_n", "currency",
    "cache_hit_rate_pct", "cache_hit_rate_n",
)  # fmt: skip


def _group(group: Group) -> JsonObject:
    quantities = [QUANTITIES[name] for name in _SHOWN]
    return {
        "name": group.name,
        "warnings": [explained(warning) for warning in group.row["warnings"]],
        **{name: group.row[name] for name in _COUNTED},
        "outcomes": {name: group.row[f"n_{name}"] for name in OUTCOMES if group.row[f"n_{name}"]},
        "figures": {
            quantity.name: [supported(group.row, field_name(quantity, name)) for name in _STATISTICS]
            for quantity in quantities
        },
        "steps": deltas(step for step, _ in group.spread),
        "counts": [count for _, count in group.spread],
        "gap_shares": group.gap_shares,
    }


def _comparison(comparison: Comparison) -> JsonObject:
    return {
        "by": comparison.by,
        "names": comparison.names,
        "rows": [[row[name] for name in compare.FIELDS] for row in comparison.rows],
        "worst": comparison.worst,
        "members": None if comparison.by else [deltas(members) for members in comparison.members],
    }


def _rows(columns: Columns) -> JsonObject:
    values = columns.values
    instants = [round(units.timestamp(text).timestamp() * 1e6) for text in values["started_at"]]
    return {
        "id": values["id"],
        "started_us": deltas(instants),
        "labels": _listed(values["labels"]),
        **{name: _listed(values[name]) for name in TEXTS},
        "error_message": _listed([document.without_credentials(message) for message in values["error_message"]]),
        "conversation": _conversations(values["conversation"], values["id"]),
        **{name: [_rounded(name, value) for value in values[name]] for name in NUMBERS},
        "turns": [turns(*spans) for spans in zip(values["turn_spans"], values["end_ns"], strict=True)],
    }


def turns(turn_spans: Sequence[Turn] | None, end_ns: int | None) -> list[list[int | None]] | None:
    """Return the times of the turns of an exchange, in µs since T0; None without any.

    Each has its start, its first and its last output, its end, and the number of its outputs.
    """
    placed_turns = list[list[int | None]]()
    for number, (start_ns, first_ns, last_ns, ended_ns, outputs, *_) in enumerate(turn_spans or (), 1):
        # A last turn without an end ends as the exchange does, others with their last output, as in sessions.
        ends = (ended_ns, end_ns if number == len(turn_spans or ()) else None, last_ns, start_ns)
        until_ns = next(at_ns for at_ns in ends if at_ns is not None)
        times = (start_ns, first_ns, last_ns, until_ns)
        placed_turns.append([*(None if at_ns is None else round(at_ns / 1000) for at_ns in times), outputs])
    return placed_turns or None


def _rounded(name: str, value: float | None) -> float | None:
    """Return a value as the page has it: durations in µs, rates and shares with four decimals, costs with nine."""
    if value is None:
        return None
    return round(value / 1000) if name.endswith("_ms") else round(value, 9 if name == "cost" else 4)


def _verdict(endings: Mapping[Ending, int]) -> Iterator[tuple[str, str]]:
    """Yield the counts of endings, of stalls and of buffered answers, each with its tone."""
    yield causes.counts(endings, 5), "plain"
    yield from ((text, "bad") for text in (causes.stalls(endings), causes.buffered(endings)) if text)


def _conversations(names: Sequence[str | None], ids: Sequence[str]) -> JsonObject:
    """Return the column of conversations; one of a single exchange that is named by its id has the place -1."""
    counts = Counter(names)
    are_unnamed = [name == id and counts[name] == 1 for name, id in zip(names, ids, strict=True)]
    column = _listed([None if is_unnamed else name for name, is_unnamed in zip(names, are_unnamed, strict=True)])
    places = [-1 if is_unnamed else place for is_unnamed, place in zip(are_unnamed, column["places"], strict=True)]
    return column | {"places": places}


def _listed(values: Sequence[Any]) -> JsonObject:
    """Return a column of texts, or of labels, as the different ones and the place of each there; None stays None."""
    place_by_value: dict[Any, int] = {}
    different = list[Any]()
    places_of_values = list[int | None]()
    for value in values:
        key = tuple(value.items()) if isinstance(value, dict) else value
        if key is not None and key not in place_by_value:
            place_by_value[key] = len(different)
            labels = isinstance(value, dict)
            different.append({name: shortened(text) for name, text in value.items()} if labels else shortened(value))
        places_of_values.append(None if key is None else place_by_value[key])
    return {"values": different, "places": places_of_values}


def _stalls(columns: Columns, limits: Thresholds) -> JsonObject:
    """Return the stalls: the row, the gap's index in it, and the duration of each.

    The silence in which an exchange ended has no index: it begins at the last output, or at T0 without any.
    """
    stalls, values = list[tuple[int, int | None, int]](), columns.values
    for at, packed in enumerate(columns.gaps):
        longest = (values[name][at] for name in ("max_output_silence_ms", "max_gap_ms"))
        if packed and all(map(limits.is_stall, longest)):
            ends = itertools.accumulate(memoryview(packed).cast("q"), initial=values["ttft_ms"][at] or 0)
            cut = partial(without_tools, tools=values["tool_spans"][at] or ())
            spans = itertools.starmap(cut, itertools.pairwise(ends))
            gaps = ((place, to_ns - from_ns) for place, (from_ns, to_ns) in enumerate(spans))
            stalls += ((at, place, lasted_ns) for place, lasted_ns in gaps if limits.is_stall(lasted_ns))
        if limits.is_stall(lasted_ns := values["last_silence_ms"][at]):
            stalls.append((at, None, lasted_ns))
    return {
        "row": deltas(row for row, *_ in stalls),
        "gap": [stall[1] for stall in stalls],
        "ns": [stall[2] for stall in stalls],
    }


def _language() -> JsonObject:
    """Return the language of the page's filters: fields by all of their names, as in other filters."""
    names_on_page = {"id", "label", "labels", "has", *TEXTS, *NUMBERS}
    page_fields = {
        name: field
        for name, field in fields.FIELDS.items()
        if name in names_on_page or (field.rows and set(field.rows) <= names_on_page)
    }
    return {
        "names": {name: field for name, field in fields.NAMES.items() if field in page_fields},
        "left_out": sorted(set(fields.NAMES) - {name for name, field in fields.NAMES.items() if field in page_fields}),
        "fields": {name: [field.kind, field.style, list(field.rows)] for name, field in page_fields.items()},
        "outcomes": {name: list(words) for name, words in fields.OUTCOME_WORDS.items()},
        "choices": {
            name: list(field) for name, field in fields.CHOICES.items() if name in page_fields and name != "outcome"
        },
        "has": {name: list(field) for name, field in fields.HAS.items() if set(field) <= names_on_page},
        "knowable": sorted(name for name in fields.KNOWABLE if name in page_fields),
        "generations": list(GENERATIONS),
        "failures": list(FAILURES),
    }


def _texts(columns: Columns, texts: Mapping[int, OutputText]) -> JsonObject:
    outputs = [texts.get(no) for no in columns.numbers]
    return {
        "text": [None if output is None else output.text for output in outputs],
        "sizes": [None if output is None else output.sizes for output in outputs],
    }


def _banner(run: RunPage) -> Iterator[tuple[str, str]]:
    count, gap_count = len(run.columns), sum(gaps is not None for gaps in run.columns.gaps)
    left_out = list(_left_out(run, count, gap_count))
    rule = document.MASKED if run.is_masked else "nothing is redacted"
    if left_out:
        yield "Left out:", f"{'; '.join(left_out)}."
    yield (
        "Included:",
        "paths, labels, error messages, finish reasons and types of events, credentials redacted"
        + (f"; {_texts_included(run)}, in which {rule}" if run.texts is not None else "")
        + f". Timestamps of {counted(len(run.streams), 'exchange')} to play, read by read. "
        "Durations are kept to the microsecond, gaps to 1 %; figures are made of the tape's own.",
    )


def _texts_included(run: RunPage) -> str:
    return f"texts of answers{' and the prompts that sessions began with' if run.sessions.sessions else ''}"


def _left_out(run: RunPage, count: int, gap_count: int) -> Iterator[str]:
    if count < run.total:
        yield (
            f"{run.total - count:,} of {run.total:,} exchanges: lanes, plots and table have the newest {count:,}; the "
            "trend, the figures, the tables of groups and the comparisons are of all"
        )
    if gap_count < count:
        yield f"the gaps of {count - gap_count:,} exchanges: those of the {gap_count:,} that waited longest are here"
    yield from sessions.left_out(run.sessions)
    if run.texts is None:
        yield f"the {_texts_included(run)} (--with-text)"
    elif len(run.texts) < count:
        yield f"the texts of {count - len(run.texts):,} exchanges: those of the newest {len(run.texts):,} are here"
    yield "headers and bodies: export an exchange by itself"


def comparisons(samples: Mapping[str, Sequence[Sample]], columns: Columns) -> Iterator[Comparison]:
    """Compare the largest groups of each kind pair by pair, if they have enough exchanges for a verdict."""
    for by, group_samples in samples.items():
        large = [sample for sample in _largest(group_samples) if sample.size >= compare.LEAST][:3]
        of = {sample.key[0]: _members(columns, by, sample.key[0]) for sample in large}
        for pair in itertools.combinations(sorted(large, key=lambda sample: str(sample.key[0])), 2):
            names = [sample.key[0] for sample in pair]
            yield compared(by, (_name(names[0]), _name(names[1])), pair, [of[name] for name in names], columns)


def compared(
    by: str | None,
    names: tuple[str | None, str | None],
    samples: Sequence[Sample],
    members: Sequence[Sequence[int]],
    columns: Columns,
) -> Comparison:
    """Compare two groups; `members` are their rows."""
    base, new = samples
    ids = list[str | None]()
    for rows in members:
        complete = (at for at in rows if columns.values["outcome"][at] == "complete")
        at = max(complete, key=lambda at: _waited(columns, at), default=None)
        ids.append(None if at is None else columns.values["id"][at])
    return Comparison(by, names, compare.groups(base, new), ids, members)


def _members(columns: Columns, by: str, key: object) -> list[int]:
    name, _, label = by.partition(".")
    values = columns.values[name if not label else "labels"]
    return [at for at, value in enumerate(values) if (value if not label else value.get(label)) == key]


def to_play(columns: Columns, compared: Iterable[str]) -> list[str]:
    """Return the exchanges that are most worth playing: those compared, failures, who went longest without output."""
    places = {id: at for at, id in enumerate(columns.values["id"])}
    outcomes = {columns.values["outcome"][at]: at for at in range(len(columns))}
    failed = [at for outcome, at in outcomes.items() if outcome in FAILURES and columns.values["output_chunks"][at]]
    slowest = sorted(range(len(columns)), key=lambda at: -_waited(columns, at))
    ids = [columns.values["id"][at] for at in (*failed, *slowest[:MOST_PLAYED])]
    played, event_count = list[str](), 0
    for id in list(dict.fromkeys((*compared, *ids)))[:MOST_PLAYED]:
        events = event_count + (columns.values["events"][places[id]] or 0)
        if events <= (MOST_EVENTS if len(played) < PLAYED else FEW_EVENTS):
            played.append(id)
            event_count = events
    return played


def _waited(columns: Columns, at: int) -> float:
    """Return the longest time of an exchange without output, in ns."""
    return max(
        columns.values[name][at] or 0 for name in ("ttft_ms", "max_output_silence_ms", "first_output_silence_ms")
    )


def groups(samples: Sequence[Sample], by: str) -> list[Group]:
    """Return the largest of some groups, whose gaps are reordered in place."""
    return [group(sample, by) for sample in _largest(samples)[:MOST_GROUPS]]


def group(sample: Sample, by: str | None) -> Group:
    """Return a group of a sample, whose gaps are reordered in place."""
    return _named(None if by is None else _name(sample.key[0]), sample, () if by is None else (by,))


def side(name: str, sample: Sample) -> Group:
    """Return a group that is compared, whose gaps are reordered in place."""
    return _named(name, sample, ())


def _named(name: str | None, sample: Sample, keys: Sequence[str]) -> Group:
    figures, gaps = row(sample, keys), moving(sample.gaps)
    shares = [share / 1e6 for share in percentiles(gaps, GAP_PERCENTS)] if len(gaps) else []
    return Group(name, figures, gap_counts(gaps), shares)


def _largest(samples: Iterable[Sample]) -> list[Sample]:
    return sorted(samples, key=lambda sample: -int(sample.measured.sum()))


def _name(key: str | int | None) -> str | None:
    return None if key is None else shortened(str(key))


def gap_steps(gaps: Gaps) -> Steps:
    above = np.maximum(gaps, LEAST_GAP_NS) / LEAST_GAP_NS
    steps: Steps = np.where(gaps > 0, 1 + np.rint(np.log(above) / np.log(GAP_STEP)), 0).astype(np.int64)
    return steps


def pack_gaps(gaps_of_exchanges: Iterable[bytes | None]) -> tuple[list[int | None], list[int], bytes]:
    """Pack the gaps of exchanges, int64 in ns each: how many there are (None: left out), their medians, their steps."""
    counts, middles, low, high = pack_gap_bytes(gaps_of_exchanges)
    return counts, middles, b"".join((*low, *high))


def pack_gap_bytes(
    gaps_of_exchanges: Iterable[bytes | None],
) -> tuple[list[int | None], list[int], list[bytes], list[bytes]]:
    """Pack as `pack_gaps` does, but return the low and the high bytes of each exchange apart."""
    counts, middles, low, high = list[int | None](), list[int](), list[bytes](), list[bytes]()
    for gaps in gaps_of_exchanges:
        steps = gap_steps(np.frombuffer(gaps or b"", "<i8"))
        middle = int(np.median(steps)) if len(steps) else 0
        offsets = steps - middle
        # Small numbers, positive and negative, have a high byte of 0: a column of zeros compresses to nothing.
        signed = np.where(offsets < 0, -2 * offsets - 1, 2 * offsets).astype("<u2")
        counts.append(None if gaps is None else len(steps))
        middles.append(middle)
        low.append(signed.astype(np.uint8).tobytes())
        high.append((signed >> 8).astype(np.uint8).tobytes())
    return counts, middles, low, high


def gap_counts(gaps: Gaps) -> list[tuple[int, int]]:
    """Return the number of gaps of each step, ascending; steps without any are left out."""
    counts = np.zeros(0, np.int64)
    size = 1 << 18  # for all gaps at once, the logarithms would take several times their memory
    for at in range(0, len(gaps), size):
        block = np.bincount(gap_steps(gaps[at : at + size]), minlength=len(counts))
        block[: len(counts)] += counts
        counts = block
    return [(int(step), int(counts[step])) for step in np.flatnonzero(counts)]
