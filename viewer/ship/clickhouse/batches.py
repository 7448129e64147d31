"""Rows of the tape as rows of the server's tables, in RowBinary. Pure.

The same rows always make the same bytes, which depend on nothing else: a server recognises a repeated batch.
"""

import calendar
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from wiretape.recorder.destinations import TENANT
from wiretape.viewer.ship.clickhouse import rowbinary
from wiretape.viewer.ship.sink import ShippedLabels
from wiretape.viewer.source.clickhouse import tables
from wiretape.viewer.source.clickhouse.tables import EngineColumn, EngineTable

_LAST_SECOND: Final = (1 << 32) - 1

Values = Sequence[Any]


class Encoder:
    """Encodes data of the tape as rows of one table: the values of `sources`, in their order."""

    def __init__(self, table: EngineTable, origin: ShippedLabels) -> None:
        self.table = table
        self.origin = origin
        named = {column.name: column.source for column in table.columns if column.source is not None}
        self.sources = tuple(named.values())
        self._places = {name: place for place, name in enumerate(named)}
        self._encoders = [(column, rowbinary.encoder(column.type)) for column in table.columns]

    def encode(
        self,
        rows: Sequence[Values],
        labels: Sequence[Mapping[str, str]] = (),
        added: Mapping[str, object] = MappingProxyType({}),
    ) -> bytes:
        """Return rows as the server reads them; `labels` are those of each, `added` are columns that all share."""
        if not rows:
            return b""
        columns = [*zip(*rows, strict=True)]
        whose = {TENANT: self.origin.tenant} if self.origin.tenant else {}  # which no client can say
        merged = [[*{**self.origin.labels, **own, **whose}.items()] for own in labels]
        shared = {"tenant": self.origin.tenant, "host": self.origin.host, **added}
        return rowbinary.rows(
            encode(
                [shared[column.name]] * len(rows) if column.name in shared else self._values(column, columns, merged)
            )
            for column, encode in self._encoders
        )

    def _values(
        self, column: EngineColumn, columns: Sequence[Values], labels: Sequence[list[tuple[str, str]]]
    ) -> Values:
        match column.name:
            case "started":
                return [*map(second, columns[self._places["started_at"]])]
            case "label_names" | "label_values":
                return [[pair[column.name == "label_values"] for pair in pairs] for pairs in labels]
        values = columns[self._places[column.name]]
        return _PREPARED[column.type](values) if column.type in _PREPARED else values


def second(moment: str) -> int:
    """Return a timestamp of the tape in whole seconds since 1970, within the limits of the engine's clock."""
    return min(max(calendar.timegm(datetime.fromisoformat(moment).utctimetuple()), 0), _LAST_SECOND)


def _packed(values: Values) -> Values:
    return [value or b"" for value in values]


def _listed(values: Values) -> Values:
    return [value or [] for value in values]  # null, where nobody knows the times, has none


_PREPARED: Final[Mapping[str, Callable[[Values], Values]]] = {
    tables.GAPS: _packed,
    tables.COUNTS: _packed,
    tables.PLACES: _listed,
}
