"""Errors of a server are one line each, and only transient ones are retried."""

import ssl
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.support.cases import each_case
from tests.support.clickhouse.engine import HEADERS, TARGET, Engine, centre, failed
from wiretape.recorder.destinations import Credentials
from wiretape.viewer.source.clickhouse.client import (
    Centre,
    MemoryExceeded,
    Unavailable,
    UnknownExpression,
    UnusableServer,
)


@each_case(
    "answer, kind, said",
    [
        (
            failed(401, 193, "Wrong password for user x"),
            UnusableServer,
            "does not accept the user or the password: check",
        ),
        (
            failed(500, 516, "x: Authentication failed"),
            UnusableServer,
            "does not accept the user or the password: check",
        ),
        (
            failed(500, 497, "Not enough privileges"),
            UnusableServer,
            r"does not allow this account to do that \(Not enough",
        ),
        (failed(404, 60, "Table db.exchanges doesn't exist."), UnusableServer, "run 'wiretape fleet init"),
        (failed(404, 81, "Database db doesn't exist"), UnusableServer, "run 'wiretape fleet init"),
        (failed(404, 16, "No such column x in table"), UnusableServer, "has another schema .No such column x"),
        (failed(500, 243, "Cannot reserve 1.00 MiB"), Unavailable, "the disk of http://127.0.0.1:1 is full"),
        (
            failed(500, 75, "Cannot write to file /x, errno: 28, strerror: No"),
            Unavailable,
            "the disk of .* is full: free",
        ),
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
        (httpx.Response(502, text="<h1>Bad gateway</h1>"), Unavailable, "answered 502"),
        (httpx.Response(404, text="not here"), UnusableServer, "is no ClickHouse server"),
        (
            httpx.Response(302, headers={"Location": "http://x/"}),
            UnusableServer,
            "names 'http://x/' instead, which is not",
        ),
        (httpx.Response(200, text="<p>Sign in"), Unavailable, "answered '<p>Sign in': something else than ClickHouse"),
        (httpx.Response(200), Unavailable, "answered '': something else than ClickHouse"),
        (httpx.Response(200, headers=HEADERS, text="hello"), Unavailable, "answered 'hello' to what was inserted"),
    ],
)
def test_an_error_of_a_node_is_one_line(answer: httpx.Response, kind: type[Exception], said: str) -> None:
    engine = Engine()
    engine.faults = [lambda _: answer]
    with centre(engine) as there, pytest.raises(kind, match=said) as error:
        there.insert("exchanges", ["id"], b"x")
    assert "\n" not in str(error.value)
    assert "a secret" not in str(error.value)


def raising(error: Exception) -> Engine:
    def fail(_: httpx.Request) -> httpx.Response:
        raise error

    engine = Engine()
    engine.faults = [fail, fail]
    return engine


@each_case(
    "error, said",
    [
        (httpx.ConnectError("refused"), "cannot be reached .refused."),
        (httpx.ConnectTimeout(""), "cannot be reached .no answer."),
        (httpx.ReadTimeout(""), "did not answer within 60 s"),
        (httpx.RemoteProtocolError("peer closed"), "broke the connection .peer closed."),
        (httpx.WriteError(""), "broke the connection .WriteError."),
    ],
)
def test_a_node_that_is_away_slow_or_cuts_may_be_back(error: Exception, said: str) -> None:
    with centre(raising(error)) as there, pytest.raises(Unavailable, match=said):
        there.insert("exchanges", ["id"], b"x")
    with centre(raising(error)) as there, pytest.raises(Unavailable, match=r"127\.0\.0\.1:2 "):  # asked both
        there.query("SELECT 1")


def test_an_answer_that_comes_in_drops_takes_no_longer_than_one_may() -> None:
    def drops() -> Iterator[bytes]:
        while True:
            time.sleep(0.02)
            yield b"x"

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers=HEADERS, content=drops())

    with (
        Centre(TARGET, Credentials(), transport=httpx.MockTransport(answer), seconds=0.1) as there,
        pytest.raises(Unavailable, match=r"did not answer within 0\.1 s"),
    ):
        there.query("SELECT 1")


def no_tls() -> ssl.SSLError:
    """Return the error of TLS when a plain HTTP server answers it."""
    client = ssl.create_default_context()
    received = ssl.MemoryBIO()
    received.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    talking = client.wrap_bio(received, ssl.MemoryBIO(), server_hostname="localhost")
    with pytest.raises(ssl.SSLError) as error:
        talking.do_handshake()
    return error.value


@each_case(
    "cause, said",
    [
        (ssl.SSLCertVerificationError(1, "self-signed certificate"), "does not verify .*--ca-file or SSL_CERT_FILE"),
        (no_tls(), r"speaks no TLS: .*\?tls=no"),
    ],
)
def test_a_certificate_that_does_not_verify_and_no_tls_at_all_are_nothing_that_passes(
    cause: ssl.SSLError, said: str
) -> None:
    error = httpx.ConnectError("tls")
    error.__cause__ = cause
    with centre(raising(error)) as there, pytest.raises(UnusableServer, match=said):
        there.query("SELECT 1")


def test_a_password_is_a_header_and_a_query_asks_the_next_node() -> None:
    engine = Engine()
    engine.faults = [lambda _: httpx.Response(503)]
    with centre(engine) as there:
        assert there.query("SELECT 1") == []
        assert there.node == TARGET.nodes[1]
    assert [f"{one.url.scheme}://{one.url.netloc.decode()}" for one in engine.asked] == list(TARGET.nodes)
    assert all("secret" not in str(one.url) + one.content.decode() for one in engine.asked)
    assert {one.headers["X-ClickHouse-Key"] for one in engine.asked} == {"a secret"}


def test_an_insert_waits_for_all_replicas_and_for_its_end() -> None:
    engine = Engine()
    with Centre(TARGET, Credentials(), transport=httpx.MockTransport(engine.handle)) as there:
        there.insert("exchanges", ["id"], b"\1x", quorum=2)
    (asked,) = engine.asked
    settings = {"wait_end_of_query": "1", "insert_distributed_sync": "1", "insert_quorum": "2"}
    assert settings.items() <= dict(asked.url.params).items()
    assert "X-ClickHouse-Key" not in asked.headers
