"""An event's data, or an error body, as chunks.

Each JSON object is a chunk of the first dialect that claims it, or one that no dialect claims. The rules of all
dialects are here: `[DONE]`, the shapes of errors, and the repairs that real wires need (payloads printed over several
lines, several payloads in one event, JSON outside any event). Every repair leaves a flag. Bytes and standard events
come from `sse`; deltas are put together by `assembly`.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from wiretape.recorder.decode import reported
from wiretape.recorder.decode.allowance import Allowance, may_be_parsed
from wiretape.recorder.decode.declared.compiler import DeclaredDialect
from wiretape.recorder.decode.declared.matching import Alternative
from wiretape.recorder.decode.dialect import Chunk, Parse, ReportedError
from wiretape.recorder.decode.dialects import registry
from wiretape.recorder.decode.dialects.registry import DIALECTS
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.operation import api_asked
from wiretape.recorder.decode.values import JsonObject, compact, text

DONE: Final = Chunk("", id="[DONE]")
EMPTY: Final = Chunk("", id="empty")
MALFORMED: Final = Chunk("", id="malformed")
UNREAD: Final = Chunk("", id="unread")
"""Values of an event instead of a chunk; compared by identity. `UNREAD` has more values than are parsed."""

MAX_TEXT_ERROR: Final = 2000
MAX_SEQUENCE: Final = 100_000
"""Payloads read of one event, or of one region outside of any."""

_GATEWAY_KEYS = frozenset({"error_type", "error_message", "base_resp", "x_groq", "code"})
_CODE_KEYS = ("code", "type", "error_type", "status", "statusCode", "status_code", "__type")
_DATA_PREFIX = re.compile(r"data(?:: ?|$)")
_OTHER_FIELD = re.compile(r"(?:event|id|retry|error)?:")
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_JSON_LINE = re.compile(r"(?:\A|(?<=[\r\n]))[ \t]*[\[{]")
_VISIBLE = re.compile(r"\S")
_RAW = json.JSONDecoder()
_NO_JSON: Final = object()
"""The value of a text that is no JSON; compared by identity."""
_PARSERS: Final[list[Parse]] = [dialect.parse for dialect in DIALECTS]
_UNASKED: Final = Exchange()
_MADE_FOR_STREAMS: Final = [
    (place, dialect.parser) for place, dialect in enumerate(DIALECTS) if dialect.parser is not None
]


class PayloadReader:
    """Reads the JSON objects of one stream: each is a chunk of the dialect that claims it.

    `declared` is the declared dialect of the stream, None as long as none has recognised it; `is_certain`: by more than
    the path, so that all of its events are its own. A declaration is asked
    before the built-in dialects if a header is its own, or if the path names none of these; one that knows the first
    event is asked after them.
    """

    __slots__ = (
        "_allowance",
        "_alternatives",
        "_exchange",
        "_is_begun",
        "_parse",
        "_parsers",
        "declared",
        "is_certain",
    )

    def __init__(self, exchange: Exchange = _UNASKED, allowance: Allowance | None = None) -> None:
        self._exchange, self._allowance = exchange, allowance or Allowance()
        self._parsers = _PARSERS.copy()
        for place, make in _MADE_FOR_STREAMS:
            self._parsers[place] = make(exchange)
        self.declared: DeclaredDialect | None = None
        self.is_certain = False
        self._parse: Parse | None = None
        self._alternatives: Sequence[tuple[DeclaredDialect, Alternative]] = ()
        self._is_begun = False
        if exchange is _UNASKED:
            return
        # The exchange may tell the declared dialect; others have to see the first event.
        is_free = api_asked(exchange) is None
        by_exchange, self._alternatives = registry.alternatives_of(exchange.dialects, exchange.method, exchange.path)
        names = _header_names(exchange)
        for dialect, alternative in by_exchange:
            # Most ways are left out without a test: this is done for each stream.
            if (alternative.headers <= names if alternative.headers else is_free) and alternative.holds(exchange):
                self._adopt(dialect, is_certain=alternative.is_certain)
                break

    def _adopt(self, dialect: DeclaredDialect, *, is_certain: bool) -> None:
        self.declared, self.is_certain = dialect, is_certain
        self._parse = dialect.parser_of(self._exchange, self._allowance, is_certain)

    def __call__(self, payload: JsonObject, event: str = "message") -> Chunk:
        """Read one JSON object of an event; one of the type "error" is an error, in any shape."""
        chunk = self._chunk(payload, event)
        if reported.KEYS.isdisjoint(payload) or (values := reported.in_payload(payload)) is None:
            return chunk
        return replace(chunk, reported=values)

    def _chunk(self, payload: JsonObject, event: str) -> Chunk:
        error = fault(payload)
        if event == "error" and error is None:
            error = _described(payload, payload)
        if self._parse is not None and (chunk := self._parse(payload, event, error)) is not None:
            return chunk
        alternatives, self._alternatives = self._alternatives, ()
        is_second, self._is_begun = self._is_begun, True
        for place, parse in enumerate(self._parsers):
            chunk = parse(payload, event, error)
            if chunk is not None:
                if place:  # the others of a stream are of the same dialect
                    self._parsers.insert(0, self._parsers.pop(place))
                return chunk
        if alternatives and not self.is_certain and self._is_recognised(payload, alternatives, is_second=is_second):
            return self._chunk(payload, event)
        # An empty object says nothing: gateways send it to keep a connection alive.
        return Chunk("", fault=error, ping=not payload)

    def _is_recognised(
        self, payload: JsonObject, alternatives: Sequence[tuple[DeclaredDialect, Alternative]], *, is_second: bool
    ) -> bool:
        """Adopt the first waiting dialect that knows an event; those that also have to see the next one wait on."""
        remaining, names = [], _header_names(self._exchange)
        for dialect, alternative in alternatives:
            fits = alternative.then if is_second else alternative.first
            if fits is None or not (
                alternative.headers <= names and alternative.holds(self._exchange) and fits(payload)
            ):
                continue
            if is_second or alternative.then is None:
                self._adopt(dialect, is_certain=True)
                return True
            remaining.append((dialect, alternative))
        self._alternatives = remaining
        return False

    def read_other(self, payload: object, event: str) -> Chunk | None:
        """Read JSON that is no object; None if no declared dialect has a meaning for it."""
        return None if self._parse is None else self._parse(payload, event, None)  # type: ignore[arg-type]


def _header_names(exchange: Exchange) -> set[str]:
    return {name for side in exchange.headers for name, _ in side}


def read(data: str, event: str = "message", reader: PayloadReader | None = None) -> Chunk:
    """Read the data of one event: a chunk, `DONE`, `EMPTY`, `UNREAD`, or `MALFORMED`, which `repair` may still save.

    JSON that is no object is a chunk of no dialect.
    """
    if data == "[DONE]":
        return DONE
    if not data:
        return Chunk("", fault=ReportedError(None, None)) if event == "error" else EMPTY
    if not may_be_parsed(data):
        return UNREAD
    try:
        payload = msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        payload = _decode_slowly(data)
    if type(payload) is dict:
        return (reader or PayloadReader())(payload, event)
    return _no_object(data.strip(), payload, event, reader)


def _no_object(data: str, payload: object, event: str, reader: PayloadReader | None) -> Chunk:
    """Read the data of an event that is no JSON object, without white space around it."""
    if data == "[DONE]":
        return DONE
    if payload is not _NO_JSON:
        if reader is not None and (chunk := reader.read_other(payload, event)) is not None:
            return chunk
        of_event = _described(payload, {}) if event == "error" else None
        return Chunk("", fault=_fault_in_list(payload) or of_event)
    if data:
        return MALFORMED
    return Chunk("", fault=ReportedError(None, None)) if event == "error" else EMPTY


def fault(payload: JsonObject) -> ReportedError | None:
    """Find the error that a JSON object reports, in any form that servers send."""
    error = payload.get("error")
    if error:
        # Objects that can fail later (a fine-tuning job, say) carry the form of an error with every field null.
        is_blank = isinstance(error, dict) and all([value is None for value in error.values()])
        if not is_blank:
            return _described(error, payload)
    choices = payload.get("choices")
    if isinstance(choices, list):
        for choice in choices:
            if isinstance(choice, dict) and choice.get("error"):
                return _described(choice["error"], payload)
    # vLLM's older form, and that of AG-UI.
    if payload.get("object") == "error" or payload.get("type") in ("error", "RUN_ERROR"):
        return _described(payload, payload)
    return None if _GATEWAY_KEYS.isdisjoint(payload) else _fault_of_gateway(payload)


def body_fault(body: str) -> ReportedError:
    """Find the error in the body of an HTTP error that is not an event stream: in its JSON, else its text."""
    payload = _decode_slowly(body) if may_be_parsed(body) else _NO_JSON
    if isinstance(payload, list) and payload:
        payload = payload[0]
    if isinstance(payload, dict) and payload:
        return fault(payload) or _described(payload, payload)
    text = payload if isinstance(payload, str) else body
    return ReportedError(None, text.strip()[:MAX_TEXT_ERROR] or None)


def error_type(data: str) -> str | None:
    """Return the type of the error in a JSON text, which some APIs name beside its code; None if there is none."""
    payload = _decode_slowly(data) if may_be_parsed(data) else _NO_JSON
    if isinstance(payload, list) and payload:
        payload = payload[0]
    error = payload.get("error", payload) if isinstance(payload, dict) else None
    return (text(error.get("type")) or None) if isinstance(error, dict) else None


def error_field(value: str) -> ReportedError:
    """Read the value of an `error:` line, a field that the standard ignores: a JSON error, or its text."""
    payload = _decode_slowly(value) if may_be_parsed(value) else _NO_JSON
    if isinstance(payload, dict) and payload:
        return fault(payload) or _described(payload, payload)
    return ReportedError(None, value.strip() or None)


def repair(block: str, event: str = "message", reader: PayloadReader | None = None) -> tuple[list[Chunk], list[str]]:
    """Read an event's block again, leniently: payloads over several lines, several payloads in one event.

    Returns the chunks before the first thing that cannot be read, `MALFORMED` in its place, and the repair's flags.
    """
    lines, bare = _payload_lines(block)
    chunks = [chunk for chunk, _ in sequence("\n".join(lines), event, reader)]
    if chunks == [MALFORMED]:
        # The text of an error event need not be JSON.
        return ([Chunk("", fault=ReportedError(None, "\n".join(lines).strip()))] if event == "error" else chunks), []
    flags = ["glued"] if len(chunks) > 1 else []
    if bare:
        flags.append("unframed" if block.startswith(("{", "[")) else "pretty_printed")
    return chunks, flags


def sequence(body: str, event: str = "message", reader: PayloadReader | None = None) -> list[tuple[Chunk, int]]:
    """Read the JSON objects and `[DONE]` that follow each other, each with the index where it ends.

    Stops at the first thing that is neither, which is `MALFORMED`.
    """
    if not may_be_parsed(body):
        return [(UNREAD, len(body))]
    chunks: list[tuple[Chunk, int]] = []
    position, reader = 0, reader or PayloadReader()
    while len(chunks) < MAX_SEQUENCE and (start := _VISIBLE.search(body, position)):
        chunk, position = _next(body, start.start(), event, reader)
        chunks.append((chunk, position))
    return chunks


def unframed(region: str, reader: PayloadReader | None = None) -> list[tuple[Chunk, int]]:
    """Read the JSON that stands outside of any event, from its first line on, each chunk with the index of its end."""
    first_line = _JSON_LINE.search(region)
    if first_line is None:
        return []
    skipped = first_line.start()
    return [
        (chunk, skipped + end) for chunk, end in sequence(region[skipped:], reader=reader) if chunk is not MALFORMED
    ]


def _next(body: str, position: int, event: str, reader: PayloadReader) -> tuple[Chunk, int]:
    if body.startswith("[DONE]", position):  # behind a payload, with one newline in between
        return DONE, position + len("[DONE]")
    try:
        payload, end = _RAW.raw_decode(body, position)
    except (ValueError, RecursionError):
        return MALFORMED, len(body)
    if isinstance(payload, dict):
        return reader(payload, event), end
    if payload is not None and not isinstance(payload, list):  # a number may be the beginning of a text
        return MALFORMED, len(body)
    if (chunk := reader.read_other(payload, event)) is not None:
        return chunk, end
    return (MALFORMED, len(body)) if payload is None else (Chunk("", fault=_fault_in_list(payload)), end)


def _payload_lines(block: str) -> tuple[list[str], bool]:
    # Servers that print their JSON over several lines prefix only the first one with `data:`.
    lines, bare = [], False
    for line in _LINE_ENDS.split(block):
        prefix = _DATA_PREFIX.match(line)
        if prefix:
            lines.append(line[prefix.end() :])
        elif line.strip() and not _OTHER_FIELD.match(line):
            lines.append(line)
            bare = True
    return lines, bare


def _decode_slowly(data: str) -> Any:
    # The standard library takes what msgspec refuses and servers send: lone surrogates, NaN, 1e400.
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return _NO_JSON


def _fault_in_list(payload: object) -> ReportedError | None:
    # Gemini's array transport wraps its error in a list.
    return fault(payload[0]) if isinstance(payload, list) and payload and isinstance(payload[0], dict) else None


def _fault_of_gateway(payload: JsonObject) -> ReportedError | None:
    if payload.get("error_message") or payload.get("error_type"):  # of gateways in front of vLLM, and of TGI
        return _described(payload, payload)
    # MiniMax answers 200 with a status code in the body (0: it succeeded); Groq says there why it stopped early.
    minimax, groq = payload.get("base_resp"), payload.get("x_groq")
    if isinstance(minimax, dict) and minimax.get("status_code"):
        return ReportedError(_code(minimax["status_code"]), text(minimax.get("status_msg")) or None)
    if isinstance(groq, dict) and groq.get("error"):
        return _described(groq["error"], {})
    code = _code(payload.get("code"))
    is_success = code is None or code.lower() in ("", "0", "200", "ok", "success")
    if "choices" in payload or is_success or not text(payload.get("message")):
        return None
    return _described(payload, payload)


def _described(error: object, payload: JsonObject) -> ReportedError:
    """Name an error: `error` is its description, `payload` the object around it."""
    if not isinstance(error, dict):
        code = next(filter(None, (_code(payload.get(key)) for key in _CODE_KEYS)), None)
        return ReportedError(code, _message(error))
    # Responses reports the same error nested or flat; others leave the code null and name a type.
    code = next(filter(None, (_code(holder.get(key)) for holder in (error, payload) for key in _CODE_KEYS)), None)
    message_keys = ("message", "error_message", "detail", "msg", "error")
    message = next(filter(None, (_message(error.get(key)) for key in message_keys)), None)
    return ReportedError(code, message or compact(error)[:MAX_TEXT_ERROR] or None)


def _code(value: object) -> str | None:
    if isinstance(value, bool) or value == "error":
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) else text(value) or None


def _message(value: object) -> str | None:
    if value is None or isinstance(value, bool):
        return None
    return value or None if isinstance(value, str) else compact(value)[:MAX_TEXT_ERROR]
