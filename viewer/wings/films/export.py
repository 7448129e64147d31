"""The export of films: the options for their pace and size, and their writers."""

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from wiretape.recorder.commands.options import gathered
from wiretape.viewer.commands import options
from wiretape.viewer.export.task import ExportTask
from wiretape.viewer.timing.playback import RECORDED, Pace

if TYPE_CHECKING:
    from wiretape.viewer.exchange.opened import FullExchange

_LEAST_SIZE, _LARGEST_SIZE = (40, 12), (240, 80)
_USUAL_SIZE: Final = (80, 24)


@dataclass(frozen=True, slots=True)
class FilmOptions:
    """The pace of a film, and the columns and lines of its screen."""

    pace: Pace = RECORDED
    size: tuple[int, int] = _USUAL_SIZE


def read_film(speed: float, max_gap: str | None, size: str | None) -> FilmOptions | None:
    """Return the options of a film, None if all are the usual ones. Raise `click.BadParameter`."""
    pace = options.read_pace(speed, max_gap, no_wait=False)
    if pace.speed == math.inf:
        raise click.BadParameter("a film takes time: use a number above 0", param_hint="--speed")
    match = re.fullmatch(r"(\d{1,3})x(\d{1,3})", size or "x".join(map(str, _USUAL_SIZE)))
    columns, lines = (int(match[1]), int(match[2])) if match else (0, 0)
    if not (_LEAST_SIZE[0] <= columns <= _LARGEST_SIZE[0] and _LEAST_SIZE[1] <= lines <= _LARGEST_SIZE[1]):
        least, largest = ("x".join(map(str, limit)) for limit in (_LEAST_SIZE, _LARGEST_SIZE))
        raise click.BadParameter(f"use COLUMNSxLINES from {least} to {largest}, not {size}", param_hint="--size")
    chosen = FilmOptions(pace, (columns, lines))
    return None if chosen == FilmOptions() else chosen


film = gathered(
    "film",
    read_film,
    click.option("--speed", type=float, default=1.0, metavar="N", help="With asciicast or gif: N times as fast, …"),
    click.option("--max-gap", metavar="TIME", help="… each silence shortened to TIME at most, such as 1s, …"),
    click.option("--size", metavar="COLSxLINES", help="… and the size of the screen. [default: 80x24]"),
)
"""The options, as the argument `film`."""


def write_asciicast(task: ExportTask, file: BinaryIO) -> int:
    """Write the recording of an exchange, or of the race of two; return the number of its events."""
    from wiretape.viewer import config
    from wiretape.viewer.wings.films import asciicast
    from wiretape.viewer.wings.films.film import Film, ScreenSize

    exchanges, chosen, limits = _exchanges(task), task.options or FilmOptions(), config.thresholds()
    size = ScreenSize(*chosen.size)
    if len(exchanges) > 1:
        return asciicast.write_race(file, exchanges[0], exchanges[1], Film(exchanges, chosen.pace, limits, size))
    return asciicast.write(file, exchanges[0], limits, chosen.pace, size)


def write_gif(task: ExportTask, file: BinaryIO) -> int:
    """Write the film of an exchange, or of the race of two; return the number of its frames."""
    from wiretape.viewer import config
    from wiretape.viewer.wings.films import gif
    from wiretape.viewer.wings.films.film import Film, ScreenSize

    chosen = task.options or FilmOptions()
    return gif.write(file, Film(_exchanges(task), chosen.pace, config.thresholds(), ScreenSize(*chosen.size)))


def _exchanges(task: ExportTask) -> "list[FullExchange]":
    return [task.source.exchange(number).full() for number in task.few(2)]
