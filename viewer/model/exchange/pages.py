"""Pure: one exchange in words, as lines of pieces and their tones: its heading, its request, its timing, its notes.

Recorded text passes `safe` where it is drawn. Unknown is `–`. What the figures mean is in `measures`, `slowness` and
`verdicts`; how a tone looks is the widget's.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from recorder.decode.outcome import OUTCOMES
from recorder.plurals import counted
from viewer import formatting
from viewer.model import states
from viewer.model.exchange import events, markers, waterfall
from viewer.model.exchange.clocks import SINCE_REQUEST, Times
from viewer.model.exchange.notes import Notes
from viewer.model.exchange.opened import Opened
from viewer.model.exchange.transcript import UNKNOWN
from viewer.model.states import Tone
from viewer.rows import Row
from viewer.tape.exchange import Known
from viewer.timing import wording
from viewer.timing.attribution import Slowness, Spread

Line = list[tuple[str, Tone]]
"""A line's pieces and their tones."""

_BARS: Final[dict[str, tuple[str, Tone]]] = {
    "wait": ("░", "muted"), "stall": ("×", "error"), "end": ("▌", "muted"), "reasoning": ("▒", "muted"),
    "content": ("█", "success"), "tool": ("▓", "accent"), "refusal": ("▓", "warning"),
}  # fmt: skip
_JUDGING: Final[Line] = [("who was slow: not known yet …", "muted")]
_LARGEST_JSON: Final = 1 << 20
_NAMES: Final = 18
_SHORT_NAMES: Final = 14
_COUNT: Final = 9
_FIGURE: Final = 11
_WHO: Final = {
    "upstream": ("upstream gap", "← the provider, or the network before the relay"),
    "relay": ("relay delay", "← wiretape itself"),
    "client": ("client wait", "← your program reading slowly"),
    "unclear": ("unclear", "← upstream, relay or client: the tape cannot tell"),
}
"""What each field of `Slowness` is called, and what it means."""
_LABELS: Final = {"max_stall": "longest gap", "max_silence": "longest silence"}
_LONGEST: Final = 40
_MOST_BARS: Final = 12


def heading(known: Known, opened: Opened | None = None, died: bool = False) -> Line:
    """Return what an exchange is, and the verdict on its timing once it is judged, in one line."""
    row = known.row
    state = states.state(row, recording=not died)
    path = row["path"].partition("?")[0]
    verdict = wording.brief(opened.verdicts) if opened is not None else ""
    judged = {one.kind for one in opened.verdicts} if opened is not None else set()
    flags = " ".join(flag for flag in states.ranked(row["flags"]) if flag not in judged)
    detail = f" ({row['outcome_detail']})" if row["outcome_detail"] else ""
    return [
        (f" {row['id'][:8]}", "strong"),
        (f"  {state.sign} {state.word}{detail}", state.tone),
        (f"  {formatting.cell(row['status'])}", "success" if (row["status"] or 999) < 300 else "error"),
        (f"  {formatting.cut(row['model'] or row['request_model'] or formatting.UNKNOWN, _LONGEST)}", "plain"),
        (f"  {verdict}" if verdict else "", "error" if "stall" in judged else "warning"),
        (f"  {flags}" if flags else "", "warning"),
        (f"  {row['method']} {formatting.host(row['upstream'])}{path}", "muted"),
    ]


def is_dead(known: Known, wall_ns: int) -> bool:
    """Return whether nobody records an exchange any more that has not ended."""
    if known.row["ended_by"] is not None or known.row["outcome"] not in ("open", None):
        return False
    return known.recorder.state(wall_ns) != "running"


def trouble(known: Known, opened: Opened | None, died: bool) -> Line | None:
    """Say what is wrong with an exchange in one line; None if nothing is."""
    row = known.row
    if died:
        heard = formatting.moment(known.recorder.heartbeat_at)
        return [(f" recorder pid {known.recorder.pid} gone; last heard of {heard} UTC: this is all there is", "error")]
    if opened is not None and opened.missing:
        return [(f" missing from the tape: {counted(opened.missing, 'byte')}; the rest is shown", "error")]
    if opened is not None and UNKNOWN in opened.owners:
        return [
            (f" of {counted(_unread(opened), 'byte')} no read is on the tape: when they came is not known", "error")
        ]
    if row["error_message"] or row["error_code"]:
        return [(f" {row['error_code'] or 'error'}: ", "error"), (row["error_message"] or "", "plain")]
    if row["outcome"] in ("complete", "open", None):
        return None
    detail = f": {row['ended_detail']}" if row["ended_detail"] else ""
    return [(f" {row['outcome'].replace('_', ' ')}: {OUTCOMES.get(row['outcome'], '')}{detail}", "warning")]


