"""Several exchanges read for a table."""

from sqlalchemy import Connection

from tests.viewer.conftest import COMPLETE, LIVE, TOOLS
from viewer.tape import comparing, queries


def test_exchanges_come_in_the_order_asked_for_and_what_is_gone_is_left_out(connection: Connection) -> None:
    numbers = [queries.find(connection, id) for id in (TOOLS, COMPLETE)]
    found = comparing.entries(connection, [numbers[0], 999, numbers[1]])
    assert [(one.no, one.row["id"]) for one in found] == [(numbers[0], TOOLS), (numbers[1], COMPLETE)]


def test_figures_are_those_of_the_tape(connection: Connection) -> None:
    no = queries.find(connection, COMPLETE)
    (one,) = comparing.entries(connection, [no])
    detail = queries.detail(connection, no)
    assert one.row == {name: detail[name] for name in comparing.FIELDS}
    assert len(one.gaps) == 3 * 8


def test_one_that_runs_is_measured_until_its_last_read(connection: Connection) -> None:
    (one,) = comparing.entries(connection, [queries.find(connection, LIVE)])
    assert (one.row["ttft_ms"], one.row["last_read_ms"], one.row["outcome"], one.gaps) == (110.0, 110.0, "open", b"")
    assert (one.row["duration_ms"], one.run.heartbeat_at[:10], one.run.ended_at) == (None, "2026-03-01", None)
