"""The line in which a filter is typed: applied a moment after the last key, with what fits counted at its right.

While it is typed, what it may go on with is listed below. A filter that cannot be read, or is not finished, leaves the
last one in force: its token is underlined, and below stands what was expected. Reading a filter is left to
`filtering.parser`, what it may go on with to `filtering.completion`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.highlighter import Highlighter
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, Static

from recorder.sanitize import safe
from viewer.filters.completion import Offer
from viewer.filters.parser import FilterError
from viewer.model import settings
from viewer.model.states import Tone
from viewer.tui.base import paint
from viewer.tui.widgets.completions import Completions

AFTER_SECONDS: Final = 0.12
"""How long after the last key a filter is applied."""


class _Underline(Highlighter):
    """Underlines the token that cannot be read."""

    def __init__(self) -> None:
        self.span: tuple[int, int] | None = None

    def highlight(self, text: Text) -> None:
        if self.span is not None:
            text.stylize("bold underline red", *self.span)


class FilterInput(Input):
    """The box itself: with a history, and without anything that could drive a terminal."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", "complete", key_display="tab", id="filter.complete"),
        Binding("down", "choose(1)", "choose", key_display="↓", tooltip="next completion, or filter", id="filter.next"),
        Binding("up", "choose(-1)", "earlier", key_display="↑", tooltip="choose up, or the filter before",
                id="filter.previous"),
        Binding("enter", "submit", "apply", key_display="enter", tooltip="take the chosen completion, or apply",
                id="filter.apply"),
        Binding("escape", "leave", "to the list", key_display="esc", id="filter.leave"),
    ]  # fmt: skip

    class Left(Message):
        """The box is done with."""

    def __init__(self, completions: Completions, underline: Highlighter) -> None:
        super().__init__(
            placeholder="filter: model:gpt-* ttft>800ms -is:ok",
            highlighter=underline,
            compact=True,
            select_on_focus=False,
        )
        self.offers: Sequence[Offer] = ()
        self._completions = completions
        self._history: list[str] = []
        self._recalled: str | None = None
        self._at = 0
        self._draft = ""
        self.can_focus = False  # or the keys of an empty list would be typed here

    def remember(self, text: str) -> None:
        """Keep a filter for `up`."""
        self._history = settings.with_filters(self._history, text)
        self._at = len(self._history)

    def recall(self, texts: Sequence[str]) -> None:
        """Put filters of earlier runs before those of this one; `up` goes on from where it was."""
        from_end = len(self._history) - self._at
        self._history = settings.with_filters(texts, *self._history)
        self._at = len(self._history) - from_end

    def insert(self, text: str, index: int) -> None:
        """Insert what was typed or pasted, as it may be shown."""
        super().insert(safe(text), index)

    def replace(self, text: str, start: int, end: int) -> None:
        """Put what was typed or pasted in a place, as it may be shown."""
        super().replace(safe(text), start, end)

    def take(self, at: int) -> None:
        """Take over what is offered at a place of the list, if anything is."""
        if at < len(self.offers):
            self._put(safe(self.offers[at].whole))

    def action_choose(self, by: int) -> None:
        """Choose a completion; above the first, and where a filter from before stands, go through those filters."""
        is_recalled = self.value == self._recalled and self._at < len(self._history)
        if is_recalled or (by < 0 and self._completions.chosen is None):
            self._recall(by)
        else:
            self._completions.move(by)

    def _recall(self, step: int) -> None:
        """Put the filter before or after in its place."""
        if self.value != self._recalled:
            self._at = len(self._history)
        if self._at == len(self._history):
            self._draft = "" if self.value in self._history else self.value
        self._at = max(0, min(self._at + step, len(self._history)))
        self._put(safe(self._history[self._at]) if self._at < len(self._history) else self._draft)
        self._recalled = self.value

    def _put(self, text: str) -> None:
        self.value = text
        self.cursor_position = len(text)

    def action_complete(self) -> None:
        """Take over the chosen completion, or the first."""
        self.take(self._completions.chosen or 0)

    async def action_submit(self) -> None:
        """Take over the chosen completion; if none is, apply the filter."""
        if self._completions.chosen is None:
            await super().action_submit()
        else:
            self.take(self._completions.chosen)

    def action_leave(self) -> None:
        """Be done with the box."""
        self.post_message(self.Left())


