"""Two encodings undone: a compressed body into plain bytes, and JSON text into text that any database can store.

Compression follows RFC 9110 section 8.4 (gzip, x-gzip, deflate, and several in a row), RFC 7932 (br) and RFC 8878
(zstd, its window as RFC 9659 limits it). A body is decoded span by span, so that each decoded byte keeps the read that
brought it. Limits, with their precedents: 64 MiB of decoded text is ten times the longest answer any model gives; event
streams compress 5 to 20 times, bombs 1,000 and more; curl undoes no more than five codings of one body.
"""

import binascii
import math
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

MAX_DECODED = 64 << 20
MAX_RATIO = 100
RATIO_APPLIES_ABOVE = 1 << 20
MAX_BODY = 1 << 30
RATIO_OF_BODIES_APPLIES_ABOVE = 256 << 20
"""Limit of the compression ratio for bodies that the tape itself has packed: a long body may be highly repetitive."""
# The data after a member are copied each time one ends; small slices and few members keep that linear.
_SLICE = 4096
_PIECE = 64 << 10
_MAX_CODINGS = 5
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_REPLACEMENT = "\ufffd"
_IDENTITY = frozenset({"", "identity", "none"})
BASE64 = "application/base64"
"""The coding of a body in base64, which no content encoding names: its name is none of a header's tokens."""
_SIGNATURES = {"gzip": b"\x1f\x8b\x08", "zstd": b"\x28\xb5\x2f\xfd"}
"""Beginnings of compressed bodies; those of deflate and br have no signature."""
_BEGINNINGS = tuple(_SIGNATURES.values())
_FLUSHED = b"\x00\x00\xff\xff"
"""The end of the empty block by which zlib marks a flush (Z_SYNC_FLUSH, Z_FULL_FLUSH)."""
# A body with one of these is not the text that a right coding gives.
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1f]")
_GZIP_WINDOW = 31  # zlib's convention: 16 beside the 15 bits means a gzip header
_ZLIB_WINDOW = 15


@dataclass(frozen=True, slots=True)
class Plain:
    """A decoded body: `ends[i]` is the decoded size after span i; `flag` is the reason why the remainder is missing.

    `flush_count` is how often the compressor was visibly flushed; None: the body was not compressed.
    """

    data: bytes
    ends: Sequence[int]
    flag: str | None = None
    flush_count: int | None = field(default=None, compare=False)


def spans(starts: Sequence[int], sizes: Sequence[int], size: int) -> tuple[Sequence[int], Sequence[int]]:
    """Cut a body of `size` bytes at the ends of its parts, given by their offsets and lengths.

    Returns the end of each span and the number of its part, -1 for bytes that no part covers; parts beyond the body are
    left out.
    """
    follow = list(accumulate(sizes))
    if follow and follow[-1] == size and min(sizes) > 0 and list(starts) == [0, *follow[:-1]]:  # nearly always
        return follow, range(len(follow))
    ends: list[int] = []
    parts: list[int] = []
    position = 0
    for part, (start, length) in enumerate(zip(starts, sizes, strict=True)):
        end = min(start + length, size)
        if end <= max(start, position):
            continue
        if start > position:
            ends.append(start)
            parts.append(-1)
        ends.append(end)
        parts.append(part)
        position = end
    if position < size:
        ends.append(size)
        parts.append(-1)
    return ends, parts


def coding_of(headers: Iterable[Sequence[str]]) -> str | None:
    """Return the content encoding that headers give, each `[name, value]` with the name in lower case."""
    return ", ".join([value for name, value in headers if name == "content-encoding"]) or None


def is_base64(content_type: str | None) -> bool:
    """Return True if a body is text in base64 around its messages, as gRPC-Web has it."""
    return (content_type or "").strip().lower().startswith("application/grpc-web-text")


def is_identity(content_encoding: str | None) -> bool:
    """Return True if a body has no content coding."""
    return not codings_of(content_encoding)


def plain(content_encoding: str | None, body: bytes, ends: Sequence[int], most: int = MAX_DECODED) -> Plain:
    """Undo a content encoding, up to `most` bytes.

    `ends` are the offsets in `body` where its spans end, ascending, the last its size.
    """
    codings = codings_of(content_encoding)
    if not codings:
        return Plain(body, ends)
    if len(codings) > _MAX_CODINGS or not _CODECS.keys() >= set(codings):
        return Plain(b"", [0] * len(ends), "undecoded")
    decoded, broken_at = _decode_spans(codings, body, ends, len(body), most)
    if decoded.flag == "undecoded":  # a failing decompressor does not return its output from the bytes before
        decoded, _ = _decode_spans(codings, body, ends, broken_at, most)
    if codings[-1] == BASE64:
        return decoded
    # A member of its own for each event is flushed by its end.
    return replace(decoded, flush_count=sum(body.count(mark, 1) for mark in (_FLUSHED, *_SIGNATURES.values())))


