"""`wiretape record --ship`: each exchange is shipped exactly once, also if the shipping process is killed."""

import contextlib
import os
import re
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.cases import each_case
from tests.support.relay import DONE, chunk, fetch, finish, on_loop, post, recording, select, until
from wiretape.recorder.commands.companion import Shipment
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, ScriptedUpstream, answer
from wiretape.viewer import contracts
from wiretape.viewer.cli import group
from wiretape.viewer.wings.clickhouse import address
from wiretape.viewer.wings.clickhouse.client import Centre, Unavailable, UnusableServer

CHAT = "/v1/chat/completions"
STREAM = [(0.01, chunk("a")), (0.03, chunk("b", finish="stop")), (0.0, DONE)]


def shipper_of(pid: int) -> int:
    started = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (found,) = [it for it in started if "ship" in Path(f"/proc/{it}/cmdline").read_text().split("\0")]
    return int(found)


@pytest.mark.nightly
@on_loop
async def test_shipping_runs_while_recording_and_finishes_the_rest(tmp_path: Path) -> None:
    pytest.importorskip("chdb")
    tape, to = tmp_path / "tape.db", f"chdb:{tmp_path}/engine"

    def count() -> int:
        with contextlib.suppress(UnusableServer, Unavailable):  # it is made by the first shipment
            return len(rows(to))
        return 0

    async with (
        ScriptedUpstream(lambda _: answer(STREAM)) as upstream,
        recording(tape, upstream.url, "--ship", to, "--label", "tenant=acme") as (process, base),
    ):
        await fetch(base, post(CHAT))
        await until(lambda: count() == 1)
        os.kill(shipper_of(process.pid), signal.SIGKILL)
        await fetch(base, post(CHAT))
        await until(lambda: count() == 2)
        await fetch(base, post(CHAT))
        code, _, err = await finish(process, signal.SIGINT)
    ids = sorted(row["id"] for row in select(tape, "SELECT id FROM exchanges"))
    assert (code, rows(to)) == (0, [(id, "acme") for id in ids])
    assert "the process that ships the tape ended (exit code -9); starting another" in err
    assert f"ship        {to}" in err


def rows(to: str) -> list[tuple[str, str]]:
    with Centre(address.parse(to), address.Credentials()) as centre:
        return centre.rows("SELECT id, tenant FROM exchanges ORDER BY id")


@pytest.mark.nightly
@on_loop
async def test_a_refusing_server_is_reported_once_and_harms_nothing(tmp_path: Path) -> None:
    request_count = 0

    def choose(_: ReceivedRequest) -> Scene:
        nonlocal request_count
        request_count += 1
        refusal = b"Code: 193. DB::Exception: Wrong password. (WRONG_PASSWORD)"
        headers = [("X-ClickHouse-Exception-Code", "193")]
        return answer([(0, refusal)], status=401, content_type="text/plain", headers=headers)

    async with ScriptedUpstream(lambda _: answer(STREAM)) as upstream, ScriptedUpstream(choose) as centre:
        to = centre.url.replace("http://", "clickhouse://") + "/wiretape"
        async with recording(tmp_path / "tape.db", upstream.url, "--ship", to) as (process, base):
            await until(lambda: request_count == 3)
            await fetch(base, post(CHAT))
            code, _, err = await finish(process, signal.SIGINT)
    assert (code, err.count("does not accept the user or the password")) == (0, 1)
    assert (err.count("ended (exit code 1); starting another"), "Fatal" in err) == (1, False)
    assert "the rest is on the tape" in err


@each_case(
    "options, said",
    [
        (["--ship", "otlp+http://127.0.0.1:4318"], "named with --otlp"),
        (["--ship", "https://user:secret@host/db"], "a destination is otlp.*clickhouse://HOST"),
        (["--ship", "chdb:secret?x"], "has a question mark"),
        (["--ship", "clickhouse://user:secret@host/db"], "a password does not belong in a URL"),
        (["--otlp", "http://user:secret@host"], "credentials in a URL"),
        (["--ship-bodies"], "--ship-bodies is for --ship"),
        (["--otlp-headers", "secret"], "--otlp-headers is for --otlp"),
    ],
)
def test_an_impossible_shipment_is_refused_with_advice(options: list[str], said: str) -> None:
    result = CliRunner().invoke(group, ["record", "--db", "none.db", *options])
    assert result.exit_code == 2
    assert re.search(said, " ".join(result.output.split()))
    assert "secret" not in result.output


def test_the_destination_of_shipping_is_printed_in_one_line() -> None:
    lines = [
        Shipment(contracts.destination("clickhouse://other/db"), bodies=True).line,
        Shipment(contracts.destination("clickhouse://host/db")).line,
        Shipment(contracts.destination("otlp+http://h:4318/otel")).line,
    ]
    assert lines == [
        "ship        db at other:8443, with bodies",
        "ship        db at host:8443",
        "otlp        http://h:4318/otel/v1/traces, /v1/metrics",
    ]
