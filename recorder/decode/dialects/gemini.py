"""Gemini's own API: the answers of `generateContent` and `streamGenerateContent`, here and on Vertex AI.

A stream is a series of such answers, each with new parts and the current usage. Parts with `thought` are reasoning. A
function call comes whole, or with its arguments in pieces named by their paths (Vertex AI's
`streamFunctionCallArguments`), which are assembled to JSON text. Gemini Code Assist wraps each answer in `response`.
Values of enums are numbers where the request asks for `enum-encoding=int`, as Google's generated clients do.
Embeddings and counted tokens are read for their usage.
"""

import re
from typing import Final

from wiretape.recorder.decode import finish_reasons, usage_fields
from wiretape.recorder.decode.dialect import Chunk, Dialect, Parse, Piece, ReportedError, ToolPiece
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.values import JsonObject, compact, index, text, usage_in

API: Final = "gemini"

_FOREIGN = frozenset({"choices", "done", "object", "type", "usage"})
"""Keys of other APIs' objects; no answer of this one has them."""
_TEXTLESS = ("inlineData", "executableCode", "codeExecutionResult", "fileData", "toolCall", "toolResponse")
"""Parts that are output without text; the tools of these calls run on the server."""
_PROVIDER_CALLS = frozenset({"executableCode", "toolCall"})
_PROVIDER_RESULTS = frozenset({"codeExecutionResult", "toolResponse"})
_COUNTED = frozenset({"totalTokens", "totalBillableCharacters", "promptTokensDetails", "cachedContentTokenCount"})
_STEP = re.compile(
    r"""\.([^.\[\]]++) | \[(\d{1,9})\] | \['((?:[^'\\]|\\.)*+)'\] | \["((?:[^"\\]|\\.)*+)"\]""", re.VERBOSE
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

_Path = tuple[str | int, ...]


def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
    """Read one JSON object by itself; None if it is not of this API."""
    return _GeminiStream().parse(payload, event, fault)


def parser(exchange: Exchange | None = None) -> Parse:
    """Return a parser for the objects of one stream: pieces of arguments continue those before them."""
    path = "" if exchange is None else exchange.path
    # The numbers of finish reasons on Vertex AI are not those of the Gemini API.
    return _GeminiStream(is_vertex="/projects/" in path or "/publishers/" in path).parse


tokens: Final = usage_fields.reader(API)


DIALECT: Final = Dialect(
    api=API,
    operation="generate_content",
    parse=parse,
    tokens=tokens,
    finish_ends=True,
    parser=parser,
    repeats=False,
)


class _GeminiStream:
    """Parses the objects of one stream; keeps the calls whose arguments are still to come, one for each candidate."""

    __slots__ = ("_blocks", "_call_count", "_calls", "_reasons")

    def __init__(self, *, is_vertex: bool = False) -> None:
        self._calls: dict[int, _Call] = {}
        self._call_count = 0
        self._reasons = finish_reasons.VERTEX if is_vertex else finish_reasons.GEMINI
        self._blocks = finish_reasons.VERTEX_BLOCKS if is_vertex else finish_reasons.GEMINI_BLOCKS

    def parse(self, payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
        """Read one JSON object; None if it is not of this API."""
        if not _FOREIGN.isdisjoint(payload):
            return None
        if _is_answer(payload):
            return self._answer(payload, fault)
        wrapped = payload.get("response")
        if isinstance(wrapped, dict) and _FOREIGN.isdisjoint(wrapped) and _is_answer(wrapped):
            return self._answer(wrapped, fault)
        embeddings = payload.get("embeddings")
        embedding = embeddings[0] if isinstance(embeddings, list) and embeddings else payload.get("embedding")
        if isinstance(embedding, dict) and isinstance(embedding.get("values"), list):
            return Chunk(API, usage=usage_in(payload, "usageMetadata"), fault=fault)
        if type(payload.get("totalTokens")) is int and _COUNTED.issuperset(payload):
            return Chunk(API, usage=payload, fault=fault)
        return None

    def _answer(self, answer: JsonObject, fault: ReportedError | None) -> Chunk:
        output = _Output()
        pieces: list[Piece] = []
        ends = False
        candidates = answer.get("candidates")
        if isinstance(candidates, list) and candidates:
            for position, candidate in enumerate(candidates):
                if isinstance(candidate, dict):
                    self._candidate(candidate, position, output, pieces)
        else:
            # A blocked prompt has no candidates: the reason is here.
            feedback = answer.get("promptFeedback")
            blocked = feedback.get("blockReason") if isinstance(feedback, dict) else None
            if reason := finish_reasons.name_of(blocked, self._blocks):
                pieces.append(Piece(0, finish_reason=reason))
                ends = True
        return Chunk(
            API,
            text(answer.get("responseId")),
            text(answer.get("modelVersion")),
            tuple(pieces),
            output.content,
            output.reasoning,
            output.tool,
            usage_in(answer, "usageMetadata"),
            fault,
            ends=ends,
            provider_calls=output.calls,
            provider_results=output.results,
        )

    def _candidate(self, candidate: JsonObject, position: int, output: "_Output", pieces: list[Piece]) -> None:
        content = candidate.get("content")
        reason = finish_reasons.name_of(candidate.get("finishReason"), self._reasons)
        # Ratings and sources name a candidate without adding to it: that is not seeing it.
        if reason is None and not isinstance(content, dict):
            return
        place = index(candidate.get("index"))
        if place is None:
            place = position
        parts = content.get("parts") if isinstance(content, dict) else None
        if not isinstance(parts, list):
            parts = []
        text_content, reasoning, tools = self._parts(parts, place, output)
        pieces.append(Piece(place, text_content, reasoning, "", tools, reason))

    def _parts(self, parts: list[object], candidate: int, output: "_Output") -> tuple[str, str, tuple[ToolPiece, ...]]:
        content = reasoning = ""
        tools: list[ToolPiece] = []
        for part in parts:
            if not isinstance(part, dict):
                continue
            output.calls += not _PROVIDER_CALLS.isdisjoint(part)
            output.results += not _PROVIDER_RESULTS.isdisjoint(part)
            added = text(part.get("text"))
            if isinstance(part.get("functionCall"), dict):
                self._call(part["functionCall"], candidate, output, tools)
            elif not added and not any(isinstance(part.get(name), dict) and part[name] for name in _TEXTLESS):
                continue
            elif part.get("thought") is True:
                reasoning += added
                output.reasoning = True
            else:
                content += added
                output.content = True
        return content, reasoning, tuple(tools)

    def _call(self, call: JsonObject, candidate: int, output: "_Output", tools: list[ToolPiece]) -> None:
        name, id, arguments, values = (
            text(call.get("name")),
            text(call.get("id")),
            call.get("args"),
            call.get("partialArgs"),
        )
        values = [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
        open_call = self._calls.get(candidate)
        continues = call.get("willContinue") is True
        is_end = open_call is not None and name in ("", open_call.name) and not arguments
        if not (continues or values or is_end):
            self._calls.pop(candidate, None)
            arguments_text = compact(arguments) if isinstance(arguments, dict) else ""
            if name or arguments_text:
                output.tool = True
                tools.append(ToolPiece(None, id, name, arguments_text, True))
            return
        if open_call is None or name not in ("", open_call.name):
            open_call = self._calls[candidate] = _Call(self._call_count, name)
            self._call_count += 1
        else:
            name = ""
        added = "".join(map(open_call.add, values))
        output.tool = output.tool or bool(name or added)
        if not continues:
            added += open_call.end()
            del self._calls[candidate]
        tools.append(ToolPiece(open_call.index, id, name, added))


class _Output:
    """Which classes of output an answer carries, and how many calls and results of tools that the server runs."""

    __slots__ = ("calls", "content", "reasoning", "results", "tool")

    def __init__(self) -> None:
        self.content = self.reasoning = self.tool = False
        self.calls = self.results = 0


class _Call:
    """A call whose arguments come one after the other, written as the text of one JSON object.

    `index` is its number among those of the stream. A string stays open until another path comes: pieces of the same
    path continue it.
    """

    __slots__ = ("_in_string", "_path", "index", "name")

    def __init__(self, index: int, name: str) -> None:
        self.index = index
        self.name = name
        self._path: _Path = ()
        self._in_string = False

    def add(self, value: JsonObject) -> str:
        """Return the text that a value adds, preceded by the JSON syntax between the previous value and its path."""
        path, string = _path(value.get("jsonPath")), value.get("stringValue")
        json_text = compact(string)[1:-1] if isinstance(string, str) else _scalar(value)
        if not path or json_text is None:
            return ""
        if isinstance(string, str):
            if self._in_string and path == self._path:
                return json_text
            json_text = '"' + json_text
        syntax = self._syntax_before(path)
        self._path, self._in_string = path, isinstance(string, str)
        return syntax + json_text

    def end(self) -> str:
        """Return the text that closes the object."""
        return self._closed(0) or "{}"

    def _syntax_before(self, path: _Path) -> str:
        common = 0
        if self._path:
            longest = min(len(self._path), len(path)) - 1
            while common < longest and self._path[common] == path[common]:
                common += 1
            syntax = self._closed(common + 1) + ","
        else:
            syntax = "{"
        inner = "".join("[" if isinstance(step, int) else "{" + _key(step) for step in path[common + 1 :])
        return syntax + _key(path[common]) + inner

    def _closed(self, depth: int) -> str:
        """Return the end of the last value, and of the containers that hold its path from `depth` on."""
        closed = "".join("]" if isinstance(step, int) else "}" for step in reversed(self._path[depth:]))
        return '"' + closed if self._in_string else closed


def _is_answer(payload: JsonObject) -> bool:
    candidates = payload.get("candidates")
    if isinstance(candidates, list) and candidates and isinstance(candidates[0], dict):
        candidate = candidates[0]
        if isinstance(candidate.get("content"), dict) or type(candidate.get("finishReason")) in (str, int):
            return True
    if isinstance(payload.get("promptFeedback"), dict):
        return True
    has_usage = isinstance(payload.get("usageMetadata"), dict)
    if isinstance(payload.get("modelVersion"), str):
        return has_usage or "candidates" in payload or isinstance(payload.get("responseId"), str)
    return has_usage and ("candidates" in payload or len(payload) == 1)


def _scalar(value: JsonObject) -> str | None:
    for name in ("numberValue", "boolValue"):
        if isinstance(value.get(name), int | float):
            return compact(value[name])
    return "null" if "nullValue" in value else None


def _path(value: object) -> _Path:
    """Return the steps of a JSONPath that names one value: keys and places; () if they cannot be read."""
    if not isinstance(value, str) or not value.startswith("$"):
        return ()
    steps: list[str | int] = []
    at = 1
    while at < len(value):
        step = _STEP.match(value, at)
        if step is None:
            return ()
        plain, place, *quoted = step.groups()
        steps.append(int(place) if place else plain or _ESCAPED.sub(r"\1", quoted[0] or quoted[1] or ""))
        at = step.end()
    return tuple(steps) if steps and isinstance(steps[0], str) else ()


def _key(step: str | int) -> str:
    return "" if isinstance(step, int) else compact(step) + ":"
