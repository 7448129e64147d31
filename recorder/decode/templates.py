"""Payloads that differ from an earlier one in one text only, found several at a time without parsing them.

Nearly all payloads of a long answer are equal, character for character, except for the word that each adds. A
`Template` is a payload with that word left open. A payload matches if the text before and after the word is equal, and
exactly one JSON string stands between them: parsing it could find nothing else. The string that is the chunk's text is
found by trial, not by its position: with another text in its place, the payload parsed in full must give the chunk with
that text. Three more values are left open, because no dialect reads them: `obfuscation`, the padding of OpenAI's
events, `sequence_number`, their count, and `event_id`, the cursor of Gemini's Interactions.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any, Final

import msgspec

from wiretape.recorder.decode import payloads
from wiretape.recorder.decode.dialect import Chunk, Piece, ToolPiece
from wiretape.recorder.decode.dialects import registry
from wiretape.recorder.decode.framings.sse import Event
from wiretape.recorder.decode.payloads import PayloadReader

PARTS: Final = ("content", "reasoning", "refusal", "arguments")
"""The texts of a chunk; one of them may be open."""

_TRIAL = "\ue000"
"""The text that is put in the place of another to see which value it is: of Unicode's private use, unlike any word."""
WINDOW = 1 << 20
"""Limit of the bytes of a body compared at once."""
_TEXT, _PADDING, _NUMBER = "text", "padding", "number"
_UNREAD_KEYS = ("obfuscation", "sequence_number", "event_id")
_VALUE = re.compile(r'\s*(?:"(?P<padding>[^"\\]*)"|(?P<number>\d+)(?![\d.eE]))')
_BLOCK = re.compile(rb"((?:event:[^\r\n]*(?:\r\n|[\r\n]))?data: ?)([^\r\n]*)[\r\n]*")


class Template:
    """A payload with one text left open, in the lines of its event; `part` of `PARTS` names it, `chunk` was learnt.

    `literals` are the texts around the open values, and `kinds` the kinds of these: the text itself, or a value that is
    ignored.
    """

    __slots__ = ("_head", "_kinds", "_middles", "_suffix", "chunk", "part")

    def __init__(self, chunk: Chunk, part: str, kinds: Sequence[str], literals: Sequence[bytes]) -> None:
        self.chunk = chunk
        self.part = part
        self._kinds = kinds
        self._head, *self._middles, self._suffix = literals

    def find(self, data: bytes, start: int, blank: bytes) -> tuple[list[str], list[int]]:
        """Return the texts of the events in a row from `start` on that have this payload, and their sizes in bytes.

        `blank` is the end of a line and an empty one.
        """
        head = self._head
        fixed_size = len(head) + len(self._suffix) + len(blank)
        texts: list[str] = []
        sizes: list[int] = []
        position = start
        while (size := _size(data, position, head, self._suffix, blank)) is not None:
            # The window begins with eight events and doubles with each success: so fewer bytes are compared in vain
            # than decoded.
            window = max(size, min(2 * (position - start) or 8 * size, WINDOW))
            pieces = _pieces(data[position : position + window], head, self._suffix, blank)
            parsed = self._parsed(pieces) if self._middles else _texts(pieces)
            texts += parsed
            sizes += map(fixed_size.__add__, map(len, pieces[: len(parsed)]))
            if not parsed or len(parsed) < len(pieces):
                break
            position += sum(sizes[-len(parsed) :])
        return texts, sizes

    def _parsed(self, pieces: Sequence[bytes]) -> list[str]:
        """Parse the texts of pieces that have other open values, too, as long as all are valid."""
        if not pieces:
            return []
        columns: list[Sequence[bytes]] = []
        match_count = len(pieces)
        for middle in self._middles:
            leading, separators, pieces = zip(*[piece.partition(middle) for piece in pieces], strict=True)
            columns.append(leading)
            if not all(separators):
                match_count = min(match_count, _count(bool, separators))
        texts: Sequence[bytes] = ()
        for kind, values in zip(self._kinds, [*columns, pieces], strict=True):
            if kind == _TEXT:
                texts = values
            else:
                match_count = min(match_count, _matching(kind, values))
        return _texts(texts[:match_count])


