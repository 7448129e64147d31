"""The answer as it had come up to the playhead: reasoning, content, refusals and calls, of every choice.

Text up to the playhead is plain, later text dim, and the caret stands between. `answer` breaks the text into lines.
Content as Markdown is rendered in a thread; until that is done, the last rendering is shown.
"""

import asyncio
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal

from rich.style import Style
from textual import work
from textual.events import Resize

from wiretape.recorder.sanitize import safe
from wiretape.viewer.exchange import strips
from wiretape.viewer.exchange.answer import AnswerLayout, AnswerPart, AnswerRun
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.text.cells import Tone
from wiretape.viewer.text.wrap import WrappedText
from wiretape.viewer.tui.base import paint
from wiretape.viewer.tui.base.host import in_thread
from wiretape.viewer.tui.widgets.pane import Pane

if TYPE_CHECKING:
    from wiretape.viewer.text.markdown import Line

View = Literal["text", "heat", "silences", "Markdown", "bare"]
VIEWS: Final[dict[View, str]] = {
    "text": "", "heat": "gaps as heat", "silences": "gaps in figures", "Markdown": "Markdown", "bare": "nothing ahead",
}  # fmt: skip
"""The views of a text, with their titles: with a background by the gap, with long silences in figures, …"""

_CARET: Final = "▏"
_GUTTER: Final = 2
_MARGIN: Final = 3
"""Room for the caret, for the space that a line is broken at, and for the scrollbar."""

_LINES_AT_ONCE: Final = 500

_KINDS: Final[dict[str, Tone]] = {"content": "plain", "refusal": "warning", "tool": "accent"}


