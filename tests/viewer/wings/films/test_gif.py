"""Films as GIFs: their timing, their size, and the drawing of cells."""

import io
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from PIL import Image, ImageChops

from tests.support.exchanges import full
from tests.support.sample_tape import COMPLETE, MS, ODD, TOOLS
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.source.tape import exchange, queries
from wiretape.viewer.wings.films import gif
from wiretape.viewer.wings.films.film import Film, ScreenSize


def gif_of(film: Film) -> Any:
    out = io.BytesIO()
    count = gif.write(out, film)
    picture = Image.open(out)
    assert picture.n_frames == count
    return picture


def film(connection: Connection, *ids: str, size: tuple[int, int] = (80, 24)) -> Film:
    displayed = [exchange.full(connection, queries.find(connection, id)) for id in ids]
    return Film(displayed, size=ScreenSize(*size))


def frames(picture: Any) -> Iterator[Any]:
    for number in range(picture.n_frames):
        picture.seek(number)
        yield picture.convert("RGB")


def test_frames_last_as_long_as_the_recording(connection: Connection) -> None:
    picture = gif_of(film(connection, TOOLS))
    lasted = []
    for number in range(picture.n_frames):
        picture.seek(number)
        lasted.append(picture.info["duration"])
    assert lasted == [100] * 31 + [3000]
    assert picture.info["loop"] == 0


def test_unchanged_lines_have_the_same_pixels_in_every_frame(connection: Connection) -> None:
    displayed = [*frames(gif_of(film(connection, COMPLETE)))]
    high = displayed[0].height // 24
    changed = [ImageChops.difference(one, other).getbbox() for one, other in pairwise(displayed)]
    assert all(box is not None and box[1] >= 2 * high for box in changed)  # the title and its rule never


def test_a_cell_has_the_colour_of_its_tone(connection: Connection) -> None:
    final = [*frames(gif_of(film(connection, COMPLETE)))][-1]
    wide, high = final.width // 80, final.height // 24
    bar = final.crop((0, 21 * high, final.width, 22 * high))
    colors = {color for _, color in bar.getcolors()}
    assert {(124, 196, 255), (16, 21, 26)} <= colors  # content, and the blank behind its end
    assert final.crop((0, 10 * high, final.width, 11 * high)).getcolors() == [(final.width * high, (16, 21, 26))]
    assert final.crop((0, 0, wide, high)).getextrema() != ((16, 16), (21, 21), (26, 26))


def test_hostile_and_wide_text_is_drawn_within_its_cells(connection: Connection) -> None:
    picture = gif_of(film(connection, ODD, COMPLETE, size=(60, 16)))
    final = [*frames(picture)][-1]
    wide, high = final.width // 60, final.height // 16
    border = final.crop((29 * wide + 1, 2 * high, 30 * wide - 1, 3 * high))
    assert len(border.getcolors()) == 2  # the line between the lanes, and the ground


def test_a_long_films_frames_fit_memory() -> None:
    hour = Film([full(end_ns=3_600_000 * MS, outcome="timeout")], size=ScreenSize(40, 12))
    assert gif.MOST_FRAMES <= gif_of(hour).n_frames <= gif.MOST_FRAMES + 1
    large = Film([full(end_ns=3_600_000 * MS, outcome="timeout")], size=ScreenSize(240, 80))
    picture = gif_of(large)
    assert 50 < picture.n_frames <= gif.MOST_PIXELS // (picture.width * picture.height) + 2


def test_without_a_system_font_pillows_is_used(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr("PIL.ImageFont.truetype", missing)
    assert gif_of(film(connection, ODD, TOOLS)).size == (80 * 6, 24 * 11)


def test_without_pillow_the_extra_is_named(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(WiretapeError, match=r"GIF needs Pillow: .*\[gif\]"):
        gif.write(io.BytesIO(), film(connection, COMPLETE))
