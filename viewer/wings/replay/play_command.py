"""The command `play`: an exchange written again with its recorded timing.

`replay.pieces` makes the pieces and their times, `timing.playback` waits for them.
"""

import contextlib
import gc
import itertools
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.tape import redact
from wiretape.viewer.commands import options, output
from wiretape.viewer.timing.playback import Pace

if TYPE_CHECKING:
    from wiretape.viewer.exchange.opened import FullExchange
    from wiretape.viewer.source.base import Place
    from wiretape.viewer.wings.replay.pieces import Form, Section, TimedPiece


@dataclass(frozen=True, slots=True)
class _PlayJob:
    form: "Form"
    pace: Pace
    begin: str | None
    end: str | None
    clock: "_StoppableClock"
    turn: int | None


class _StoppableClock:
    """The monotonic clock, which stands still while ctrl-z has stopped the program."""

    def __init__(self) -> None:
        self._stopped_ns = 0

    def now(self) -> int:
        return SYSTEM.now() - self._stopped_ns

    @contextlib.contextmanager
    def stopping(self) -> Iterator[None]:
        """Stop and go on as the terminal asks; without a handler, all that was due meanwhile would come at once."""
        handler = signal.getsignal(signal.SIGTSTP)
        if handler is not signal.SIG_IGN:
            signal.signal(signal.SIGTSTP, self._stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGTSTP, handler)

    def _stop(self, *_: object) -> None:
        began = SYSTEM.now()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._stopped_ns += SYSTEM.now() - began


@click.command()
@options.exchange_ids()
@options.tape_db
@click.option(
    "--as",
    "form",
    type=click.Choice(["text", "sse", "events", "jsonl", "audio"]),
    help="Output format: the text, the body in any framing, decompressed (one write per read), a line per event as in "
    "show --part events, a JSON object per event, or the audio of answers over a WebSocket (help voice). [default: "
    "text on a terminal, else sse]",
)
@click.option("--turn", type=click.IntRange(min=1), metavar="N", help="With --as audio: this turn only. [default: all]")
@click.option(
    "-o",
    "--output",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --as audio: write a WAV file, at once, instead of raw samples in time.",
)
@options.paced
@click.option("--from", "begin", metavar="POS", help="Begin at this position: 3.2s, 50%, #120 (an event) or words. "
              "The output begins with the read at that position.")  # fmt: skip
@click.option("--until", "end", metavar="POS", help="End after this position; +2s is two seconds after --from.")
@click.option("--loop", is_flag=True, help="Begin again at the end, until ctrl-c.")
def play(
    ids: tuple[str, ...],
    db: "Place | None",
    form: "Form | None",
    turn: int | None,
    file: Path | None,
    pace: Pace,
    begin: str | None,
    end: str | None,
    loop: bool,
) -> None:
    """Write exchanges to stdout with their recorded timing.

    Read along, or test a program that reads a stream.

    ID is 4 or more characters of an exchange's id, @ (the newest), @-1, @err (a failed one), @stall or @slow; or s:KEY
    or @s, all exchanges of a session; - reads ids from stdin, one per line. The default is the newest. Several play one
    after the other.

    Time starts at the request, so that it includes the wait for the first byte; --from '#0' skips that wait. Each piece
    is written at its recorded time, by a clock that does not drift: a reader that was late gets the rest on time. A
    broken stream plays up to its end, whose cause is printed on stderr. After ctrl-z, it continues where it stopped.
    """
    clock = _StoppableClock()
    job = _PlayJob(form or ("text" if output.on_terminal() else "sse"), pace, begin, end, clock, turn)
    if job.form != "audio" and (file is not None or job.turn is not None):
        raise click.UsageError("--output and --turn are for audio: add --as audio")
    if file is not None and (len(ids) > 1 or job.begin is not None or job.end is not None):
        raise click.UsageError("a WAV file has the audio of one exchange: choose parts of it by --turn N")
    if job.form == "sse" and file is None and output.on_terminal():
        raise click.UsageError("raw bytes may upset a terminal: send them to a pipe, or use --as text")
    if job.form == "audio" and file is None and output.on_terminal():
        raise click.UsageError("raw samples may upset a terminal: write a WAV file by -o FILE, or use a pipe")
    place = options.place(db)
    place.require("bodies")
    with output.opened(place) as source:
        numbers = list(options.numbers(source, ids or ["@"]))
        if file is not None:
            _save(source.exchange(numbers[0]).full(), turn, file, place.file)
            return
        with output.stdout() as out, clock.stopping():
            for index, no in enumerate(itertools.cycle(numbers) if loop else numbers):
                output.raise_if_unread()
                recorded = source.exchange(no).full()
                source.release()  # playing may take minutes, in which the tape's log could not be reset
                ending = _play(recorded, job, out)
                if ending and index < len(numbers):
                    click.echo(redact.message(f"{recorded.row.id}: {ending}"), err=True)


