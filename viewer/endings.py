"""Pure: why an exchange ended, and what is odd about it, in words: what the viewer shows of the one under the cursor.

Recorded text passes `safe` here, all but the answer, which is wrapped by `wrapping`. Verdicts and their words are
`verdicts` and `wording`; what a row holds is `watching.preview`'s.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from recorder.exchange import ENDED_BY, FLAGS, OUTCOMES
from viewer import cells, wording
from viewer.rows import Row
from viewer.streams import NOTABLE, Look, Part, Tone, elapsed_ms, span, state
from viewer.verdicts import Verdict

_MOST_VERDICTS: Final = 3
_TEXTS: Final = ("content", "refusal", "tool_calls", "reasoning")


def heading(row: Row, look: Look) -> list[Part]:
    """Name the exchange: its id, how it stands, its model and where it went."""
    found = state(row, recording=look.recording)
    word = "orphan" if found.word == "orphan" else cells.outcome(row)
    target = cells.line(cells.host(row["upstream"]) + row["path"])
    return [
        (f"{found.sign} ", found.tone),
        (cells.line(row["id"])[:8], "strong"),
        (f" {word}", found.tone),
        (f" · {cells.line(row['model'])} · {cells.line(row['method'])} {target}", "muted"),
    ]


def reason(row: Row, look: Look) -> str:
    """Say why it ended, or that it has not."""
    if row["outcome"] == "open":
        return _unended(row, look)
    told = [OUTCOMES.get(row["outcome"], "not known to this version")]
    if row["outcome"] == "http_error":
        told = [f"upstream answered {cells.cell(row['status'])}"]
    elif row["outcome"] == "complete":
        told = ["everything came"]
    if row.get("error_code") or row.get("error_message"):
        told.append(": ".join(cells.line(row[name]) for name in ("error_code", "error_message") if row.get(name)))
    elif row["outcome"] != "complete" and row["ended_by"] in ENDED_BY:
        told.append(ENDED_BY[row["ended_by"]])
    if row.get("ended_detail"):
        told.append(cells.line(row["ended_detail"]))
    if row["finish_reason"]:
        told.append(f"finish reason {cells.line(row['finish_reason'])}")
    return "; ".join(told)


def figures(row: Row, look: Look) -> str:
    """Sum its timing up."""
    lasted = span(elapsed_ms(row, look)) + ("+" if row["outcome"] == "open" else "")
    counted = f"{_counted(row['events'], 'event')} in {_counted(row['reads'], 'read')}"
    gaps = f"gaps p50 {span(row['icl_p50_ms'])}, max {span(row['max_stall_ms'])}"
    tokens = "" if row["completion_tokens"] is None else f" · {cells.count(row['completion_tokens'])} tokens"
    return f"first output {span(row['ttft_ms'])} · {gaps} · {counted} · {lasted}{tokens}"


def evidence(row: Row, verdicts: Sequence[Verdict]) -> Iterator[tuple[str, Tone, str]]:
    """Give what is odd about it, each with its tone and its evidence: verdicts first, the longest ones, then flags."""
    longest = sorted(verdicts, key=lambda verdict: -verdict.lasted_ns)[:_MOST_VERDICTS]
    for verdict in (one for one in verdicts if one in longest):
        told, grounds = wording.sentences(verdict)
        yield verdict.kind, "warning", f"{told}; {grounds}"
    judged = {verdict.kind for verdict in verdicts}
    flags = [flag for flag in NOTABLE if flag in row["flags"]] + [flag for flag in row["flags"] if flag not in NOTABLE]
    for flag in flags:
        if flag not in judged:
            yield cells.line(flag), NOTABLE.get(flag, "muted"), FLAGS.get(flag, "not known to this version")


def text(row: Row) -> tuple[str, str, int | None]:
    """Give the end of what was answered, what that is, and how long all of it is: content, else whatever there is."""
    for name in _TEXTS:
        if row.get(name):
            return name.replace("_", " "), str(row[name]), row.get(f"{name}_size")
    return "", "", None


def _counted(number: int | None, thing: str) -> str:
    return f"{cells.count(number)} {thing}{'' if number == 1 else 's'}"


def _unended(row: Row, look: Look) -> str:
    if row["ended_by"] is not None:
        return "ended, and being measured"
    if look.recording:
        return f"still running; the last read came {span(row.get('last_read_ms'))} after the request"
    last = row.get("last_read_ms")
    after = "nothing was read of it" if last is None else f"the last read came {span(last)} after the request"
    return f"nothing records it any more; {after}. The next recorder on this tape will mark it as interrupted."