class Templates:
    """The templates of one stream, learnt from its payloads."""

    __slots__ = ("_hits", "_learnt", "_reader", "_templates")

    def __init__(self, reader: PayloadReader | None = None) -> None:
        self._reader = reader
        self._templates: list[Template] = []
        self._learnt = self._hits = 0

    def find(self, data: bytes, start: int, blank: bytes) -> tuple[Template, list[str], list[int]] | None:
        """Return the template of the events from `start` on, their texts and sizes; None if the first one has none."""
        for index, template in enumerate(self._templates):
            texts, sizes = template.find(data, start, blank)
            if texts:
                self._hits += len(texts)
                if index:
                    self._templates.insert(0, self._templates.pop(index))
                return template, texts, sizes
        return None

    def learn(self, event: Event, block: bytes, chunk: Chunk) -> None:
        """Remember the payload of an event, its `block` of lines, that was parsed as `chunk`, if it may repeat."""
        # Learning costs as much as parsing twice: the number of attempts is limited, and grows with the hits.
        if self._learnt > 8 + self._hits // 4 or _open_text(chunk) is None:
            return
        declared = None if self._reader is None else self._reader.declared
        dialect = registry.BY_API.get(chunk.api) if declared is None else declared
        if chunk.is_cumulative or (dialect is not None and not dialect.repeats):
            return
        if declared is not None and declared.api != chunk.api:
            return  # a declaration decides about each event, also about one of another dialect
        self._learnt += 1  # a failure costs as much as a success
        if (learnt := template(event, block, chunk, None if declared is None else self._reader)) is not None:
            # Choices that take turns each have their own template: four of the last ones are kept.
            self._templates = [learnt, *self._templates[:3]]


def template(event: Event, block: bytes, chunk: Chunk, reader: PayloadReader | None = None) -> Template | None:
    """Leave the text of an event's payload open, which was parsed as `chunk`; None if it has none, or more than one.

    `reader` is that of a stream of a declared dialect.

    Its block has to be one line of data, and before it at most the line with its type.
    """
    payload, open_text, lines = event.data, _open_text(chunk), _BLOCK.fullmatch(block)
    if open_text is None or lines is None or _TRIAL in payload or lines[2] != payload.encode("utf-8", "replace"):
        return None
    part, text = open_text
    at = -1
    for _ in range(5):  # the same text may stand elsewhere first: as a model's name, say
        at = payload.find(f'"{text}"', at + 1)
        if at < 0:
            break
        start, end = at + 1, at + 1 + len(text)
        tried = payloads.read(payload[:start] + _TRIAL + payload[end:], event.type, reader)
        if tried == filler(chunk, part)(_TRIAL):
            unread = _UNREAD_KEYS if reader is None or reader.declared is None else reader.declared.unread
            spans = sorted([(start, end, _TEXT), *_unread_values(payload, unread)])
            borders = [0, *(border for start, end, _ in spans for border in (start, end)), len(payload)]
            between = [payload[start:end].encode() for start, end in zip(borders[::2], borders[1::2], strict=True)]
            return Template(chunk, part, [kind for _, _, kind in spans], [lines[1] + between[0], *between[1:]])
    return None


def filler(chunk: Chunk, part: str) -> Callable[[str], Chunk]:
    """Return a function from a text to the chunk with that text in its part."""
    (old,) = chunk.pieces
    flags = (chunk.content, chunk.reasoning, chunk.tool, None, None, chunk.flags)
    attributes = chunk.attributes

    def filled(piece: Piece) -> Chunk:
        return Chunk(chunk.api, chunk.id, chunk.model, (piece,), *flags, attributes=attributes)

    index, tools, reason, of = old.index, old.tools, old.finish_reason, old.part
    if part == "arguments":
        (tool,) = tools
        call = (tool.index, tool.id, tool.name)
        return lambda text: filled(Piece(index, "", "", "", (ToolPiece(*call, text),), reason, of))
    if part == "content":
        return lambda text: filled(Piece(index, text, "", "", tools, reason, of))
    if part == "reasoning":
        return lambda text: filled(Piece(index, "", text, "", tools, reason, of))
    return lambda text: filled(Piece(index, "", "", text, tools, reason, of))


def _open_text(chunk: Chunk) -> tuple[str, str] | None:
    # An id, a model and a finish reason are no open texts: some of their values mean something else.
    if len(chunk.pieces) != 1 or chunk.fault is not None or chunk.usage is not None:
        return None
    (piece,) = chunk.pieces
    if len(piece.tools) > 1:
        return None
    arguments = piece.tools[0].arguments if piece.tools else ""
    texts = zip(PARTS, (piece.content, piece.reasoning, piece.refusal, arguments), strict=True)
    added = [(part, text) for part, text in texts if text]
    return added[0] if len(added) == 1 and _is_plain(added[0][1]) else None


