"""`wiretape pull`: a selection of a tape, or of a server, as an ordinary tape."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.clickhouse import engine as engines
from tests.support.clickhouse.engine import Readable
from tests.support.frames import http2, opened, record
from wiretape.recorder.demo import synthetic
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.tape import cut, file
from wiretape.viewer.cli import group
from wiretape.viewer.source.clickhouse import pulling
from wiretape.viewer.source.tape import observed, queries
from wiretape.viewer.stats.tools.summary import measure_observed, report_of


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    path = tmp_path / "tape.db"
    with file.writing(path, "a test") as connection:
        for _ in synthetic.fill(connection, 30, 5, seed=1):
            pass
    return path


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(group, [str(one) for one in arguments])
    error = result.exception
    return error.exit_code if isinstance(error, WiretapeError) else result.exit_code, result.output + str(error or "")


def held(path: Path, where: str = "-is:open") -> list[list[str]]:
    """Return the contents of a tape as lines, in any order."""
    tables = [("stats",), *(("export", "--table", table) for table in ("chunks", "reads"))]
    return [sorted(run(*table, "--db", path, "-f", where)[1].splitlines()) for table in tables]


def test_a_selection_of_a_tape_is_a_tape_and_pulling_again_adds_what_is_new(tape: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.db"
    code, said = run("pull", "--db", tape, "-f", "is:complete", "-n", 3, "-o", out)
    assert (code, said.splitlines()[0]) == (0, f"3 exchanges copied to {out}")
    with queries.opened(out) as connection:
        assert queries.count(connection) == 3
    count = run("pull", "--db", tape, "-f", "is:complete", "-o", out)[1].splitlines()[0]
    assert count.endswith("; left out: 3 on it already")
    assert held(out) == held(tape, "is:complete")
    assert run("db", "check", "--db", out)[0] == 0


def pull(engine: Readable, out: Path) -> pulling.Pulled:
    """Make a tape of all exchanges of a server."""
    pulled = pulling.Pulled()
    numbers = [f"{row['started_at'].decode()} {id}" for id, row in engine.final().items()]
    with engines.centre(engine) as centre, out.open("xb") as stream:
        cut.make_tape(pulling.lines(centre, sorted(numbers), pulled), stream)
    return pulled


def test_what_is_pulled_of_a_server_is_what_was_shipped(tape: Path, tmp_path: Path) -> None:
    engine, out = Readable(), tmp_path / "out.db"
    engines.ship(tape, engine, bodies=True)
    pulled = pull(engine, out)
    assert (pulled.count, pulled.without_body) == (30 - 1, [])  # one still runs
    assert held(out) == held(tape)


def test_the_facts_of_http2_streams_are_shipped_and_pulled(tmp_path: Path) -> None:
    engine, tape, whole, bare = Readable(), *(tmp_path / f"{name}.db" for name in ("tape", "whole", "bare"))
    with opened(tape) as store:
        record(store, [*http2("a111"), *http2("b222", is_reset=True)])
    engines.ship(tape, engine, bodies=True)
    pull(engine, whole)
    engine.rows["streams"] = []
    pull(engine, bare)
    for out in (whole, bare):
        assert run("ls", "--db", out, "-f", "protocol:h2 reset_code:rst_cancel", "--format", "ids")[1] == "b222\n"
    asked = ("show", "a111", "--format", "json")
    assert run(*asked, "--db", whole) == run(*asked, "--db", tape)
    assert '"response_trailers": []' in run(*asked, "--db", bare)[1], "headers and trailers are shipped with bodies"


def figures(path: Path) -> list[list[str]]:
    """Return lists, figures and gates of a tape, without the flag of bytes that were not shipped."""
    asked = (["stats", "--by", "model"], ["export", "-f", "gap>20ms"])
    return [run(*one, "--db", path)[1].replace("bytes_not_shipped", "").replace(" ", "").splitlines() for one in asked]


def test_what_was_shipped_without_its_body_keeps_its_figures_and_says_what_is_missing(
    tape: Path, tmp_path: Path
) -> None:
    engine, whole, out = Readable(), tmp_path / "whole.db", tmp_path / "out.db"
    run("rm", "-f", "-is:complete", "--yes", "--db", tape)  # messages of errors are texts, which are not shipped
    engines.ship(tape, engine, bodies=True)
    pull(engine, whole)
    engine.rows["streams"] = []
    pulled = pull(engine, out)
    assert pulled.count == len(pulled.without_body) > 0
    again, text = tmp_path / "again.db", tmp_path / "cut.jsonl"
    assert "0 changed" in run("db", "rebuild", "--db", out)[1]
    assert run("db", "cut", "--db", out, "-o", text)[0] == 0
    assert run("pull", "--db", out, "-o", again)[0] == 0
    for path in (out, text, again):
        assert figures(path) == figures(whole), path
    for asked in (["show", "@", "--part", "raw"], ["show", "@", "--part", "request"], ["play", "@"]):
        assert "were not shipped" in run(*asked, "--db", out)[1], asked
    assert "it was pulled from a server" in run("show", "@", "--part", "text", "--db", out)[1]
    assert "exchanges left out: the bytes" in run("stats", "--as", "vllm", "--db", out)[1]
    with queries.opened(out) as connection:
        one = observed.one(connection, next(queries.numbers(connection)))
        assert set(report_of("vllm", [measure_observed("vllm", one)]).left_out) == {"not wholly on the tape"}
    assert run("db", "check", "--db", again)[0] == 0


def test_a_tape_without_bytes_ships_none_in_the_place_of_those_of_another(tape: Path, tmp_path: Path) -> None:
    engine, out = Readable(), tmp_path / "out.db"
    engines.ship(tape, engine)
    pull(engine, out)
    engines.ship(out, engine, bodies=True)
    assert not engine.rows["streams"]


def test_what_works_on_tapes_only_says_how_a_server_becomes_one(tmp_path: Path) -> None:
    url = "clickhouse://127.0.0.1:1/db"
    for arguments in (["show", "@"], ["play", "@"], ["serve"], ["view", "--web"], ["rm", "@"], ["db", "info"],
                      ["export", "--table", "chunks"]):  # fmt: skip
        code, said = run(*arguments, "--db", url)
        assert code == 2, arguments
        assert "wiretape pull" in said, arguments
