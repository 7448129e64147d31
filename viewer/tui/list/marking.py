"""The marks of a list and the cursor's exchange: kept by number, which means another one on another tape."""

from collections.abc import Callable, Mapping

from viewer.model.listing.catalog import Marks
from viewer.rows import Row
from viewer.tui.list.rows import StreamRows


class Marking:
    """What is marked in a list, shown in its rows."""

    def __init__(self, rows: StreamRows, tell: Callable[[str], object]) -> None:
        self.marks = Marks()
        self._rows = rows
        self._tell = tell

    @property
    def row(self) -> Row | None:
        """The row under the cursor, if it has been read."""
        catalog = self._rows.catalog
        return catalog.row(self._rows.cursor) if catalog else None

    @property
    def known(self) -> dict[int, str]:
        """The ids of what is marked and of what is under the cursor, by number."""
        row = self.row
        return self.marks.ids | ({} if row is None else {row["no"]: row["id"]})

    def toggle(self) -> None:
        """Mark the exchange under the cursor, or take its mark away, and go on to the next."""
        if (row := self.row) is not None:
            self.marks.toggle(row["no"], row["id"])
            self.show()
            self._rows.action_move(1)

    def clear(self) -> None:
        """Take all marks away."""
        self.marks.clear()
        self.show()

    def show(self) -> None:
        """Draw the marks."""
        self._rows.marks = frozenset(self.marks)
        self._rows.redraw()

    def check(self, known: Mapping[int, str], ids: Mapping[int, str]) -> None:
        """Forget what was `known` and is another exchange now, or none, by the ids on the tape; marks: say so."""
        selected = self._rows.selected
        if selected is not None and selected in known and ids.get(selected) != known[selected]:
            self._rows.selected = None
        if lost := self.marks.check(ids):
            self._rows.marks = frozenset(self.marks)
            what = "1 marked exchange is" if lost == 1 else f"{lost} marked exchanges are"
            self._tell(f"{what} not on this tape: no mark is left there")
