"""The questions of the stats screen, answered in the tape's thread: what takes long to load is loaded there."""

from typing import TYPE_CHECKING, TypeAlias

from viewer.rows import Row
from viewer.stats.heatmap import Heatmap

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

    from viewer.stats.overview import Failures


Groups: TypeAlias = tuple[list[Row], Row | None]
"""The figures of each group, and those of all together."""


class Figures:
    """What is asked of what a filter selects; "" selects everything."""

    def __init__(self, connection: "Connection", filter_text: str) -> None:
        self._connection = connection
        self._filter_text = filter_text

    def figures(self, by: str, slo: str | None) -> Groups:
        """Give all figures but those of pooled gaps."""
        return self._figures(by, slo, gaps=False)

    def failures(self) -> "tuple[list[Failures], list[str]]":
        """Give the failures, and the labels that there are."""
        from viewer.stats import overview

        where = self._where()
        return overview.failures(self._connection, where), overview.label_keys(self._connection, where)

    def pooled(self, by: str, slo: str | None) -> Groups | None:
        """Give all figures; None if there are too many gaps to hold."""
        from viewer.stats import overview

        many = overview.pooled(self._connection, self._where()) > overview.MOST_GAPS
        return None if many else self._figures(by, slo, gaps=True)

    def heat(self, metric: str, room: tuple[int, int]) -> Heatmap | None:
        """Give the map."""
        from viewer.stats import overview

        return overview.heat(self._connection, metric, room, self._where())

    def _figures(self, by: str, slo: str | None, *, gaps: bool) -> Groups:
        from viewer.stats import overview
        from viewer.stats.metrics import objective

        bounds = objective(slo) if slo else ()
        return overview.figures_and_total(self._connection, by, self._where(), bounds, gaps=gaps)

    def _where(self) -> "ColumnElement[bool] | None":
        from viewer.filters import sql
        from viewer.filters.parser import parse

        return sql.condition(parse(self._filter_text)) if self._filter_text else None
