"""Pure: the chunks of exchanges as rows, and iterators of rows that keep their kind."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from wiretape.recorder.decode.dialect import Chunk, Piece
from wiretape.viewer.record.fields import CHUNK_FIELDS, PART_FIELDS
from wiretape.viewer.record.rows import Exchanges, TableRow
from wiretape.viewer.record.units import ms

if TYPE_CHECKING:
    from wiretape.recorder.decode.decoder import Decoded

T = TypeVar("T")


class Chunks(Iterator[TableRow]):
    """The chunks of some exchanges, one row after the other; `export` takes `bodies` and makes lines of it instead.

    `bodies` has the id and the decoded body of each exchange; `limit` is how many rows there are at most.
    """

    def __init__(self, bodies: "Iterable[tuple[str, Decoded]]", limit: int | None = None) -> None:
        self.bodies = bodies
        self.limit = limit
        self._rows = itertools.islice((row for id, decoded in bodies for row in chunks(id, decoded)), limit)

    def __next__(self) -> TableRow:
        return next(self._rows)


def with_first_read(rows: Iterable[TableRow]) -> Iterator[TableRow]:
    """Read the first of some rows, and return an iterator of the same kind over all of them."""
    if isinstance(rows, Exchanges):
        return Exchanges(rows.fields, _with_first_read(rows.batches))
    if isinstance(rows, Chunks):
        return Chunks(_with_first_read(rows.bodies), rows.limit)
    return _with_first_read(rows)


def _with_first_read(items: Iterable[T]) -> Iterator[T]:
    iterator = iter(items)
    return itertools.chain(list(itertools.islice(iterator, 1)), iterator)


def chunks(id: str, decoded: "Decoded") -> Iterator[TableRow]:
    """Yield one row for each choice of each chunk, or one without a choice where a chunk has none.

    Fields of the whole chunk (`seq`, timestamps, `output`, `output_tokens`) are the same on all of its rows.
    `gap_ms` is the time since the chunk before, None for the first. Several tool calls in one piece: names are joined
    by a space, arguments by a line feed.
    """
    previous_ns: int | None = None
    seq = 0
    for run in decoded.runs:
        # Once for a run: its chunks differ in one text alone.
        chunk_rows, field = chunk(id, run.chunk), PART_FIELDS.get(run.part or "")
        for item, text in enumerate(run.texts, run.item):
            at_ns, read_number = decoded.at_ns[item], decoded.reads[item]
            position = {
                "seq": seq,
                "at_ms": ms(at_ns),
                "gap_ms": None if previous_ns is None or at_ns is None else ms(at_ns - previous_ns),
                "read": read_number,
                "event": item,
            }
            for row in chunk_rows:
                yield {**row, **position} if field is None else {**row, **position, field: text}
            previous_ns, seq = at_ns, seq + 1


def chunk(id: str, chunk: Chunk) -> list[TableRow]:
    """Return the rows of a chunk, without its number and its timestamps."""
    from wiretape.recorder.decode.dialects import registry  # a shell that completes a line waits for it

    return [
        {
            **dict.fromkeys(CHUNK_FIELDS),
            "id": id,
            "kinds": " ".join(_kinds(chunk, piece)),
            "output": chunk.output,
            **_piece(piece),
            "output_tokens": registry.tokens(chunk).output,
        }
        for piece in chunk.pieces or (None,)
    ]


def gaps(at_ns: Sequence[int | None]) -> list[int | None]:
    """Return the time from each timestamp to the next: None beside an unknown one."""
    return [None if a is None or b is None else b - a for a, b in itertools.pairwise(at_ns)]


def _kinds(chunk: Chunk, piece: Piece | None) -> list[str]:
    """Return a row's kinds. In a chunk with one choice, output without text (audio, encrypted reasoning) counts."""
    is_alone = piece is not None and len(chunk.pieces) == 1
    parts = {
        "content": (piece is not None and piece.content) or (is_alone and chunk.content and not _refused(piece)),
        "reasoning": (piece is not None and piece.reasoning) or (is_alone and chunk.reasoning),
        "refusal": _refused(piece),
        "tool": piece is not None and piece.tools,
        "finish": piece is not None and piece.finish_reason,
        "usage": chunk.usage,
        "error": chunk.fault,
        "ping": chunk.ping,
    }
    return [kind for kind, is_carried in parts.items() if is_carried] or ["empty"]


def _refused(piece: Piece | None) -> bool:
    return piece is not None and bool(piece.refusal) and not piece.content


def _piece(piece: Piece | None) -> TableRow:
    tools = piece.tools if piece else ()
    return {
        "choice": piece.index if piece else None,
        "content": (piece and piece.content) or None,
        "reasoning": (piece and piece.reasoning) or None,
        "refusal": (piece and piece.refusal) or None,
        "tool_name": " ".join(tool.name for tool in tools if tool.name) or None,
        "tool_arguments": "\n".join(tool.arguments for tool in tools if tool.arguments) or None,
        "finish_reason": piece.finish_reason if piece else None,
    }