def detect_and_decode(content_encoding: str | None, body: bytes, ends: Sequence[int]) -> tuple[Plain, bool]:
    """Undo the coding that a body has; return also True if that is not the one of its header.

    Gateways decompress a body and leave the header on it, or compress one twice. A coding is known by its beginning.
    """
    decoded = plain(content_encoding, body, ends)
    is_decoded = decoded.flag != "undecoded" and (decoded.data or not body) and _signature_of(decoded.data) is None
    if is_decoded or BASE64 in (content_encoding or ""):
        return decoded, False
    codings: list[str] = []
    data = body
    while (coding := _signature_of(data)) is not None and len(codings) < _MAX_CODINGS:
        codings.insert(0, coding)
        data = plain(", ".join(codings), body[:_SLICE], (min(len(body), _SLICE),)).data
    head = data[:_SLICE]
    is_text = bool(head) and _CONTROL.search(head) is None and is_utf8(head)
    if codings == codings_of(content_encoding) or not is_text:
        return decoded, False
    return plain(", ".join(codings), body, ends), True


def _signature_of(data: bytes) -> str | None:
    """Return the coding whose signature a body begins with; None if it begins with none."""
    if not data.startswith(_BEGINNINGS):
        return None
    return next(coding for coding, signature in _SIGNATURES.items() if data.startswith(signature))


def uncoded(headers: Iterable[Sequence[str]], body: bytes) -> bytes:
    """Return a body without its content encoding, whatever its headers say, or verbatim if that cannot be decoded."""
    coding = coding_of(headers)
    if coding is None and _signature_of(body) is None:  # as of nearly all requests
        return body
    decoded, _ = detect_and_decode(coding, body, (len(body),))
    return decoded.data if decoded.flag is None else body


def codings_of(content_encoding: str | None) -> list[str]:
    """Return the codings in the order in which they were applied."""
    if not content_encoding:
        return []
    names = (name.strip().lower() for name in content_encoding.split(","))
    return [name for name in names if name not in _IDENTITY]


def _decode_spans(
    codings: Sequence[str], body: bytes, ends: Sequence[int], single_from: int, most: int
) -> tuple[Plain, int]:
    """Undo codings, from `single_from` on byte by byte; return also where the last slice begins that was decoded."""
    decoding, decoded_ends, start, position = _Decoding(codings, most), list[int](), 0, 0
    for end in ends:
        while position < end and decoding.flag is None:
            start, position = position, min(position + (1 if position >= single_from else _SLICE), end)
            decoding.take(body[start:position])
        decoded_ends.append(len(decoding.out))
    return Plain(bytes(decoding.out), decoded_ends, decoding.flag), start


