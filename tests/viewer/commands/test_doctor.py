"""The command `doctor`, from the outside: checks, exit codes, and secrets, which it keeps."""

import json
import shutil
import socket
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.commands import on_terminal, run
from wiretape.recorder.clock import Clock
from wiretape.recorder.tape import file as tapefile
from wiretape.recorder.tape import lock
from wiretape.recorder.tape.peek import REVISION
from wiretape.viewer.cli import group
from wiretape.viewer.commands import doctor

UNSET = (
    *("OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL", "NO_PROXY", "no_proxy"),
    *doctor.PROXIES,
    *doctor.CERTIFICATES,
)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)


def examined(tape: Path, *arguments: str, code: int = 0, **environment: str) -> dict[str, tuple[str, str]]:
    result = CliRunner().invoke(
        group, ["doctor", "--db", str(tape), "--format", "json", *arguments], env={**environment}
    )
    assert result.exit_code == code, result.output
    assert "sk-secret" not in result.output
    return {row["check"]: (row["level"], row["found"]) for row in json.loads(result.stdout)}


def test_a_place_in_order_is_0(tape: Path) -> None:
    report = examined(tape)
    assert list(report)[:5] == ["wiretape", "sqlite", "tape", "mode", "recorder"]
    assert "problem" not in {level for level, _ in report.values()}
    assert report["tape"] == ("ok", f"{tape}, schema {REVISION}")
    assert report["recorder"][0] == "note"  # the tape's session has no end


def test_a_missing_tape_is_no_problem_and_stays_missing(tmp_path: Path) -> None:
    report = examined(tmp_path / "new" / "tape.db")
    assert (report["tape"][0], report["directory"]) == ("note", ("ok", f"{tmp_path / 'new'} will be made"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_tape_exits_3(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear all")
    report = examined(path, code=3)
    assert report["tape"] == ("problem", f"{path} is not a database, not a wiretape tape")
    assert "mode" not in report
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


def test_a_tape_that_others_may_read_is_3(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with tapefile.writing(path, "a test"):
        pass
    path.chmod(0o644)
    assert examined(path, code=3)["mode"][1].startswith(f"others may read it: {path} has mode 0644")


@pytest.mark.damages
@pytest.mark.parametrize("heard", ["soon", b"\x00", 7, "0001-01-01"])
def test_a_heartbeat_that_is_no_timestamp_is_not_known(tape: Path, tmp_path: Path, heard: object) -> None:
    path = tmp_path / "tape.db"
    shutil.copy(tape, path)
    with sqlite3.connect(path) as writer:
        writer.execute("UPDATE sessions SET heartbeat_at = ?", (heard,))
    writer.close()
    path.chmod(0o600)
    assert examined(path)["recorder"][1].startswith("none is running")


def test_who_holds_the_tape_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with tapefile.writing(path, "a test"):
        pass
    with lock.held(path, "wiretape record (pid 1)"):
        assert examined(path)["recorder"] == ("ok", "wiretape record (pid 1) holds the tape")


def test_the_environment_is_looked_at_and_keeps_its_secrets(tape: Path) -> None:
    report = examined(
        tape,
        code=3,
        OPENAI_BASE_URL="http://u:sk-secret@127.0.0.1:9/sk-secret",
        OPENAI_API_KEY="sk-secret",
        HTTP_PROXY="http://u:sk-secret@proxy:1",
        SSL_CERT_FILE="/none/sk-secret",
    )
    assert report["OPENAI_BASE_URL"] == ("note", "points at http://127.0.0.1:9; no recorder of this tape runs")
    assert (report["proxy"][0], report["certificates"][0]) == ("problem", "problem")


def test_an_upstream_is_only_asked_when_it_is_named(tape: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://u:sk-secret@127.0.0.1:{server.getsockname()[1]}/sk-secret"
        assert "upstream" not in examined(tape)
        assert examined(tape, "--check", url)["upstream"][0] == "ok"
    assert "cannot be reached ([Errno 111] Connection refused)" in examined(tape, "--check", url, code=3)["upstream"][1]
    assert "an upstream must be a URL" in run(tape, "doctor", "--check", "sk", code=2).stderr


def test_advice_is_a_line_below(tape: Path) -> None:
    lines = run(tape, "doctor", "--format", "table").stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if "was killed" in line)
    assert lines[at].startswith("note    recorder")
    assert lines[at + 1].strip() == "→ no action needed: the next recorder settles its open exchanges"


def test_a_terminal_is_described(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert "100 cells wide, UTF-8" in on_terminal(tape, "doctor")


def test_the_smallest_step_of_a_clock_is_found() -> None:
    ticks = iter(range(10**6))
    assert (
        doctor.of_clock(Clock(now=lambda: next(ticks) // 1500 * 2_000_000)).found
        == "the clock advances in steps of 2.0 ms"
    )
