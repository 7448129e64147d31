"""Tapes shipped to real servers have the same contents there, also after kills."""

import json
import re
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support import forked
from tests.support.clickhouse import servers
from tests.support.clickhouse.servers import Server
from tests.support.forked import CLI, Forked
from tests.support.frames import damage, exchange, opened, record, until
from tests.support.relay import make_authority
from tests.support.terminal import Terminal
from wiretape.recorder import destinations as centres
from wiretape.recorder.demo import synthetic
from wiretape.recorder.tape import file
from wiretape.viewer.commands.fleet import READ_PASSWORD, SHIP_PASSWORD
from wiretape.viewer.ship.acknowledged import path_of

pytestmark = pytest.mark.nightly

needs_server = pytest.mark.skipif(
    servers.missing("clickhouse-server") is not None, reason=servers.missing("clickhouse-server") or ""
)
needs_cluster = pytest.mark.skipif(
    servers.missing("clickhouse-server", "zookeeper") is not None,
    reason=servers.missing("clickhouse-server", "zookeeper") or "",
)
SECRET = "sk-1234567890abcdefghijklmnop"
LABELS = ("--label", "zone=eu", "--label", f"api_key={SECRET}")
OF_TAPE = """SELECT count(*), sum(ttft_ns), sum(output_tokens), sum(icl_max_ns), sum(outcome = 'complete'),
    count(tpot_ns) FROM exchanges JOIN measures ON exchange_no = no"""
OF_CENTRE = """SELECT count(), sum(ttft_ns), sum(output_tokens), sum(arrayReduce('max', icl)),
    sum(outcome = 'complete'), count(tpot_ns) FROM wiretape.exchanges FINAL"""


OF_HOURS = """SELECT count(), countIf(outcome NOT IN ('complete', 'open', 'client_closed')), 0
    FROM wiretape.exchanges FINAL"""


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """A synthetic tape."""
    path = tmp_path / "tape.db"
    with file.writing(path, "a test") as connection:
        for _ in synthetic.fill(connection, 300, 40, seed=1):
            pass
    return path


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(centres.USER, "default")
    monkeypatch.setenv(centres.PASSWORD, servers.PASSWORD)


def run(*arguments: object) -> tuple[int, str]:
    done = forked.run([str(one) for one in arguments])
    return done.returncode, done.stdout + done.stderr


def url(*found: Server) -> str:
    return f"clickhouse://{','.join(f'127.0.0.1:{one.http}' for one in found)}/wiretape"


def of_tape(tape: Path) -> list[str]:
    with closing(sqlite3.connect(tape)) as connection:
        return [str(value) for value in connection.execute(OF_TAPE).fetchone()]


@contextmanager
def shipping(tape: Path, to: str) -> Iterator[None]:
    """Ship a tape, all that is recorded within the block included."""
    with Forked([*CLI, "ship", "--db", str(tape), "--to", to], stderr=subprocess.DEVNULL) as process:
        yield
        assert process.poll() is None, "it ended by itself"
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert run("ship", "--db", tape, "--to", to, "--once")[0] == 0


def again_and_again(work: Callable[[], None], times: int, seconds: float) -> None:
    for _ in range(times):
        time.sleep(seconds)
        work()


def waiting_of_two_tapes(server: Server, to: str) -> list[tuple[int, int]]:
    """Insert the progress of two tapes of a host; return the rows of both in the status."""
    insert = "INSERT INTO wiretape.sessions (host, tape, session, row_version, shipped_at, waiting, lag_ms) VALUES "
    at = "'2026-03-01T12:00:00.000000Z'"
    told = [("a", "s1", 1, 9, 900), ("a", "s2", 2, 4, "NULL"), ("b", "s3", 1, 2, 70), ("b", "s3", 2, 3, 80)]
    for on, session, version, waiting, lag_ms in told:
        server.query(f"{insert} ('h', '{on}', '{session}', {version}, {at}, {waiting}, {lag_ms})")
    hosts = [json.loads(line) for line in run("fleet", "status", "--to", to, "--format", "jsonl")[1].splitlines()]
    return [(row["waiting"], row["lag_ms"]) for row in hosts if row["name"] == "h"]


