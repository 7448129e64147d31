"""Pure: cassettes of vcrpy, as pytest-recording and pytest-vcr keep them: YAML, or JSON.

A cassette has whole bodies without any time; the day and the second of an answer are those of its `Date` header. A body
that is stored as a text is without its content coding, even if its headers name one: coded bytes are hardly ever UTF-8.
Some bodies are stored as values, not as bytes: a request as aiohttp was given it (`json=`), and both sides by
serializers that write `parsed_body` in place of `body`, or a body of `type: json` with its `content`. They are written
as JSON again, and flagged `rebuilt`, as are bodies of another length than their heads name. Only `body: null` of a
request says that there was none; an answer without a body in the cassette is refused.
YAML needs PyYAML, the extra `wiretape[vcr]`; its tags make texts, bytes and lists, and no other object.
"""

import base64
import functools
import importlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final

import msgspec

from wiretape.recorder.commands.options import install_hint
from wiretape.viewer import imported
from wiretape.viewer.imported import Data, Headers, ImportedExchange, ImportedFile, NotImportable, Unimportable

_JSON: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")


class _CassetteRequest(msgspec.Struct):
    method: str
    uri: str
    headers: dict[str, Any] | None = None
    body: Any = msgspec.UNSET
    parsed: Any = msgspec.field(default=None, name="parsed_body")


class _Status(msgspec.Struct):
    code: int


class _CassetteResponse(msgspec.Struct):
    """An answer; `status_code` and `content` are those of httpx in cassettes before vcrpy 7.

    Where the status is a number, bodies have a type and a content.
    """

    headers: dict[str, Any] | None = None
    status: _Status | int | None = None
    body: Any = None
    parsed: Any = msgspec.field(default=None, name="parsed_body")
    status_code: int | None = None
    content: Any = None


class _Interaction(msgspec.Struct):
    request: _CassetteRequest
    response: _CassetteResponse


def read(data: Data, source: ImportedFile) -> Iterator[ImportedExchange | Unimportable]:
    """Yield the exchanges of a cassette. Raises `NotImportable`."""
    cassette = _parsed(data[:])
    interactions = cassette.get("interactions") if isinstance(cassette, dict) else None
    if not isinstance(interactions, list) or not interactions:
        raise NotImportable("the cassette has no interactions")
    for number, interaction in enumerate(interactions):
        place = f"interaction {number}"
        yield imported.attempt(place, partial(_imported, place, interaction, source))


def _parsed(data: bytes) -> Any:
    """Return the content of a cassette. Raises `NotImportable`."""
    if _JSON.match(data):
        try:
            return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise NotImportable(f"it is no cassette in JSON ({error})") from error
    yaml, loader = yaml_loader()
    try:
        return yaml.load(data, Loader=loader)
    # PyYAML lets the errors of Python through for a wrong value of a tag, such as `!!bool maybe`.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise NotImportable(f"it is no cassette in YAML ({error})") from error


