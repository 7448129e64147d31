"""Pure: bodies with their secrets masked, each read with as many bytes as before.

A secret may be split over reads and over events: the texts that deltas add up to are searched, too, and each event
loses its part of what is found. A body with a secret is kept without its content coding. Messages that are framed in
binary are searched one by one, so that their framing stays whole.
"""

import base64
import binascii
import contextlib
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, takewhile
from typing import Final

from wiretape.recorder.decode import encoding, rpc, uncoding
from wiretape.recorder.decode.decoder import BROKEN, EVENT, Decoded, decode
from wiretape.recorder.decode.exchange import Exchange, Reads, Sent
from wiretape.recorder.decode.framings import aws_eventstream, length_prefixed, websocket
from wiretape.recorder.decode.uncoding import Body
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.tape.masking import Masker, Span, joined, masked


class Unmaskable(Exception):
    """The reason that a body with a secret cannot be masked."""

    def of(self, id: str) -> WiretapeError:
        """Return the error that names the exchange."""
        return WiretapeError(f"exchange {id} cannot be redacted, as {self}: leave it out, or add --no-redact")


@dataclass(slots=True)
class _SearchedText:
    """A text in a body, at `start` to `end` there, and its secrets; `checked` is its message, if it has a checksum."""

    start: int
    end: int
    data: bytes
    is_base64: bool = False
    checked: Span | None = None
    spans: list[Span] = field(default_factory=list)

    @property
    def masked(self) -> bytes:
        data = masked(self.data, joined(self.spans))
        return base64.b64encode(data) if self.is_base64 else data


def request(headers: Sequence[Sequence[str]], data: bytes, mask: Masker) -> Body:
    """Return the body of a request masked; itself, with its coding, if it holds no secret. Raises `Unmaskable`."""
    body = Body(headers, Reads.of(()), data)
    text = encoding.detect_and_decode(encoding.coding_of(headers), data, (len(data),))[0].data
    call = rpc.message_type({name: value for name, value in headers}.get("content-type"))
    parts = [_SearchedText(0, len(text), text)] if call is None else list(_of_messages(text, call.framing))
    for part in parts:
        part.spans = mask.spans(part.data)
    mask.count += sum(len(part.spans) for part in parts)
    return _with_masked_parts(body, text, parts, mask)


def decoded(exchange: Exchange, body: Body, mask: Masker) -> Decoded:
    """Decode an answer, and mask it: its texts, not its times and sizes, which stay those of the bytes that came."""
    decoded = decode(exchange, body.reads, body.data)
    masked_exchange, masked_body = answer(exchange, body, mask, decoded)
    if masked_body is body and masked_exchange is exchange:
        return decoded
    decoded_mask = decode(masked_exchange, masked_body.reads, masked_body.data)
    texts = ("data", "runs", "fields", "drafts", "audio", "close", "status", "remark", "misfit")
    return replace(decoded, **{name: getattr(decoded_mask, name) for name in texts})


def answer(exchange: Exchange, body: Body, mask: Masker, decoded: Decoded | None = None) -> tuple[Exchange, Body]:
    """Return an answer masked, as `request` does, with the facts to decode it; of a WebSocket both directions.

    `decoded` is the same, if it is known. Raises `Unmaskable`.
    """
    decoded = decoded or decode(exchange, body.reads, body.data)
    parts = list(_parts(decoded))
    for part in parts:
        part.spans = mask.spans(part.data)
    mask.count += _add_assembled(decoded, parts, mask)
    if exchange.framing == "websocket":
        broken = (place for place, kind in enumerate(decoded.kinds) if kind == BROKEN)
        if any(mask.spans(decoded.data[decoded.starts[place] : decoded.ends[place]]) for place in broken):
            raise Unmaskable("a message of it is broken")
        return _websocket(exchange, body, decoded, parts, mask)
    masked_body = _with_masked_parts(body, decoded.data, parts, mask)
    if masked_body.headers is not body.headers:
        response = tuple((name, value) for name, value in masked_body.headers)
        exchange = replace(exchange, content_encoding=None, headers=exchange.headers._replace(response=response))
    return exchange, masked_body


def _with_masked_parts(body: Body, text: bytes, parts: Sequence[_SearchedText], mask: Masker) -> Body:
    """Return a body with its parts masked; `text` is that without its coding."""
    plain, changed = uncoding.uncoded(body), [part for part in parts if part.spans]
    if plain is not None and any(mask.spans(payload) for payload in rpc.coded_payloads(plain.headers, plain.data)):
        raise Unmaskable("messages of it are compressed")
    if (plain is None and mask.has_rules) or (changed and (plain is None or len(plain.data) != len(text))):
        raise Unmaskable("a body of it is compressed, and cannot be decoded")
    if plain is None or not changed:
        return body
    data = bytearray(text)
    for part in changed:
        data[part.start : part.end] = part.masked
        if part.checked is not None:
            start, end = part.checked
            data[start:end] = aws_eventstream.sealed(bytes(data[start:end]))
    return plain._replace(data=bytes(data))


