"""Statistics in a dozen lines."""

from typing import Any

import numpy as np

from tests.support.sample_tape import HOSTILE
from wiretape.recorder.decode.causes import Ending
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.report import digest
from wiretape.viewer.report.digest import Counted
from wiretape.viewer.source.tape import overview
from wiretape.viewer.stats import summary
from wiretape.viewer.stats.metrics import QUANTITIES
from wiretape.viewer.stats.summary import figures


def row_of(connection: Connection, **values: int) -> dict[str, Any]:
    """Return a tape's row of statistics; each named quantity has `count` values of 1, 2, 3, … ms."""
    (sample,) = overview.samples(connection)
    row = summary.row(sample, ())
    for name, count in values.items():
        numbers = figures(np.arange(1.0, count + 1))
        row |= {summary.field_name(QUANTITIES[name], statistic): value for statistic, value in numbers.items()}
    return row


def cells(row: dict[str, Any], name: str) -> list[str]:
    lines = [line.plain for line in digest.page(row, Counted("generation")).lines]
    (line,) = [line for line in lines if f"({name})" in line]
    return line.split()[-5:]


def test_a_percentile_is_shown_of_enough_values_only(connection: Connection) -> None:
    assert cells(row_of(connection, ttft=19), "ttft") == ["19", "10.0", "–", "–", "19.0"]
    assert cells(row_of(connection, ttft=20), "ttft") == ["20", "10.5", "19.1", "–", "20.0"]
    assert cells(row_of(connection, ttft=100), "ttft") == ["100", "50.5", "95.0", "99.0", "100.0"]


def missing(connection: Connection, unasked: int) -> str:
    counted = Counted("generation", unasked=unasked)
    lines = (line.plain for line in digest.page(row_of(connection), counted).lines)
    (text,) = (line.removeprefix("missing").strip() for line in lines if line.startswith("missing"))
    return text


def test_a_page_says_how_to_get_missing_data(connection: Connection) -> None:
    assert missing(connection, 4) == 'usage of 4 answers: ask with stream_options={"include_usage": true}'


def test_usage_is_requested_where_it_is_optional(connection: Connection) -> None:
    some = 'usage of 4 answers: ask for 1 of them with stream_options={"include_usage": true}'
    assert missing(connection, 1) == some
    assert missing(connection, 0) == "usage of 4 answers"


def test_a_page_fits_and_names_the_stalls_parties(connection: Connection) -> None:
    counted = Counted("generation", " --db t.db", {Ending("complete", stalled=True): 2}, {"by upstream": 2})
    lines = [line.plain for line in digest.page(row_of(connection), counted, None, 60).lines]
    assert max(map(len, lines)) <= 60
    assert "slow       2 stalls by upstream: wiretape ls --db t.db -f" in lines


def test_recorded_text_is_harmless(connection: Connection) -> None:
    counted = Counted("exchange", HOSTILE, {Ending(HOSTILE, HOSTILE, HOSTILE): 1, Ending("complete", stalled=True): 1})
    rows = [
        summary.row(sample, ("model", "error_code")) for sample in overview.samples(connection, ("model", "error_code"))
    ]
    lines = [*digest.page(row_of(connection), counted).lines, *digest.groups(rows, ("model", "error_code")).lines]
    assert not {sign for line in lines for sign in line.plain if ord(sign) < 0x20 or 0x7F <= ord(sign) < 0xA0}