@functools.cache
def yaml_loader() -> tuple[Any, Any]:
    """Return PyYAML, and a loader that makes no object of Python's but those of vcrpy's own cassettes."""
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError as error:
        raise NotImportable(f"YAML needs PyYAML: {install_hint('vcr')}") from error
    loader: Any = type("CassetteLoader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
    for tag in "python/str", "python/unicode":
        loader.add_constructor(f"tag:yaml.org,2002:{tag}", lambda loader, node: loader.construct_scalar(node))
    loader.add_constructor("tag:yaml.org,2002:python/tuple", lambda loader, node: loader.construct_sequence(node))

    def buffer(loader: Any, node: Any) -> Any:  # the body of a request that was a file
        state = loader.construct_mapping(node, deep=True).get("state")
        return state[0] if isinstance(state, list) and state else None

    loader.add_constructor("tag:yaml.org,2002:python/object/new:_io.BytesIO", buffer)
    return yaml, loader


def _imported(place: str, item: object, source: ImportedFile) -> ImportedExchange:
    interaction = msgspec.convert(item, _Interaction)
    request, response = interaction.request, interaction.response
    status = response.status.code if isinstance(response.status, _Status) else response.status
    if isinstance(response.status, int):
        _unwrap(request)
        _unwrap(response)
    if (status := response.status_code if status is None else status) is None:
        raise ValueError("its answer has no status")
    stored_headers = _headers(response.headers)
    body, is_value = _response_body(response)
    is_text = is_value or isinstance(body, str)
    headers, was_coded = imported.decoded(stored_headers, is_rebuilt=is_value) if is_text else (stored_headers, False)
    body = _bytes(body)
    framing, length = imported.framing(request.method, status, headers), imported.header(headers, "content-length")
    is_edited = framing != "none" and body is not None and length is not None and length != str(len(body))
    if not body and status < 300 and framing != "none" and (body is None or imported.promises_body(stored_headers)):
        raise ValueError("the cassette does not have the body of its answer")
    request_headers = _headers(request.headers)
    request_body, is_value_sent = _request_body(request, request_headers)
    return ImportedExchange(
        place=place,
        started=_date(headers) or source.modified,
        stamp=imported.header(headers, "date") or "",
        method=request.method,
        url=request.uri,
        request_headers=request_headers,
        request=request_body,
        status=status,
        response_headers=headers,
        framing=framing,
        body=body or b"",
        is_lost=body is None and framing != "none",
        is_rebuilt=was_coded or is_value or is_value_sent or is_edited,
    )


def _unwrap(side: _CassetteRequest | _CassetteResponse) -> None:
    """Return the content of a body from its table, by its type."""
    if not isinstance(side.body, dict):
        return
    kind, content = side.body.get("type"), side.body.get("content")
    side.parsed = content if kind == "json" else None
    side.body = content if kind == "text" else msgspec.UNSET


def _response_body(response: _CassetteResponse) -> tuple[object, bool]:
    """Return the text or the bytes of an answer, None if the cassette has none, and whether a value was stored."""
    if response.parsed is not None:
        return _json(response.parsed), True
    body = response.body if response.content is None else response.content
    if not isinstance(body, dict):
        return None if body is msgspec.UNSET else body, False
    coded = body.get("base64_string")
    return (body.get("string") if coded is None else base64.b64decode(_text(coded))), False


def _request_body(request: _CassetteRequest, headers: Headers) -> tuple[bytes | None, bool]:
    """Return the body of a request, None if it is unknown, and whether a value was stored."""
    if request.parsed is not None:
        return _json(request.parsed), True
    body, kind = request.body, imported.header(headers, "content-type") or ""
    is_value = isinstance(body, dict) or (
        isinstance(body, list) and ("json" in kind or not all(isinstance(part, str | bytes) for part in body))
    )
    if is_value:
        # A form that aiohttp was given is a mapping, too: only its type tells them apart.
        return (_json(body), True) if not kind or "json" in kind else (None, False)
    if body is msgspec.UNSET or (not body and imported.has_body(headers)):
        return None, False
    return _bytes(body) or b"", False


def _json(value: object) -> bytes:
    """Return a value as JSON. Raises `ValueError` for one that JSON does not have, or that is too large."""
    # The limit is in characters: aliases of YAML make small files endless.
    if _extent(value, {}) > 64 << 20:
        raise ValueError("a body is too large as JSON")
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except TypeError as error:
        raise ValueError(f"a body cannot be written as JSON ({error})") from error


def _extent(value: object, extents: dict[int, int]) -> int:
    """Return the least length of a value as JSON, where a part is written wherever it is referred to."""
    if not isinstance(value, dict | list):
        return len(value) if isinstance(value, str) else 1
    if id(value) not in extents:
        extents[id(value)] = 0  # in case it holds itself
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        extents[id(value)] = 2 + sum(_extent(part, extents) for part in parts)
    return extents[id(value)]


def _headers(headers: dict[str, Any] | None) -> Headers:
    several = ((name, value if isinstance(value, list) else [value]) for name, value in (headers or {}).items())
    return imported.encoded((name, _text(value)) for name, values in several for value in values)


def _text(value: object) -> str:
    if isinstance(value, list | dict | set | tuple):
        raise ValueError(f"a header or a body is a {type(value).__name__}, not a text")
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _bytes(body: object) -> bytes | None:
    """Return a body as bytes, None where there is none. Raises `ValueError` for anything else."""
    match body:
        case None:
            return None
        case bytes() as data:
            return data
        case str() as text:
            return text.encode("utf-8", "surrogatepass")
        case list() as parts if all(isinstance(part, str | bytes) for part in parts):
            return b"".join(_bytes(part) or b"" for part in parts)
        case other:
            raise ValueError(f"its body is a {type(other).__name__}, not a text and no bytes")


def _date(headers: Headers) -> datetime | None:
    """Return the time at which the server began to answer, to the second."""
    text = imported.header(headers, "date") or ""
    try:
        date = parsedate_to_datetime(text)
        is_of_text = f"{date.year:04}" in text  # the year 0001 is read as 2001
        return date.astimezone(UTC) if is_of_text and imported.is_dated(date) else None
    except (ValueError, OverflowError, TypeError):
        return None
