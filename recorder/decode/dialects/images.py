"""One JSON payload of OpenAI's images API, as a `Chunk`: images are output without text, and usage is counted."""

from typing import Final

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.dialect import Chunk, Dialect, ReportedError
from wiretape.recorder.decode.values import JsonObject, text, usage_in

API: Final = "openai.images"

_KINDS = ("image_generation.", "image_edit.")
_IMAGE_KEYS = ("b64_json", "url")
_EVENT_KEYS = frozenset({"b64_json", "partial_image_index", "usage", "error", "created_at"})
"""Keys that identify an event: it has at least one."""


def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
    """Read one JSON object, an event or a whole answer; None if it is not of this API."""
    kind = text(payload.get("type"))
    if kind.startswith(_KINDS) and not _EVENT_KEYS.isdisjoint(payload):
        images: list[object] = [payload]
    elif (
        type(payload.get("created")) is int
        and payload.keys().isdisjoint(("choices", "object", "type"))
        and _is_list(payload)
    ):
        images = payload["data"]
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


def _is_list(payload: JsonObject) -> bool:
    images = payload.get("data")
    if not isinstance(images, list) or not images or not isinstance(images[0], dict):
        return False
    return any(key in images[0] for key in _IMAGE_KEYS)
