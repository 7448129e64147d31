"""Text rendered as Markdown."""

import io

import pytest
from rich.console import Console
from rich.segment import Segment

from tests.support.cases import each_case
from tests.support.sample_tape import HOSTILE
from wiretape.viewer.text import markdown
from wiretape.viewer.text.markdown import Line, StyledPiece

CONTROLS = {*map(chr, range(0x20)), "\x7f", *map(chr, range(0x80, 0xA0)), "\u202e", "\u2066"}


def plain(lines: list[Line]) -> list[str]:
    return ["".join(piece.text for piece in line).rstrip() for line in lines]


def looks(lines: list[Line], text: str) -> tuple[str, str]:
    found = next(piece for line in lines for piece in line if text in piece.text)
    return found.tone, str(found.style)


def test_markdown_is_rendered() -> None:
    lines = markdown.rendered(
        "# Queues\n\nTwo *of* **them**, `prefill` and ~~decode~~:\n\n1. one\n2. two\n   - nested\n\n> said\n", 40
    )
    assert plain(lines) == [
        "Queues", "", "Two of them, prefill and decode:", "", " 1 one", " 2 two", "    • nested", "", "▌ said",
    ]  # fmt: skip
    assert looks(lines, "Queues") == ("plain", "bold underline")
    assert looks(lines, "them") == ("plain", "bold")
    assert looks(lines, "prefill") == ("accent", "none")
    assert looks(lines, "decode") == ("plain", "strike")


def test_code_keeps_its_lines_and_its_language() -> None:
    lines = markdown.rendered("```python title\nif x:\n    y  =  1\n```", 40)
    assert plain(lines) == ["python title", "  if x:", "      y  =  1"]
    assert looks(lines, "if x") == ("accent", "none")


def test_a_table_is_laid_out() -> None:
    assert plain(markdown.rendered("|a|b|\n|-|-|\n|1|22|\n", 40)) == [" a  b", " ─────", " 1  22"]


@each_case(
    ("text", "shown"),
    [
        ("[here](http://evil.example/x)", "here (http://evil.example/x)"),
        ("<http://evil.example/x>", "http://evil.example/x (http://evil.example/x)"),
        ("![picture](http://evil.example/p.png)", "!picture (http://evil.example/p.png)"),
        ("<b onclick=x>bold</b> <!-- kept -->", "<b onclick=x>bold</b> <!-- kept -->"),
        ("<think>\nhm\n</think>", "<think> hm </think>"),
        ("[a]: http://evil.example", "[a]: http://evil.example"),
        ("&#x1b;&#x202e;", "&#x1b;&#x202e;"),
        ("[bold red]x[/] [@click=app.bell()]y[/] [/", "[bold red]x[/] [@click=app.bell()]y[/] [/"),
        (":smile:", ":smile:"),
    ],
)
def test_links_images_and_html_stay_text(text: str, shown: str) -> None:
    assert plain(markdown.rendered(text, 60)) == [shown]


def text_of(lines: list[Line]) -> str:
    """Return the text that a terminal would receive."""
    console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=200)
    with console.capture() as captured:
        for line in lines:
            console.print(*[Segment(piece.text, piece.style) for piece in line], sep="", end="\n", markup=False)
    return captured.get()


@each_case(
    "text",
    [
        HOSTILE,
        f"[{HOSTILE}]({HOSTILE})",
        "[a](<http://x/\x1b]0;t\x07>)",
        "[click](javascript:\x1b[2J)",
        "```\x1b]52;c;QQ==\x07\n\x9b2J\u202e\n```",
        "|\x1b]8;;http://x\x07|\n|-|\n|\x1b]8;;\x07|\n",
        "a\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\",
    ],
)
def test_rendering_emits_no_control_character_and_no_hyperlink(text: str) -> None:
    lines = markdown.rendered(text, 60)
    assert not CONTROLS & set("".join(plain(lines)))
    assert all(piece.style.link is None and not piece.style.meta for line in lines for piece in line)
    assert "\x1b]" not in text_of(lines)


def test_only_a_long_texts_end_is_rendered() -> None:
    text = "".join(f"paragraph {number} is *here*\n\n" for number in range(400_000))
    lines = markdown.rendered(text, 60)
    assert plain(lines)[0].startswith("… 11,")
    assert "characters before this are left out: M shows them" in plain(lines)[0]
    assert plain(lines)[-1] == "paragraph 399999 is here"
    assert 300 < len(lines) < 3_000
    assert plain(markdown.rendered("x" * 10_000_000, 60))[-1].startswith("xxx")


def test_limit_can_be_lower() -> None:
    text = "".join(f"paragraph {number}\n\n" for number in range(400))
    shown = plain(markdown.rendered(text, 60, 200))
    assert shown[0].startswith(f"… {len(text) - 200:,}"[:5])
    assert [line for line in shown[1:] if line][-1] == "paragraph 399"
    assert len(shown) < 40
    assert markdown.VISIBLE < markdown.MOST


def test_fence_that_opens_before_the_shown_end_still_counts() -> None:
    lines = markdown.rendered("```\n" + "x = *1*\n" * 10_000, 60)
    assert looks(lines, "x = *1*") == ("accent", "none")


@pytest.mark.parametrize("text", ["> " * 100 + "deep", "|word|\n|-|\n|" + "x" * 500 + "|" + "y|" * 40])
def test_lost_words_are_noted(text: str) -> None:
    assert plain(markdown.rendered(text, 30))[0] == "not all of this can be rendered as Markdown: M shows it plain"


def test_text_that_cannot_be_rendered_is_shown_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object, **__: object) -> None:
        raise IndexError

    monkeypatch.setattr(markdown.Console, "render_lines", stumble)
    assert markdown.rendered("a\nb", 30) == [
        [StyledPiece("this cannot be rendered as Markdown", "warning")], [StyledPiece("a")], [StyledPiece("b")],
    ]  # fmt: skip


def test_empty_text_has_no_lines() -> None:
    assert markdown.rendered("", 30) == []
