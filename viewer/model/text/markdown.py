"""Pure: a text rendered as Markdown in lines of pieces, by `rich`, with nothing in it that could do harm.

Recorded text passes `safe` before it is read as Markdown; HTML, images, entities and link definitions stay text, links
are followed by where they lead and are no links, code is not coloured, whose lexers may take for ever. What is shown of
a long text is its end, where a playhead stands; that something is missing is said above it. It takes a while: it is
done beside the loop, and only then is this imported.
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

from recorder.sanitize import safe
from viewer.model.states import Tone

MOST: Final = 16_384
"""So many characters are rendered at most."""

SEEN: Final = 4096
"""So many are enough for what can be seen at once."""

NARROWEST: Final = 20

_TAB: Final = 4
_EARLIER: Final = 1 << 20
_FENCE: Final = re.compile(r"^ {0,3}(?:`{3}|~{3})", re.MULTILINE)
_HIDING: Final = ["html_inline", "html_block", "image", "reference", "entity"]
_TONES: Final[dict[str, Tone]] = {"cyan": "accent", "blue": "muted"}
_LOOKS: Final = Theme(
    {
        **{f"markdown.h{level}": "bold underline" if level < 3 else "bold" for level in range(1, 7)},
        "markdown.code": "cyan", "markdown.code_block": "cyan", "markdown.block_quote": "italic",
        "markdown.link": "underline", "markdown.link_url": "blue", "markdown.hr": "blue",
        "markdown.item.bullet": "blue", "markdown.item.number": "blue", "markdown.table.border": "blue",
        "markdown.table.header": "bold",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a line, its tone, and what else sets it off: bold, italic, underlined or struck through."""

    text: str
    tone: Tone = "plain"
    style: Style = field(default_factory=Style)


Line = list[Piece]
"""The pieces of a line."""


class _Heading(markdown.Heading):
    """At the left, whatever its level."""

    LEVEL_ALIGN: ClassVar[dict[str, Any]] = {}


class _Code(markdown.CodeBlock):
    """Code as it is, below what it is said to be."""

    @classmethod
    def create(cls, markdown: markdown.Markdown, token: Any) -> "_Code":
        return cls(token.info.strip(), "")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.lexer_name:
            yield Text(self.lexer_name, style="blue", overflow="fold")
        yield Padding(Text(str(self.text).rstrip("\n"), style=self.style, overflow="fold"), (0, 0, 0, 2))


class _Markdown(markdown.Markdown):
    elements: ClassVar[dict[str, Any]] = {
        **markdown.Markdown.elements, "heading_open": _Heading, "fence": _Code, "code_block": _Code,
    }  # fmt: skip

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        parser = MarkdownIt("commonmark").enable(["strikethrough", "table"]).disable(_HIDING)
        self.parsed = parser.parse(text)


def of(text: str, width: int, most: int = MOST) -> list[Line]:
    """Render the last `most` characters of a text or less, in lines `width` cells wide; where that fails, show them as
    they are, with a word about it.
    """
    start, shown = _end_of(text, most)
    left_out = [[Piece(f"… {start:,} characters before this are left out: M shows them", "muted")]] if start else []
    try:
        lines = _lines(shown, max(width, NARROWEST))
    except Exception:  # noqa: BLE001 - whatever a library makes of a hostile text, the text is shown
        said = "this cannot be rendered as Markdown"
        return [*left_out, [Piece(said, "warning")], *([Piece(line)] for line in shown.split("\n"))]
    if _words("".join(piece.text for line in lines for piece in line)) < _words(shown):
        left_out.append([Piece("not all of this can be rendered as Markdown: M shows it plain", "warning")])
    return [*left_out, *lines]


def _end_of(text: str, most: int) -> tuple[int, str]:
    """Give where what is shown begins, with a paragraph if one begins soon, and that, safe; in code if code it is."""
    start = max(len(text) - most, 0)
    if start:
        places = (text.find(mark, start, start + most // 2) for mark in ("\n\n", "\n", " "))
        start = next((place + 1 for place in places if place >= 0), start)
    open_fence = len(_FENCE.findall(text, max(start - _EARLIER, 0), start)) % 2 if start else 0
    shown = safe(text[start:].replace("\r\n", "\n").expandtabs(_TAB), multiline=True)
    return start, f"```\n{shown}" if open_fence else shown


def _lines(text: str, width: int) -> list[Line]:
    console = Console(
        file=io.StringIO(), width=width, height=1, theme=_LOOKS, color_system=None, markup=False, emoji=False,
        highlight=False, force_jupyter=False, force_terminal=False,
    )  # fmt: skip
    found = [_line(line) for line in console.render_lines(_Markdown(text), pad=False)]
    told = [number for number, line in enumerate(found) if line]
    return found[told[0] : told[-1] + 1] if told else []


def _line(segments: list[Segment]) -> Line:
    found = [_piece(segment) for segment in segments if not segment.control and segment.text]
    while found and not found[-1].text.strip():
        found.pop()
    if found:
        found[-1] = replace(found[-1], text=found[-1].text.rstrip())
    return found


def _piece(segment: Segment) -> Piece:
    """Keep of a style what cannot lead anywhere."""
    style = segment.style or Style()
    color = style.color.name if style.color is not None else ""
    kept = Style(bold=style.bold, italic=style.italic, underline=style.underline, strike=style.strike)
    return Piece(segment.text, _TONES.get(color, "plain"), kept)


def _words(text: str) -> int:
    return sum(map(str.isalnum, text))
