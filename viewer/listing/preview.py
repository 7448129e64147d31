"""Pure: the exchange under the cursor in a few lines: the preview of the list. Its words are those of `facts`.

Recorded text has passed `safe`, all but the answer, which is wrapped later.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len

from wiretape.recorder.decode.stalls import DEFAULT
from wiretape.recorder.plurals import counted
from wiretape.viewer.exchange import facts
from wiretape.viewer.exchange.states import NOTABLE, Look, elapsed_ms, ending, silence, state
from wiretape.viewer.record import units
from wiretape.viewer.record.rows import ListRow, PreviewRow
from wiretape.viewer.text import cells, formatting, wrap
from wiretape.viewer.text.cells import Part, Tone
from wiretape.viewer.timing import wording
from wiretape.viewer.timing.verdicts import Verdict

Line = list[Part]

_MOST_VERDICTS: Final = 3
_LEAST_TEXT: Final = 3
"""The least number of lines for the end of the answer, its heading included; where room is short, one."""

_HIGH: Final = 10
_MORE: Final = " …"
_JOINT: Final = "\N{NO-BREAK SPACE}"
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
    judged = {verdict.kind for verdict in verdicts}
    for flag, meaning in facts.flags(row, judged | {"given_up"} if "stall" in judged else judged):
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
    lasted = None if passed is None else silence(round(passed * 1e6), units.ns(last), DEFAULT)
    return f"still running{'' if lasted is None else f', {lasted}'}; {came}"


def lines(found: PreviewRow, verdicts: Sequence[Verdict], look: Look, width: int, height: int) -> list[Line]:
    """Return the preview in lines of a width, at most as many as a height; the end of the answer fills the rest."""
    row = found.row
    laid: list[Line] = [list(cells.laid_out(heading(row, look), width, right=False))]
    laid += [[(line, "plain")] for line in wrap.wrapped(reason(row, look), width)]
    known = figures(row, look)
    wrapped = _between_figures(known, width) if height >= _HIGH else [cells.cut(known, width)]
    laid += [[(line, "muted")] for line in wrapped]
    name, said, size = text(found)
    odd = _oddities(row, verdicts, width)
    room = height - len(laid)
    rest = (1 if height < _HIGH and len(odd) > room - _LEAST_TEXT else _LEAST_TEXT) if said else 0
    laid += _cut(odd, max(room - rest, 1), width)
    return laid[:height] + _end(name, said, size, width, height - len(laid))


def _oddities(row: ListRow, verdicts: Sequence[Verdict], width: int) -> list[Line]:
    """Return its oddities, each flag with its evidence."""
    lines: list[Line] = []
    for flag, tone, found in evidence(row, verdicts):
        for at, line in enumerate(wrap.wrapped(found, width - len(flag) - 2)):
            head: Line = [(" " * (len(flag) + 2), "plain")] if at else [(f"{flag}  ", tone)]
            lines.append([*head, (line, "muted" if tone == "muted" else "plain")])
    return lines


def _end(name: str, text: str, size: int | None, width: int, room: int) -> list[Line]:
    if not text or room < 1:
        return []
    lines = wrap.wrapped(text, width)
    is_cut = size is not None and (size > len(text) or len(lines) > room - 1)
    counted = "" if size is None else f" · {size:,} characters"
    head: list[Line] = [[(f"{name}{counted}{' · its end' if is_cut else ''}", "muted")]] if room > 1 else []
    return head + [[(line, "plain")] for line in lines[-(room - len(head)) :]]


def _cut(lines: Sequence[Line], room: int, width: int) -> list[Line]:
    """Return as many lines as there is room for; the last of them says that there are more."""
    if len(lines) <= room:
        return list(lines)
    *kept, last = lines[:room]
    *before, (text, tone) = last
    shown = cells.cut(text, width - sum(cell_len(part) for part, _ in before) - len(_MORE))
    return [*kept, [*before, (shown if shown.endswith(_MORE[-1]) else shown.rstrip() + _MORE, tone)]]


def _between_figures(text: str, width: int) -> list[str]:
    """Wrap figures at the dots between them, so that no number is parted from its unit."""
    joined = text.replace(" ", _JOINT).replace(f"{_JOINT}·{_JOINT}", " · ")
    return [line.replace(_JOINT, " ") for line in wrap.wrapped(joined, width)]
