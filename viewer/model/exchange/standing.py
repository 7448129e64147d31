"""Pure: how one lane of a race stands, in a line: how it ended, or for how long nothing has come of it; when its output
began, how far and how fast it is.
"""

from collections.abc import Sequence
from typing import Final

from viewer import formatting
from viewer.model.exchange import markers
from viewer.model.exchange.clocks import seconds
from viewer.model.exchange.race import Lane
from viewer.model.silence import Silence
from viewer.model.states import Part, state
from viewer.rows import Row

_APART: Final = "  "


def told(
    lane: Lane,
    position: int,
    row: Row,
    room: int,
    *,
    silence: Silence | None = None,
    zero_ns: int = 0,
) -> list[Part]:
    """Tell as much as fits `room` cells, the most telling first, after `position` events of a lane.

    Tokens come from usage: before the end, how many a second there are is estimated by output chunks, which `~` says.
    `silence` is the one that the playhead stands in. Instants count from `zero_ns`, in ns since T0.
    """
    said: list[Part] = []
    if position == len(lane.transcript):
        found = state(row)
        said.append((f"{found.sign} {found.word}", found.tone))
    if silence is not None:
        said.append((str(silence), "error" if silence.stalled else "warning"))
    counted = f"{markers.label(position)}/{markers.label(len(lane.transcript))}"
    figures = [_first(lane, position, row), counted, _rate(lane, position, row), _gap(lane, position)]
    figures += [_instant(lane, position, zero_ns), f"{lane.content.length(position):,} ch"]
    return _fitting([*said, *((figure, "muted") for figure in figures if figure)], room)


def _fitting(said: Sequence[Part], room: int) -> list[Part]:
    """Give as many as fit; the first always does."""
    (first, tone), *others = said
    kept: list[Part] = [(first, tone)]
    room -= len(first)
    for text, tone in others:
        room -= len(_APART) + len(text)
        if room < 0:
            break
        kept.append((_APART + text, tone))
    return kept


def _first(lane: Lane, position: int, row: Row) -> str:
    if not lane.outputs(position):
        return "no output" if position == len(lane.transcript) and not lane.is_live else "no output yet"
    ttft = row["ttft_ms"]
    return f"T {formatting.UNKNOWN if ttft is None else f'{ttft:,.0f} ms'}"


def _rate(lane: Lane, position: int, row: Row) -> str:
    """Give the tokens a second, withheld where the row withholds them; where none are counted, the output chunks."""
    if row["tps_user"] is not None and position == len(lane.transcript):
        return f"{row['tps_user']:,.1f} tok/s"
    rate = lane.chunks_per_s(position)
    if rate is None or "burst" in row["flags"]:
        return ""
    per_chunk = row["tokens_per_chunk"]
    return f"{rate:,.1f} chunks/s" if per_chunk is None else f"~{rate * per_chunk:,.1f} tok/s"


def _gap(lane: Lane, position: int) -> str:
    gap = lane.gap_ns(position)
    if gap is None:
        return ""
    return f"gap {formatting.ms(gap / 1e6)} ms" if gap else "same read"


def _instant(lane: Lane, position: int, zero_ns: int) -> str:
    if not position:
        return ""
    at = lane.instant_ns(position)
    growing = "+" if lane.is_live and position == len(lane.transcript) else ""
    return "instant unknown" if at is None else f"{seconds(at - zero_ns)}{growing} s"
