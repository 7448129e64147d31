"""The line in which a filter is typed: applied a moment after the last key, with the number of matches at its right.

While it is typed, completions are listed below. A filter that cannot be parsed, or is not finished, leaves the last one
in force: its token is underlined, and the expected syntax stands below. Filters of earlier runs are kept in a file,
which is read and written beside the loop.
"""

import asyncio
import errno
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from rich.highlighter import Highlighter
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import Input, Static
from textual.worker import Worker

from wiretape.recorder import paths
from wiretape.recorder.clock import Clock
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.sanitize import safe
from wiretape.viewer import outfile
from wiretape.viewer.listing import drilling
from wiretape.viewer.listing.query import Query
from wiretape.viewer.query import completion, parser
from wiretape.viewer.query.completion import Offer, Vocabulary
from wiretape.viewer.query.operators import symbol
from wiretape.viewer.query.parser import FilterError
from wiretape.viewer.query.syntax import Filter
from wiretape.viewer.text import cells
from wiretape.viewer.text.cells import Part, Tone
from wiretape.viewer.tui import bindings
from wiretape.viewer.tui.base import paint, theme
from wiretape.viewer.tui.widgets.cursor import Toned

MOST_FILTERS: Final = 200
"""Number of filters that are kept, the newest ones."""

_LONGEST_FILTER: Final = 4000
"""A longer one is not kept."""


_REGEX_SYMBOL: Final = symbol("regex")


