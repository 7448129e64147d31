"""Lines that were made elsewhere, wrapped to the pane: the request, the timing, the notes."""

from collections.abc import Callable, Iterable, Sequence

from recorder.sanitize import safe
from viewer.model.states import Tone
from viewer.model.text.wrap import WrappedText
from viewer.tui.base.paint import Part
from viewer.tui.widgets.pane import Pane

Line = Sequence[tuple[str, Tone]]
"""A line's pieces and their tones."""

_MOST_LINES = 200_000


class PagePane(Pane):
    """Shows lines; the last of a line's pieces goes on in the lines below it, where it is too long for one."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._made: Callable[[int], Iterable[Line]] = lambda _: ()
        self._rows: list[tuple[Line, str, Tone]] = []

    def show(self, made: Callable[[int], Iterable[Line]]) -> None:
        """Show what `made` gives for the width of the pane."""
        self._made = made
        self._lay_out()

    def on_resize(self) -> None:
        """Wrap anew."""
        self._lay_out()

    def line(self, number: int) -> Iterable[Part]:
        """Draw a row."""
        head, text, tone = self._rows[number]
        return [(" ", None), *((piece, self.look(of)) for piece, of in head), (text, self.look(tone))]

    def _lay_out(self) -> None:
        width = self.size.width - 3
        if width <= 0:
            return
        self._rows = []
        for line in self._made(width):
            self._rows += _wrapped(line, width)
            if len(self._rows) > _MOST_LINES:
                break
        self.set_count(len(self._rows))
        self.redraw()


def _wrapped(line: Line, width: int) -> list[tuple[Line, str, Tone]]:
    if not line:
        return [((), "", "plain")]
    head, (text, tone) = line[:-1], line[-1]
    taken = sum(len(piece) for piece, _ in head)
    wrapped = WrappedText(safe(text.expandtabs(4), multiline=True), max(width - taken, 20))
    wrapped.more(_MOST_LINES)
    blank: Line = [(" " * taken, "plain")] if taken else ()
    spans = (wrapped.span(number) for number in range(len(wrapped)))
    return [(blank if number else head, wrapped.text[start:end], tone) for number, (start, end) in enumerate(spans)]
