"""Pure: a sample of exchanges in, one row of statistics out; the names of its fields are a contract.

A row begins with the group's keys. Durations end in `_ms`, shares in `_pct` (0 to 100), counts in `n` or in no unit.
What is known of no exchange is None. Warnings are words in the row and sentences in `WARNINGS`: figures that are true
and yet mislead. How rows look on paper is left to `sheets`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from recorder.decode.outcome import OUTCOMES
from viewer.rows import Row
from viewer.stats import aggregates
from viewer.stats.aggregates import STATISTICS, Method
from viewer.stats.metrics import QUANTITIES, Bound, Quantity
from viewer.stats.samples import TOKENS, UNMEASURED, Sample

FEW: Final = 100
"""Below this many values a 99th percentile is little more than the maximum."""

COALESCED_PCT: Final = 10

WARNINGS: Final = {
    "few": f"p99 of fewer than {FEW} values",
    "coalesced": f"more than {COALESCED_PCT} % of the output chunks share a read with an earlier one: icl says little, "
    "read_gap more",
    "usage_missing": "complete exchanges without usage: tokens are not all counted, tpot and tps are not of all",
    "unmeasured": "ended exchanges without measures, left out of everything: if no recorder runs, derive them with "
    "'wiretape db rebuild'",
    "burst": "exchanges that came in a burst: how fast they were made is not known, so their tps is withheld",
    "backpressure": "exchanges that were held up by the client: reading from upstream was paused for it, so gaps and "
    "latency are in part its own",
    "hidden_tokens": "exchanges whose usage counts tokens that did not come, such as hidden reasoning: their tpot and "
    "tps are withheld",
    "objective_unknown": "complete exchanges of which the objective is not known, left out of the goodput",
}
"""What each warning means; `few` is followed by the quantities that it is about, three others by how many there are."""

_COUNTED: Final = (*OUTCOMES, UNMEASURED)
_HEAD: Final = {
    "n": "exchanges",
    "first_at": "when the first of them started, UTC",
    "last_at": "when the last of them started, UTC",
    **{f"n_{outcome}": f"exchanges of the outcome {outcome}: {meaning}" for outcome, meaning in OUTCOMES.items()},
    f"n_{UNMEASURED}": "ended exchanges without measures",
    "error_rate_pct": "failed / (attempts − cancelled): open exchanges are not attempts, client_closed is cancelled, "
    "all but complete failed",
    "error_rate_all_pct": "failed / attempts",
    "stream_error_rate_pct": "the error rate of the attempts with a 2xx status: what a status does not show",
    "cancel_rate_pct": "cancelled / attempts",
    **{name: f"sum of {name.replace('_', ' ')} over the exchanges that report it" for name in TOKENS},
    "usage_n": "exchanges that report completion tokens",
    "usage_missing_n": "complete exchanges that do not",
    "goodput_pct": "attempts, less cancelled, that are complete and meet the objective (--slo)",
    "objective_unknown_n": "complete exchanges that lack what the objective bounds",
    "coalesced_pct": "output chunks that share a read with an earlier one",
    "measured_n": "exchanges in the figures below: the complete ones, or all with --include-failed",
}
_OF: Final = {
    "error_rate_n": "attempts − cancelled: what the error rate is of",
    "error_rate_all_n": "attempts: exchanges that have ended; those that are still open are not attempts",
    "stream_error_rate_n": "attempts with a 2xx status − cancelled",
    "cancel_rate_n": "attempts",
    "goodput_n": "attempts − cancelled − those of objective_unknown_n: what the goodput is of",
}
_EXACT: Final = 6
"""So many decimals a figure has."""


def fields(by: Sequence[str]) -> tuple[str, ...]:
    """Give the fields of a row of statistics by these groups."""
    return (*by, *schema())


def schema() -> dict[str, str]:
    """Give each field and what it means, the group's keys excepted."""
    figures = {
        field_name(quantity, statistic): f"{statistic} of {quantity.name}: {quantity.meaning}"
        for quantity in QUANTITIES.values()
        for statistic in STATISTICS
    }
    return {**_HEAD, **figures, "warnings": f"words: {', '.join(WARNINGS)}", **_OF}


def expanded(names: Sequence[str]) -> tuple[str, ...]:
    """Return the fields of a row that names stand for: a statistic, `n` excepted, stands for that of every quantity."""
    fields = list[str]()
    for name in names:
        is_statistic = name in STATISTICS and name != "n"
        fields += [field_name(one, name) for one in QUANTITIES.values()] if is_statistic else [name]
    return tuple(dict.fromkeys(fields))


def field_name(quantity: Quantity, statistic: str) -> str:
    """Give the field of a statistic of a quantity: `ttft_p95_ms`, `tps_p50`, `ttft_n`."""
    return f"{quantity.name}_{statistic}{'' if statistic == 'n' else quantity.suffix}"


