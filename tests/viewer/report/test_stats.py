"""Statistics for people."""

import numpy as np

from tests.support.sample_tape import HOSTILE
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.report import stats as sheets
from wiretape.viewer.source.tape import overview
from wiretape.viewer.stats import summary
from wiretape.viewer.stats.histogram import buckets
from wiretape.viewer.stats.metrics import QUANTITIES, objective


def table_of(connection: Connection, *by: str, slo: str | None = None, width: int | None = None) -> list[str]:
    bounds = objective(slo) if slo else []
    rows = [summary.row(sample, by, bounds=bounds) for sample in overview.samples(connection, by)]
    return [line.plain for row in rows for line in sheets.block(row, by, slo, width).lines]


def test_a_block_has_a_head_a_table_and_notes(connection: Connection) -> None:
    lines = table_of(connection, slo="ttft<1s")
    assert lines[0] == "all · 7 exchanges · 2026-03-01 12:00:01 – 2026-03-01 12:00:07 UTC"
    assert lines[1] == "outcomes   open 1, http_error 1, error_event 2, truncated 1, complete 2"
    assert lines[2] == "errors     66.67 %; of all 66.67 %, after a 2xx 60.00 %, cancelled 0.00 %"
    assert lines[3].endswith("usage from 1, missing from 4")
    assert lines[4:6] == ["goodput    33.33 % (ttft<1s)", "coalesced  14.29 %"]
    table = [line.split() for line in lines[6:] if not line.startswith("note: ")]
    assert table[0] == ["n", "mean", "std", "min", "p50", "p90", "p95", "p99", "max"]
    assert [" ".join(cells[:2]) for cells in table[1:]] == [
        f"{quantity.name} {quantity.unit}" for quantity in QUANTITIES.values()
    ]
    assert table[1] == ["ttft", "ms", "2", "80.0", "30.0", "50.0", "80.0", "–", "–", "–", "110.0"]
    assert lines[-1] == "note: – too few values: p50 needs 2, p90 needs 10, p95 needs 20, p99 needs 100"


def test_unknown_is_a_dash(connection: Connection) -> None:
    lines = table_of(connection, "status")
    (limited,) = [at for at, line in enumerate(lines) if line.startswith("status 429 · 1 exchange ·")]
    assert lines[limited + 3].endswith("usage from 0, missing from 0")
    silences = [quantity.name for quantity in QUANTITIES.values() if quantity.of_every_outcome]
    others = [line.split() for line in lines[limited + 6 :] if not line.startswith(("note: ", *silences))]
    assert {cell for line in others for cell in line[2:]} == {"0", "–"}


def test_recorded_text_is_harmless(connection: Connection) -> None:
    text = "\n".join(table_of(connection, "model", "error_code", slo=None))
    assert "cmd()" in text
    assert not {sign for sign in text if ord(sign) < 0x20 or 0x7F <= ord(sign) < 0xA0} - {"\n"}
    assert HOSTILE not in text


def test_the_table_fits_a_terminal(connection: Connection) -> None:
    assert max(map(len, table_of(connection, width=60))) <= 60


def test_a_drawing_names_what_it_draws() -> None:
    lines = [line.plain for line in sheets.histogram(buckets(np.array([15.0, 16.0])), QUANTITIES["ttft"], 40)]
    assert lines == [f"ttft ({QUANTITIES['ttft'].meaning})", "10 – 20 ms 2 " + "█" * 27]


def test_warnings_are_sentences() -> None:
    assert sheets.explained("few:ttft,icl") == "p99 of fewer than 100 values (ttft, icl)"
    assert sheets.explained("coalesced") == summary.WARNINGS["coalesced"]
