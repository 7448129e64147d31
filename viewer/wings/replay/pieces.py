"""Pure: an exchange in pieces to be written again, with their timestamps, and positions in it.

The pieces of `sse` are the body without its content coding, in any framing: one for each read, and together all bytes.
Those of `text` are the answer's text, of `events` the lines of `show --part events`, of `jsonl` its rows; those of
`audio` are PCM with 16 bits, one for each message with audio of an answer.
"""

import io
from collections.abc import Iterator
from itertools import accumulate
from typing import Literal, NamedTuple

from wiretape.recorder.decode import uncoding
from wiretape.recorder.decode.encoding import Cleaner
from wiretape.recorder.decode.uncoding import Body
from wiretape.viewer.exchange import events, markers
from wiretape.viewer.exchange.clocks import SINCE_REQUEST, Times
from wiretape.viewer.exchange.colours import coloured
from wiretape.viewer.exchange.opened import FullExchange
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.export import text
from wiretape.viewer.timing.playback import Playback
from wiretape.viewer.wings.replay import wav

Form = Literal["text", "sse", "events", "jsonl", "audio"]


class TimedPiece(NamedTuple):
    """The data of one timestamp, in ns since T0."""

    at_ns: int
    data: bytes


class Section(NamedTuple):
    """A part of an exchange, in ns since T0, both ends included."""

    from_ns: int
    until_ns: int

    def of(self, pieces: list[TimedPiece]) -> list[TimedPiece]:
        return [piece for piece in pieces if self.from_ns <= piece.at_ns <= self.until_ns]


def pieces(full: FullExchange, form: Form, *, terminal: bool, turn: int | None = None) -> list[TimedPiece]:
    """Return an exchange in pieces, in the order in which they came; for a terminal, recorded text passes `safe`.

    `turn` chooses the audio of one turn. Raises `ValueError` if there is none of that number.
    """
    match form:
        case "sse":
            chosen = _reads(full)
        case "text":
            chosen = _terminal_text(full) if terminal else _content(full)
        case "events":
            chosen = _lines(full)
        case "jsonl":
            chosen = _rows(full)
        case "audio":
            sounds = wav.sounds(full.decoded, turn)
            chosen = (TimedPiece(sound.at_ns or 0, wav.pcm(sound)) for sound in sounds)
    unordered = list(chosen)
    at_ns = accumulate((piece.at_ns for piece in unordered), max)
    return [TimedPiece(at, piece.data) for at, piece in zip(at_ns, unordered, strict=True)]


def section(full: FullExchange, begin: str | None, end: str | None) -> Section:
    """Return the part between two positions, as the viewer's `go to` takes them; None is the start, or the end.

    A distance such as +2s counts from the start, or from `begin`. Raises `ValueError` if there is no such place, or if
    the end is before the beginning.
    """
    transcript, last_ns = _transcript(full), full.last_ns or 0
    playback = Playback(transcript.at, last_ns, lambda: 0)
    times = Times(started_at=full.row.started_at)
    from_ns = 0 if begin is None else _place(begin, playback, transcript, times)
    playback.seek_to(from_ns)
    until_ns = playback.end_ns if end is None else _place(end, playback, transcript, times)
    # With one position, the other is the stream's own start or end: a part of no length is not a mistake then.
    if until_ns < from_ns and begin is not None and end is not None:
        raise ValueError(f"{end!r} is before {begin!r}: there is nothing between them")
    return Section(from_ns, until_ns)


def _place(position: str, playback: Playback, transcript: Transcript, times: Times) -> int:
    goal = markers.parse_goal(position)
    place = None if goal is None else markers.place(goal, playback, transcript, times)
    if place is None:
        raise ValueError(f"{position!r} is no place in it: use {markers.EXAMPLES}, or words that it says")
    at_ns, count = place
    return at_ns if count is None else transcript.at[count - 1]


def _transcript(full: FullExchange) -> Transcript:
    transcript = Transcript(full.decoded)
    transcript.come_by(full.last_ns or 0)
    return transcript


def _reads(full: FullExchange) -> Iterator[TimedPiece]:
    coded = Body([("content-encoding", full.exchange.content_encoding or "")], full.reads, full.body)
    _, reads, data = uncoding.uncoded(coded) or coded
    position = 0
    for read in reads:
        end = read.start + read.size
        yield TimedPiece(read.at_ns, data[position:end])  # with the bytes of a damaged read before it
        position = max(position, end)
    if position < len(data):
        yield TimedPiece(full.last_ns or 0, data[position:])


def _terminal_text(full: FullExchange) -> Iterator[TimedPiece]:
    text = ""
    for at_ns, text in coloured(list(full.decoded.chunks()), full.last_ns or 0):
        yield TimedPiece(at_ns, text.encode())
    if text and not text.endswith("\n"):
        yield TimedPiece(full.last_ns or 0, b"\r\n")


def _content(full: FullExchange) -> Iterator[TimedPiece]:
    """Yield the content of the first choice: together the bytes of `show --part text`."""
    transcript, cleaner = _transcript(full), Cleaner()
    for voice in transcript.voices[:1]:
        for delta in voice.content.deltas():
            content = cleaner.text(voice.content.text[delta.start : delta.end])
            yield TimedPiece(transcript.at[delta.event], content.encode())


def _lines(full: FullExchange) -> Iterator[TimedPiece]:
    transcript = _transcript(full)
    heading, *lines = events.lines(transcript, SINCE_REQUEST)
    yield TimedPiece(0, f"{heading}\n".encode())
    yield from (TimedPiece(at_ns, f"{line}\n".encode()) for at_ns, line in zip(transcript.at, lines, strict=True))


def _rows(full: FullExchange) -> Iterator[TimedPiece]:
    transcript = _transcript(full)
    for at_ns, row in zip(transcript.at, events.table(transcript, full.decoded), strict=True):
        line = io.BytesIO()
        text.write(line, "jsonl", list(row), [row], exact=False)
        yield TimedPiece(at_ns, line.getvalue())
