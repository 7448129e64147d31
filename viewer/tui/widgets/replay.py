"""The answer as it came: what has been said up to the playhead, and what will be said after it.

A move of the playhead draws only the lines between its old and its new place. A very long text is laid out a little at
a time, so that the screen never waits for it. How it is laid out is `viewer.answer`'s.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Literal

from rich.style import Style
from textual.events import Resize

from recorder.metrics import sparkline
from recorder.safe import safe
from viewer import sparks
from viewer.model.answer import Answer, Part, Run
from viewer.model.folding import Folding
from viewer.model.streams import Tone
from viewer.model.transcript import Transcript
from viewer.tui import paint
from viewer.tui.widgets.pane import Pane

Annotation = Literal["none", "heat", "silences"]
ANNOTATIONS: Final[tuple[Annotation, ...]] = ("none", "heat", "silences")
"""What is shown of the time between the words: nothing, a background by the gap, or the long silences in figures."""

CARET: Final = "▏"
GHOST: Final = "░"
_GUTTER: Final = 2
_AT_ONCE: Final = 500
_KINDS: Final[dict[str, Tone]] = {"content": "plain", "refusal": "warning", "tool": "accent"}


class ReplayPane(Pane):
    """Draws a transcript up to a position."""

    def __init__(self) -> None:
        super().__init__(id="replay")
        self._transcript: Transcript | None = None
        self._answer: Answer | None = None
        self._position = 0
        self._limit_ns = 0
        self._folded = True
        self._chosen = False
        self._note = ""
        self._noted = Folding("", 80)
        self.ghost = True
        self.annotation: Annotation = "none"

    def show(self, transcript: Transcript, position: int, limit_ns: int, note: str = "") -> None:
        """Show an answer; silences longer than `limit_ns` are worth a figure. Without any text, `note` is shown."""
        self._transcript, self._position, self._limit_ns, self._note = transcript, position, limit_ns, note
        self._lay_out()

    def move(self, position: int, *, unfold: bool = False) -> None:
        """Put the playhead elsewhere; `unfold` what it stands in there, unless somebody has folded it."""
        before, self._position = self._position, position
        if self._answer is None or before == position:
            return
        if unfold and not self._chosen and self._answer.hides(position):
            self._fold()
            return
        old = self._answer.row_of(before)
        row = self._answer.row_of(position)
        self.redraw(*self._answer.changed(before, position), (old, old), (row, row))
        self.reveal(row, 2)

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

    def on_resize(self, event: Resize) -> None:
        """Lay the texts out anew."""
        self._lay_out()

    def line(self, number: int) -> Iterable[paint.Part]:
        """Draw a line of a text, or its heading."""
        answer = self._answer
        if answer is None or not answer.parts:
            start, end = self._noted.span(number)
            return [("  ", None), (self._noted.text[start:end], self.look("muted"))]
        row = answer.row(number)
        if row.part is None:
            return []
        if row.line is None:
            return self._heading(row.part)
        return self._text(row.part, row.line, number)

    def _lay_out(self) -> None:
        width = self.size.width - _GUTTER - 2
        if self._transcript is None or width <= 0:
            return
        self._noted = Folding(safe(self._note, multiline=True), width)
        self._noted.more(_AT_ONCE)
        limit = self._limit_ns if self.annotation == "silences" else None
        self._answer = Answer(self._transcript, width, limit, folded=self._folded)
        self._arranged()

    def _arranged(self) -> None:
        if self._answer is None:
            return
        self.set_count(len(self._answer) if self._answer.parts else len(self._noted))
        self.redraw()
        self.reveal(self._answer.row_of(self._position), 2)
        if not self._answer.done:
            self.call_later(self._extend, self._answer)

    def _extend(self, answer: Answer) -> None:
        if answer is self._answer and not answer.done:
            answer.more(_AT_ONCE)
            self._arranged()

    def _heading(self, part: Part) -> Iterator[paint.Part]:
        said, whole = part.track.length(self._position), len(part.track)
        begun = part.began < self._position
        if not begun and not self.ghost:
            return
        style = self.look("strong") if begun else self.look("ghost")
        yield ("▸ " if part.folded else "▾ "), style
        yield part.title, style
        if part.name is not None:
            yield (
                f" {part.name.text[: part.name.length(self._position) or None]}",
                self.look("accent") if begun else style,
            )
        counted = f"{said:,}/{whole:,}" if said < whole else f"{whole:,}"
        yield f"  {counted} chars{self._lasted(part)}", self.look("muted") if begun else style
        if part.kind == "tool":
            yield (
                ("  complete" if said == whole else "  incomplete"),
                self.look("success" if said == whole else "warning"),
            )
        if part.kind == "reasoning":
            yield ("  r: unfold" if part.folded else "  r: fold"), self.look("muted")

    def _lasted(self, part: Part) -> str:
        assert self._transcript is not None
        if part.kind != "reasoning" or not len(self._transcript):
            return ""
        lasted = self._transcript.at[part.track.events[-1]] - self._transcript.at[part.track.events[0]]
        return f" · {len(part.track.events):,} delta{'s' * (len(part.track.events) != 1)} · {lasted / 1e9:.2f} s"

    def _text(self, part: Part, line: int, number: int) -> Iterator[paint.Part]:
        assert self._answer is not None
        runs = list(part.runs(line, self._position))
        has_caret = number == self._answer.row_of(self._position) and self._position > 0
        unsaid = bool(runs) and all(run.state == "ghost" for run in runs) and not has_caret
        yield (f"{GHOST} " if unsaid and self.ghost else "  "), self.look("ghost")
        for run in runs:
            if has_caret and run.state == "ghost":
                has_caret = False
                yield CARET, self.look("accent")
            if run.state != "ghost" or self.ghost:
                yield run.text, self._look(part, run)
        if has_caret:
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
