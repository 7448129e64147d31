"""The phases of an exchange, as bars."""

from tests.support.cases import each_case
from tests.support.exchanges import detailed
from tests.support.sample_tape import LIVE, MS, TOOLS
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange import opened, pages
from wiretape.viewer.exchange.pages import TimeBar
from wiretape.viewer.source.tape import exchange, queries


def bars(connection: Connection, id: str) -> list[TimeBar]:
    no = queries.find(connection, id)
    opened_exchange = opened.open_exchange(exchange.stored(connection, no), Thresholds())
    row = queries.detail(connection, no)
    return list(
        pages.bars(
            opened_exchange.facts,
            row,
            opened_exchange.transcript,
            opened_exchange.verdicts,
            opened_exchange.reads_at[-1],
        )
    )


def test_each_stretch_of_time_has_a_bar(connection: Connection) -> None:
    assert [(bar.name, bar.start_ns / MS, bar.end_ns / MS) for bar in bars(connection, TOOLS)] == [
        ("connect", 0, 2), ("wait for headers", 2, 20), ("wait for a byte", 20, 50), ("reasoning", 50, 50),
        ("tool", 3050, 3060), ("stall", 50, 3050), ("end", 3070, 3071.5),
    ]  # fmt: skip


def test_running_exchange_has_no_end_bar(connection: Connection) -> None:
    assert [bar.name for bar in bars(connection, LIVE)] == ["connect", "wait for headers", "content"]


def test_a_bar_has_at_least_one_cell() -> None:
    assert TimeBar("x", 0, 50, "wait").cells(100, 10) == (0, 5)
    assert TimeBar("x", 50, 100, "wait").cells(100, 10) == (5, 5)
    assert TimeBar("x", 100, 100, "wait").cells(100, 10) == (9, 1)


@each_case(
    ("framing", "note"),
    [
        ("chunked", "the body's last chunk came"),
        ("length", "all of Content-Length came"),
        ("close", "upstream closed the connection, which ends such a body"),
        (None, "the body ended"),
    ],
)
def test_the_end_says_how_the_body_was_framed(framing: str | None, note: str) -> None:
    facts = Exchange(status=200, ended_by="end", connected_ns=0, headers_ns=1, end_ns=20, framing=framing)
    assert list(pages.bars(facts, detailed(), None, last_ns=10))[-1] == TimeBar("end", 10, 20, "end", note)


def test_other_ends_are_described_as_on_the_tape() -> None:
    facts = Exchange(status=200, ended_by="reset", connected_ns=0, headers_ns=1, end_ns=20, framing="chunked")
    note = list(pages.bars(facts, detailed(), None, last_ns=10))[-1].note
    assert note == "the upstream connection was reset"