class FilterLine(Vertical):
    """The filter's box, with a count at its right, and completions or an error below.

    `text` is the last filter that could be parsed, `is_wrong` says that the one typed cannot.
    """

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
        """The filter is to be applied, or switched off."""

        text: str
        is_on: bool = True

    class FilterLeft(Message):
        """The keys belong to the list again."""

    def __init__(self, text: str, vocabulary: Callable[[], Vocabulary]) -> None:
        super().__init__()
        self.text = text
        self.is_on = True
        self.is_wrong = False
        self.box = FilterInput()
        self._vocabulary = vocabulary
        self._filter: Filter | None = None
        self._settled = ""
        self._count, self._counted = Static("", classes="count"), Content("")
        self._wrong = Static("", classes="wrong")
        self._timer: Timer | None = None
        self._applied = safe(text)  # as the box has it, which takes no control characters
        self._previous = text, True
        self._has_failed = False

    def compose(self) -> ComposeResult:
        """Lay out the prompt, the box and the count; below, the completions or the error."""
        with Horizontal():
            yield Static(" / ", classes="prompt")
            yield self.box
            yield self._count
        yield self.box.completions
        yield self._wrong

    def on_mount(self) -> None:
        self.box.value = self._applied
        self.box.remember(self._applied)

    @property
    def text_in_force(self) -> str:
        """The filter in force, as it was typed; empty selects everything."""
        return self.text if self.is_on else ""

    @property
    def is_entered(self) -> bool:
        return self.has_class("-typing")

    @property
    def is_typing(self) -> bool:
        """True if the text in the box has yet to be applied."""
        return self.box.value != self._applied

    @property
    def is_refused(self) -> bool:
        """True if the box has a text that cannot be parsed; the filter before it is still in force."""
        return self.is_wrong and self.box.value != safe(self.text)

    def applied(self, query: Query) -> Query:
        """Return a query with the part of this filter that is in force."""
        filter = self._filter if self.is_on else None
        return replace(query, filter=filter, text="" if filter is None else self._settled)

    def parse(self, text: str, clock: Clock) -> bool:
        """Parse a filter, with its times counted from now; show an error and return False if it is invalid."""
        wall_ns = clock.wall_ns()
        still = Clock(clock.now, lambda: wall_ns)  # both parts below count times such as -2h from one instant
        try:
            filter = parser.parse(text, still) if text.strip() else None
            self._settled = drilling.settled(text, still)
        except FilterError as error:
            self._show_error(error)
            return False
        self._show_error(None)
        self.text, self._filter = text, filter
        self.set_class(not self.is_on, "-off")
        return True

    def reject(self, error: WiretapeError) -> None:
        """Drop a filter that can be parsed and yet not be evaluated: its regular expression, if it has one."""
        self._filter = None
        at = self.text.find(_REGEX_SYMBOL)
        self._show_error(FilterError(_REGEX_SYMBOL if at >= 0 else self.text, max(at, 0), str(error)))

    def put(self, text: str) -> None:
        self._stop()
        self._applied = self.box.value = safe(text)
        self.box.remember(text)
        self.post_message(self.Edited(self._applied))

    def enter(self) -> None:
        """Focus the box, and list completions."""
        self._previous = self.text, self.is_on
        self.box.can_focus = True
        self.box.focus()
        self.add_class("-typing")
        self.complete()
        self.recall()

    def leave(self) -> None:
        self.box.remember(self.box.value)
        if self.box.value.strip():
            _: Worker[None] = self.run_worker(partial(self._keep, self.box.value), group="history")
        self._apply()
        self._leave()

    def abandon(self) -> None:
        """Leave the box, and the filter as it was when the box was entered."""
        text, is_on = self._previous
        self._stop()
        self._applied = self.box.value = safe(text)
        self._show_error(None)
        if self._previous != (self.text, self.is_on):
            self.post_message(self.Edited(text, is_on))
        self._leave()

    def _leave(self) -> None:
        self.remove_class("-typing")
        self.box.can_focus = False
        self.post_message(self.FilterLeft())

    def complete(self) -> None:
        """List the completions of the filter."""
        if self.is_entered:
            vocabulary = self._vocabulary()
            self.box.offers = completion.offers(self.box.value, vocabulary.values)
            self.box.completions.show(
                [(safe(offer.text), safe(vocabulary.meanings.get(offer.field, ""))) for offer in self.box.offers]
            )

    def show_count(self, count: Content) -> None:
        if count != self._counted:
            self._counted = count
            self._count.update(count)  # which lays the whole screen out

    async def on_click(self) -> None:
        """Enter the box."""
        await self.run_action("screen.filter")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Apply the filter a moment after the last key."""
        event.stop()
        self._stop()
        self._timer = self.set_timer(0.12, self._apply_finished)
        self.complete()
        if self.is_typing:
            self.show_count(paint.content("…"))  # the count is of another filter

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.leave()

    def on_completions_completion_chosen(self, event: "Completions.CompletionChosen") -> None:
        event.stop()
        self.box.take(event.number)
        self.box.focus()

    def recall(self) -> None:
        _: Worker[None] = self.run_worker(self._recall, group="history")

    async def _recall(self) -> None:
        try:
            self.box.recall(await asyncio.to_thread(read_history, history_file()))
        except (OSError, ValueError) as error:
            self._report("The filters of earlier runs cannot be read", error)

    async def _keep(self, text: str) -> None:
        try:
            await asyncio.to_thread(add_filters, history_file(), text)
        except OSError as error:
            self._report("Filters cannot be kept for later runs", error)

    def _report(self, trouble: str, error: Exception) -> None:
        """Show the first trouble with the file; a list without it is no worse."""
        place = f" ({error.filename})" if isinstance(error, OSError) and error.filename else ""
        reason = (isinstance(error, OSError) and error.strerror) or error
        if not self._has_failed:
            self.notify(safe(f"{trouble}: {reason}{place}"), markup=False)
        self._has_failed = True

    def _show_error(self, error: FilterError | None) -> None:
        """Underline the token that cannot be parsed, and show the expected syntax; None removes that."""
        self.is_wrong = error is not None
        self.box.underline.span = None
        if error is not None:
            self.box.underline.color = self.app.theme_variables["text-error"]
            self.box.underline.span = (error.position, error.position + max(len(error.token), 1))
            self._wrong.update(paint.content(str(error)))
        tone: Tone = "muted" if self.box.offers else "error"  # where there are completions, it is only unfinished
        self.box.completions.head(safe(str(error)) if error is not None else "", tone)
        self.set_class(self.is_wrong, "-wrong")
        self.box.refresh()

    def _apply_finished(self) -> None:
        """Apply the filter, unless more of it has to come: the last one stays in force until then."""
        if self.is_entered and self.is_typing and completion.is_unfinished(self.box.value, self._vocabulary().values):
            self._show_error(None)
            self.box.completions.head("unfinished: enter applies it as it stands")
        else:
            self._apply()

    def _apply(self) -> None:
        self._stop()
        if self.is_typing:
            self._applied = self.box.value
            self.post_message(self.Edited(self._applied))

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None


class _Underline(Highlighter):
    """Underlines the token that cannot be parsed."""

    span: tuple[int, int] | None = None
    color = ""

    def highlight(self, text: Text) -> None:
        if self.span is not None:
            text.stylize(f"bold underline {self.color}", *self.span)


class FilterInput(Input):
    """The box: with a history, and without anything that could drive a terminal."""

    BINDINGS: ClassVar[list[BindingType]] = bindings.of(*bindings.FILTER_LINE)

    def __init__(self) -> None:
        underline = _Underline()
        super().__init__(
            placeholder="filter, e.g. model:gpt-* ttft>800ms -is:ok",
            highlighter=underline,
            compact=True,
            select_on_focus=False,
        )
        self.underline = underline
        self.offers: Sequence[Offer] = ()
        self.completions = Completions()
        self.history: list[str] = []
        self._recalled: str | None = None
        self._history_at = 0
        self._draft = ""
        self.can_focus = False  # or the keys of an empty list would be typed here

    def remember(self, text: str) -> None:
        self.history = with_filters(self.history, text)
        self._history_at = len(self.history)

    def recall(self, texts: Sequence[str]) -> None:
        """Put filters of earlier runs before those of this one; `up` goes on from where it was."""
        from_end = len(self.history) - self._history_at
        self.history = with_filters(texts, *self.history)
        self._history_at = len(self.history) - from_end

    def insert(self, text: str, index: int) -> None:
        super().insert(safe(text), index)

    def replace(self, text: str, start: int, end: int) -> None:
        super().replace(safe(text), start, end)

    def take(self, number: int) -> None:
        """Complete the filter by the offer with a number, if there is one."""
        if number < len(self.offers):
            self._put(safe(self.offers[number].filter_text))

    def action_choose(self, by: int) -> None:
        """Move among the completions; above the first of them, and from an earlier filter on, through the history.

        Below the newest earlier filter stands the draft: the text from before going into the history.
        """
        is_recalled = self.value == self._recalled and self._history_at < len(self.history)
        if is_recalled or (by < 0 and self.completions.chosen is None):
            if self.value != self._recalled:
                self._history_at = len(self.history)
            if self._history_at == len(self.history):
                self._draft = "" if self.value in self.history else self.value
            self._history_at = max(0, min(self._history_at + by, len(self.history)))
            self._put(safe(self.history[self._history_at]) if self._history_at < len(self.history) else self._draft)
            self._recalled = self.value
        else:
            self.completions.move(by)

    def action_complete(self) -> None:
        self.take(self.completions.chosen or 0)

    async def action_submit(self) -> None:
        if self.completions.chosen is None:
            await super().action_submit()
        else:
            self.take(self.completions.chosen)

    def action_abandon(self) -> None:
        if self.completions.chosen is not None:
            self.completions.move(-1 - self.completions.chosen)
        else:
            self.query_ancestor(FilterLine).abandon()

    def _put(self, text: str) -> None:
        self.value = text
        self.cursor_position = len(text)


class Completions(Toned):
    """Lists texts, each with a note, below a heading; none is chosen until the cursor moves."""

    DEFAULT_CSS = """
    Completions {
        height: 7; background: $surface;
        & > .completions--chosen { background: $primary-muted; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"completions--chosen"}

    @dataclass
    class CompletionChosen(Message):
        """A text was clicked."""

        number: int

    def __init__(self) -> None:
        super().__init__()
        self._texts: Sequence[tuple[str, str]] = ()
        self._head: Part = ("", "plain")
        self.chosen: int | None = None

    def show(self, texts: Sequence[tuple[str, str]]) -> None:
        self._texts, self.chosen = texts, None
        self.refresh()

    def head(self, text: str, tone: Tone = "muted") -> None:
        self._head = text, tone
        self.refresh()

    def move(self, by: int) -> None:
        number = (-1 if self.chosen is None else self.chosen) + by
        self.chosen = None if number < 0 or not self._texts else min(number, len(self._texts) - 1)
        self.refresh()

    def on_click(self, event: Click) -> None:
        number = self._top + event.y - 1
        if event.y and number < len(self._texts):
            self.post_message(self.CompletionChosen(number))

    def render_line(self, y: int) -> Strip:
        """Draw the head with the range of texts in sight, if not all are; or a text with its note."""
        number, room, count = self._top + y - 1, self.size.height - 1, len(self._texts)
        if y == 0:
            counted = f"{'  ' if self._head[0] else ''}{self._top + 1}–{self._top + room} of {count}"
            return self._line([self._head, (counted if count > room else "", "muted")])
        if number >= count:
            return self.draw([])
        wide = min(max(len(text) for text, _ in self._texts), 40)
        text, note = self._texts[number]
        parts: list[Part] = [(f"{cells.cut(text, wide):<{wide}}", "accent"), (f"  {note}", "muted")]
        return self._line(parts, chosen=number == self.chosen)

    def _line(self, parts: Sequence[Part], *, chosen: bool = False) -> Strip:
        laid_out = cells.laid_out([("   ", "plain"), *parts], self.size.width, right=False)
        return self.draw(laid_out, theme.style(self, "completions--chosen") if chosen else None)

    @property
    def _top(self) -> int:
        """The text that stands first: as many are left out above as the chosen one needs."""
        return max(0, (self.chosen or 0) - max(self.size.height - 2, 0))


def history_file() -> Path:
    """Return the path of the history, in the user's state directory; neither need exist. Raises `OSError`."""
    directory = paths.of_user("state")
    if directory is None:
        raise FileNotFoundError(errno.ENOENT, paths.NO_HOME)
    return directory / "filters.json"


def read_history(path: Path) -> list[str]:
    """Return the filters, the newest last; none if there is no file.

    Raises `OSError`, or `ValueError` where the file is broken: others may have written to it.
    """
    try:
        with path.open("rb") as file:
            # Other programs may have written to the file: it is not read without a limit.
            filters = json.loads(file.read(MOST_FILTERS * 8 * _LONGEST_FILTER))
    except FileNotFoundError:
        return []
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(filters, list):
        raise ValueError("no list of filters")
    return [text for text in filters if isinstance(text, str) and 0 < len(text) <= _LONGEST_FILTER][-MOST_FILTERS:]


def with_filters(history: Sequence[str], *texts: str) -> list[str]:
    """Return a history with filters added at the end, each once; an empty one is left out."""
    new = [text for text in dict.fromkeys(reversed(texts)) if text.strip() and len(text) <= _LONGEST_FILTER][::-1]
    return [*(text for text in history if text not in new), *new][-MOST_FILTERS:]


def add_filters(path: Path, text: str) -> None:
    """Add a filter to the history, which is made where there is none, or a broken one. Raises `OSError`."""
    try:
        history = read_history(path)
    except ValueError:  # `read_history` reports it
        history = []
    if (filters := with_filters(history, text)) != history:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        outfile.replace_private(path, json.dumps(filters, indent=0).encode())
