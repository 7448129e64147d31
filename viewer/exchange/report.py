"""Pure: one exchange as a page of text: the facts that the inspector shows, too, for a terminal or a pipe.

Every recorded text passes `safe` and only ever becomes `rich.text.Text`, never markup. Unknown is `–`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.text import Text

from wiretape.recorder.decode.attribution import Slowness
from wiretape.recorder.decode.decoder import Item
from wiretape.recorder.decode.encoding import is_utf8
from wiretape.recorder.decode.exchange import FLAGS
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import clipped
from wiretape.viewer.exchange import facts, pages, request_ids
from wiretape.viewer.exchange.facts import Fact, Line, RelaySide
from wiretape.viewer.record.rows import DetailRow
from wiretape.viewer.text import formatting, hexdump
from wiretape.viewer.text.cells import Tone
from wiretape.viewer.text.formatting import block, line
from wiretape.viewer.timing import wording
from wiretape.viewer.timing.verdicts import Verdict

HINT: Final = "--part raw shows it"
"""A hint for bodies without a decoded text."""

JUDGED: Final = ("stall", "given_up", "burst")
"""The flags that verdicts replace: by other limits than the recorder's, there may be none."""
LABELS: Final = 11
_PLAIN_WIDTH: Final = 120
_PREVIEW: Final = 60
STYLES: Final[dict[Tone, str]] = {
    "plain": "", "strong": "bold", "muted": "dim", "accent": "cyan", "success": "green", "warning": "yellow",
    "error": "red",
}  # fmt: skip


def rendered(lines: Iterable[Line]) -> Iterator[Text]:
    for pieces in lines:
        yield Text.assemble(*((block(text), STYLES[tone]) for text, tone in pieces))


def page(
    row: DetailRow,
    verdicts: Sequence[Verdict],
    response_headers: Sequence[Sequence[str]] = (),
    width: int | None = None,
) -> Iterator[Text]:
    """Yield a summary of an exchange: `width` is the terminal's, in cells.

    Of the response's headers those are shown that name the request or its limits, of many stalls the longest.
    """
    figures = [
        *facts.all_facts(row, verdicts, identifying(response_headers)),
        *([Fact("", (line(row.sparkline),))] if row.sparkline else []),
    ]
    yield Text.assemble((line(row.id), "bold"), f"  {line(row.method)} {line(row.upstream + row.path)}")
    yield from laid_out(figures, width)
    yield from longest(verdicts)
    yield from laid_out(
        (Fact("flag", (f"{line(flag)}: {meaning}",)) for flag, meaning in facts.flags(row, JUDGED)), width
    )
    yield from laid_out(texts(row), width)


def identifying(headers: Sequence[Sequence[str]]) -> Iterator[Fact]:
    """Yield those of a response's headers that name the request or its limits."""
    for name, value in request_ids.identifying(headers):
        yield Fact("header", (f"{line(name)}: {line(value)}",))


def timing(
    slowness: Slowness, verdicts: Sequence[Verdict], limits: Thresholds, width: int | None, untimed: str | None = None
) -> Iterator[Text]:
    """Yield the slow party, and every verdict; if it is unknown, the flag `untimed` is the reason."""
    sides = *facts.who_was_slow(slowness), RelaySide("both together", slowness.delay, "from a read to its handing on")
    yield from rendered(pages.who_was_slow(sides, width or _PLAIN_WIDTH))
    if slowness.client is not None and not slowness.client.max_ns:
        yield Text("note: a client that reads slowly shows only once the system's buffers for it are full", "dim")
    yield Text()
    for verdict in verdicts:
        yield from rendered(pages.judged(verdict, LABELS))
    if untimed is not None:
        yield Text(f"no verdict: {FLAGS[untimed]}")
    elif not verdicts:
        share, window = (f"{100 * value:g} %" for value in (limits.burst_share, limits.burst_window))
        yield Text(
            f"{wording.nothing(limits)}: {limits.burst_chunks} or more output chunks, "
            f"{share} of them in {limits.burst_reads} reads or all within {window} of the latency"
        )


def answer(row: DetailRow) -> Iterator[Text]:
    """Yield the assembled texts of an exchange: reasoning, then content, refusal and tool calls."""
    for name, text in row.texts.items():
        style = {"reasoning": "dim", "refusal": "red"}.get(name, "")
        if style:
            yield Text(f"{name}:", f"bold {style}")
        yield Text(block(text), style)
    for call in row.tool_calls or ():
        yield Text.assemble(("tool call: ", "bold"), line(f"{call['name']}({call['arguments']})"))


def headers(title: str, pairs: Sequence[Sequence[str]]) -> Iterator[Text]:
    if pairs:
        yield from (Text(), Text(title, "bold"), *rendered(pages.headers(pairs)))


def messages(items: Iterable[Item]) -> Iterator[Text]:
    """Yield the messages of a WebSocket, each below when it came and which way it went."""
    for item in items:
        at = formatting.UNKNOWN if item.at_ns is None else formatting.timestamp_with_unit(item.at_ns)
        kind = "" if item.kind == "event" else f"  {item.kind}"
        yield Text(f"{'→' if item.sender == 'client' else '←'} {at}{kind}", "dim")
        yield Text(block(item.data))


def body(data: bytes) -> Iterator[Text]:
    """Yield a body: text without control characters, of anything else the first `_HEX_BYTES` as hex."""
    if is_utf8(data) and b"\0" not in data:
        for text in data.decode("utf-8", "replace").splitlines():
            yield Text(block(text))
        return
    first_bytes = data[:4096]
    for start in range(0, len(first_bytes), 16):
        part = first_bytes[start : start + 16]
        yield Text(f"{start:08x}  {part.hex(' '):<47}  {hexdump.printable(part)}")
    yield Text(f"({counted(len(data), 'byte')}, not text; a pipe or a file gets all of them)", "dim")


def laid_out(facts: Iterable[Fact], width: int | None) -> Iterator[Text]:
    for fact in facts:
        for (label, _), *parts in pages.labelled(fact, width or _PLAIN_WIDTH, LABELS):
            yield from rendered([[(label, "muted"), *parts]])


def texts(row: DetailRow) -> Iterator[Fact]:
    for name, text in row.texts.items():
        yield Fact(name, (f"{len(text):,} characters: {clipped(line(text), _PREVIEW)}",))
    for call in row.tool_calls or ():
        yield Fact("tool call", (clipped(line(f"{call['name']}({call['arguments']})"), 2 * _PREVIEW),))


def longest(verdicts: Sequence[Verdict]) -> Iterator[Text]:
    """Return the lines of a burst and of the longest stalls, in their order, and the number of the others."""
    ranked = sorted(verdicts, key=lambda verdict: (verdict.kind == "stall", -verdict.lasted_ns))[:5]
    lines = [line for verdict in verdicts if verdict in ranked for line in pages.judged(verdict, LABELS)]
    if len(ranked) < len(verdicts):
        more = counted(len(verdicts) - len(ranked), "shorter stall")
        lines.append([(" " * LABELS, "plain"), (f"and {more}: see --part timing", "plain")])
    return rendered(lines)
