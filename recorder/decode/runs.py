"""Runs of chunks: those of a stream that follow each other and differ in one text only."""

from dataclasses import dataclass

from wiretape.recorder.decode.dialect import Chunk
from wiretape.recorder.decode.templates import filler


@dataclass(slots=True)
class ItemRun:
    """One chunk, or several in a row that are equal but for one text, each in an item of its own.

    `part` (one of `templates.PARTS`) names that text, `texts` has it for each chunk; a chunk by itself has the part
    None. `item` is the number of the first one's item; the others are in the items that follow it.
    """

    chunk: Chunk
    part: str | None
    texts: list[str]
    item: int

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def items(self) -> slice:
        """The items of its chunks, to be taken from a column."""
        return slice(self.item, self.item + len(self.texts))

    @property
    def is_one_text(self) -> bool:
        """True if all of several chunks add to the same text of the answer, and to no other."""
        tools = self.chunk.pieces[0].tools
        return len(tools) == 1 and not tools[0].name if self.part == "arguments" else not tools

    def chunk_of(self, place: int) -> Chunk:
        """Return one of its chunks with its own text."""
        return self.chunk if self.part is None else filler(self.chunk, self.part)(self.texts[place])

    def chunks(self) -> list[Chunk]:
        return [self.chunk] if self.part is None else list(map(filler(self.chunk, self.part), self.texts))