def unpack(packed: bytes, size: int) -> bytes:
    """Inflate a packed body of `size` bytes. Raise `ValueError` if it has another size.

    A tape may be hostile: at most `size` bytes are inflated, and no more than the limit for its compressed size.
    """
    if not 0 <= size <= min(MAX_BODY, max(RATIO_OF_BODIES_APPLIES_ABOVE, MAX_RATIO * len(packed))):
        raise ValueError(f"{len(packed)} packed bytes claim to hold {size}")
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(packed, size + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(data) != size or not inflater.eof:
        raise ValueError(f"it does not hold the {size} bytes that it claims to")
    return data


def room(compressed: int) -> int:
    """Return the limit of inflated bytes for a number of compressed ones."""
    return min(MAX_DECODED, max(RATIO_APPLIES_ABOVE, MAX_RATIO * compressed))


def is_utf8(data: bytes) -> bool:
    """True if the bytes are UTF-8; a character that the end cuts off was not wrong."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and error.end == len(data)
    return True


class _Decoding:
    """A body during decoding; the coding applied last is undone first. `flag` is the reason why decoding stopped."""

    def __init__(self, codings: Sequence[str], most: int) -> None:
        self.out = bytearray()
        self.flag: str | None = None
        self._layers = [_Members(_CODECS[coding]()) for coding in reversed(codings)]
        self._errors = tuple(layer.error for layer in self._layers)
        self._compressed_bytes, self._most = 0, most

    def take(self, data: bytes) -> None:
        self._compressed_bytes += len(data)
        try:
            self._decode(data, 0)
        except _TooMuchError:
            self.flag = "decode_limit"
        except self._errors:
            self.flag = "undecoded"

    def _decode(self, data: bytes, depth: int) -> None:
        if depth == len(self._layers):
            self.out += data
            return
        layer = self._layers[depth]
        for start in range(0, len(data), _SLICE):
            for piece in layer.pieces(data[start : start + _SLICE]):
                allowed = min(room(self._compressed_bytes), self._most) - layer.size
                layer.size += len(piece)
                self._decode(piece[:allowed], depth + 1)
                if len(piece) > allowed:
                    raise _TooMuchError


class _TooMuchError(Exception):
    """A body exceeds the limit of decoded bytes."""


class _Member(Protocol):
    """A gzip member, a zlib stream, a Brotli stream or a Zstandard frame, as the standard library decompresses them."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Codec(NamedTuple):
    """How a coding is undone: after a piece of `least_of_more` bytes or more, another may follow without new data."""

    begin: Callable[[], _Member]
    error: type[Exception]
    least_of_more: int = 1


class _Members:
    """One coding of a body: a sequence of members; `size` counts their decoded bytes."""

    def __init__(self, codec: _Codec) -> None:
        self._begin, self.error, self._least_of_more = codec
        self._member = self._begin()
        self._count = 1
        self.size = 0

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield all that can be decoded with `data`, in pieces that are not large."""
        piece, member = b"", self._member
        while data or (len(piece) >= self._least_of_more and not member.eof):
            if member.eof:
                self._count += 1
                if self._count > 10_000:
                    raise _TooMuchError
                self._member = self._begin()
                member = self._member
            piece = member.decompress(data, _PIECE)
            yield piece
            data = member.unused_data


class _Inflater:
    # RFC 9110 says deflate is zlib-wrapped; servers that send it raw have always existed. Two bytes tell.
    def __init__(self, window: int) -> None:
        self._zlib = zlib.decompressobj(window)
        self._head: bytes | None = b"" if window == _ZLIB_WINDOW else None

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if self._head is not None:
            data = self._head + data
            if len(data) < 2:
                self._head = data
                return b""
            self._head = None
            if data[0] & 0x0F != 8 or int.from_bytes(data[:2], "big") % 31:
                self._zlib = zlib.decompressobj(-_ZLIB_WINDOW)
        return self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)


class _Brotli:
    eof, unused_data = False, b""  # nothing may follow: it is an error of the stream itself

    def __init__(self, process: Callable[..., bytes]) -> None:
        self._process = process

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._process(data, output_buffer_limit=max_length)


class _Base64:
    """Base64 in any number of parts, each padded, as gRPC-Web sends one or more of them for a message."""

    eof, unused_data = False, b""

    def __init__(self) -> None:
        self._remainder = b""
        self._padded = 0

    def decompress(self, data: bytes, max_length: int) -> bytes:
        data = self._remainder + data
        complete = len(data) & ~3
        self._remainder, start, pieces = data[complete:], 0, list[bytes]()
        while (padding := data.find(b"=", start, complete)) >= 0:
            self._padded += 1
            if self._padded > 1_000_000:
                raise _TooMuchError
            end = (padding & ~3) + 4
            pieces.append(binascii.a2b_base64(data[start:end], strict_mode=True))
            start = end
        pieces.append(binascii.a2b_base64(data[start:complete], strict_mode=True))
        return b"".join(pieces)


def _brotli() -> _Codec:
    import brotli

    return _Codec(lambda: _Brotli(brotli.Decompressor().process), brotli.error)


def _zstd() -> _Codec:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}  # 8 MiB, as RFC 9659 demands
    return _Codec(partial(zstd.ZstdDecompressor, options=options), zstd.ZstdError)


def _zlib(window: int) -> _Codec:
    return _Codec(partial(_Inflater, window), zlib.error, _PIECE)  # of zlib alone, a short piece is the last one


_CODECS: dict[str, Callable[[], _Codec]] = {
    "gzip": partial(_zlib, _GZIP_WINDOW), "x-gzip": partial(_zlib, _GZIP_WINDOW),
    "deflate": partial(_zlib, _ZLIB_WINDOW), "br": _brotli, "zstd": _zstd,
    BASE64: partial(_Codec, _Base64, binascii.Error),
}  # fmt: skip


class Cleaner:
    """Makes text and JSON values storable; `changed` tells whether anything had to be replaced."""

    __slots__ = ("changed",)

    def __init__(self) -> None:
        self.changed = False

    def text(self, text: str) -> str:
        """Join surrogate pairs; replace NUL and lone surrogates, which PostgreSQL and UTF-8 refuse, by U+FFFD."""
        try:
            text.encode()
        except UnicodeEncodeError:
            joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            if joined.count(_REPLACEMENT) != text.count(_REPLACEMENT):
                self.changed = True
            text = joined
        if "\0" in text:
            self.changed = True
            text = text.replace("\0", _REPLACEMENT)
        return text

    def optional(self, text: str | None) -> str | None:
        """Clean text that may be unknown or empty: both are None."""
        return self.text(text) if text else None

    def value(self, value: object, depth: int = 32) -> Any:
        """Return a copy of a JSON value that any column takes; NaN, endless nesting and huge numbers are null."""
        if type(value) is int:  # as of nearly all counts of usage
            return value if _LEAST <= value <= _MOST else None
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict | list) and depth == 0:
            return None
        if isinstance(value, dict):
            return {self.text(str(key)): self.value(item, depth - 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, depth - 1) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value
