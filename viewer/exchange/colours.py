"""Pure: the text of an answer for a terminal, in a colour for each kind.

Recorded text is hostile: all of it passes `safe`, but for its line ends.
"""

from collections.abc import Iterator, Sequence

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.decoder import TimedChunk
from wiretape.recorder.decode.dialect import Piece
from wiretape.viewer.text import formatting


def coloured(chunks: Sequence[TimedChunk], end_ns: int) -> Iterator[tuple[int, str]]:
    """Yield the first choice for a terminal: the timestamp and the text of each chunk of it.

    A chunk whose time the tape lacks came at the end.
    """
    choice = min((piece.index for timed in chunks for piece in timed.chunk.pieces), default=0)
    kind = half = ""
    for timed in chunks:
        coloured_text = ""
        for piece in timed.chunk.pieces:
            for piece_kind, text in _parts(piece) if piece.index == choice else ():
                text, half = _joined(half if piece_kind == kind else "", text)
                coloured_text += _separator(kind, piece_kind, text) + _in_colour(piece_kind, text)
                kind = piece_kind
        if coloured_text:
            yield timed.at_ns if timed.at_ns is not None else end_ns, coloured_text


def _parts(piece: Piece) -> Iterator[tuple[str, str]]:
    for kind, text in (("reasoning", piece.reasoning), ("content", piece.content), ("refusal", piece.refusal)):
        if text:
            yield kind, text
    for tool in piece.tools:
        if tool.name:
            yield "call", f"{tool.name} "
        if tool.arguments:
            yield "tool", tool.arguments


def _joined(half: str, text: str) -> tuple[str, str]:
    """Return a text with the first half of a surrogate pair that came before it, and the one that it ends with."""
    text = half + text
    end = len(text) - ("\ud800" <= text[-1:] <= "\udbff")
    return encoding.Cleaner().text(text[:end]) if half else text[:end], text[end:]


def _separator(previous_kind: str, kind: str, text: str) -> str:
    """Return the empty line between two kinds of text; each tool call begins a line."""
    if not previous_kind or previous_kind == kind != "call" or (previous_kind, kind) == ("call", "tool"):
        return ""
    return "\r\n" if previous_kind == "tool" and kind == "call" else "\r\n\r\n"


def _in_colour(kind: str, text: str) -> str:
    styles = {"reasoning": "\x1b[2m", "content": "", "tool": "\x1b[36m", "refusal": "\x1b[31m"}
    style = styles["tool" if kind == "call" else kind]
    plain = formatting.block(text.replace("\r\n", "\n")).replace("\n", "\r\n")
    reset = "\x1b[0m"
    return f"{style}{plain}{reset}" if style else plain