def _unread(opened: Opened) -> int:
    """Count the bytes that no read on the tape brought."""
    borders = [*opened.borders, len(opened.transcript.data)]
    spans = zip(pairwise(borders), opened.owners, strict=True)
    return sum(end - start for (start, end), owner in spans if owner == UNKNOWN)


def silence(known: Known, opened: Opened) -> str:
    """Say why there is no text to show."""
    row = known.row
    if row["error_message"] or row["error_code"]:
        return f"{row['error_code'] or 'error'}: {row['error_message'] or 'no message came with it'}"
    if not opened.transcript.data:
        return "no body came" if not opened.live else "nothing has come yet"
    return "nothing was said: 3 shows the body as it came"


def request(known: Known) -> list[Line]:
    """Show a request as it is on the tape, and the head of its response; JSON is put in order."""
    row = known.request
    lines: list[Line] = [[(f"{row['method']} ", "strong"), (f"{row['upstream']}{row['path']}", "accent")], []]
    lines += [[(f"{name}: ", "muted"), (value, "plain")] for name, value in row["headers"]]
    lines += [[], [(f"body · {counted(row['size'], 'byte')}", "muted")], *_body(known.request_body, row["size"])]
    if known.response_headers:
        lines += [[], [("response ", "strong"), (str(known.row["status"]), "plain")], []]
        lines += [[(f"{name}: ", "muted"), (value, "plain")] for name, value in known.response_headers]
    return lines


def timing(known: Known, opened: Opened | None, width: int, times: Times = SINCE_REQUEST) -> list[Line]:
    """Show where the time went, and who was slow, in lines of `width` cells, timestamps as `times` display them."""
    if opened is None:
        return [*_measured(known, width), [], [("decoding …", "muted")]]
    who = [_JUDGING] if opened.slowness is None else [*_who(opened.slowness, width)]
    told = [[], *_verdicts(opened, times)] if opened.judged else []
    return [*_waterfall(known, opened, width, times), [], *who, *told, [], *_measured(known, width)]


def noted(known: Known, notes: Notes, opened: Opened | None, times: Times) -> list[Line]:
    """Show the labels, the bookmarks with their instants as `times` tell them, and the note."""
    labels = known.row["labels"].items()
    lines: list[Line] = [[("labels", "strong")]]
    lines += [[(f"  {key} = ", "muted"), (value, "plain")] for key, value in labels]
    if not labels:
        lines.append([("  none (they are given when it is recorded)", "muted")])
    lines += [[], [("bookmarks", "strong"), ("  m sets one, ' goes to the next", "muted")]]
    for place in notes.bookmarks:
        text = ""
        if opened is not None and 0 < place <= len(opened.transcript):
            transcript, event = opened.transcript, place - 1
            at = times.told(transcript.at[event]) if transcript.timed[event] else formatting.UNKNOWN
            text = f"{at}  {transcript.kind(event)}  {formatting.cut(events.said(transcript.text(event)), 60)}"
        lines.append([(f"  {markers.label(place):<8}", "accent"), (text, "plain")])
    lines += [[], [("note", "strong"), ("  enter writes one; it is kept beside the tape, not in it", "muted")]]
    return [*lines, [("  ", "plain"), (notes.text or formatting.UNKNOWN, "plain")]]


def _body(body: bytes | None, size: int) -> Iterator[Line]:
    if body is None:
        return
    try:
        text = body.decode()
    except UnicodeDecodeError:
        yield [(body[:_LARGEST_JSON].decode("utf-8", "replace"), "plain")]
        yield [("(not UTF-8)", "warning")]
        return
    if len(body) <= _LARGEST_JSON:
        with contextlib.suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    yield [(text, "plain")]
    if len(body) != size:
        yield [(f"({counted(size - len(body), 'byte')} more than the tape keeps)", "warning")]


def _waterfall(known: Known, opened: Opened, width: int, times: Times) -> Iterator[Line]:
    last = opened.reads_at[-1] if len(opened.reads_at) else None
    found = waterfall.bars(opened.facts, known.row, opened.transcript, opened.verdicts, last)[:_MOST_BARS]
    room = max(width - _NAMES - 12, 10)
    yield [(f"{'':{_NAMES}}{'ms':>9}  ", "muted"), (times.axis(opened.end_ns, room), "muted")]
    for bar in found:
        first, size = waterfall.drawn(bar, opened.end_ns, room)
        sign, tone = _BARS[bar.kind]
        lasted = f"{(bar.end_ns - bar.start_ns) / 1e6:>9,.1f}"
        drawn: Line = [(f"{bar.name:<{_NAMES}}", tone if bar.kind == "stall" else "plain"), (f"{lasted}  ", "strong")]
        note = f" {bar.note}"
        if first + size + len(note) <= room:
            yield [*drawn, (" " * first, "plain"), (sign * size, tone), (note, "muted")]
        elif len(note) < first:
            yield [*drawn, (f"{note:>{first - 1}} ", "muted"), (sign * size, tone)]
        else:
            yield [*drawn, (" " * first, "plain"), (sign * size, tone)]


