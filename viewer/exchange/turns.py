"""Pure: the turns of a session over a WebSocket as a table, and their endings in words."""

from collections.abc import Iterator, Sequence
from typing import Final

from wiretape.recorder.decode.turns import TurnMeasures
from wiretape.recorder.sanitize import clipped
from wiretape.viewer.exchange.facts import Line
from wiretape.viewer.record import units
from wiretape.viewer.text import formatting
from wiretape.viewer.text.cells import Tone
from wiretape.viewer.text.formatting import line

_TONES: Final[dict[str, Tone]] = {
    "complete": "success", "interrupted": "warning", "cancelled": "warning", "error": "error", "truncated": "error",
}  # fmt: skip
_CAUSE: Final = 16
_FIGURE: Final = 10
_OUTCOME: Final = 12
_MOST: Final = 200


def ending(turn: TurnMeasures) -> str:
    """Return the ending of a turn in words: its number, its outcome, and the reason unless it is the same word."""
    reason = turn.error_code or turn.finish_reason
    reason_text = f" ({reason})" if reason and not reason.startswith(turn.outcome) else ""
    return f"turn {turn.turn}: {turn.outcome}{reason_text}"


def table(turns: Sequence[TurnMeasures], width: int) -> Iterator[Line]:
    """Yield a heading and a line for each turn, at most `_MOST`; nothing without turns.

    Below `_WIDE` cells, causes and texts are left out.
    """
    if not turns:
        return
    heads = "".join(f"{name:>{_FIGURE}}" for name in ("start s", "ttft ms", "ttfa ms", "audio ms", "silent ms"))
    cause = _CAUSE if width >= 90 else 0
    room = width - 5 - _CAUSE - 5 * _FIGURE - _OUTCOME - 3 if cause else 0
    names = ("begun by", "text") if cause else ("", "")
    yield [(f"{'turn':<5}{names[0]:<{cause}}{heads}  {'end':<{_OUTCOME}} {names[1]}", "strong")]
    for turn in turns[:_MOST]:
        start = formatting.UNKNOWN if turn.started_at_ns is None else f"{turn.started_at_ns / 1e9:.3f}"
        times = (turn.ttft_ns, turn.ttfa_ns, turn.audio_ns, turn.underrun_ns)
        figures = "".join(f"{formatting.ms(units.ms(ns)):>{_FIGURE}}" for ns in times)
        begun_by = (turn.begun_by or formatting.UNKNOWN) if cause else ""
        yield [
            (f"{turn.turn:<5}{begun_by:<{cause}}{start:>{_FIGURE}}{figures}  ", "plain"),
            (f"{turn.outcome:<{_OUTCOME}} ", _TONES.get(turn.outcome, "plain")),
            (clipped(line(turn.text), room) if turn.text and room else "", "muted"),
        ]
    if len(turns) > _MOST:
        yield [(f"and {len(turns) - _MOST:,} more: see 'wiretape export --table turns'", "muted")]
