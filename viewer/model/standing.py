"""Pure: how one lane of a race stands, in a line: how it ended, when its output began, how far and how fast it is."""

from typing import Final

from viewer import cells
from viewer.model.race import Lane
from viewer.model.streams import state
from viewer.rows import Row

_APART: Final = "  "


def told(lane: Lane, position: int, row: Row, room: int, *, recording: bool = True) -> str:
    """Tell as much as fits `room` cells, the most telling first, after `position` events of a lane.

    Tokens come from usage: before the end, how many a second there are is estimated by output chunks, which `~` says.
    """
    said = [_first(lane, position, row), f"#{position:,}/{len(lane.transcript):,}", _rate(lane, position, row)]
    if position == len(lane.transcript):
        found = state(row, recording=recording)
        said.insert(0, f"{found.sign} {found.word}")
    said += [_gap(lane, position), _instant(lane, position), f"{lane.content.length(position):,} ch"]
    kept = ""
    for one in filter(None, said):
        longer = f"{kept}{_APART}{one}" if kept else one
        if len(longer) > room and kept:
            break
        kept = longer
    return kept


def _first(lane: Lane, position: int, row: Row) -> str:
    if not lane.outputs(position):
        return "no output" if position == len(lane.transcript) and not lane.is_live else "no output yet"
    ttft = row["ttft_ms"]
    return f"T {cells.UNKNOWN if ttft is None else f'{ttft:,.0f} ms'}"


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
    return f"gap {cells.ms(gap / 1e6)} ms" if gap else "same read"


def _instant(lane: Lane, position: int) -> str:
    if not position:
        return ""
    at = lane.instant_ns(position)
    growing = "+" if lane.is_live and position == len(lane.transcript) else ""
    return "instant unknown" if at is None else f"{at / 1e9:.3f}{growing} s"