def _parts(decoded: Decoded) -> Iterator[_SearchedText]:
    """Yield the texts of a body that are searched one by one."""
    data = decoded.data
    if decoded.is_call:
        yield from _of_messages(data, decoded.framing)
    elif decoded.framing == "websocket":
        for start, end, kind in zip(decoded.starts, decoded.ends, decoded.kinds, strict=True):
            if kind == EVENT:
                yield _SearchedText(start, end, data[start:end])
    elif decoded.framing == "aws-eventstream":
        for message in zip(decoded.starts, decoded.ends, strict=True):
            yield _of_eventstream(data, message)
        end = decoded.ends[-1] if decoded.ends else 0
        yield _SearchedText(end, len(data), data[end:])  # a message that was cut off
    else:
        yield _SearchedText(0, len(data), data)


def _of_messages(data: bytes, framing: str) -> Iterator[_SearchedText]:
    end = 0
    for message in length_prefixed.messages(data, framing):
        end = message.end
        if not message.flags & length_prefixed.COMPRESSED:
            payload = message.payload
            yield _SearchedText(payload.start, payload.stop, data[payload])
    yield _SearchedText(end, len(data), data[end:])  # a message that was cut off


_BASE64: Final = re.compile(rb'"bytes"\s*:\s*"([A-Za-z0-9+/]+={0,2})"')
"""Bedrock's events hold the model provider's, in base64."""


def _of_eventstream(data: bytes, message: Span) -> _SearchedText:
    """Return the payload of a message, or the event within it."""
    start, end = aws_eventstream.payload(data, *message)
    # A broken message stays broken.
    checked = message if aws_eventstream.sealed(data[slice(*message)]) == data[slice(*message)] else None
    if (wrapped := _BASE64.search(data, start, end)) is not None:
        with contextlib.suppress(binascii.Error):
            return _SearchedText(*wrapped.span(1), base64.b64decode(wrapped[1]), is_base64=True, checked=checked)
    return _SearchedText(start, end, data[start:end], checked=checked)


def _add_assembled(decoded: Decoded, parts: Sequence[_SearchedText], mask: Masker) -> int:
    """Add the secrets in the texts that deltas add up to; return the number of all secrets."""
    part_starts, spans_by_part, count = [part.start for part in parts], [list[Span]() for _ in parts], 0
    for pieces in _texts(decoded):
        masked_numbers = set[int]()
        for item, piece, secrets in _split(pieces, mask.text_spans("".join([piece for _, piece in pieces]))):
            item_start, item_end = decoded.starts[item], decoded.ends[item]
            # A part may hold many events, as of a body that is searched as a whole, or be held by one.
            index = max(bisect_right(part_starts, item_start) - 1, 0)
            index += parts[index].end <= item_start
            if index < len(parts) and parts[index].start < item_end:
                part = parts[index]
                limits = max(item_start - part.start, 0), min(item_end - part.start, len(part.data))
                for offsets in _located(part.data, limits, piece):
                    spans_by_part[index] += [(offsets[start], offsets[end]) for _, start, end in secrets]
                    masked_numbers.update(number for number, _, _ in secrets)
        count += len(masked_numbers)
    for part, spans in zip(parts, map(joined, spans_by_part), strict=True):
        # A secret of the bytes that overlaps one of the texts is the same one, and counted already.
        ends = [end for _, end in spans]
        candidates = ((bisect_right(ends, start), end) for start, end in part.spans)
        count += sum(index == len(spans) or spans[index][0] >= end for index, end in candidates)
        part.spans += spans
    return count


def _split(
    pieces: Sequence[tuple[int, str]], spans: Sequence[Span]
) -> Iterator[tuple[int, str, list[tuple[int, int, int]]]]:
    """Yield the pieces of a text that hold a part of its spans, with these parts and the numbers of their spans."""
    span_index, shift = 0, 0
    for item, piece in pieces:
        end = shift + len(piece)
        while span_index < len(spans) and spans[span_index][1] <= shift:
            span_index += 1
        numbers = takewhile(lambda number: spans[number][0] < end, range(span_index, len(spans)))  # noqa: B023
        parts = [(no, max(spans[no][0] - shift, 0), min(spans[no][1] - shift, len(piece))) for no in numbers]
        if parts:
            yield item, piece, parts
        shift = end


def _texts(decoded: Decoded) -> Iterable[list[tuple[int, str]]]:
    """Return the texts of an answer, each as its pieces with the items that brought them."""
    texts = dict[tuple[object, ...], list[tuple[int, str]]]()
    for run in decoded.runs:
        for item, chunk in enumerate(run.chunks(), run.item):
            for piece in chunk.pieces:
                fields: list[tuple[str | int, str]] = [("content", piece.content), ("reasoning", piece.reasoning)]
                fields.append(("refusal", piece.refusal))
                fields += [(tool.id if tool.index is None else tool.index, tool.arguments) for tool in piece.tools]
                for name, text in fields:
                    if text:
                        texts.setdefault((piece.index, name), []).append((item, text))
    return texts.values()


