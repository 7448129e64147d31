"""Tapes shipped to the engine in a process have the same contents there, also after kills and beside readers."""

import random
import signal
import sqlite3
import subprocess
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import forked
from tests.support.forked import CLI, Forked
from tests.support.frames import damage, exchange, opened, record, until
from wiretape.recorder.demo import synthetic
from wiretape.recorder.tape import file
from wiretape.recorder.tape.rederive import rederive
from wiretape.viewer.ship.acknowledged import path_of
from wiretape.viewer.wings.clickhouse.address import Credentials, parse
from wiretape.viewer.wings.clickhouse.client import Centre

SECRET = "sk-1234567890abcdefghijklmnop"
LABELS = ("--label", "zone=eu", "--label", f"api_key={SECRET}")
OF_TAPE = """SELECT count(*), sum(ttft_ns), sum(output_tokens), sum(icl_max_ns), sum(outcome = 'complete'),
    count(tpot_ns) FROM exchanges JOIN measures ON exchange_no = no"""
OF_CENTRE = """SELECT count(), sum(ttft_ns), sum(output_tokens), sum(arrayReduce('max', icl)),
    sum(outcome = 'complete'), count(tpot_ns) FROM exchanges FINAL"""
OF_HOURS = "SELECT count(), countIf(outcome NOT IN ('complete', 'open', 'client_closed')) FROM exchanges FINAL"


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """A synthetic tape."""
    path = tmp_path / "tape.db"
    with file.writing(path, "a test") as connection:
        for _ in synthetic.fill(connection, 300, 40, seed=1):
            pass
    return path


def run(*arguments: object) -> tuple[int, str]:
    done = forked.run([str(argument) for argument in arguments])
    return done.returncode, done.stdout + done.stderr


def query(to: str, statement: str) -> list[tuple[object, ...]]:
    with Centre(parse(to), Credentials()) as centre:
        return centre.rows(statement)


def of_tape(tape: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(tape)) as connection:
        return connection.execute(OF_TAPE).fetchall()


def test_a_directory_holds_the_tape_and_is_migrated(tape: Path, tmp_path: Path) -> None:
    to = f'chdb:{tmp_path}/it\'s a "%(x)s" \\ é\n;'
    assert "is no directory of shipped exchanges: run 'wiretape ship" in run("ls", "--db", to)[1]
    code, message = run("ship", "--db", tape, "--to", to, "--once", "--bodies", *LABELS)
    assert code == 0, message
    assert query(to, OF_CENTRE) == of_tape(tape)
    assert query(to, f"SELECT count() FROM exchanges WHERE has(label_values, '{SECRET}')") == [(0,)]
    labelled = "SELECT count() FROM exchanges WHERE label_values[indexOf(label_names, 'zone')] = 'eu'"
    bodies = "SELECT countIf(length(body) > 0) FROM streams FINAL"
    (count, *_), *_ = of_tape(tape)
    assert query(to, labelled) == query(to, bodies) == [(count,)]
    directory = parse(to).directory
    assert directory is not None
    assert directory.stat().st_mode & 0o077 == 0

    with Centre(parse(to), Credentials()) as centre:
        centre.execute("ALTER TABLE exchanges DROP COLUMN sparkline")
    path_of(tape, parse(to).name).unlink()
    assert run("ship", "--db", tape, "--to", to, "--once")[0] == 0
    assert query(to, OF_CENTRE) == of_tape(tape)
    for _ in range(2):
        assert "counted the exchanges that began at" in run("fleet", "hours", "--to", to, "--since", "999w")[1]
        assert query(to, "SELECT sum(exchanges), sum(failed) FROM hours FINAL") == query(to, OF_HOURS)
    assert str(count) in run("fleet", "status", "--to", to)[1]


def test_what_was_removed_with_its_directory_is_shipped_again(tape: Path, tmp_path: Path) -> None:
    to = f"chdb:{tmp_path}/engine"
    assert run("ship", "--db", tape, "--to", to, "--once")[0] == 0
    (tmp_path / "engine").rename(tmp_path / "moved")
    assert run("ship", "--db", tape, "--to", to, "--once")[0] == 0
    assert query(to, OF_CENTRE) == of_tape(tape)


def test_a_directory_with_other_contents_is_refused(tape: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").touch()
    assert "has other contents" in run("ship", "--db", tape, "--to", f"chdb:{tmp_path}/home", "--once")[1]
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["letter"]


def test_a_reader_waits_and_then_names_the_conflict(tape: Path, tmp_path: Path) -> None:
    to = f"chdb:{tmp_path}/engine"
    assert run("ship", "--db", tape, "--to", to, "--once")[0] == 0
    command = [*CLI, "ls", "--db", to, "--format", "ids"]
    with Centre(parse(to), Credentials()) as centre:
        centre.rows("SELECT 1")
        with Forked(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as waiter:
            assert "is in use by another process" in run("stats", "--db", to)[1]
            waiter.wait(60)
    readers = [run(*command[len(CLI) :]) for _ in range(2)]
    assert readers[0] == readers[1]
    assert readers[0][0] == 0


def test_simultaneous_readers_get_the_same_answer_in_turn(tape: Path, tmp_path: Path) -> None:
    to = f"chdb:{tmp_path}/engine"
    assert run("ship", "--db", tape, "--to", to, "--once")[0] == 0
    answers: list[tuple[int, str]] = []
    threads = [
        threading.Thread(target=lambda: answers.append(run("ls", "--db", to, "--format", "ids"))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 3
    assert {code for code, _ in answers} == {0}
    assert len(set(answers)) == 1


def test_a_repeatedly_killed_shipper_ships_every_exchange_once(tape: Path, tmp_path: Path) -> None:
    to, chosen = f"chdb:{tmp_path}/engine", random.Random(1)
    progress = path_of(tape, parse(to).name)
    command = [*CLI, "ship", "--db", str(tape), "--to", to, "--bodies"]
    with opened(tape) as store:
        for number in range(4):
            record(store, [frame for batch in range(20) for frame in exchange(f"e{20 * number + batch}")])
            damage(tape, "UPDATE measures SET outcome = 'truncated' WHERE exchange_no = 5")
            assert any(rederive(store, [5]))
            content = progress.read_bytes() if progress.exists() else b""
            with Forked(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                until(lambda before=content: progress.exists() and progress.read_bytes() != before)
                for _ in range(chosen.randrange(3)):
                    now = progress.read_bytes()
                    until(lambda now=now, process=process: progress.read_bytes() != now or process.poll() is not None)
                process.send_signal(signal.SIGKILL)
                process.wait(60)
    assert run("ship", "--db", tape, "--to", to, "--once", "--bodies")[0] == 0
    assert query(to, OF_CENTRE) == of_tape(tape)
    assert query(to, "SELECT count() = uniqExact(id) FROM streams FINAL") == [(1,)]
    assert not [*(tmp_path / "engine").rglob("*.native")]  # with rows of the batch that was being sent