class ReplayPane(Pane):
    """Draws a transcript up to a position."""

    def __init__(self) -> None:
        super().__init__(id="replay")
        self.choice: int | None = None
        self.view: View = "text"
        self.rendered: Sequence[list[Line] | None] = ()
        self._transcript: Transcript | None = None
        self._answer: AnswerLayout | None = None
        self._position = 0
        self._limit_ns = 0
        self._note = ""
        self._wrapped_note = WrappedText("", 80)
        self._is_folded = True
        self._is_fold_chosen = False
        self._is_steady = False
        self._is_still = True
        self._rendering: tuple[AnswerLayout | None, int, bool] | None = None

    def show(self, transcript: Transcript, position: int, limit_ns: int, note: str) -> None:
        """Show an answer; silences longer than `limit_ns` can be shown in figures. Without any text, show `note`."""
        if (transcript, limit_ns, note) == (self._transcript, self._limit_ns, self._note):
            return self.move(position)  # a poll without news lays out nothing
        self._is_steady = self._is_steady or position != self._position
        self._transcript, self._position, self._limit_ns, self._note = transcript, position, limit_ns, note
        if self.choice not in self.choices:
            self.choice = None
        self._lay_out()

    @property
    def choices(self) -> list[int]:
        return [voice.index for voice in self._transcript.voices] if self._transcript is not None else []

    @property
    def can_fold(self) -> bool:
        """True if there is reasoning to fold beside other texts."""
        parts = self._answer.parts if self._answer is not None else []
        return len(parts) > 1 and any(part.kind == "reasoning" for part in parts)

    def choose(self) -> None:
        order = [None, *self.choices]
        self.choice = order[(order.index(self.choice) + 1) % len(order)] if len(order) > 2 else None
        self.rendered = ()
        self._lay_out()

    def move(self, position: int, *, unfold: bool = False) -> None:
        """Move the playhead; `unfold` its place, unless the user has folded it."""
        previous, self._position = self._position, position
        if self._answer is None or previous == position:
            return
        old, self._is_steady = self._row_of(previous), not unfold
        self._request_rendering()
        if unfold and not self._is_fold_chosen and self._answer.hides(position):
            self._fold()
            return
        row = self._row_of(position)
        self.redraw(*self._answer.changed_rows(previous, position), (old, old), (row, row))
        self.reveal(row, 2)

    def _row_of(self, position: int) -> int:
        """Return the row of the playhead: after a jump the words that it is in, else the text that grows."""
        return 0 if self._answer is None else self._answer.row_of(position, steady=self._is_steady)

    def fold(self) -> None:
        self._is_fold_chosen = True
        self._fold()

    def _fold(self) -> None:
        self._is_folded = not self._is_folded
        if self._answer is not None:
            self._answer.fold()
            self._arrange()

    def cycle(self) -> None:
        views = [*VIEWS]
        self.view = views[(views.index(self.view) + 1) % len(views)]
        self.rendered = ()
        self._lay_out()

    def _request_rendering(self) -> None:
        if self.view == "Markdown" and self._rendering is None and self._answer is not None:
            self._rendering = None, -1, self._is_still
            self._render_markdown()

    @work(group="render")
    async def _render_markdown(self) -> None:
        answer, position, is_still = self._rendering = self._answer, self._position, self._is_still
        parts = answer.parts if answer is not None else []
        texts = [(part.track.text, part.track.length(position)) if part.kind == "content" else None for part in parts]
        width = self.size.width - _GUTTER - _MARGIN
        rendered = await in_thread(functools.partial(_render_texts, texts, width, is_entire=is_still))
        if self.view == "Markdown" and self._answer is not None:
            self.rendered = rendered
            self._answer.render(rendered)
            self._arrange()
        await asyncio.sleep(0.25)  # an answer that grows by each chunk would be rendered without a pause
        self._rendering = None
        if (answer, position, is_still) != (self._answer, self._position, self._is_still):
            self._request_rendering()

    def set_still(self, is_still: bool) -> None:
        """Set whether the playhead is still: later text is then shown, and all Markdown rendered."""
        if is_still != self._is_still:
            self._is_still = is_still
            self._request_rendering()
            self.redraw()

    @property
    def _shows_ahead(self) -> bool:
        return self.view != "bare" and self._is_still

    def on_resize(self, event: Resize) -> None:
        self._lay_out()

    def line(self, number: int) -> Iterable[paint.Part]:
        """Draw a line of a text, or its heading."""
        answer = self._answer
        if answer is None or not answer.parts:
            start, end = self._wrapped_note.span(number)
            return [("  ", None), (self._wrapped_note.text[start:end], self.look("muted"))]
        row = answer.row(number)
        if row.part is None:
            return []
        if row.line is None:
            return self._heading(row.part)
        if row.part.rendered is not None:
            return self._markdown_line(row.part.rendered, row.line, number)
        return self._text_line(row.part, row.line, number)

    def _lay_out(self) -> None:
        width = self.size.width - _GUTTER - _MARGIN
        if self._transcript is None or width <= 0:
            return
        self._wrapped_note = WrappedText(safe(self._note, multiline=True), width)
        self._wrapped_note.more(_LINES_AT_ONCE)
        limit = self._limit_ns if self.view == "silences" else None
        self._answer = AnswerLayout(self._transcript, width, limit, folded=self._is_folded, choice=self.choice)
        if self.view == "Markdown":
            self._answer.render(self.rendered)
            self._request_rendering()
        self._arrange()
        self.call_after_refresh(self._extend, self._answer)  # the part in sight is there: it is drawn first

    def _arrange(self) -> None:
        if self._answer is not None:
            self.set_lines(len(self._answer) if self._answer.parts else len(self._wrapped_note))
            self.redraw()
            self.reveal(self._row_of(self._position), 2)

    def _extend(self, answer: AnswerLayout) -> None:
        """Wrap more lines, a few at a time so that keys come between."""
        if answer is self._answer and not answer.done:
            answer.more(_LINES_AT_ONCE)
            self._arrange()
            self.call_later(self._extend, answer)

    def _heading(self, part: AnswerPart) -> Iterator[paint.Part]:
        length, full_length = part.track.length(self._position), len(part.track)
        has_begun = part.began < self._position
        if not has_begun and not self._shows_ahead:
            return
        style, muted = self.look("strong" if has_begun else "ghost"), self.look("muted")
        yield ("▸ " if part.folded else "▾ "), style
        yield part.title, style
        if part.name is not None:
            name = part.name.text[: part.name.length(self._position)] if has_begun else part.name.text
            yield f" {name}", self.look("accent") if has_begun else style
        size = f"{length:,}/{full_length:,}" if length < full_length else f"{full_length:,}"
        yield f"  {size} chars{self._duration(part)}", muted if has_begun else style
        if part.kind == "tool":
            standing = part.standing(self._position)
            yield f"  {standing}", self.look("success" if standing == "complete" else "warning")
        if part.kind == "reasoning":
            yield ("  r: unfold" if part.folded else "  r: fold"), muted

    def _duration(self, part: AnswerPart) -> str:
        events, transcript = part.track.events, self._transcript
        if part.kind != "reasoning" or transcript is None or not len(transcript):
            return ""
        if len(events) == 1:
            return " · 1 delta"
        return f" · {len(events):,} deltas · {(transcript.at[events[-1]] - transcript.at[events[0]]) / 1e9:.2f} s"

    def _text_line(self, part: AnswerPart, line: int, number: int) -> Iterator[paint.Part]:
        runs = list(part.runs(line, self._position))
        has_caret = number == self._row_of(self._position) and self._position > 0
        is_ahead = bool(runs) and all(run.state == "ghost" for run in runs) and not has_caret
        yield ("░ " if is_ahead and self._shows_ahead else "  "), self.look("ghost")
        for run in runs:
            if has_caret and run.state == "ghost":
                has_caret = False
                yield _CARET, self.look("accent")
            if run.state != "ghost" or self._shows_ahead:
                yield run.text, self._run_style(part, run)
        if has_caret:
            yield _CARET, self.look("accent")

    def _markdown_line(self, lines: "list[Line]", line: int, number: int) -> Iterator[paint.Part]:
        yield "  ", None
        for piece in lines[line]:
            yield piece.text, self.look(piece.tone) + piece.style
        if line == len(lines) - 1 and number == self._row_of(self._position):
            yield _CARET, self.look("accent")

    def _run_style(self, part: AnswerPart, run: AnswerRun) -> Style:
        if run.state != "said":
            return self.look("ghost" if run.state == "ghost" else "error")
        plain = self.look("thought" if part.kind == "reasoning" else _KINDS[part.kind])
        if self.view != "heat" or self._transcript is None or run.event is None:
            return plain
        gap = self._transcript.gap_ns(run.event)
        if gap is None or gap < 4 * self._transcript.gap_unit_ns:  # the unit is the stream's median gap
            return plain
        return plain + self.look("hot" if gap >= strips.LEAST_NS else "warm")


def _render_texts(texts: Sequence[tuple[str, int] | None], width: int, *, is_entire: bool) -> "list[list[Line] | None]":
    """Render texts up to a length; None stays None."""
    from wiretape.viewer.text import markdown

    most = markdown.MOST if is_entire else markdown.VISIBLE
    return [None if text is None else markdown.rendered(text[0][: text[1]], width, most) for text in texts]