def _save(full: "FullExchange", turn: int | None, file: Path, tape: Path | None) -> None:
    """Write the audio of an exchange as a WAV file that appears when it is complete."""
    from wiretape.recorder.errors import NotFound, NotShipped
    from wiretape.viewer import outfile
    from wiretape.viewer.wings.replay import wav

    if not full.exchange.has_bytes:
        raise NotShipped(full.row.id)
    try:
        sounds = wav.sounds(full.decoded, turn)
        if not sounds:
            raise NotFound(f"{full.row.id} has no audio of an answer in a known format: see 'wiretape help voice'")
        with outfile.replacing(file, tape) as stream:
            samples = wav.write(stream, sounds)
    except ValueError as error:
        raise click.UsageError(f"{full.row.id}: {error}") from error
    seconds = samples / sounds[0].format.rate
    click.echo(f"wrote {redact.shown(click.format_filename(file))} ({seconds:.3f} s of audio)", err=True)


def _play(full: "FullExchange", job: _PlayJob, out: BinaryIO) -> str:
    from wiretape.recorder.errors import NotShipped
    from wiretape.viewer.exchange import facts
    from wiretape.viewer.wings.replay import pieces

    if not full.exchange.has_bytes:
        raise NotShipped(full.row.id)
    try:
        section = pieces.section(full, job.begin, job.end)
        pieces_of = pieces.pieces(full, job.form, terminal=output.on_terminal(), turn=job.turn)
    except ValueError as error:
        raise click.UsageError(f"{full.row.id}: {error}") from error
    section_pieces = section.of(pieces_of)
    _write_in_time(section_pieces, section, job, out)
    if section.until_ns >= (full.last_ns or 0) and full.row.outcome != "complete":
        return "it still runs: later data is missing" if full.row.outcome == "open" else full.ending
    if job.form == "audio" and not pieces_of:
        return "there is no audio of an answer in a known format"
    if job.form == "text" and not pieces_of:
        return f"there is no text: {facts.no_text(full.row, '--as sse plays it')}"
    if pieces_of and not section_pieces:
        reach = "its time is unknown" if full.last_ns is None else f"it ended after {full.last_ns / 1e9:.3f} s"
        return f"no data in that section; {reach}"
    return ""


def _write_in_time(timed: "list[TimedPiece]", section: "Section", job: _PlayJob, out: BinaryIO) -> None:
    """Write each piece when it is due, in one write, and return when the section is over."""
    playback = job.pace.playback([piece.at_ns for piece in timed], section.until_ns, job.clock.now)
    if section.from_ns > 0:
        playback.seek_to(section.from_ns - 1)
    gc.freeze()  # a collection of the objects held here would delay a write
    playback.play()
    remainder = iter(timed)
    while (deadline := playback.deadline()) is not None:
        while (left_ns := deadline - job.clock.now()) > 0:
            output.raise_if_unread()
            # While nothing is due, it looks ten times a second for its reader.
            SYSTEM.sleep(min(left_ns, 100_000_000) / 1e9)
        for piece in itertools.islice(remainder, playback.advance()):
            out.write(piece.data)
            out.flush()
