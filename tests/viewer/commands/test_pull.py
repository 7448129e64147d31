"""`wiretape pull`: a selection of a tape, or of a server, as an ordinary tape."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.frames import http2, opened, record
from wiretape.recorder.demo import synthetic
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.tape import file
from wiretape.viewer.cli import group
from wiretape.viewer.source.tape import observed, queries
from wiretape.viewer.stats.tools.summary import measure_observed, report_of
from wiretape.viewer.wings.clickhouse import address
from wiretape.viewer.wings.clickhouse.client import Centre


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    path = tmp_path / "tape.db"
    with file.writing(path, "a test") as connection:
        for _ in synthetic.fill(connection, 30, 5, seed=1):
            pass
    return path


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(group, [str(argument) for argument in arguments])
    error = result.exception
    return error.exit_code if isinstance(error, WiretapeError) else result.exit_code, result.output + str(error or "")


def rows_of(path: Path, filter_text: str = "-is:open") -> list[list[str]]:
    """Return the contents of a tape as lines, in any order."""
    tables = [("stats",), *(("export", "--table", table) for table in ("chunks", "reads"))]
    return [sorted(run(*table, "--db", path, "-f", filter_text)[1].splitlines()) for table in tables]


def test_a_selection_becomes_a_tape_and_pulling_adds_news(tape: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.db"
    code, output = run("pull", "--db", tape, "-f", "is:complete", "-n", 3, "-o", out)
    assert (code, output.splitlines()[0]) == (0, f"3 exchanges copied to {out}")
    with queries.opened(out) as connection:
        assert queries.count(connection) == 3
    count = run("pull", "--db", tape, "-f", "is:complete", "-o", out)[1].splitlines()[0]
    assert count.endswith("; left out: 3 on it already")
    assert rows_of(out) == rows_of(tape, "is:complete")
    assert run("db", "check", "--db", out)[0] == 0


@pytest.fixture
def to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The directory of an engine."""
    pytest.importorskip("chdb")
    monkeypatch.setattr(os, "nice", lambda _: 0)  # tests after these share the process
    return f"chdb:{tmp_path}/engine"


def ship(tape: Path, to: str, *options: str) -> None:
    code, message = run("ship", "--db", tape, "--to", to, "--once", *options)
    assert code == 0, message


def pull(to: str, out: Path) -> str:
    """Make a tape of all exchanges of a server; return what is told."""
    code, message = run("pull", "--db", to, "-o", out)
    assert code == 0, message
    return message


def forget_bodies(to: str) -> None:
    with Centre(address.parse(to), address.Credentials()) as centre:
        centre.execute("TRUNCATE TABLE streams")


def test_pulling_from_a_server_returns_what_was_shipped(to: str, tape: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.db"
    ship(tape, to, "--bodies")
    assert pull(to, out).startswith("29 exchanges copied")  # one of 30 still runs
    assert rows_of(out) == rows_of(tape)


def test_the_facts_of_http2_streams_are_shipped_and_pulled(to: str, tmp_path: Path) -> None:
    tape, complete, bare = (tmp_path / f"{name}.db" for name in ("tape", "whole", "bare"))
    with opened(tape) as store:
        record(store, [*http2("a111"), *http2("b222", is_reset=True)])
    ship(tape, to, "--bodies")
    pull(to, complete)
    forget_bodies(to)
    pull(to, bare)
    for out in (complete, bare):
        assert run("ls", "--db", out, "-f", "protocol:h2 reset_code:rst_cancel", "--format", "ids")[1] == "b222\n"
    arguments = ("show", "a111", "--format", "json")
    assert run(*arguments, "--db", complete) == run(*arguments, "--db", tape)
    assert '"response_trailers": []' in run(*arguments, "--db", bare)[1], "headers and trailers are shipped with bodies"


def figures(path: Path) -> list[list[str]]:
    """Return lists, figures and gates of a tape, without the flag of bytes that were not shipped."""
    commands = (["stats", "--by", "model"], ["export", "-f", "gap>20ms"])
    return [
        run(*command, "--db", path)[1].replace("bytes_not_shipped", "").replace(" ", "").splitlines()
        for command in commands
    ]


def test_an_exchange_shipped_without_body_keeps_its_figures(to: str, tape: Path, tmp_path: Path) -> None:
    complete, out = tmp_path / "whole.db", tmp_path / "out.db"
    run("rm", "-f", "-is:complete", "--yes", "--db", tape)  # messages of errors are texts, which are not shipped
    ship(tape, to, "--bodies")
    pull(to, complete)
    forget_bodies(to)
    assert "exchanges with facts, measures and gaps only" in pull(to, out)
    pulled, text = tmp_path / "again.db", tmp_path / "cut.jsonl"
    assert "0 changed" in run("db", "rebuild", "--db", out)[1]
    assert run("db", "cut", "--db", out, "-o", text)[0] == 0
    assert run("pull", "--db", out, "-o", pulled)[0] == 0
    for path in (out, text, pulled):
        assert figures(path) == figures(complete), path
    for arguments in (["show", "@", "--part", "raw"], ["show", "@", "--part", "request"], ["play", "@"]):
        assert "were not shipped" in run(*arguments, "--db", out)[1], arguments
    assert "it was pulled from a server" in run("show", "@", "--part", "text", "--db", out)[1]
    assert "exchanges left out: the bytes" in run("stats", "--as", "vllm", "--db", out)[1]
    with queries.opened(out) as connection:
        exchange = observed.one(connection, next(queries.numbers(connection)))
        assert set(report_of("vllm", [measure_observed("vllm", exchange)]).left_out) == {"not wholly on the tape"}
    assert run("db", "check", "--db", pulled)[0] == 0


def test_a_tape_without_bytes_replaces_no_others(to: str, tape: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.db"
    ship(tape, to)
    pull(to, out)
    ship(out, to, "--bodies")
    with Centre(address.parse(to), address.Credentials()) as centre:
        assert centre.rows("SELECT count() FROM streams") == [(0,)]


def test_commands_for_tapes_say_how_to_pull_a_server(tmp_path: Path) -> None:
    url = "clickhouse://127.0.0.1:1/db"
    for arguments in (["show", "@"], ["play", "@"], ["serve"], ["view", "--web"], ["rm", "@"], ["db", "info"],
                      ["export", "--table", "chunks"]):  # fmt: skip
        code, output = run(*arguments, "--db", url)
        assert code == 2, arguments
        assert "wiretape pull" in output, arguments