def row(sample: Sample, by: Sequence[str], method: Method = "linear", bounds: Sequence[Bound] = ()) -> Row:
    """Give the statistics of a sample. Its gaps are reordered in place."""
    found: Row = dict(zip(by, sample.key, strict=True))
    found |= {"n": sample.size, "first_at": sample.first_at, "last_at": sample.last_at}
    found |= {f"n_{outcome}": sample.outcomes[outcome] for outcome in _COUNTED}
    found |= rates(sample)
    found |= _usage(sample)
    found |= goodput(sample, bounds)
    found["coalesced_pct"] = _coalesced(sample)
    found["measured_n"] = int(sample.measured.sum())
    for quantity in QUANTITIES.values():
        for name, value in figures(sample, quantity, method).items():
            found[field_name(quantity, name)] = value
    found = {name: round(value, _EXACT) if isinstance(value, float) else value for name, value in found.items()}
    return {**found, "warnings": _warnings(found, sample), **_denominators(sample, found)}


def rates(sample: Sample) -> dict[str, float | None]:
    """Give the four error rates, in percent; exchanges without measures are not attempts."""
    return aggregates.rates(*(_judged(counts) for counts in (sample.outcomes, sample.after_2xx)))


def trials(sample: Sample) -> dict[str, tuple[int, int]]:
    """Give for the two error rates that can be compared how many attempts failed, and of how many."""
    return {
        "error_rate": aggregates.trials(_judged(sample.outcomes)),
        "stream_error_rate": aggregates.trials(_judged(sample.after_2xx)),
    }


def figures(sample: Sample, quantity: Quantity, method: Method = "linear") -> dict[str, float | None]:
    """Give the statistics of one quantity, in its unit."""
    if quantity.column is not None:
        return aggregates.figures(values(sample, quantity), method)
    gaps = sample.gaps if quantity.name == "icl" else aggregates.moving(sample.gaps)
    found = aggregates.figures(gaps, method)
    return {name: value if name == "n" or value is None else value / 1e6 for name, value in found.items()}


def values(sample: Sample, quantity: Quantity) -> aggregates.Values:
    """Give the known values of a quantity, in its unit: one for each measured exchange, or all pooled gaps."""
    if quantity.column is not None:
        return aggregates.known(sample.columns[quantity.name][sample.measured])
    gaps = sample.gaps if quantity.name == "icl" else aggregates.moving(sample.gaps)
    return gaps / 1e6


def goodput(sample: Sample, bounds: Sequence[Bound]) -> dict[str, float | int | None]:
    """Give the share of attempts that are complete and meet every bound; None without bounds or without attempts.

    A complete exchange that lacks what is bounded, and breaks no other bound, is neither good nor bad: it is counted
    as unknown, and left out.
    """
    if not bounds:
        return {"goodput_pct": None, "objective_unknown_n": None}
    columns = [(sample.columns[bound.quantity.name][sample.complete], bound) for bound in bounds]
    terms = [(column, bound.is_highest, bound.limit) for column, bound in columns]
    met, missed, unknown = aggregates.meeting(terms, int(sample.complete.sum()))
    failed, _ = aggregates.trials(_judged(sample.outcomes))
    judged = met + missed + failed
    return {"goodput_pct": 100 * met / judged if judged else None, "objective_unknown_n": unknown}


def _denominators(sample: Sample, found: Row) -> dict[str, int | None]:
    attempts = sum(count for outcome, count in _judged(sample.outcomes).items() if outcome != "open")
    tried = {name: of for name, (_, of) in trials(sample).items()}
    unknown = found["objective_unknown_n"]
    return {
        "error_rate_n": tried["error_rate"],
        "error_rate_all_n": attempts,
        "stream_error_rate_n": tried["stream_error_rate"],
        "cancel_rate_n": attempts,
        "goodput_n": None if unknown is None else tried["error_rate"] - unknown,
    }


def _judged(outcomes: Mapping[str, int]) -> dict[str, int]:
    return {outcome: count for outcome, count in outcomes.items() if outcome != UNMEASURED}


def _usage(sample: Sample) -> Row:
    reported = ~np.isnan(sample.columns["completion_tokens"])
    sums = {name: aggregates.known(sample.columns[name]) for name in TOKENS}
    return {
        **{name: int(counts.sum()) if len(counts) else None for name, counts in sums.items()},
        "usage_n": int(reported.sum()),
        "usage_missing_n": int((sample.complete & ~reported).sum()),
    }


def _coalesced(sample: Sample) -> float | None:
    # Each exchange with output has one chunk more than gaps.
    chunks = len(sample.gaps) + len(values(sample, QUANTITIES["ttft"]))
    return 100 * (len(sample.gaps) - int(np.count_nonzero(sample.gaps))) / chunks if chunks else None


def _warnings(found: Row, sample: Sample) -> list[str]:
    few = [name for name in QUANTITIES if 0 < found[f"{name}_n"] < FEW]
    raised = {
        f"few:{','.join(few)}": bool(few),
        "coalesced": (found["coalesced_pct"] or 0) > COALESCED_PCT,
        "usage_missing": found["usage_missing_n"] > 0,
        "unmeasured": found[f"n_{UNMEASURED}"] > 0,
        f"burst:{sample.withheld}": sample.withheld > 0,
        f"backpressure:{sample.held_up}": sample.held_up > 0,
        f"hidden_tokens:{sample.hidden}": sample.hidden > 0,
        "objective_unknown": (found["objective_unknown_n"] or 0) > 0,
    }
    return [warning for warning, is_raised in raised.items() if is_raised]
