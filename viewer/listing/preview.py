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

_LEAST_TEXT: Final = 3
"""The least number of lines for the end of the answer, its heading included; where room is short, one."""

_HIGH: Final = 10
_MORE: Final = " …"
_JOINT: Final = "\N{NO-BREAK SPACE}"


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
    timings = {
        "ttft": row.ttft_ms, "icl p50": row.icl_p50_ms, "max gap": row.max_gap_ms, "max silence": row.max_silence_ms,
    }  # fmt: skip
    parts = [f"{label} {formatting.span(value)}" for label, value in timings.items() if value is not None]
    # A body that is no stream has no events of the standard: it is one record, which its last read completed.
    is_one_record = "nonstream" in row.flags or (row.outcome == "http_error" and not row.events)
    event_text = "one body" if is_one_record else facts.number_of(row.events, "event")
    parts.append(f"{event_text} in {facts.number_of(row.reads, 'read')}")
    parts.append(f"{formatting.span(elapsed_ms(row, look))}{'+' if row.outcome == 'open' else ''}")
    parts += [] if row.output_tokens is None else [counted(row.output_tokens, "token")]
    return " · ".join(parts)


def evidence(row: ListRow, verdicts: Sequence[Verdict]) -> Iterator[tuple[str, Tone, str]]:
    """Yield the three verdicts on the longest times, and then flags, each with its tone and its evidence."""
    longest = sorted(verdicts, key=lambda verdict: -verdict.lasted_ns)[:3]
    for verdict in (candidate for candidate in verdicts if candidate in longest):
        sentence, grounds = wording.sentences(verdict)
        yield verdict.kind, "warning", f"{sentence}; {grounds}"
    kinds = {verdict.kind for verdict in verdicts}
    # A client gives up in a stall, so that the verdict on this stands for both flags.
    for flag, meaning in facts.flags(row, kinds | {"given_up"} if "stall" in kinds else kinds):
        yield formatting.line(flag), NOTABLE.get(flag, "muted"), meaning


def text(preview: PreviewRow) -> tuple[str, str, int | None]:
    """Return the name, the end and the length in characters of the answer's content, or of the text it has instead."""
    for name in ("content", "refusal", "tool_calls", "reasoning"):
        if text := preview.texts[name]:
            return name.replace("_", " "), text, preview.sizes.get(name)
    return "", "", None


def _unended(row: ListRow, look: Look) -> str:
    last_ms, passed_ms = row.last_read_ms, elapsed_ms(row, look)
    progress = f"the last read came {formatting.span(last_ms)} after the request"
    if not look.recording:
        progress = "nothing was read of it" if last_ms is None else progress
        return f"nothing records it any more; {progress}. The next recorder on this tape will mark it as interrupted."
    # A row of a hosted agent's session does not say if a turn runs.
    current_silence = None
    if passed_ms is not None and row.operation != "agent_session":
        current_silence = silence(round(passed_ms * 1e6), units.ns(last_ms), DEFAULT)
    return f"still running{'' if current_silence is None else f', {current_silence}'}; {progress}"


def lines(preview: PreviewRow, verdicts: Sequence[Verdict], look: Look, width: int, height: int) -> list[Line]:
    """Return the preview in lines of a width, at most as many as a height; the end of the answer fills the rest."""
    row = preview.row
    preview_lines: list[Line] = [list(cells.laid_out(heading(row, look), width, right=False))]
    preview_lines += [[(line, "plain")] for line in wrap.wrapped(reason(row, look), width)]
    figure_text = figures(row, look)
    wrapped = _between_figures(figure_text, width) if height >= _HIGH else [cells.cut(figure_text, width)]
    preview_lines += [[(line, "muted")] for line in wrapped]
    name, answer, size = text(preview)
    odd = _oddities(row, verdicts, width)
    room = height - len(preview_lines)
    # However much is odd, the end of the answer keeps its lines.
    reserved = (1 if height < _HIGH and len(odd) > room - _LEAST_TEXT else _LEAST_TEXT) if answer else 0
    preview_lines += _cut(odd, max(room - reserved, 1), width)
    return preview_lines[:height] + _end(name, answer, size, width, height - len(preview_lines))


def _oddities(row: ListRow, verdicts: Sequence[Verdict], width: int) -> list[Line]:
    """Return the lines of verdicts and flags, each with its evidence."""
    lines: list[Line] = []
    for flag, tone, grounds in evidence(row, verdicts):
        for at, line in enumerate(wrap.wrapped(grounds, width - len(flag) - 2)):
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
    *visible_lines, last_line = lines[:room]
    *leading_parts, (text, tone) = last_line
    cut_text = cells.cut(text, width - sum(cell_len(part) for part, _ in leading_parts) - len(_MORE))
    return [
        *visible_lines,
        [*leading_parts, (cut_text if cut_text.endswith(_MORE[-1]) else cut_text.rstrip() + _MORE, tone)],
    ]


def _between_figures(text: str, width: int) -> list[str]:
    """Wrap figures at the dots between them, so that no number is parted from its unit."""
    joined = text.replace(" ", _JOINT).replace(f"{_JOINT}·{_JOINT}", " · ")
    return [line.replace(_JOINT, " ") for line in wrap.wrapped(joined, width)]
