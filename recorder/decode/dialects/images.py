"""One JSON payload of OpenAI's images API, as a `Chunk`: images are output without text, and usage is counted."""

from typing import Final

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.dialect import Chunk, Dialect, ReportedError
from wiretape.recorder.decode.values import JsonObject, text, usage_in

API: Final = "openai.images"

_IMAGE_KEYS = ("b64_json", "url")
_EVENT_KEYS = frozenset({"b64_json", "partial_image_index", "usage", "error", "created_at"})
"""Keys that identify an event: it has at least one."""


def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
    """Read one JSON object, an event or a whole answer; None if it is not of this API."""
    kind, data = text(payload.get("type")), payload.get("data")
    if kind.startswith(("image_generation.", "image_edit.")) and not _EVENT_KEYS.isdisjoint(payload):
        images: list[object] = [payload]
    elif type(payload.get("created")) is int and payload.keys().isdisjoint(("choices", "object", "type")):
        if not isinstance(data, list) or not data or not isinstance(data[0], dict):
            return None
        if not any(key in data[0] for key in _IMAGE_KEYS):
            return None
        images = data
    else:
        return None
    return Chunk(
        API,
        content=any(text(image.get(key)) for image in images if isinstance(image, dict) for key in _IMAGE_KEYS),
        usage=usage_in(payload),
        fault=fault,
        ends=kind.endswith(".completed"),
    )


tokens: Final = usage_fields.reader(API)


DIALECT: Final = Dialect(api=API, operation="image", parse=parse, tokens=tokens)
