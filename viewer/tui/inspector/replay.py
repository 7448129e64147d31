"""The answer as it came: what has been said up to the playhead, and, while that stands, what will be said after it.

A move of the playhead draws only the lines between its old and its new place. A very long text is laid out a little at
a time, so that the screen never waits for it. How it is laid out is `answer`'s. As Markdown, its content is shown up to
the playhead as it was when it was rendered last, which is done beside the loop by whoever is told that it is `Stale`.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal

from rich.style import Style
from textual.events import Resize
from textual.message import Message

from recorder.decode.metrics import sparkline
from recorder.sanitize import safe
from viewer import sparkline as sparks
from viewer.model.exchange.answer import Answer, Part, Run
from viewer.model.exchange.transcript import Transcript
from viewer.model.states import Tone
from viewer.model.text.wrap import WrappedText
from viewer.tui.base import paint
from viewer.tui.widgets.pane import Pane

if TYPE_CHECKING:
    from viewer.model.text.markdown import Line

Annotation = Literal["none", "heat", "silences"]
ANNOTATIONS: Final[tuple[Annotation, ...]] = ("none", "heat", "silences")
"""What is shown of the time between the words: nothing, a background by the gap, or the long silences in figures."""

CARET: Final = "▏"
GHOST: Final = "░"
_GUTTER: Final = 2
_MARGIN: Final = 3
"""Room for the caret, for the space that a line is broken at, and for the scrollbar."""
_AT_ONCE: Final = 500
_KINDS: Final[dict[str, Tone]] = {"content": "plain", "refusal": "warning", "tool": "accent"}


class ReplayPane(Pane):
    """Draws a transcript up to a position."""

    class Stale(Message):
        """Its content is to be rendered: `rendering` gives the work, `take` what comes of it, `settle` is the end."""

    def __init__(self) -> None:
        super().__init__(id="replay")
        self._transcript: Transcript | None = None
        self._answer: Answer | None = None
        self._position = 0
        self._limit_ns = 0
        self._folded = True
        self._chosen = False
        self._note = ""
        self._noted = WrappedText("", 80)
        self.ghost = True
        self.choice: int | None = None
        self._steady = False
        self.annotation: Annotation = "none"
        self.markdown = False
        self._rendered: Sequence[list[Line] | None] = ()
        self._asked_for: tuple[Answer | None, int, bool] | None = None
        self._still = True

    def show(self, transcript: Transcript, position: int, limit_ns: int, note: str = "") -> None:
        """Show an answer; silences longer than `limit_ns` are worth a figure. Without any text, `note` is shown."""
        if (transcript, limit_ns, note) == (self._transcript, self._limit_ns, self._note):
            return self.move(position)
        self._steady = self._steady or position != self._position
        self._transcript, self._position, self._limit_ns, self._note = transcript, position, limit_ns, note
        if self.choice not in self.choices:
            self.choice = None
        self._lay_out()

    @property
    def choices(self) -> list[int]:
        """The choices of the answer by their index."""
        return [voice.index for voice in self._transcript.voices] if self._transcript is not None else []

    @property
    def can_fold(self) -> bool:
        """Whether there is reasoning to fold beside other texts."""
        parts = self._answer.parts if self._answer is not None else []
        return len(parts) > 1 and any(part.kind == "reasoning" for part in parts)

    def choose(self) -> None:
        """Show only the next choice of the answer; after the last one, all of them."""
        order = [None, *self.choices]
        self.choice = order[(order.index(self.choice) + 1) % len(order)] if len(order) > 2 else None
        self._rendered = ()
        self._lay_out()

    def move(self, position: int, *, unfold: bool = False) -> None:
        """Put the playhead elsewhere; `unfold` what it stands in there, unless somebody has folded it."""
        before, self._position = self._position, position
        if self._answer is None or before == position:
            return
        old, self._steady = self._row_of(before), not unfold
        self._ask()
        if unfold and not self._chosen and self._answer.hides(position):
            self._fold()
            return
        row = self._row_of(position)
        self.redraw(*self._answer.changed(before, position), (old, old), (row, row))
        self.reveal(row, 2)

    def _row_of(self, position: int) -> int:
        """Give the row of the playhead: where somebody sent it the words that it stands in, else what grows."""
        return 0 if self._answer is None else self._answer.row_of(position, steady=self._steady)

    def fold(self) -> None:
        """Fold the reasoning, or unfold it."""
        self._chosen = True
        self._fold()

    def _fold(self) -> None:
        self._folded = not self._folded
        if self._answer is not None:
            self._answer.fold()
            self._arranged()

    def toggle_ghost(self) -> None:
        """Show what has not been said yet, or leave it out."""
        self.ghost = not self.ghost
        self.redraw()

    def annotate(self) -> Annotation:
        """Show the time between the words in the next way; give which that is."""
        self.annotation = ANNOTATIONS[(ANNOTATIONS.index(self.annotation) + 1) % len(ANNOTATIONS)]
        self._lay_out()
        return self.annotation

    def mark_up(self) -> None:
        """Show the content as Markdown, or as it is."""
        self.markdown = not self.markdown
        self._rendered = ()
        self._lay_out()

    def rendering(self) -> "Callable[[], list[list[Line] | None]]":
        """Give the work of rendering what has been said by now; while it is played, no more than can be seen."""
        answer, position = self._answer, self._position
        self._asked_for = answer, position, self._still
        parts = answer.parts if answer is not None else []
        texts = [(part.track.text, part.track.length(position)) if part.kind == "content" else None for part in parts]
        return functools.partial(_rendered, texts, self.size.width - _GUTTER - _MARGIN, whole=self._still)

    def take(self, rendered: "Sequence[list[Line] | None]") -> None:
        """Show what has been rendered, if it is still wanted."""
        if self.markdown and self._answer is not None:
            self._rendered = rendered
            self._answer.render(rendered)
            self._arranged()

    def settle(self) -> None:
        """It may be rendered again, and is to be if it has become stale meanwhile."""
        before, self._asked_for = self._asked_for, None
        if before != (self._answer, self._position, self._still):
            self._ask()

    def still(self, still: bool) -> None:
        """Set whether the playhead stands: text ahead of it is then shown, and all Markdown rendered."""
        if still != self._still:
            self._still = still
            self._ask()
            if self.ghost:
                self.redraw()

    @property
    def _shows_ahead(self) -> bool:
        """Whether text ahead of the playhead is shown: not while it is played."""
        return self.ghost and self._still

    def _ask(self) -> None:
        if self.markdown and self._asked_for is None and self._answer is not None:
            self._asked_for = None, -1, self._still
            self.post_message(self.Stale())

    def on_resize(self, event: Resize) -> None:
        """Lay the texts out anew."""
        self._lay_out()

    def line(self, number: int) -> Iterable[paint.Part]:
        """Draw a line of a text, or its heading."""
        answer = self._answer
        if answer is None or not answer.parts:
            return [("  ", None), (self._noted.line(number), self.look("muted"))]
        row = answer.row(number)
        if row.part is None:
            return []
        if row.line is None:
            return self._heading(row.part)
        if row.part.rendered is not None:
            return self._marked_up(row.part.rendered, row.line, number)
        return self._text(row.part, row.line, number)

    def _lay_out(self) -> None:
        width = self.size.width - _GUTTER - _MARGIN
        if self._transcript is None or width <= 0:
            return
        self._noted = WrappedText(safe(self._note, multiline=True), width)
        self._noted.more(_AT_ONCE)
        limit = self._limit_ns if self.annotation == "silences" else None
        self._answer = Answer(self._transcript, width, limit, folded=self._folded, choice=self.choice)
        if self.markdown:
            self._answer.render(self._rendered)
            self._ask()
        self._arranged()
        self.call_after_refresh(self._extend, self._answer)  # what can be seen is there: it is drawn first

    def _arranged(self) -> None:
        if self._answer is None:
            return
        self.set_count(len(self._answer) if self._answer.parts else len(self._noted))
        self.redraw()
        self.reveal(self._row_of(self._position), 2)

    def _extend(self, answer: Answer) -> None:
        if answer is self._answer and not answer.done:
            answer.more(_AT_ONCE)
            self._arranged()
            self.call_later(self._extend, answer)

    def _heading(self, part: Part) -> Iterator[paint.Part]:
        said, whole = part.track.length(self._position), len(part.track)
        begun = part.began < self._position
        if not begun and not self._shows_ahead:
            return
        style = self.look("strong") if begun else self.look("ghost")
        yield ("▸ " if part.folded else "▾ "), style
        yield part.title, style
        if part.name is not None:
            name = part.name.text[: part.name.length(self._position)] if begun else part.name.text
            yield f" {name}", self.look("accent") if begun else style
        counted = f"{said:,}/{whole:,}" if said < whole else f"{whole:,}"
        yield f"  {counted} chars{self._lasted(part)}", self.look("muted") if begun else style
        if part.kind == "tool":
            standing = part.standing(self._position)
            yield f"  {standing}", self.look("success" if standing == "complete" else "warning")
        if part.kind == "reasoning":
            yield ("  r: unfold" if part.folded else "  r: fold"), self.look("muted")

    def _lasted(self, part: Part) -> str:
        assert self._transcript is not None
        if part.kind != "reasoning" or not len(self._transcript):
            return ""
        if len(part.track.events) == 1:
            return " · 1 delta"
        lasted = self._transcript.at[part.track.events[-1]] - self._transcript.at[part.track.events[0]]
        return f" · {len(part.track.events):,} deltas · {lasted / 1e9:.2f} s"

    def _text(self, part: Part, line: int, number: int) -> Iterator[paint.Part]:
        runs = list(part.runs(line, self._position))
        has_caret = number == self._row_of(self._position) and self._position > 0
        unsaid = bool(runs) and all(run.state == "ghost" for run in runs) and not has_caret
        yield (f"{GHOST} " if unsaid and self._shows_ahead else "  "), self.look("ghost")
        for run in runs:
            if has_caret and run.state == "ghost":
                has_caret = False
                yield CARET, self.look("accent")
            if run.state != "ghost" or self._shows_ahead:
                yield run.text, self._look(part, run)
        if has_caret:
            yield CARET, self.look("accent")

    def _marked_up(self, lines: "list[Line]", line: int, number: int) -> Iterator[paint.Part]:
        yield "  ", None
        for piece in lines[line]:
            yield piece.text, self.look(piece.tone) + piece.style
        if line == len(lines) - 1 and number == self._row_of(self._position):
            yield CARET, self.look("accent")

    def _look(self, part: Part, run: Run) -> Style:
        if run.state == "ghost":
            return self.look("ghost")
        if run.state == "silence":
            return self.look("error")
        plain = self.look("thought") if part.kind == "reasoning" else self.look(_KINDS[part.kind])
        return plain + self._heat(run.event) if self.annotation == "heat" else plain

    def _heat(self, event: int | None) -> Style:
        gap = self._transcript.gap_ns(event) if self._transcript is not None and event is not None else None
        glyph = sparkline((0, gap), 1) if gap else ""
        if glyph in (*sparks.SLOW, *sparks.STALLED):
            return self.look("hot")
        return self.look("warm") if glyph in ("▄", "▅") else Style()


def _rendered(texts: Sequence[tuple[str, int] | None], width: int, *, whole: bool) -> "list[list[Line] | None]":
    """Render texts up to a length; None stays None."""
    from viewer.model.text import markdown

    most = markdown.MOST if whole else markdown.VISIBLE
    return [None if one is None else markdown.rendered(one[0][: one[1]], width, most) for one in texts]