def _who(found: Slowness, width: int) -> Iterator[Line]:
    """Say who was slow; where there is no room beside the figures, what they mean stands below them."""
    spreads = [(name, getattr(found, field), meaning) for field, (name, meaning) in _WHO.items()]
    spreads = [one for one in spreads if one[0] != "unclear" or one[1] is not None]
    names = _NAMES if width >= _NAMES + _COUNT + 3 * _FIGURE else _SHORT_NAMES
    count = _COUNT if width >= names + _COUNT + 3 * _FIGURE else 0
    room = width - names - count - 3 * _FIGURE - 2
    beside = all(len(meaning) <= room for _, _, meaning in spreads)
    titles = f"{'p50 ms':>{_FIGURE}}{'p99 ms':>{_FIGURE}}{'max ms':>{_FIGURE}}"
    yield [(f"{'who was slow?':<{names}}{'n' if count else '':>{count}}{titles}", "strong")]
    for name, spread, meaning in spreads:
        figures: Line = [(f"{name:<{names}}{_spread(spread, count)}", "plain")]
        if beside:
            yield [*figures, (f"  {meaning}", "muted")]
        else:
            yield figures
            yield [("  ", "plain"), (meaning, "muted")]


def _spread(spread: Spread | None, count: int) -> str:
    if spread is None:
        return f"{formatting.UNKNOWN:>{count or _FIGURE}}".ljust(count + 3 * _FIGURE)
    figures = "".join(f"{formatting.ms(ns / 1e6):>{_FIGURE}}" for ns in (spread.p50_ns, spread.p99_ns, spread.max_ns))
    return (f"{spread.n:>{count},}" if count else "") + figures


def _verdicts(opened: Opened, times: Times) -> Iterator[Line]:
    if not opened.verdicts and not any(opened.transcript.timed):
        yield [(f"{'verdict':<{_NAMES}}", "strong"), ("none: nothing that was said has an instant of its own", "muted")]
    elif not opened.verdicts and len(opened.transcript) == 1 and not opened.live:
        yield [(f"{'verdict':<{_NAMES}}", "strong"), ("none: the answer is one piece, so it has no gaps", "muted")]
    elif not opened.verdicts:
        yield [
            (f"{'verdict':<{_NAMES}}", "strong"),
            (f"no stall of more than {opened.limits.stall_ms:,g} ms, no burst{' so far' * opened.live}", "success"),
        ]
    for verdict in opened.verdicts[:100]:
        told, evidence = wording.sentences(verdict, times.told)
        yield [(f"{verdict.kind:<{_NAMES}}", "error" if verdict.kind == "stall" else "warning"), (told, "plain")]
        yield [(" " * _NAMES, "plain"), (evidence, "muted")]


def _measured(known: Known, width: int) -> Iterator[Line]:
    row = known.row
    groups = {
        "times ms": ("ttfb", "ttfc", "ttft", "ttfo", "ttst", "latency", "duration"),
        "gaps ms": ("icl_p50", "icl_p90", "icl_p99", "icl_max", "max_stall", "max_silence"),
    }
    for name, fields in groups.items():
        named = ((_LABELS.get(field, field.replace("_", " ")), formatting.ms(row[f"{field}_ms"])) for field in fields)
        yield from _packed(name, [f"{label} {value}" for label, value in named], width)
    tokens = [f"{name} {formatting.count(row[f'{name}_tokens'])}" for name in ("prompt", "completion", "reasoning")]
    yield from _packed("tokens", [*tokens, f"a second {_rate(row)}"], width)


def _rate(row: Row) -> str:
    """Return the tokens a second, or why they are withheld."""
    withheld = next((flag for flag in ("hidden_tokens", "burst") if flag in row["flags"]), None)
    return f"withheld ({withheld})" if withheld else formatting.ms(row["tps_user"])


def _packed(name: str, figures: Sequence[str], width: int) -> Iterator[Line]:
    """Give figures beside their name, in as many lines as they need; none is cut in two."""
    lines = [""]
    for figure in figures:
        if lines[-1] and len(lines[-1]) + 2 + len(figure) > width - _NAMES:
            lines.append("")
        lines[-1] += f"  {figure}" if lines[-1] else figure
    for at, line in enumerate(lines):
        yield [(f"{'' if at else name:<{_NAMES}}", "strong"), (line, "plain")]
