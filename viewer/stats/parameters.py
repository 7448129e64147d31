"""Pure: the parameters of requests under the names of OpenTelemetry's conventions, for all APIs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, Literal

from wiretape.recorder.decode.request import parse

OutputType = Literal["text", "json", "image", "speech"]

MOST_STOPS: Final = 16
"""Limit of the stop sequences of a request."""

_HOLDERS: Final = (
    "generationConfig", "generation_config", "inferenceConfig", "parameters", "options", "textGenerationConfig",
)  # fmt: skip
"""The fields of a request that hold its parameters in APIs that do not put them at the top."""
_MAX_TOKENS: Final = (
    "max_completion_tokens", "max_output_tokens", "max_tokens", "maxOutputTokens", "maxTokens", "max_new_tokens",
    "max_tokens_to_sample", "num_predict", "n_predict", "maxTokenCount",
)  # fmt: skip
_FORMATS: Final = ("response_format", "output_format", "format", "text", "output_config", "responseFormat")
"""The fields that name the format of an answer; each may hold another one."""
_MIME_TYPES: Final = ("responseMimeType", "response_mime_type", "mime_type", "mimeType")
_TYPES: Final[Mapping[str, OutputType]] = {
    **dict.fromkeys(("json", "json_object", "json_schema", "object", "application/json"), "json"),
    **dict.fromkeys(("text", "text/plain"), "text"),
}
"""The types of output by the formats that requests name; `object` is that of a schema in place of a format."""
_SPOKEN: Final[Mapping[str, OutputType]] = {"image": "image", "audio": "speech"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestParameters:
    """The parameters of a request; one that it does not set, or sets to a value of another type, is unknown."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: tuple[str, ...] = ()
    output_type: OutputType | None = None


NO_PARAMETERS: Final = RequestParameters()


def parameters_of(body: bytes | None) -> RequestParameters:
    """Return the parameters of a request's body, without its content encoding."""
    prompt = parse(body)
    if prompt is None:
        return NO_PARAMETERS
    fields = prompt.parameters
    holders = [fields, *(fields[name] for name in _HOLDERS if isinstance(fields.get(name), dict))]
    return RequestParameters(
        max_tokens=next((value for value in _values(holders, _MAX_TOKENS) if type(value) is int and value >= 0), None),
        temperature=_number(_values(holders, ("temperature",))),
        top_p=_number(_values(holders, ("top_p", "topP", "p"))),
        stop_sequences=_stops(_values(holders, ("stop", "stop_sequences", "stopSequences"))),
        output_type=_output_type(holders),
    )


def _values(holders: Iterable[Mapping[str, Any]], names: Iterable[str]) -> list[Any]:
    return [holder[name] for holder in holders for name in names if holder.get(name) is not None]


def _number(values: Iterable[Any]) -> float | None:
    # A body may hold an integer of any length, which `float` refuses.
    numbers = (float(value) for value in values if type(value) in (int, float) and abs(value) < 1e9)
    return next((number for number in numbers if isfinite(number)), None)


def _stops(values: Iterable[Any]) -> tuple[str, ...]:
    for value in values:
        texts = value if isinstance(value, list) else [value]
        if texts and all(isinstance(text, str) for text in texts):
            return tuple(texts[:MOST_STOPS])
    return ()


def _output_type(holders: Iterable[Mapping[str, Any]]) -> OutputType | None:
    """Return the type of output that a request asks for; None if it asks for none in particular."""
    holders = list(holders)
    for modalities in _values(holders, ("modalities", "responseModalities", "response_modalities")):
        names = [name.lower() for name in modalities if isinstance(name, str)] if isinstance(modalities, list) else []
        if spoken := next((_SPOKEN[name] for name in names if name in _SPOKEN), None):
            return spoken
    types = (_format(value) for value in [*_values(holders, _FORMATS), *_values(holders, _MIME_TYPES)])
    return next((output_type for output_type in types if output_type is not None), None)


def _format(value: object, depth: int = 3) -> OutputType | None:
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, str):
        return _TYPES.get(value)
    if not isinstance(value, dict) or not depth:
        return None
    inner = (_format(value[name], depth - 1) for name in (*_MIME_TYPES, "type", *_FORMATS) if name in value)
    return next((output_type for output_type in inner if output_type is not None), None)