_STRING: Final = re.compile(rb'"((?:[^"\\]|\\.)*+)("\s*:)?', re.DOTALL)
"""A string of JSON, and its colon if it is a name; the end may be missing, where a body was cut off."""
_CHARACTER: Final = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|.", re.DOTALL)
_OF_STRUCTURE: Final = frozenset({b"type", b"id", b"role", b"object", b"model", b"name", b"event", b"status"})
"""Names of fields whose values are words of an API, which may be equal to a part of a secret."""


def _located(data: bytes, limits: Span, text: str) -> Iterator[list[int]]:
    """Yield the offsets of the characters of each JSON string that is equal to a text."""
    name = b""
    for token in _STRING.finditer(data, *limits):
        if token[2]:
            name = token[1]
        elif len(token[1]) >= len(text) and name not in _OF_STRUCTURE and _decoded_string(token[1]) == text:
            characters = _CHARACTER.findall(token[1].decode("utf-8", "surrogateescape"))
            sizes = (len(character.encode("utf-8", "surrogateescape")) for character in characters)
            offsets = [*accumulate(sizes, initial=token.start(1))]
            if len(offsets) == len(text) + 1:
                yield offsets


def _decoded_string(string: bytes) -> str | None:
    try:
        value: str = json.loads(b'"%s"' % string)
    except ValueError:
        return None
    return value


def _websocket(
    exchange: Exchange, body: Body, decoded: Decoded, parts: Sequence[_SearchedText], mask: Masker
) -> tuple[Exchange, Body]:
    """Return both directions of a WebSocket with changed messages written into their frames."""
    changed = {part.start: part.masked for part in parts if part.spans}
    sent, is_compressed = exchange.sent or Sent(Reads.of(()), b""), False
    directions = {False: bytearray(body.data), True: bytearray(sent.data)}
    for is_client, data in directions.items():
        items = (item for item in range(len(decoded.kinds)) if (item in decoded.sent) is is_client)
        for head, frames in websocket.payloads(bytes(data)):
            item = next(items, None)
            message = None if item is None or decoded.kinds[item] != EVENT else changed.get(decoded.starts[item])
            if item is None and not head & websocket.COMPRESSED:  # it was cut off, and is no event
                message = mask(b"".join(websocket.masked(bytes(data[start:end]), key) for start, end, key in frames))
            if message is None:
                continue
            is_compressed |= bool(head & websocket.COMPRESSED)
            for start, end, key in frames:
                payload, message = message[: end - start], message[end - start :]
                data[start:end] = websocket.masked(payload, key)
    if is_compressed:
        return _uncompressed(exchange, body, decoded, changed)
    if directions[False] == body.data and directions[True] == sent.data:
        return exchange, body
    facts = replace(exchange, sent=replace(sent, data=bytes(directions[True])))
    return facts, body._replace(data=bytes(directions[False]))


def _uncompressed(
    exchange: Exchange, body: Body, decoded: Decoded, changed: Mapping[int, bytes]
) -> tuple[Exchange, Body]:
    """Return a WebSocket as if no compression had been agreed on: each message in a frame, in the read that ended it.

    What follows the last message that is whole is the beginning of a frame.
    """
    if not decoded.whole or BROKEN in decoded.kinds:
        raise Unmaskable("messages of it are compressed, and cannot be read")
    sent, directions = exchange.sent or Sent(Reads.of(()), b""), list[tuple[Reads, bytes]]()
    for is_client, reads, data in ((False, body.reads, body.data), (True, sent.reads, sent.data)):
        ends, places = encoding.spans(reads.start, reads.size, len(data))
        pieces, end = [bytearray() for _ in reads], 0
        items = (item for item in range(len(decoded.kinds)) if (item in decoded.sent) is is_client)
        for item, (head, frames) in zip(items, websocket.payloads(data), strict=False):
            start, end, key = frames[-1]
            place = places[bisect_left(ends, end)]
            if place < 0:
                raise Unmaskable("messages of it are compressed, and came at unknown times")
            message = changed.get(decoded.starts[item], decoded.data[decoded.starts[item] : decoded.ends[item]])
            if decoded.kinds[item] == EVENT:
                pieces[place] += websocket.frame(message, head & 0x0F, from_client=is_client)
            else:
                pieces[place] += data[start - len(key) - 2 : end]
        if pieces and end < len(data):
            pieces[-1] += data[end : end + 1]
        sizes = [len(piece) for piece in pieces]
        starts = [*accumulate(sizes, initial=0)][: len(sizes)]
        columns = Reads(reads.seq, reads.at_ns, reads.relayed_ns, starts, sizes)
        directions.append((columns, b"".join(pieces)))
    headers = [pair for pair in body.headers if pair[0] != "sec-websocket-extensions"]
    facts = replace(exchange, extensions=None, sent=Sent(*directions[1], missing=sent.missing))
    return facts, Body(headers, *directions[0])
