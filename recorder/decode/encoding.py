"""Two encodings undone: a compressed body into plain bytes, and JSON text into text that any database can store.

Compression follows RFC 9110 section 8.4 (gzip, x-gzip, deflate); brotli and zstandard are left as they came. A body is
decoded span by span, so that each decoded byte keeps the read that brought it. Limits, with their precedents: 64 MiB
of decoded text is ten times the longest answer any model gives; event streams compress 5 to 20 times, bombs 1,000.
"""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

MAX_DECODED = 64 << 20
MAX_RATIO = 100
RATIO_APPLIES_ABOVE = 1 << 20
MAX_BODY = 1 << 30
RATIO_OF_BODIES_APPLIES_ABOVE = 256 << 20
"""Of bodies that the tape itself has packed: a long one may well be all alike."""
# zlib copies what follows a gzip member each time one ends; small slices and few members keep that linear.
_SLICE = 4096
_MAX_MEMBERS = 10_000
_MAX_DEPTH = 32
_REPLACEMENT = "\ufffd"
_IDENTITY = frozenset({"", "identity", "none"})
_ZLIB_WINDOW = 15
_WINDOW = {"gzip": 31, "x-gzip": 31, "deflate": _ZLIB_WINDOW}


@dataclass(frozen=True, slots=True)
class Plain:
    """A decoded body: `ends[i]` is the decoded size after span i; `flag` says why there is not more of it."""

    data: bytes
    ends: Sequence[int]
    flag: str | None = None


def spans(starts: Sequence[int], sizes: Sequence[int], size: int) -> tuple[Sequence[int], Sequence[int]]:
    """Cut a body of `size` bytes where its parts end; the parts are given by their offsets and lengths.

    Returns where each span ends and the number of its part, -1 for what no part covers; parts beyond the body are left
    out.
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


def plain(content_encoding: str | None, body: bytes, ends: Sequence[int]) -> Plain:
    """Undo a content encoding. `ends` are the offsets in `body` where its spans end, ascending, the last its size."""
    coding = (content_encoding or "").strip().lower()
    if coding in _IDENTITY:
        return Plain(body, ends)
    if coding not in _WINDOW:
        return Plain(b"", [0] * len(ends), "undecoded")
    inflater = _Inflater(_WINDOW[coding])
    decoded_ends, start = [], 0
    for end in ends:
        inflater.take(body[start:end])
        decoded_ends.append(len(inflater.out))
        start = end
    return Plain(bytes(inflater.out), decoded_ends, inflater.flag)


def unpack(packed: bytes, size: int) -> bytes:
    """Inflate a body that a tape has packed to `size` bytes. Raise `ValueError` if it is not one of that size.

    A tape may be made by others: never more than `size` bytes are inflated, and no more than is in proportion.
    """
    if not 0 <= size <= min(MAX_BODY, max(RATIO_OF_BODIES_APPLIES_ABOVE, MAX_RATIO * len(packed))):
        raise ValueError(f"{len(packed)} packed bytes are said to hold {size}")
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(packed, size + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(data) != size or not inflater.eof:
        raise ValueError(f"it does not hold the {size} bytes that it is said to")
    return data


def room(taken: int) -> int:
    """Return how many bytes so many compressed ones may inflate to."""
    return min(MAX_DECODED, max(RATIO_APPLIES_ABOVE, MAX_RATIO * taken))


def is_identity(content_encoding: str | None) -> bool:
    """Return whether a body has no content coding."""
    return (content_encoding or "").strip().lower() in _IDENTITY


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are UTF-8; a character that the end cuts off was not wrong."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and error.end == len(data)
    return True


class _Inflater:
    def __init__(self, window: int) -> None:
        self.out = bytearray()
        self.flag: str | None = None
        self._window = window
        self._zlib = zlib.decompressobj(window)
        self._head = b""
        self._taken = 0
        self._members = 1

    def take(self, data: bytes) -> None:
        if self._window == _ZLIB_WINDOW and self._taken < 2:
            data = self._with_head(data)
        for start in range(0, len(data), _SLICE):
            if self.flag is not None:
                return
            piece = data[start : start + _SLICE]
            self._taken += len(piece)
            try:
                self._inflate(piece)
            except zlib.error:
                self.flag = "undecoded"

    def _with_head(self, data: bytes) -> bytes:
        # RFC 9110 says deflate is zlib-wrapped; servers that send it raw have always existed. Two bytes tell.
        data = self._head + data
        if len(data) < 2:
            self._head = data
            return b""
        if data[0] & 0x0F != 8 or int.from_bytes(data[:2], "big") % 31:
            self._window = -self._window
            self._zlib = zlib.decompressobj(self._window)
        return data

    def _inflate(self, piece: bytes) -> None:
        while piece and self.flag is None:
            if self._zlib.eof:
                self._next_member()
            left = room(self._taken) - len(self.out)
            data = self._zlib.decompress(piece, left + 1)
            if len(data) > left:
                self.flag = "decode_limit"
            self.out += data[:left]
            piece = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail

    def _next_member(self) -> None:
        self._members += 1
        if self._members > _MAX_MEMBERS:
            self.flag = "decode_limit"
        self._zlib = zlib.decompressobj(self._window)


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
            text = self._paired(text)
        if "\0" in text:
            self.changed = True
            text = text.replace("\0", _REPLACEMENT)
        return text

    def optional(self, text: str | None) -> str | None:
        """Clean text that may be unknown or empty: both are None."""
        return self.text(text) if text else None

    def value(self, value: Any, depth: int = _MAX_DEPTH) -> Any:
        """Return a copy of a JSON value that any column takes; NaN, endless nesting and huge numbers are null."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict | list) and depth == 0:
            return None
        if isinstance(value, dict):
            return {self.text(str(key)): self.value(item, depth - 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, depth - 1) for item in value]
        return value if _is_plain(value) else None

    def _paired(self, text: str) -> str:
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if joined.count(_REPLACEMENT) != text.count(_REPLACEMENT):
            self.changed = True
        return joined


def _is_plain(value: Any) -> bool:
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 63
    return not isinstance(value, float) or math.isfinite(value)
