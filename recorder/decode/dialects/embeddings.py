"""The answer of OpenAI's embeddings API, as a `Chunk` without output: its model and its usage."""

from typing import Final

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.dialect import Chunk, Dialect, ReportedError
from wiretape.recorder.decode.values import JsonObject, text, usage_in

API: Final = "openai.embeddings"


def is_list(payload: JsonObject) -> bool:
    """Return True if a payload is a list of embeddings."""
    data = payload.get("data")
    if payload.get("object") != "list" or "choices" in payload or "type" in payload:
        return False
    if not isinstance(data, list) or not data:
        return False
    return isinstance(data[0], dict) and data[0].get("object") == "embedding"


def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
    """Read one JSON object; None if it is not of this API."""
    if not is_list(payload):
        return None
    return Chunk(API, text(payload.get("id")), text(payload.get("model")), usage=usage_in(payload), fault=fault)


tokens: Final = usage_fields.reader(API)


DIALECT: Final = Dialect(api=API, operation="embeddings", parse=parse, tokens=tokens)