class FilterLine(Vertical):
    """The filter's box, with a count at its right and an error below."""

    DEFAULT_CSS = """
    FilterLine {
        height: auto; background: $boost;
        & > Horizontal { height: 1; }
        & .prompt { width: 3; color: $text-accent; text-style: bold; }
        & FilterInput { width: 1fr; height: 1; background: transparent; }
        & .count { width: auto; padding: 0 1; color: $text-muted; }
        & > .wrong { display: none; height: auto; max-height: 7; padding: 0 3; color: $text-error; }
        &.-wrong > .wrong { display: block; }
        & > Completions { display: none; }
        &.-typing > Completions { display: block; }
        &.-typing > .wrong { display: none; }
        &.-off FilterInput { text-style: strike; color: $text-muted; }
    }
    """

    @dataclass
    class Edited(Message):
        """The filter is to be applied."""

        text: str

    @dataclass
    class Remembered(Message):
        """A filter is one to come back to."""

        text: str

    class Clicked(Message):
        """The box is wanted."""

    class Left(Message):
        """The keys belong to the list again."""

    def __init__(
        self, text: str, offer: Callable[[str], Sequence[tuple[Offer, str]]], is_unfinished: Callable[[str], bool]
    ) -> None:
        """Take the filter to begin with; `offer` returns the ways to go on, each with a note on it."""
        super().__init__()
        self._offer, self._is_unfinished = offer, is_unfinished
        self._underline = _Underline()
        self._completions = Completions()
        self.box = FilterInput(self._completions, self._underline)
        self._count = Static("", classes="count")
        self._counted = Content("")
        self._wrong = Static("", classes="wrong")
        self._timer: Timer | None = None
        self._applied = safe(text)

    def on_mount(self) -> None:
        """Show the filter that is in force from the start."""
        self.box.value = self._applied
        self.box.remember(self._applied)

    def compose(self) -> ComposeResult:
        """Lay out the prompt, the box and the count; below, the completions or the error."""
        with Horizontal():
            yield Static(" / ", classes="prompt")
            yield self.box
            yield self._count
        yield self._completions
        yield self._wrong

    def enter(self) -> None:
        """Give the keys to the box."""
        self.box.can_focus = True
        self.box.focus()
        self.add_class("-typing")
        self.complete()

    def complete(self) -> None:
        """List what the filter may go on with."""
        if self.is_entered:
            found = self._offer(self.box.value)
            self.box.offers = [offer for offer, _ in found]
            self._completions.show([(safe(offer.text), safe(note)) for offer, note in found])

    @property
    def is_entered(self) -> bool:
        """Whether the keys are the box's."""
        return self.has_class("-typing")

    def on_click(self) -> None:
        """Ask for the keys."""
        self.post_message(self.Clicked())

    def put(self, text: str) -> None:
        """Put a filter into the box, and apply it at once, even if it is there already."""
        self._stop()
        self._applied = self.box.value = safe(text)
        self.box.remember(text)
        self.post_message(self.Edited(self._applied))

    @property
    def is_typing(self) -> bool:
        """Whether what stands in the box has yet to be applied."""
        return self.box.value != self._applied

    def show_count(self, count: Content) -> None:
        """Show what fits, at the right."""
        if count != self._counted:
            self._counted = count
            self._count.update(count)  # which lays the whole screen out

    def show_error(self, error: FilterError | None) -> None:
        """Underline what cannot be read, and say what was expected; None takes that away."""
        self._underline.span = None
        if error is not None:
            self._underline.span = (error.position, error.position + max(len(error.token), 1))
            self._wrong.update(paint.content(str(error)))
        tone: Tone = "muted" if self.box.offers else "error"  # where there are ways to go on, it is only unfinished
        self._completions.say(safe(str(error)) if error is not None else "", tone)
        self.set_class(error is not None, "-wrong")
        self.box.refresh()

    def show_on(self, on: bool) -> None:
        """Show whether the filter is in force."""
        self.set_class(not on, "-off")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Apply the filter a moment after the last key."""
        event.stop()
        self._stop()
        self._timer = self.set_timer(AFTER_SECONDS, self._apply_finished)
        self.complete()
        if self.is_typing:
            self.show_count(paint.content("…"))  # what is counted is of another filter

    def on_completions_taken(self, event: Completions.Taken) -> None:
        """Take over what was clicked."""
        event.stop()
        self.box.take(event.at)
        self.box.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Apply the filter at once, and go back to the list."""
        event.stop()
        self.leave()

    def on_filter_input_left(self, event: FilterInput.Left) -> None:
        """Go back to the list."""
        event.stop()
        self.leave()

    def recall(self, texts: Sequence[str]) -> None:
        """Have filters of earlier runs at hand."""
        self.box.recall(texts)

    def leave(self) -> None:
        """Apply the filter as it stands, and give the keys back to the list."""
        self.box.remember(self.box.value)
        if self.box.value.strip():
            self.post_message(self.Remembered(self.box.value))
        self._apply()
        self.remove_class("-typing")
        self.box.can_focus = False
        self.post_message(self.Left())

    def _apply_finished(self) -> None:
        """Apply the filter, unless more of it has to come: what was found before stays in sight until then."""
        if self.is_entered and self.is_typing and self._is_unfinished(self.box.value):
            self.show_error(None)
            self._completions.say("unfinished: enter applies it as it stands")
        else:
            self._apply()

    def _apply(self) -> None:
        self._stop()
        if self.box.value != self._applied:
            self._applied = self.box.value
            self.post_message(self.Edited(self._applied))

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
