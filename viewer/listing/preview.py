"""Pure: the exchange under the cursor in a few lines: the preview of the list. Its words are those of `facts`.

Recorded text has passed `safe`, all but the answer, which is wrapped later.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from wiretape.recorder.decode.stalls import DEFAULT
from wiretape.recorder.plurals import counted
from wiretape.viewer import rows
from wiretape.viewer.exchange import facts
from wiretape.viewer.exchange.states import NOTABLE, Look, elapsed_ms, ending, silence, state
from wiretape.viewer.rows import ListRow, PreviewRow
from wiretape.viewer.text import formatting
from wiretape.viewer.text.cells import Part, Tone
from wiretape.viewer.timing import wording
from wiretape.viewer.timing.verdicts import Verdict

_MOST_VERDICTS: Final = 3
_TEXTS: Final = ("content", "refusal", "tool_calls", "reasoning")


def heading(row: ListRow, look: Look) -> list[Part]:
    """Return the id of an exchange, its state, its model and its target."""
    stands = state(row, recording=look.recording)
    target = formatting.line(formatting.host(row.upstream) + row.path)
    return [
        (f"{stands.sign} ", stands.tone),
        (formatting.line(row.id)[:8], "strong"),
        (f" {formatting.line(ending(row, recording=look.recording))}", stands.tone),
        (f" · {formatting.line(row.model)} · {formatting.line(row.method)} {target}", "muted"),
    ]


def reason(row: ListRow, look: Look) -> str:
    """Return why it ended, or how far it has come."""
    is_running = row.outcome == "open" and row.ended_by is None
    return _unended(row, look) if is_running else facts.reason(row)


def figures(row: ListRow, look: Look) -> str:
    """Return the known timings of an exchange in one line."""
    known = {
        "ttft": row.ttft_ms, "icl p50": row.icl_p50_ms, "max gap": row.max_gap_ms, "max silence": row.max_silence_ms,
    }  # fmt: skip
    parts = [f"{label} {formatting.span(value)}" for label, value in known.items() if value is not None]
    # A body that is no stream has no events of the standard: it is one record, which its last read completed.
    is_one_record = "nonstream" in row.flags or (row.outcome == "http_error" and not row.events)
    what = "one body" if is_one_record else facts.number_of(row.events, "event")
    parts.append(f"{what} in {facts.number_of(row.reads, 'read')}")
    parts.append(f"{formatting.span(elapsed_ms(row, look))}{'+' if row.outcome == 'open' else ''}")
    parts += [] if row.output_tokens is None else [counted(row.output_tokens, "token")]
    return " · ".join(parts)


def evidence(row: ListRow, verdicts: Sequence[Verdict]) -> Iterator[tuple[str, Tone, str]]:
    """Yield verdicts, the longest, and then flags, each with its tone and its evidence."""
    longest = sorted(verdicts, key=lambda verdict: -verdict.lasted_ns)[:_MOST_VERDICTS]
    for verdict in (one for one in verdicts if one in longest):
        sentence, grounds = wording.sentences(verdict)
        yield verdict.kind, "warning", f"{sentence}; {grounds}"
    for flag, meaning in facts.flags(row, {verdict.kind for verdict in verdicts}):
        yield formatting.line(flag), NOTABLE.get(flag, "muted"), meaning


def text(preview: PreviewRow) -> tuple[str, str, int | None]:
    """Return the name, the end and the length in characters of the answer's content, or of the text it has instead."""
    for name in _TEXTS:
        if text := preview.texts[name]:
            return name.replace("_", " "), text, preview.sizes.get(name)
    return "", "", None


def _unended(row: ListRow, look: Look) -> str:
    last, passed = row.last_read_ms, elapsed_ms(row, look)
    came = f"the last read came {formatting.span(last)} after the request"
    if not look.recording:
        came = "nothing was read of it" if last is None else came
        return f"nothing records it any more; {came}. The next recorder on this tape will mark it as interrupted."
    lasted = None if passed is None else silence(round(passed * 1e6), rows.ns(last), DEFAULT)
    return f"still running{'' if lasted is None else f', {lasted}'}; {came}"
