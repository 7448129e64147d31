"""A recorder as a whole: its settings, obstacles at its start, and the state that it leaves."""

import asyncio
import json
import os
import signal
import ssl
import stat
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.relay import (
    DONE,
    Relay,
    behind_handshakes,
    chunk,
    fetch,
    kept,
    make_authority,
    post,
    raw,
    run,
    select,
    serving,
    until,
)
from wiretape.recorder.demo.upstream import ScriptedUpstream, answer
from wiretape.recorder.errors import TapeBusy, WiretapeError
from wiretape.recorder.relay import providers, service, sockets
from wiretape.recorder.relay.service import Observer, Recorder, RecorderOptions
from wiretape.recorder.tape import file

STREAM = [(0.0, chunk("a", finish="stop")), (0.0, DONE)]
BODY = b"".join(piece for _, piece in STREAM)


def test_a_session_is_entered_and_ended(tmp_path: Path) -> None:
    with Relay(tmp_path, labels={"a": "1"}) as relay:
        (session,) = relay.runner.run(until(lambda: select(relay.tape, "SELECT * FROM sessions")))
        assert (session["listen"], session["ended_at"]) == (relay.base, None)
        relay.runner.run(relay.shows(answer([(0, b"x")]), headers=[("x-wiretape-label", "b=2")]))
    (session,) = select(relay.tape, "SELECT * FROM sessions")
    assert session["ended_at"] > session["started_at"]
    assert select(relay.tape, "SELECT labels FROM exchanges")[0][0] == '{"a":"1","b":"2"}'
    assert stat.S_IMODE(relay.tape.stat().st_mode) == 0o600


def test_a_stop_takes_ten_seconds_at_most() -> None:
    assert service.DRAIN_SECONDS + 1.5 <= service.STOP_SECONDS < 10


def test_a_tape_of_no_recorder_is_left_alone(tape: Path) -> None:
    async def main() -> None:
        with file.writing(tape, "wiretape db vacuum"), pytest.raises(TapeBusy, match="written by wiretape db vacuum"):
            await Recorder(RecorderOptions(tape, [providers.parse("http://127.0.0.1:9")]), Observer()).start()

    run(main())


@pytest.mark.parametrize(
    ("identity", "client", "sent"),
    [(False, ["br, gzip"], ["br, gzip"]), (False, [], []), (True, ["br"], ["identity"]), (True, [], ["identity"])],
)
def test_accept_encoding_passes_unless_identity_is_requested(
    tmp_path: Path, identity: bool, client: list[str], sent: list[str]
) -> None:
    with Relay(tmp_path, identity=identity) as relay:
        target = relay.plays(answer([(0, b"x")]))
        relay.runner.run(relay.get(target, headers=[("accept-encoding", value) for value in client]))
        request = relay.request(target)
        tape = relay.runner.run(relay.kept(target))
    assert request is not None
    assert [value.decode() for name, value in request.headers if name == b"accept-encoding"] == sent
    header_list = json.loads(tape.row["request_headers"])
    assert [value for name, value in header_list if name == "accept-encoding"] == sent
    assert (tape.row["asks_identity"], "asks_identity" in tape.flags) == (identity or None, identity)


