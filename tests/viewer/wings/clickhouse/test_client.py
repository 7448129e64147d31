"""Errors of a server are one line each, and only transient ones are retried."""

import base64
import socket
from collections.abc import Iterator

import pytest

from tests.support.cases import each_case
from tests.support.clickhouse.engine import CUT_BEFORE, HEADERS, Answer, Engine, centre, failed, running
from wiretape.recorder.tape.redact import shown
from wiretape.viewer.wings.clickhouse.address import Credentials, Target
from wiretape.viewer.wings.clickhouse.client import (
    Centre,
    MemoryExceeded,
    Unavailable,
    UnknownExpression,
    UnusableServer,
)

TYPES = {"id": "String"}


@pytest.fixture(scope="module")
def running_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with running(tmp_path_factory.mktemp("engine")) as engine:
        yield engine


@pytest.fixture
def engine(running_engine: Engine) -> Engine:
    """The engine, without rows."""
    running_engine.forget()
    return running_engine


@each_case(
    "answer, kind, message",
    [
        (failed(401, 193, "Wrong password for user x"), UnusableServer, "does not accept the user or the password"),
        (failed(500, 516, "x: Authentication failed"), UnusableServer, "does not accept the user or the password"),
        (failed(500, 497, "Not enough privileges"), UnusableServer, r"does not allow this account to do that \(Not en"),
        (failed(404, 60, "Table db.exchanges doesn't exist."), UnusableServer, "run 'wiretape fleet init"),
        (failed(404, 81, "Database db doesn't exist"), UnusableServer, "run 'wiretape fleet init"),
        (failed(404, 16, "No such column x in table"), UnusableServer, "has another schema .No such column x"),
        (failed(500, 243, "Cannot reserve 1.00 MiB"), Unavailable, "the disk of http://127.0.0.1:[0-9]+ is full"),
        (failed(500, 75, "Cannot write to file /x, errno: 28, strerror: No"), Unavailable, "the disk of .* is full"),
        (
            failed(500, 159, "Watching task q is executing longer than distributed_ddl_task_timeout (=45) seconds."),
            UnusableServer,
            "not all hosts of the cluster did it .* then run the same command again",
        ),
        (failed(500, 285, "Number of alive replicas (1) is less"), Unavailable, "too few replicas that work"),
        (
            failed(500, 286, "Another quorum insert has been already started: Insertion status:\nWrote 1 blocks"),
            Unavailable,
            r"waits until another batch is on its replicas \(Another quorum insert has been already started\)",
        ),
        (failed(500, 252, "Too many parts (300)"), Unavailable, "too much to do"),
        (failed(500, 999, "What \x1b[2J is this"), Unavailable, "failed .What ␛"),
        (failed(500, 427, "cannot compile re2: (?=a)"), UnknownExpression, "those of RE2"),
        (failed(200, 241, "Memory limit exceeded"), MemoryExceeded, "raise max_memory_usage"),
        (Answer(502, {}, b"<h1>Bad gateway</h1>"), Unavailable, "answered 502"),
        (Answer(404, {}, b"not here"), UnusableServer, "is no ClickHouse server"),
        (Answer(302, {"Location": "http://x/"}), UnusableServer, "names 'http://x/' instead, which is not"),
        (Answer(200, {}, b"<p>Sign in"), Unavailable, "answered '<p>Sign in': something else than ClickHouse"),
        (Answer(200), Unavailable, "answered '': something else than ClickHouse"),
        (CUT_BEFORE, Unavailable, "broke the connection"),
    ],
)
def test_an_error_of_a_node_is_one_line(engine: Engine, answer: Answer, kind: type[Exception], message: str) -> None:
    engine.answer = None
    with centre(engine) as server:
        server.query("SELECT 1")
        engine.answer = answer
        with pytest.raises(kind, match=message) as error:
            server.insert("exchanges", TYPES, [[b"x"]])
        assert "\n" not in str(error.value)
        assert "a secret" not in str(error.value)
        assert shown(str(error.value)) == str(error.value)


def test_an_absent_node_is_reported_after_asking_the_others(engine: Engine) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{sock.getsockname()[1]}"
        with Centre(Target((away, engine.target.nodes[0])), Credentials()) as server:
            assert server.rows("SELECT 1") == [(1,)]
            assert server.node == engine.target.nodes[0]
        with (
            Centre(Target((away,)), Credentials()) as server,
            pytest.raises(Unavailable, match=r"cannot be reached .*ref"),
        ):
            server.query("SELECT 1")


def test_a_node_that_does_not_answer_is_skipped() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = Target((f"http://127.0.0.1:{silent.getsockname()[1]}",))
        with (
            Centre(target, Credentials(), seconds=0.1) as server,
            pytest.raises(Unavailable, match=r"did not answer within 0\.1 s"),
        ):
            server.query("SELECT 1")


def test_an_answer_may_take_any_time_without_a_limit(engine: Engine) -> None:
    with Centre(engine.target, Credentials(), seconds=0) as server:
        assert server.rows("SELECT 1") == [(1,)]


def test_a_server_without_tls_is_nothing_that_passes(engine: Engine) -> None:
    secure = Target((engine.target.nodes[0].replace("http:", "https:"),))
    with Centre(secure, Credentials()) as server, pytest.raises(UnusableServer, match=r"speaks no TLS: .*\?tls=no"):
        server.query("SELECT 1")


def test_a_password_is_a_header_and_queries_rotate_nodes(engine: Engine) -> None:
    with centre(engine) as server:
        assert server.rows("SELECT 1") == [(1,)]
    account = "Basic " + base64.b64encode(b"someone:a secret").decode()
    assert {headers["Authorization"] for headers, *_ in engine.asked} == {account}
    assert not any(b"secret" in body or "secret" in str(parameters) for _, parameters, body in engine.asked)


def test_an_insert_waits_for_all_replicas(engine: Engine) -> None:
    with centre(engine) as server:
        server.insert("exchanges", TYPES, [[b"x"]], token="a token", quorum=2)
    *_, (_, parameters, _) = engine.asked
    settings = {"wait_end_of_query": "1", "insert_distributed_sync": "1", "insert_quorum": "2"}
    assert settings.items() <= parameters.items()
    assert engine.tokens["exchanges"] == ["a token"]


def test_an_answer_that_breaks_off_is_none(engine: Engine) -> None:
    with centre(engine) as server:
        server.query("SELECT 1")
        engine.answer = Answer(200, HEADERS | {"Content-Type": "x"}, b"\x01\x01")
        with pytest.raises(Unavailable):
            server.query("SELECT number FROM numbers(5)")
