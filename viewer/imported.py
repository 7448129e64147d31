"""Pure: the exchanges in other programs' recordings. Times are ns since T0, None where the source does not say.

A parser yields an `ImportedExchange` for each exchange, and an `Unimportable` for each that cannot be imported; it
raises `NotImportable` if that is true of the whole file.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from mmap import mmap
from typing import Final, TypeVar
from urllib.parse import quote, urlsplit

from wiretape.recorder.clock import YEARS
from wiretape.recorder.decode import encoding
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.facts import PROTOCOLS, Answered, Connected, Ended, EndedBy, Framing

Data = bytes | mmap
"""The content of a file; a slice of it is bytes."""

Headers = list[tuple[bytes, bytes]]
T = TypeVar("T")

_MOST_DAYS: Final = 100
"""Limit of an exchange's duration: a later time is a mistake, and a tape cannot store it."""
_MOST_NS: Final = _MOST_DAYS * 86_400 * 10**9
_MOST_BYTES: Final = 1 << 50
"""Limit of a size, in bytes: a larger one is a mistake."""
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_IN_PATH: Final = "/?:@!$&'()*+,;=%~[]|^`{}<>\"\\"
_NO_BODY: Final = (204, 304)
_EARLIEST, _LATEST = datetime(YEARS.start, 1, 1, tzinfo=UTC), datetime(YEARS.stop, 1, 1, tzinfo=UTC)
_PROTOCOLS: Final = {name.lower(): protocol for protocol, title in PROTOCOLS.items() for name in (protocol, title)}


class NotImportable(WiretapeError):
    """A file without anything to import; the message says why."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """The facts about a file beside its bytes: its name and time, its request's URL, declared dialects as JSON."""

    name: str
    modified: datetime
    url: str | None = None
    dialects: str | None = None


@dataclass(frozen=True, slots=True)
class Unimportable:
    """Something in a file that cannot be imported, or only in part (`is_note`): where it is, and why."""

    place: str
    reason: str
    is_note: bool = False