@needs_server
@pytest.mark.usefixtures("account")
def test_a_server_holds_what_the_tape_holds_and_is_migrated(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with servers.one(tmp_path) as server:
        to = url(server)
        assert "has no such table or database" in run("ship", "--db", tape, "--to", to, "--once")[1]
        assert run("fleet", "init", "--to", to)[0] == 0
        assert run("ship", "--db", tape, "--to", to, "--once", "--bodies", *LABELS)[0] == 0
        assert server.query(OF_CENTRE) == [of_tape(tape)]
        labelled = "SELECT count() FROM wiretape.exchanges WHERE label_values[indexOf(label_names, 'zone')] = 'eu'"
        bodies = "SELECT countIf(length(body) > 0), sum(length(sizes)) > 300 FROM wiretape.streams FINAL"
        secret = f"SELECT count() FROM wiretape.exchanges WHERE has(label_values, '{SECRET}')"
        assert server.query(secret) == [["0"]]
        assert (server.query(labelled), server.query(bodies)[0][1]) == ([[of_tape(tape)[0]]], "1")

        server.query("ALTER TABLE wiretape.exchanges DROP COLUMN sparkline")
        assert "has an older schema, without sparkline" in run("ship", "--db", tape, "--to", to, "--once")[1]
        assert "wiretape.exchanges has 1 more column\n" in run("fleet", "init", "--to", to)[1]
        path_of(tape, centres.parse_centre(to).name).unlink()
        assert run("ship", "--db", tape, "--to", to, "--once")[0] == 0
        assert server.query(OF_CENTRE) == [of_tape(tape)]
        assert waiting_of_two_tapes(server, to) == [(7, 80)]
        for _ in range(2):
            assert "counted the exchanges that began at" in run("fleet", "hours", "--to", to, "--since", "999w")[1]
            counted = "SELECT sum(exchanges), sum(failed), sum(length(gap_hist)) % 64 FROM wiretape.hours FINAL"
            assert server.query(counted) == server.query(OF_HOURS)
        server.query("ALTER TABLE wiretape.exchanges DROP PARTITION 202601")
        assert "counted the exchanges that began at" in run("fleet", "hours", "--to", to, "--since", "999w")[1]
        assert server.query("SELECT sum(exchanges) FROM wiretape.hours FINAL") == [["0"]]
        monkeypatch.setenv(centres.PASSWORD, "wrong")
        assert "does not accept the user or the password" in run("fleet", "status", "--to", to)[1]


@needs_server
@pytest.mark.usefixtures("account")
def test_the_account_of_shippers_ships_and_that_of_analysts_asks(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords = {"wiretape_ship": "a password to ship", "wiretape_read": "a password to read"}
    monkeypatch.setenv(SHIP_PASSWORD, passwords["wiretape_ship"])
    monkeypatch.setenv(READ_PASSWORD, passwords["wiretape_read"])

    def of(account: str, *arguments: object) -> tuple[int, str]:
        monkeypatch.setenv(centres.USER, account)
        monkeypatch.setenv(centres.PASSWORD, passwords[account])
        return run(*arguments)

    with servers.one(tmp_path) as server:
        to = url(server)
        code, text = run("fleet", "init", "--to", to, "--accounts")
        assert (code, "CREATE USER came with 20.5" in text) == (1, True)
        (server.place / "users.d").mkdir()
        xml = text[text.index("<yandex>") : text.index("</yandex>")] + "</yandex>"
        (server.place / "users.d" / "wiretape.xml").write_text(xml)
        until(lambda: of("wiretape_read", "ls", "--db", to)[0] == 0)
        assert of("wiretape_ship", "ship", "--db", tape, "--to", to, "--once", "--bodies")[0] == 0
        assert server.query(OF_CENTRE) == [of_tape(tape)]
        assert "does not allow this account" in of("wiretape_ship", "fleet", "init", "--to", to)[1]
        for asked in ("stats --by model", "check --max error_rate=100%", "export --table summary", "fleet status"):
            where = ("--to", to) if asked.startswith("fleet") else ("--db", to)
            assert of("wiretape_read", *asked.split(), *where)[0] == 0, asked
        assert of("wiretape_read", "pull", "--db", to, "-o", tmp_path / "pulled.db")[0] == 0
        path_of(tape, centres.parse_centre(to).name).unlink()
        assert "does not allow this account" in of("wiretape_read", "ship", "--db", tape, "--to", to, "--once")[1]


@needs_server
@pytest.mark.usefixtures("account")
def test_a_server_whose_certificate_is_of_a_private_authority_is_verified(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    other, ours = make_authority(tmp_path / "other") / "ca.pem", make_authority(tmp_path) / "ca.pem"
    port = servers.free_port()
    names = {"certificateFile": tmp_path / "good.pem", "privateKeyFile": tmp_path / "good.key"}
    files = "".join(f"<{name}>{path}</{name}>" for name, path in names.items())
    secure = f"<https_port>{port}</https_port><openSSL><server>{files}</server></openSSL>"
    with servers.one(tmp_path, more=secure) as server:
        to = f"clickhouse://127.0.0.1:{port}/wiretape?tls=yes"
        ship = ("ship", "--db", tape, "--to", to, "--once", "--ca-file")
        assert run("fleet", "init", "--to", to, "--ca-file", ours)[0] == 0
        assert run(*ship, ours)[0] == 0
        assert server.query(OF_CENTRE) == [of_tape(tape)]
        assert re.search(r"does not verify .* --ca-file or SSL_CERT_FILE, or correct the host\n", run(*ship, other)[1])
        for file, code in ((ours, 0), (other, 1)):
            monkeypatch.setenv("SSL_CERT_FILE", str(file))
            assert run("stats", "--db", to)[0] == code, file


@needs_server
@pytest.mark.usefixtures("account")
def test_what_was_shipped_without_bodies_is_pulled_and_viewed_with_its_figures(
    tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled, own = tmp_path / "pulled.db", tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv("TMPDIR", str(own))
    with servers.one(tmp_path) as server:
        to = url(server)
        assert run("fleet", "init", "--to", to)[0] == 0
        assert run("ship", "--db", tape, "--to", to, "--once")[0] == 0
        assert run("pull", "--db", to, "-o", pulled)[0] == 0
        assert "0 changed" in run("db", "rebuild", "--db", pulled)[1]
        for asked in (
            "stats --by model",
            "ls --format ids -f gap>300ms",
            "check --max ttft.p95=1s",
            "ls --columns id,icl_p99",
        ):
            assert run(*asked.split(), "--db", to) == run(*asked.split(), "--db", pulled), asked
        with Terminal([*CLI, "view", "--db", to]) as terminal:
            terminal.wait_for(f"{of_tape(pulled)[0]} exchanges")
            terminal.press("\r")
            terminal.wait_for("facts, measures and gaps only")
            (private,) = own.glob("wiretape-view-*")
            assert private.stat().st_mode & 0o077 == 0
            terminal.signal(signal.SIGTERM)
            assert terminal.ended() == 143
            assert not private.exists()


@needs_server
@pytest.mark.usefixtures("account")
def test_a_server_that_is_killed_again_and_again_has_every_exchange_once(tape: Path, tmp_path: Path) -> None:
    def restart() -> None:
        server.kill()
        time.sleep(0.3)
        server.start()

    with servers.one(tmp_path) as server:
        assert run("fleet", "init", "--to", url(server))[0] == 0
        with opened(tape) as store, shipping(tape, url(server)):
            restarting = threading.Thread(target=again_and_again, args=(restart, 5, 0.5))
            restarting.start()
            number = 0
            while restarting.is_alive():
                record(store, [frame for one in range(20) for frame in exchange(f"e{number + one}")])
                number += 20
                if number % 100 == 0:
                    damage(tape, "UPDATE measures SET outcome = 'truncated' WHERE exchange_no = 5")
                    assert any(store.rebuild([5]))
                time.sleep(0.02)
            restarting.join()
        assert server.query(OF_CENTRE) == [of_tape(tape)]
        assert number > 100


@needs_cluster
@pytest.mark.usefixtures("account")
def test_a_cluster_that_loses_a_replica_waits_for_it_and_has_every_exchange_once(tape: Path, tmp_path: Path) -> None:
    with servers.cluster(tmp_path) as found:
        made = run("fleet", "init", "--to", url(*found), "--cluster", "both")
        assert made[0] == 0, made[1]
        found[0].query("ALTER TABLE wiretape.exchanges_local ON CLUSTER both DROP COLUMN sparkline")
        for server in found:
            server.query("ALTER TABLE wiretape.exchanges DROP COLUMN sparkline")
        migrated = run("fleet", "init", "--to", url(*found))
        assert "wiretape.exchanges has 1 more column\n" in migrated[1]
        other = tmp_path / "other.db"
        shutil.copy(tape, other)
        damage(other, "UPDATE exchanges SET id = 'x' || id")
        assert run("ship", "--db", tape, "--to", url(*found), "--once")[0] == 0
        found[1].kill()
        with shipping(other, url(*found)):
            time.sleep(3)
            assert [row[0] for row in found[0].query("SELECT count() FROM wiretape.exchanges")] != ["600"]
            found[1].start()
        figures = [str(2 * int(value)) for value in of_tape(tape)]
        for server in found:
            assert server.query(OF_CENTRE) == [figures]
        shards = [int(one.query("SELECT count() FROM wiretape.exchanges_local")[0][0]) for one in found]
        assert (shards[0], shards[2]) == (shards[1], shards[3])
        assert min(shards) > 200
