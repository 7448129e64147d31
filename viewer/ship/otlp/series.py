"""Pure: cumulative metrics as a series that outlives its process, since its counts are stored.

For a receiver, two points belong to one series if origin and start are the same, and the later replaces the other. So a
process that goes on after a kill counts on in the stored series, and a message that is sent again changes no sum.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from wiretape.viewer.ship.otlp.attributes import Origin
from wiretape.viewer.ship.otlp.histogram import ExponentialHistogram
from wiretape.viewer.stats.conventions import VERSIONS, Conventions, Labels
from wiretape.viewer.stats.dashboard import Figures

_VERSIONS: Final = {conventions.version: conventions for conventions in VERSIONS}


@dataclass(slots=True)
class Series:
    """Counts from `started_ns` on, in ns since the epoch, and their origin, which includes `instance`."""

    instance: str
    origin: Origin
    started_ns: int
    figures: Figures[ExponentialHistogram]


def new(instance: str, origin: Origin, started_ns: int) -> Series:
    """Return a series that has counted nothing."""
    return Series(instance, origin, started_ns, figures(origin.conventions))


def figures(conventions: Conventions) -> Figures[ExponentialHistogram]:
    """Return figures to which exchanges are to be added."""
    return Figures(lambda _: ExponentialHistogram(), conventions)


def encode(series: Sequence[Series]) -> bytes:
    """Return series as JSON."""
    return msgspec.json.encode([_stored(one) for one in series])


def decode(data: bytes) -> list[Series]:
    """Return the series of JSON, without those of another version of wiretape that this one cannot read."""
    try:
        stored = msgspec.json.decode(data, type=list[_Series] | None) or []
    except msgspec.ValidationError:
        return []
    return [_read(one) for one in stored if one.semconv in _VERSIONS]


_Values = tuple[str, ...]


class _Series(msgspec.Struct):
    """A series as JSON has it: metrics by their names, samples as pairs of labels and a value."""

    instance: str
    semconv: str
    resource: bytes
    scope: bytes
    started_ns: int
    outcomes: list[tuple[_Values, int]]
    flags: dict[str, int]
    folded: int
    known: list[tuple[_Values, str]]
    histograms: dict[str, list[tuple[_Values, ExponentialHistogram]]]
    counters: dict[str, list[tuple[_Values, int]]]


def _stored(one: Series) -> _Series:
    counted, origin = one.figures, one.origin
    return _Series(
        instance=one.instance,
        semconv=origin.conventions.version,
        resource=origin.resource.SerializeToString(deterministic=True),
        scope=origin.scope.SerializeToString(deterministic=True),
        started_ns=one.started_ns,
        outcomes=list(counted.outcomes.items()),
        flags=counted.flags,
        folded=counted.folded,
        known=list(counted.known),
        histograms={family.name: list(known.items()) for family, known in counted.histograms.items()},
        counters={family.name: list(known.items()) for family, known in counted.counters.items()},
    )


def _read(stored: _Series) -> Series:
    conventions = _VERSIONS[stored.semconv]
    resource, scope = Resource.FromString(stored.resource), InstrumentationScope.FromString(stored.scope)
    counted = figures(conventions)
    counted.outcomes, counted.flags, counted.folded = (
        Counter(dict(stored.outcomes)),
        Counter(stored.flags),
        stored.folded,
    )
    counted.known = {(Labels(*labels), error) for labels, error in stored.known}
    for family in conventions.families:
        if family.bounds:
            counted.histograms[family] = dict(stored.histograms.get(family.name, ()))
        else:
            counted.counters[family] = Counter(dict(stored.counters.get(family.name, ())))
    return Series(stored.instance, Origin(resource, scope, conventions), stored.started_ns, counted)