@dataclass(slots=True, kw_only=True)
class ImportedExchange(Connected, Answered, Ended):
    """One exchange. `stamp` is its start as the source has it, `id` its id on the tape that it came from.

    `body` came in pieces of `sizes` bytes at `at_ns`; without these, its times are unknown. `missing` bytes of it the
    source does not have; `is_lost`: not even their number. `is_coarse`: the times are not those of reads. `is_rebuilt`:
    the bytes are not those that came. `request` is None where the source does not have the request's body, and only its
    beginning if that had more, `request_size`, bytes.
    """

    place: str
    started: datetime
    stamp: str
    method: str
    url: str
    id: str | None = None
    request_headers: Headers = field(default_factory=list)
    request: bytes | None = None
    request_size: int | None = None
    response_headers: Headers = field(default_factory=list)
    response_trailers: Headers = field(default_factory=list)
    body: bytes = b""
    at_ns: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    missing: int = 0
    is_lost: bool = False
    ended_by: EndedBy = "end"
    is_coarse: bool = False
    is_rebuilt: bool = False
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def is_timed(self) -> bool:
        """True if the source has the times of the body; for an answer without any byte, the time of its head."""
        is_empty = not self.body and not self.missing and not self.is_lost
        return bool(self.at_ns) or (is_empty and self.end_ns is not None)

    @property
    def base(self) -> str:
        """The URL of the server."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""

    @property
    def path(self) -> str:
        """The path and the query, with forbidden characters percent-encoded."""
        path_and_query = self.url[len(self.base) :].partition("#")[0]
        return quote(path_and_query.encode("utf-8", "replace"), safe=_IN_PATH)


def attempt(place: str, make: Callable[[], T]) -> T | Unimportable:
    """Make the exchange of one entry, or a refusal with the reason: a broken entry costs no other."""
    import msgspec  # not at the top: --help needs the names of the formats

    try:
        return make()
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        return Unimportable(place, str(error))
    except Exception as error:  # noqa: BLE001 - files are hostile: no entry may prevent the import of later ones
        return Unimportable(place, f"it cannot be read ({type(error).__name__}: {error})")


def problem(exchange: ImportedExchange) -> str | None:
    """Return the reason that a tape cannot hold an exchange, or None if it can."""
    try:
        urlsplit(exchange.url)
    except ValueError as error:
        return f"its URL cannot be read ({error})"
    if not exchange.url.isprintable():
        return "its URL has control characters"
    if (reason := _problem_of_times(exchange)) is not None:
        return reason
    if not 0 <= exchange.missing < _MOST_BYTES or not 0 <= (exchange.request_size or 0) < _MOST_BYTES:
        return "a size is too large"
    if not _TOKEN.fullmatch(exchange.method):
        return "its method is not one of HTTP"
    if exchange.status is not None and not 100 <= exchange.status <= 999:
        return f"its status {exchange.status} is not one of HTTP"
    return None


def _problem_of_times(exchange: ImportedExchange) -> str | None:
    if not is_dated(exchange.started):
        return f"its date is of the year {exchange.started.year}: such a date stands for an unknown one"
    times = [exchange.connected_ns, exchange.sent_ns, exchange.headers_ns, exchange.end_ns, *exchange.at_ns]
    known_times = [at_ns for at_ns in times if at_ns is not None]
    if known_times and (min(known_times) < 0 or max(known_times) > _MOST_NS):
        return f"a time is before its beginning, or more than {_MOST_DAYS} days after it"
    if any(later < earlier for earlier, later in zip(exchange.at_ns, exchange.at_ns[1:], strict=False)):
        return "its times go backwards"
    return None


def is_dated(started: datetime) -> bool:
    """Return True if a time can be that of an exchange; programs write a calendar's ends where they know none.

    Such as the year 1, the epoch's first second, or 9999.
    """
    return _EARLIEST < started.replace(microsecond=0) < _LATEST


def has_body(headers: Headers) -> bool:
    """Return True if the head of a message says that a body of at least one byte follows it."""
    length = header(headers, "content-length")
    return length is not None and length.strip("0") != ""


def has_length(headers: Headers) -> bool:
    """Return True if the head of a message names the length of its body."""
    return header(headers, "content-length") is not None


def promises_body(headers: Headers, kind: str | None = None) -> bool:
    """Return True if an answer had a body, by its length, or else by its type: JSON and streams are never empty.

    `kind` is the type by the source, for a head without one.
    """
    from wiretape.recorder.decode.decoder import STREAM_TYPES  # not at the top, as above

    if has_length(headers):
        return has_body(headers)
    media_type = (header(headers, "content-type") or kind or "").partition(";")[0].strip().lower()
    return media_type == "application/json" or media_type in STREAM_TYPES


def header(headers: Headers, name: str) -> str | None:
    """Return the first value of a header, whose `name` is in lower case."""
    wire_name = name.encode()
    return next(
        (value.decode("latin-1").strip() for header_name, value in headers if header_name.lower() == wire_name), None
    )


def encoded(pairs: Iterable[tuple[str, str]]) -> Headers:
    """Return headers as they go over the wire, without pseudo-headers, as `regular` does."""
    return regular((_octets(name), _octets(value)) for name, value in pairs)


def regular(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return headers without the pseudo-headers of HTTP/2; `:authority` becomes the `host` if there is none."""
    pairs = list(headers)
    regular_pairs = [pair for pair in pairs if pair[0] and not pair[0].startswith(b":")]
    hosts = (
        [] if header(regular_pairs, "host") is not None else [value for name, value in pairs if name == b":authority"]
    )
    return [*((b"host", value) for value in hosts[:1]), *regular_pairs]


def protocol(version: str) -> str | None:
    """Return the protocol of a version as sources write it: `HTTP/2`, `http/2.0` and `h2` are `h2`; None: another."""
    name = version.strip().lower()
    return _PROTOCOLS.get(name.removesuffix(".0") if name.startswith(("http/2", "http/3")) else name)


def _octets(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def framing(method: str, status: int, headers: Headers, protocol: str | None = None) -> Framing | None:
    """Return the framing of a body from its headers and its protocol, or None if they do not settle it."""
    if method == "HEAD" or status in _NO_BODY:
        return "none"
    if protocol == "h2":
        return "h2"
    if (header(headers, "transfer-encoding") or "").lower().endswith("chunked"):
        return "chunked"
    return "length" if header(headers, "content-length") is not None else None


def decoded(headers: Headers, *, is_rebuilt: bool = False) -> tuple[Headers, bool]:
    """Return the headers that fit a body whose content coding was undone, or all of it built anew; and whether either.

    They have neither that coding nor the length of the body that came.
    """
    if not is_rebuilt and encoding.is_identity(header(headers, "content-encoding")):
        return headers, False
    dropped = (b"content-encoding", b"content-length")
    return [(name, value) for name, value in headers if name.lower() not in dropped], True


def utc(seconds: float) -> datetime:
    """Return a time since the epoch. Raises `ValueError` for one that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError) as error:
        raise ValueError(f"{seconds} is no time") from error
