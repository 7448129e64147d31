"""Pure: the query of a list: which exchanges, and in which order."""

from dataclasses import dataclass, replace
from typing import Final

from wiretape.viewer.query.syntax import Filter

_BY_TIME: Final = ("started_at", True)


@dataclass(frozen=True, slots=True)
class Query:
    """The list's query: a filter, and an order (a field, and whether the largest come first).

    Without a filter that is everything, without an order the newest first. `text` is the filter as people wrote it,
    with its times absolute.
    """

    filter: Filter | None = None
    order: tuple[str, bool] | None = None
    text: str = ""

    def by(self, field: str) -> "Query":
        """Return the same in the order of a field; where that is its order already, the other way round."""
        now = self.order or _BY_TIME
        ascending_fields = {"model", "upstream", "path", "outcome", "flags", "status"}
        order = (field, not now[1] if field == now[0] else field not in ascending_fields)
        return replace(self, order=None if order == _BY_TIME else order)

    @property
    def settles(self) -> bool:
        """True if an exchange's place is only known when it has ended."""
        return self.order is not None and self.order[0] not in {"started_at", "upstream", "path"}

    def reversed(self) -> "Query":
        return self.by((self.order or _BY_TIME)[0])

    @property
    def arguments(self) -> list[str]:
        """The options of a command that select the same exchanges."""
        return [] if self.filter is None else ["-f", self.text]

    @property
    def order_arguments(self) -> list[str]:
        """The options of `ls` for the same order."""
        if self.order is None:
            return []
        field, largest_first = self.order
        return ["-s", f"{'-' if largest_first else ''}{field}"]
