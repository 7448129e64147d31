"""Pure: attributes of spans, metrics and the recorder, by OpenTelemetry's names.

Those for GenAI are of one version of the conventions (`wiretape.viewer.stats.conventions`). Names of wiretape's own
begin with `wiretape.`. An unknown value has no attribute.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple
from urllib.parse import unquote

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from wiretape.recorder.tape.redact import Redactor
from wiretape.viewer.stats import conventions
from wiretape.viewer.stats.conventions import Conventions
from wiretape.viewer.stats.dashboard import label

Value = str | bool | int | float | Sequence[str] | None


class TelemetryOrigin(NamedTuple):
    """The sender of spans and metrics, and the conventions that name them."""

    resource: Resource
    scope: InstrumentationScope
    conventions: Conventions


LABEL: Final = "wiretape.label."
"""Before the name of an exchange's label."""


def pairs(values: Mapping[str, Value]) -> list[KeyValue]:
    """Return attributes, texts as in the labels of dashboards; unknown and empty values are left out."""
    return [
        KeyValue(key=label(key), value=_any_value(value))
        for key, value in values.items()
        if value is not None and (not isinstance(value, Sequence) or len(value) > 0)
    ]


def of_labels(names: Sequence[str], values: Sequence[str]) -> dict[str, Value]:
    """Return the labels of dashboards as attributes: `gen_ai_request_model` is `gen_ai.request.model`."""
    attributes: dict[str, Value] = {}
    for name, value in zip(names, values, strict=True):
        key = name.replace("_", ".").replace("gen.ai.", "gen_ai.")
        attributes[key] = int(value) if key == "server.port" and value.isdecimal() else value
    return attributes


def user_labels(labels: Mapping[str, str]) -> dict[str, Value]:
    """Return the labels that users gave to exchanges, up to a limit."""
    return {LABEL + name: value for name, value in islice(labels.items(), 32)}


def resource(
    environment: Mapping[str, str], labels: Mapping[str, str], *, version: str, host: str, instance: str
) -> Resource:
    """Return the recorder as a resource; `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` come first."""
    defaults: dict[str, Value] = {
        "service.name": "wiretape",
        "service.version": version,
        "service.instance.id": instance,
        "host.name": host,
        **user_labels(labels),
    }
    # A resource is stored with the progress: no credential may be in it.
    chosen = {**defaults, **Redactor(None).labels(parsed(environment.get("OTEL_RESOURCE_ATTRIBUTES", "")))}
    if name := environment.get("OTEL_SERVICE_NAME"):
        chosen["service.name"] = name
    return Resource(attributes=pairs(chosen))


def scope(version: str, conventions: Conventions) -> InstrumentationScope:
    """Return the scope of spans and metrics: this version of wiretape, and the version of the conventions."""
    attributes = pairs({"wiretape.semconv": conventions.version})
    return InstrumentationScope(name="wiretape", version=version, attributes=attributes)


def origin(
    environment: Mapping[str, str], labels: Mapping[str, str], *, version: str, host: str, instance: str
) -> TelemetryOrigin:
    """Return the recorder as an origin, by the conventions that the environment opts in to."""
    chosen = conventions.chosen(environment)
    recorder = resource(environment, labels, version=version, host=host, instance=instance)
    return TelemetryOrigin(recorder, scope(version, chosen), chosen)


def parsed(text: str) -> dict[str, str]:
    """Read `key=value,key=value`, percent-encoded, as OpenTelemetry's variables have it; others are left out."""
    parts = (part.partition("=") for part in text.split(","))
    return {unquote(key.strip()): unquote(value.strip()) for key, equals, value in parts if equals and key.strip()}


def _any_value(value: Value) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=label(value))
    return AnyValue(array_value=ArrayValue(values=[AnyValue(string_value=label(text)) for text in value or ()]))
