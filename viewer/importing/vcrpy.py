"""Pure: cassettes of vcrpy, as pytest-recording and pytest-vcr keep them: YAML, or JSON.

A cassette has whole bodies without any time; the day and the second of an answer are those of its `Date` header. A body
that is stored as a text came without a content coding, even if its headers name one: coded bytes are hardly ever UTF-8.
YAML needs PyYAML, the extra `wiretape[vcr]`; its tags make texts, bytes and lists, and no other object.
"""

import base64
import functools
import importlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final

import msgspec

from wiretape.recorder.commands.options import install_hint
from wiretape.viewer.importing import found
from wiretape.viewer.importing.found import Data, Found, Headers, ImportedFile, NotImportable, Unimportable

_JSON: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")
_TEXT_TAGS: Final = "python/str", "python/unicode"


class _Request(msgspec.Struct):
    method: str
    uri: str
    headers: dict[str, Any] | None = None
    body: Any = None


class _Status(msgspec.Struct):
    code: int


class _Response(msgspec.Struct):
    """An answer; `status_code` and `content` are those of httpx in cassettes before vcrpy 7."""

    headers: dict[str, Any] | None = None
    status: _Status | None = None
    body: Any = None
    status_code: int | None = None
    content: Any = None


class _Interaction(msgspec.Struct):
    request: _Request
    response: _Response


def read(data: Data, source: ImportedFile) -> Iterator[Found | Unimportable]:
    """Yield the exchanges of a cassette. Raises `NotImportable`."""
    cassette = _parsed(data[:])
    interactions = cassette.get("interactions") if isinstance(cassette, dict) else None
    if not isinstance(interactions, list) or not interactions:
        raise NotImportable("the cassette has no interactions")
    for number, one in enumerate(interactions):
        place = f"interaction {number}"
        yield found.attempt(place, partial(_found, place, one, source))


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
    for tag in _TEXT_TAGS:
        loader.add_constructor(f"tag:yaml.org,2002:{tag}", lambda loader, node: loader.construct_scalar(node))
    loader.add_constructor("tag:yaml.org,2002:python/tuple", lambda loader, node: loader.construct_sequence(node))
    loader.add_constructor("tag:yaml.org,2002:python/object/new:_io.BytesIO", _buffer)
    return yaml, loader


def _buffer(loader: Any, node: Any) -> Any:
    """Return the content of a request's body that was a file."""
    state = loader.construct_mapping(node, deep=True).get("state")
    return state[0] if isinstance(state, list) and state else None


def _found(place: str, one: object, source: ImportedFile) -> Found:
    """Return an exchange. Raises `ValueError`."""
    interaction = msgspec.convert(one, _Interaction)
    request, response = interaction.request, interaction.response
    status = response.status.code if response.status is not None else response.status_code
    if status is None:
        raise ValueError("its answer has no status")
    stored = response.body if response.content is None else response.content
    headers, body = _headers(response.headers), _bytes(stored)
    if isinstance(_content(stored), str):
        headers, _ = found.decoded(headers)
    return Found(
        place=place,
        started=_date(headers) or source.modified,
        stamp=found.header(headers, "date") or "",
        method=request.method,
        url=request.uri,
        request_headers=_headers(request.headers),
        request=_bytes(request.body) or b"",
        status=status,
        response_headers=headers,
        framing=found.framing(request.method, status, headers),
        body=body or b"",
    )


def _headers(given: dict[str, Any] | None) -> Headers:
    """Return headers, whose values are lists or single ones."""
    several = ((name, value if isinstance(value, list) else [value]) for name, value in (given or {}).items())
    return found.encoded((name, _text(value)) for name, values in several for value in values)


def _text(value: object) -> str:
    """Return a single value as text. Raises `ValueError` for one that holds others: aliases make such endless."""
    if isinstance(value, list | dict | set | tuple):
        raise ValueError(f"a header or a body is a {type(value).__name__}, not a text")
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _content(body: object) -> object:
    """Return the text or the bytes of a body, which may stand in a table of their own."""
    if not isinstance(body, dict):
        return body
    coded = body.get("base64_string")
    return body.get("string") if coded is None else base64.b64decode(_text(coded))


def _bytes(body: object) -> bytes | None:
    """Return a body as bytes, None where there is none. Raises `ValueError` for anything else."""
    match _content(body):
        case None:
            return None
        case bytes() as data:
            return data
        case str() as text:
            return text.encode("utf-8", "surrogatepass")
        case list() as parts if not any(isinstance(part, list | dict) for part in parts):
            return b"".join(_bytes(part) or b"" for part in parts)
        case other:
            raise ValueError(f"its body is a {type(other).__name__}, not a text and no bytes")


def _date(headers: Headers) -> datetime | None:
    """Return the time at which the server began to answer, to the second."""
    try:
        return parsedate_to_datetime(found.header(headers, "date") or "").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