def test_a_named_upstream_is_served_only_below_its_name(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream(lambda _: answer([(0, b"x")])) as upstream:
            url = upstream.url.replace("//", "//user:p%40ss@") + "/base/"
            recorder = Recorder(RecorderOptions(tmp_path / "tape.db", [providers.parse(f"one={url}")]), Observer())
            await recorder.start()
            for target, status in (("/one/v1/x", 200), ("/one?q", 200), ("/onetwo/x", 404), ("/", 404)):
                assert (await fetch(recorder.base, post(target))).status == status
            assert await recorder.stop() == 0
        assert [request.target for request in upstream.requests] == [b"/base/v1/x", b"/base/?q"]
        assert dict(upstream.requests[0].headers)[b"authorization"] == b"Basic dXNlcjpwQHNz"
        assert kept(tmp_path / "tape.db", "/v1/x") is not None

    run(main())
    assert all(secret not in (tmp_path / "tape.db").read_bytes() for secret in (b"p%40ss", b"p@ss", b"dXNlcjpwQHNz"))


def test_tls_fails_closed(tmp_path: Path, authority: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    unknown = make_authority(tmp_path_factory.mktemp("unknown"))

    async def main() -> None:
        async with AsyncExitStack() as stack:
            served: dict[str, Any] = {"good": authority, "wrong": authority, "expired": authority, "unknown": unknown}
            for name, signed_by in served.items():
                tls = serving(signed_by, "good" if name == "unknown" else name)
                served[name] = await stack.enter_async_context(ScriptedUpstream(lambda _: answer(STREAM), tls))
            upstreams = [providers.make(name, upstream.url) for name, upstream in served.items()]
            recorder = Recorder(RecorderOptions(tape, upstreams, ca_file=authority / "ca.pem"), Observer())
            await recorder.start()
            got = {name: await fetch(recorder.base, post(f"/{name}/{name}")) for name in served}
            assert await recorder.stop() == 0
        assert (got["good"].status, got["good"].body) == (200, BODY)
        for name in ("wrong", "expired", "unknown"):
            row = kept(tape, f"/{name}")
            assert row is not None
            assert (row.outcome, served[name].requests) == (("connect_error", "tls"), [])
            assert (got[name].status, got[name].headers["x-wiretape-error"]) == (502, "tls")

    tape = tmp_path / "tape.db"
    run(main())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_requested_client_certificate_is_sent_or_reported_missing(
    tmp_path: Path, authority: Path, version: ssl.TLSVersion
) -> None:
    tls, certificate = serving(authority, "good"), tmp_path / "client.pem"
    tls.verify_mode, tls.maximum_version = ssl.CERT_REQUIRED, version
    tls.load_verify_locations(authority / "ca.pem")
    certificate.write_bytes((authority / "good.pem").read_bytes() + (authority / "good.key").read_bytes())

    def respond(sock: ssl.SSLSocket) -> None:
        sock.recv(65536)
        sock.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    async def ask(client_cert: Path | None, target: str) -> int:
        upstreams = [providers.parse(f"https://{place}")]
        options = RecorderOptions(tape, upstreams, ca_file=authority / "ca.pem", client_cert=client_cert)
        recorder = Recorder(options, Observer())
        await recorder.start()
        got = await fetch(recorder.base, post(target, b""))
        assert await recorder.stop() == 0
        return got.status

    tape = tmp_path / "tape.db"
    with behind_handshakes(tls, respond) as place:
        assert (run(ask(certificate, "/with")), run(ask(None, "/without"))) == (204, 502)
    row = kept(tape, "/without")
    assert row is not None
    assert row.outcome == ("connect_error", "tls")
    assert "by --client-cert" in row.row["ended_detail"]


def test_a_client_certificate_without_its_key_is_reported(tmp_path: Path, authority: Path) -> None:
    options = RecorderOptions(
        tmp_path / "tape.db", [providers.parse("http://127.0.0.1:1")], client_cert=authority / "good.pem"
    )
    with pytest.raises(WiretapeError, match="give a certificate and its key"):
        run(Recorder(options, Observer()).start())


def test_an_invalid_ca_file_is_reported_without_leaks(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    options = RecorderOptions(
        tmp_path / "tape.db", [providers.parse("http://127.0.0.1:1")], ca_file=tmp_path / "ca.pem"
    )
    with pytest.raises(WiretapeError, match="give certificates in PEM"):
        run(Recorder(options, Observer()).start())
    assert not options.tape.exists()


def test_a_ca_file_is_trusted_besides_the_systems(authority: Path) -> None:
    ours = len(sockets.tls_context(authority / "ca.pem").get_ca_certs())
    assert ours == len(ssl.create_default_context().get_ca_certs()) + 1


def test_the_writer_may_die_and_nothing_is_lost(tmp_path: Path) -> None:
    async def main() -> None:
        pieces = [*(chunk(str(number)) for number in range(30)), DONE]
        target = relay.plays(answer([(0.03, piece) for piece in pieces]))
        asking = asyncio.create_task(relay.get(target))
        await until(lambda: relay.request(target))
        pid = relay.recorder.tap.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        got, row = await asking, await relay.kept(target)
        assert got.complete
        assert got.body == row.body == b"".join(pieces)
        assert (row.outcome, row.row["gap_bytes"]) == (("complete", None), 0)
        assert "starting another" in relay.troubles[0]

    with Relay(tmp_path) as relay:
        relay.runner.run(main())


def test_an_allowed_name_reaches_a_host_beyond_loopback(tmp_path: Path) -> None:
    async def main() -> None:
        for host, status in ((b"box.test:8377", b"200"), (b"localhost", b"200"), (b"other.test", b"421")):
            got = await raw(relay.base, b"GET /x HTTP/1.1\r\nhost: %s\r\nconnection: close\r\n\r\n" % host)
            assert got.startswith(b"HTTP/1.1 " + status)

    with Relay(tmp_path, allow_hosts=frozenset({"box.test"})) as relay:
        relay.runner.run(main())
    assert [refusal.status for refusal in relay.refused] == [421]


def test_a_recorder_interrupted_before_its_start_still_starts(tmp_path: Path) -> None:
    async def main() -> None:
        recorder = Recorder(RecorderOptions(tmp_path / "tape.db", [providers.parse("http://127.0.0.1:1")]), Observer())
        recorder.cut()
        await recorder.start()
        assert await recorder.stop() == 0

    run(main())
