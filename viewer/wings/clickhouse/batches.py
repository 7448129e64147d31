"""Pure: the tape's rows as columns of the server's tables.

Texts are bytes: a lone surrogate becomes a question mark, all else is sent as it is.
"""

import calendar
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from wiretape.recorder.destinations import TENANT
from wiretape.viewer.wings.clickhouse import tables
from wiretape.viewer.wings.clickhouse.tables import EngineColumn, EngineTable

_LAST_SECOND: Final = (1 << 32) - 1

Values = Sequence[Any]


@dataclass(frozen=True, slots=True)
class ShippedLabels:
    """Additions of shipping to each exchange: the host, and labels; an exchange's own stand, but for the tenant."""

    host: str
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def tenant(self) -> str:
        """The tenant of the exchanges, "" without one."""
        return self.labels.get(TENANT, "")


class RowEncoder:
    """Encodes data of the tape as columns of one table: the values of `sources`, in their order."""

    def __init__(self, table: EngineTable, origin: ShippedLabels) -> None:
        self.table = table
        self.origin = origin
        self.types = {column.name: column.type for column in table.columns}
        named = {column.name: column.source for column in table.columns if column.source is not None}
        self.sources = tuple(named.values())
        self._places = {name: place for place, name in enumerate(named)}

    def columns(
        self,
        rows: Sequence[Values],
        labels: Sequence[Mapping[str, str]] = (),
        added: Mapping[str, object] = MappingProxyType({}),
    ) -> list[Values]:
        """Return rows by column; `labels` are those of each row, `added` are columns that all share."""
        values = [*zip(*rows, strict=True)]
        whose = {TENANT: self.origin.tenant} if self.origin.tenant else {}  # which no client can say
        merged = [{**self.origin.labels, **own, **whose} for own in labels]
        shared = {"tenant": self.origin.tenant, "host": self.origin.host, **added}
        return [
            [*map(_converter(column), self._values(column, values, merged, shared, len(rows)))]
            for column in self.table.columns
        ]

    def _values(
        self,
        column: EngineColumn,
        values: Sequence[Values],
        labels: Sequence[Mapping[str, str]],
        shared: Mapping[str, object],
        count: int,
    ) -> Values:
        if column.name in shared:
            return [shared[column.name]] * count
        match column.name:
            case "started":
                return [*map(second, values[self._places["started_at"]])]
            case "label_names":
                return [[*pairs] for pairs in labels]
            case "label_values":
                return [[*pairs.values()] for pairs in labels]
        return values[self._places[column.name]]


def second(moment: str) -> int:
    """Return a timestamp of the tape in whole seconds since 1970, within the limits of the engine's clock."""
    return min(max(calendar.timegm(datetime.fromisoformat(moment).utctimetuple()), 0), _LAST_SECOND)


def size(rows: Sequence[Values]) -> int:
    """Return about how many bytes the long values of rows take."""
    return sum(len(value) for row in rows for value in row if isinstance(value, str | bytes | list))


def _converter(column: EngineColumn) -> Callable[[Any], Any]:
    """Return the converter of a column's values to those that the client takes."""
    match column.type:
        case tables.GAPS:
            return lambda packed: memoryview(packed or b"").cast("q").tolist()
        case tables.COUNTS:
            return lambda packed: memoryview(packed or b"").cast("I").tolist()
        case tables.PLACES:
            return lambda places: places or []  # null, where nobody knows the times, has none
        case tables.TEXTS:
            return lambda texts: [*map(_text, texts)]
        case "String" | "Nullable(String)":
            return _text
    return lambda value: value


def _text(value: str | bytes | None) -> bytes | None:
    return value.encode("utf-8", "replace") if isinstance(value, str) else value