def _unread_values(payload: str, keys: Iterable[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the positions of values that the dialect does not read, with their kinds: those of the payload itself."""
    for key in keys:
        at = payload.find(f'"{key}":')
        value = _VALUE.match(payload, at + len(key) + 3) if at >= 0 else None
        if value is None:
            continue
        kind = value.lastgroup or ""
        start, end = value.span(kind)
        # Another value is put there: parsed, it must be that of the key, and not that of the same key elsewhere.
        tried = _TRIAL if kind == _PADDING else f"1{value[kind]}"
        try:
            parsed: Any = msgspec.json.decode(payload[:start] + tried + payload[end:])
        except (msgspec.DecodeError, ValueError, RecursionError):
            continue
        if str(parsed.get(key)) == tried:
            yield start, end, kind


def _is_plain(text: str) -> bool:
    """Return True if a text stands in JSON as it is, and can neither end its string nor break it."""
    return text.isprintable() and '"' not in text and "\\" not in text


def _size(data: bytes, start: int, head: bytes, suffix: bytes, blank: bytes) -> int | None:
    """Return the size of the event at `start`; None if it begins or ends otherwise than `head` and `suffix`."""
    if not data.startswith(head, start):
        return None
    # A payload has no line feed: looked for any further, a missing one would cost the rest of the body each time.
    at = data.find(b"\n", start + len(head)) + 1 - len(blank) // 2
    fits = at > start and data.startswith(blank, at) and data.endswith(suffix, start + len(head), at)
    return at + len(blank) - start if fits else None


def _pieces(window: bytes, head: bytes, suffix: bytes, blank: bytes) -> list[bytes]:
    """Return the bytes between head and suffix of the events in a row that have both; the first one does.

    All events are cut alike and put together again: the result is the same bytes if all of them have both.
    """
    lines, step = window.split(b"\n"), head.count(b"\n") + 2  # a search for a single byte is by far the fastest
    start, end = len(head) - head.rfind(b"\n") - 1, 1 - len(suffix) - len(blank) // 2
    pieces = [line[start:end] for line in lines[step - 2 : (len(lines) - 1) // step * step : step]]
    between = suffix + blank + head

    def is_same(count: int) -> bool:
        return window.startswith(b"%b%b%b%b" % (head, between.join(pieces[:count]), suffix, blank))

    if not is_same(len(pieces)):
        del pieces[1 + bisect_left(range(2, len(pieces)), True, key=lambda count: not is_same(count)) :]
    return pieces


def _matching(kind: str, values: Sequence[bytes]) -> int:
    """Return the number of leading values that are of an ignored kind."""
    are_of_kind = _are_padding if kind == _PADDING else _are_numbers
    return len(values) if are_of_kind(values) else _count(lambda value: are_of_kind([value]), values)


def _count(fits: Callable[[Any], object], values: Iterable[object]) -> int:
    return sum(1 for _ in takewhile(fits, values))


def _are_padding(values: Sequence[bytes]) -> bool:
    return _is_plain(b"".join(values).decode("utf-8", "replace"))


def _are_numbers(values: Sequence[bytes]) -> bool:
    if not b"".join(values).isdigit():
        return False
    # Of at most 18 digits, which 64 bits hold; a leading zero is no JSON.
    return all([0 < len(value) <= 18 and (value[0] != ord("0") or len(value) == 1) for value in values])


def _texts(pieces: Sequence[bytes]) -> list[str]:
    """Parse texts between quotation marks, as long as each is one string and not empty."""
    # All at once: pieces have no line feed, which stands in JSON between strings only, never in one.
    try:
        texts = msgspec.json.decode(b'["' + b'",\n"'.join(pieces) + b'"]', type=list[str])
        if len(texts) == len(pieces) and all(texts):
            return texts
    except (msgspec.DecodeError, ValueError):  # one of them is no string
        pass
    return list(takewhile(bool, map(_text, pieces)))


def _text(raw: bytes) -> str:
    """Parse the text between two quotation marks; "" if that is not one string."""
    try:
        return msgspec.json.decode(b'"%s"' % raw, type=str)
    except (msgspec.DecodeError, ValueError):  # a quotation mark, a control character, half of a surrogate pair
        return ""
