"""Pure: text rendered as Markdown by `rich`, in lines of pieces, with nothing in it that could do harm.

Recorded text passes `safe` before it is parsed. HTML, images, entities and link definitions stay text; links are
followed by their addresses and are no links; code is not coloured, because a lexer may take for ever. Only the end of a
long text is rendered, where a playhead stands. Rendering is slow: it runs beside the loop, and this is imported there.
"""

import io
import re
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from markdown_it import MarkdownIt
from rich import markdown
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme

from wiretape.recorder.sanitize import safe
from wiretape.viewer.text.cells import Tone

MOST: Final = 16_384
"""The most characters that are rendered."""

VISIBLE: Final = 4096
"""Number of characters that fill any pane."""

NARROWEST: Final = 20

_FENCE: Final = re.compile(r"^ {0,3}(?:`{3}|~{3})", re.MULTILINE)
_TONES: Final[dict[str, Tone]] = {"cyan": "accent", "blue": "muted"}
_THEME: Final = Theme(
    {
        **{f"markdown.h{level}": "bold underline" if level < 3 else "bold" for level in range(1, 7)},
        "markdown.code": "cyan", "markdown.code_block": "cyan", "markdown.block_quote": "italic",
        "markdown.link": "underline", "markdown.link_url": "blue", "markdown.hr": "blue",
        "markdown.item.bullet": "blue", "markdown.item.number": "blue", "markdown.table.border": "blue",
        "markdown.table.header": "bold",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StyledPiece:
    """A piece of a line: its tone, and whether it is bold, italic, underlined or struck through."""

    text: str
    tone: Tone = "plain"
    style: Style = field(default_factory=Style)


Line = list[StyledPiece]


class _MarkdownHeading(markdown.Heading):
    """A heading of any level, aligned to the left."""

    LEVEL_ALIGN: ClassVar[dict[str, Any]] = {}


class _Code(markdown.CodeBlock):
    """Code as it is, below the name of its language."""

    @classmethod
    def create(cls, markdown: markdown.Markdown, token: Any) -> "_Code":
        return cls(token.info.strip(), "")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.lexer_name:
            yield Text(self.lexer_name, style="blue", overflow="fold")
        yield Padding(Text(str(self.text).rstrip("\n"), style=self.style, overflow="fold"), (0, 0, 0, 2))


class _Markdown(markdown.Markdown):
    elements: ClassVar[dict[str, Any]] = {
        **markdown.Markdown.elements, "heading_open": _MarkdownHeading, "fence": _Code, "code_block": _Code,
    }  # fmt: skip

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        hiding_rules = ["html_inline", "html_block", "image", "reference", "entity"]
        parser = MarkdownIt("commonmark").enable(["strikethrough", "table"]).disable(hiding_rules)
        self.parsed = parser.parse(text)


def rendered(text: str, width: int, most: int = MOST) -> list[Line]:
    """Return at most the last `most` characters of a text as Markdown, in lines `width` cells wide.

    A line before them reports omitted characters, or a text that is shown verbatim since rendering failed.
    """
    start, end = _end_of(text, most)
    notes = [[StyledPiece(f"… {start:,} characters before this are left out: M shows them", "muted")]] if start else []
    try:
        lines = _lines(end, max(width, NARROWEST))
    except Exception:  # noqa: BLE001 - a hostile text is shown even if the library fails
        failure = [StyledPiece("this cannot be rendered as Markdown", "warning")]
        return [*notes, failure, *([StyledPiece(line)] for line in end.split("\n"))]
    if _alphanumerics("".join(piece.text for line in lines for piece in line)) < _alphanumerics(end):
        notes.append([StyledPiece("not all of this can be rendered as Markdown: M shows it plain", "warning")])
    return [*notes, *lines]


def _end_of(text: str, most: int) -> tuple[int, str]:
    """Return the offset and the text of the end, from a paragraph's start if one is near; safe, code in a fence."""
    start = max(len(text) - most, 0)
    if start:
        places = (text.find(mark, start, start + most // 2) for mark in ("\n\n", "\n", " "))
        start = next((place + 1 for place in places if place >= 0), start)
    # Not all of a text of megabytes is searched for fences: it is rendered again whenever it has grown.
    is_code = len(_FENCE.findall(text, max(start - (1 << 20), 0), start)) % 2 if start else 0
    end = safe(text[start:].replace("\r\n", "\n").expandtabs(4), multiline=True)
    return start, f"```\n{end}" if is_code else end


def _lines(text: str, width: int) -> list[Line]:
    console = Console(
        file=io.StringIO(), width=width, height=1, theme=_THEME, color_system=None, markup=False, emoji=False,
        highlight=False, force_jupyter=False, force_terminal=False,
    )  # fmt: skip
    lines = [_line(segments) for segments in console.render_lines(_Markdown(text), pad=False)]
    filled = [number for number, line in enumerate(lines) if line]
    return lines[filled[0] : filled[-1] + 1] if filled else []


def _line(segments: list[Segment]) -> Line:
    """Return the pieces of a line, without the blanks at its end and without styles that could lead anywhere."""
    pieces = []
    for segment in segments:
        if not segment.control and segment.text:
            style = segment.style or Style()
            color = style.color.name if style.color is not None else ""
            plain = Style(bold=style.bold, italic=style.italic, underline=style.underline, strike=style.strike)
            pieces.append(StyledPiece(segment.text, _TONES.get(color, "plain"), plain))
    while pieces and not pieces[-1].text.strip():
        pieces.pop()
    if pieces:
        pieces[-1] = replace(pieces[-1], text=pieces[-1].text.rstrip())
    return pieces


def _alphanumerics(text: str) -> int:
    return sum(map(str.isalnum, text))
