"""Payloads that repeat an earlier one but for one text, read without decoding them.

Of a long answer nearly every payload is the same, character for character, but for the word that it adds. A `Repeat` is
a payload with that word left open: what stands before and after it must be equal, and between them must stand one JSON
string, so that decoding could find nothing else. Which string of a payload is the text that its chunk carries is not
guessed from its place but tried: another text is put there, and the payload read in full must give the chunk with that
text. What `obfuscation` holds, with which OpenAI pads its events, is left open too: no dialect looks at it.

Everything else, and whatever does not fit, is `chunks.read`'s.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any, Final

import msgspec

from recorder.decode import chunks
from recorder.decode.chat import Chunk, Piece, ToolPiece

PARTS: Final = ("content", "reasoning", "refusal", "arguments")
"""The texts of a chunk, one of which may be open."""

Found = tuple[list[str], list[int]]
"""The texts of events in a row, and how many bytes each of these events takes."""

_TRIAL = "\ue000"
_TRIES = 5
_FEW = 8
_WINDOW = 1 << 20
_PADDING = re.compile(r'"obfuscation":\s*"')
# How many payloads are remembered: choices that take turns each have their own.
_KEPT = 4
# Learning costs as much as reading twice: it must be worth it.
_LEAST_LEARNT = 8
_HITS_FOR_ONE = 4


class Repeat:
    """A payload with one text left open; `part` of `PARTS` says which."""

    __slots__ = ("_fill", "_raw", "_signs", "chunk", "part")

    def __init__(self, chunk: Chunk, part: str, prefix: str, middle: str, suffix: str) -> None:
        self.chunk = chunk
        self.part = part
        self._signs = prefix, middle, suffix
        self._raw = prefix.encode(), middle.encode(), suffix.encode()
        self._fill = filler(chunk, part)

    def text(self, data: str) -> str | None:
        """Give the text with which `data` is this payload; None if it is another, or the text is empty."""
        prefix, middle, suffix = self._signs
        if not (data.startswith(prefix) and data.endswith(suffix)):
            return None
        text = data[len(prefix) : -len(suffix)]
        if middle:
            text, between, padding = text.partition(middle)
            if not between or not _is_plain(padding):
                return None
        return text or None if _is_plain(text) else _unescaped(text)

    def texts(self, data: bytes, start: int, lead: bytes, blank: bytes) -> Found:
        """Give the texts of those events in a row, from `start` on, that are `lead`, this payload and `blank`.

        `blank` is the end of a line and an empty one. With the texts comes how many bytes each of the events takes.
        """
        prefix, middle, suffix = self._raw
        head, tail = lead + prefix, suffix + blank
        around = len(head) + len(tail)
        texts: list[str] = []
        sizes: list[int] = []
        at = start
        while (end := _end(data, at, head, suffix, blank)) is not None:
            # More at a time as it goes well: what is looked at in vain stays less than what was read.
            window = max(end - at, min(2 * (at - start) or _FEW * (end - at), _WINDOW))
            pieces = _pieces(data[at + len(head) : at + window], tail, head)
            read = _texts(_unpadded(pieces, middle) if middle else pieces)
            texts += read
            sizes += [len(piece) + around for piece in pieces[: len(read)]]
            if not read or len(read) < len(pieces):
                break
            at += sum(sizes[-len(read) :])
        return texts, sizes

    def filled(self, text: str) -> Chunk:
        """Give the chunk with another text."""
        return self._fill(text)


class Reader:
    """Reads the payloads of one stream, remembering those that may repeat."""

    __slots__ = ("_hits", "_known", "_learnt")

    def __init__(self) -> None:
        self._known: list[Repeat] = []
        self._learnt = self._hits = 0

    def find(self, data: bytes, start: int, lead: bytes, blank: bytes) -> tuple[Repeat, Found] | None:
        """Give what the events from `start` on repeat, and their texts and sizes, as `Repeat.texts` does.

        None if the first of them must be read in full.
        """
        for place, known in enumerate(self._known):
            found = known.texts(data, start, lead, blank)
            if found[0]:
                self._hit(place, len(found[0]))
                return known, found
        return None

    def read(self, data: str) -> Chunk:
        """Do what `chunks.read` does with an event of no type of its own."""
        for place, known in enumerate(self._known):
            text = known.text(data)
            if text is not None:
                self._hit(place, 1)
                return known.filled(text)
        chunk = chunks.read(data)
        self.learn(data, chunk)
        return chunk

    def _hit(self, place: int, times: int) -> None:
        self._hits += times
        if place:
            self._known.insert(0, self._known.pop(place))

    def learn(self, data: str, chunk: Chunk) -> Repeat | None:
        """Remember a payload that was read in full; None if it is not of the kind that repeats."""
        if self._learnt > _LEAST_LEARNT + self._hits // _HITS_FOR_ONE:
            return None
        if _open_text(chunk) is None:
            return None
        self._learnt += 1  # a failure costs as much as a success
        learnt = repeat(data, chunk)
        if learnt is not None:
            self._known = [learnt, *self._known[: _KEPT - 1]]
        return learnt


def repeat(data: str, chunk: Chunk) -> Repeat | None:
    """Leave the text of a payload open, which is read as `chunk`; None if it has none, or more than one."""
    found = _open_text(chunk)
    if found is None or _TRIAL in data:
        return None
    part, text = found
    at = -1
    for _ in range(_TRIES):
        at = data.find(f'"{text}"', at + 1)
        if at < 0:
            break
        prefix, rest = data[: at + 1], data[at + 1 + len(text) :]
        if chunks.read(prefix + _TRIAL + rest) == filler(chunk, part)(_TRIAL):
            return Repeat(chunk, part, prefix, *_padded(prefix, text, rest))
    return None


def _open_text(chunk: Chunk) -> tuple[str, str] | None:
    # An id, a model and a finish reason are no open texts: some of their values mean something else.
    if len(chunk.pieces) != 1 or chunk.fault is not None or chunk.usage is not None:
        return None
    (piece,) = chunk.pieces
    if len(piece.tools) > 1:
        return None
    arguments = piece.tools[0].arguments if piece.tools else ""
    texts = zip(PARTS, (piece.content, piece.reasoning, piece.refusal, arguments), strict=True)
    found = [(part, text) for part, text in texts if text]
    return found[0] if len(found) == 1 and _is_plain(found[0][1]) else None


def _padded(prefix: str, text: str, rest: str) -> tuple[str, str]:
    """Split what follows the text around the padding: the first half is empty if there is none."""
    found = _PADDING.search(rest)
    if found is None:
        return "", rest
    middle = rest[: found.end()]
    _, quote, tail = rest[found.end() :].partition('"')
    try:
        tried: Any = msgspec.json.decode(prefix + text + middle + _TRIAL + quote + tail)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return "", rest
    return (middle, quote + tail) if tried.get("obfuscation") == _TRIAL else ("", rest)


def filler(chunk: Chunk, part: str) -> Callable[[str], Chunk]:
    """Give a function from a text to the chunk with that text in its part."""
    (old,) = chunk.pieces
    flags = (chunk.content, chunk.reasoning, chunk.tool, None, None, chunk.flags)

    def filled(piece: Piece) -> Chunk:
        return Chunk(chunk.dialect, chunk.id, chunk.model, (piece,), *flags)

    index, tools, reason = old.index, old.tools, old.finish_reason
    if part == "arguments":
        (tool,) = tools
        call = (tool.index, tool.id, tool.name)
        return lambda text: filled(Piece(index, "", "", "", (ToolPiece(*call, text),), reason))
    if part == "content":
        return lambda text: filled(Piece(index, text, "", "", tools, reason))
    if part == "reasoning":
        return lambda text: filled(Piece(index, "", text, "", tools, reason))
    return lambda text: filled(Piece(index, "", "", text, tools, reason))


def _is_plain(text: str) -> bool:
    """Whether a text stands in JSON as it is, and can neither end its string nor break it."""
    return text.isprintable() and '"' not in text and "\\" not in text


def _end(data: bytes, start: int, head: bytes, suffix: bytes, blank: bytes) -> int | None:
    """Give where the event at `start` ends; None if it begins or ends otherwise than `head` and `suffix`."""
    if not data.startswith(head, start):
        return None
    at = data.find(blank, start)
    return at + len(blank) if data.endswith(suffix, start + len(head), max(at, 0)) else None


def _pieces(window: bytes, tail: bytes, head: bytes) -> list[bytes]:
    """Split what begins behind a head between the tails and the heads: as long as events are like that, and whole."""
    *pieces, last = window.split(tail + head)
    # No payload has a line feed: one that does goes on into events of another kind.
    if b"\n" in b"".join(pieces):
        place = next(place for place, piece in enumerate(pieces) if b"\n" in piece)
        pieces, last = pieces[:place], pieces[place]
    text, found, _ = last.partition(tail)
    return [*pieces, text] if found else pieces


def _unpadded(pieces: Sequence[bytes], middle: bytes) -> list[bytes]:
    """Take the padding off, as long as it is padding: what comes before the middle stays."""
    parts = [piece.partition(middle) for piece in pieces]
    paddings = b"".join([padding for _, _, padding in parts])
    if not all([between for _, between, _ in parts]) or not _is_padding(paddings):
        parts = list(takewhile(lambda part: part[1] and _is_padding(part[2]), parts))
    return [text for text, _, _ in parts]


def _is_padding(raw: bytes) -> bool:
    return _is_plain(raw.decode("utf-8", "replace"))


def _texts(pieces: Sequence[bytes]) -> list[str]:
    """Read what stands between quotation marks, as long as each is one string and not empty."""
    # All at once: a line feed, of which pieces have none, stands in JSON between strings only, never in one.
    joined = b'",\n"'.join(pieces).decode("utf-8", "replace")
    try:
        texts = msgspec.json.decode(f'["{joined}"]', type=list[str])
    except (msgspec.DecodeError, ValueError):  # one of them is no string: it is looked for
        return _each(pieces)
    return texts if len(texts) == len(pieces) and all(texts) else _each(pieces)


def _each(pieces: Iterable[bytes]) -> list[str]:
    texts = []
    for raw in pieces:
        text = _unescaped(raw.decode("utf-8", "replace"))
        if text is None:
            break
        texts.append(text)
    return texts


def _unescaped(raw: str) -> str | None:
    """Read what stands between two quotation marks; None if that is not one string, or the string is empty."""
    try:
        return msgspec.json.decode(f'"{raw}"', type=str) or None
    except (msgspec.DecodeError, ValueError):  # a quotation mark, a control character, half of a surrogate pair
        return None
