"""One JSON payload of the legacy completions API, as a `Chunk`: choices of bare text, in the envelope of chat.

With `echo` the text begins with the prompt, as it came. Log probabilities are ignored.
"""

from typing import Final

from wiretape.recorder.decode.dialect import Chunk, Dialect, Piece, ReportedError
from wiretape.recorder.decode.dialects import chat
from wiretape.recorder.decode.values import JsonObject, index, text

API: Final = "openai.completions"


def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
    """Read one JSON object; None if it is not of this API."""
    choices = payload.get("choices")
    if not isinstance(choices, list):
        return None
    if not chat.are_choices(payload, choices) or not chat.is_legacy(payload, choices):
        return None
    pieces = []
    for position, choice in enumerate(choices):
        if isinstance(choice, dict):
            added, reason, number = choice.get("text"), chat.finish_reason(choice), index(choice.get("index"))
            if reason is not None or isinstance(added, str):
                pieces.append(Piece(position if number is None else number, content=text(added), finish_reason=reason))
    return Chunk(
        API,
        text(payload.get("id")),
        text(payload.get("model")),
        tuple(pieces),
        any(piece.content for piece in pieces),
        usage=chat.usage_of(payload, choices),
        fault=fault,
    )


DIALECT: Final = Dialect(
    api=API, operation="text_completion", parse=parse, tokens=chat.tokens, finish_ends=True, has_done=True
)
