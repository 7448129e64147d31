"""A machine that has no file descriptors left, with real limits."""

import asyncio
import contextlib
import functools
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.relay import DONE, Answer, chunk, fetch, finish, on_loop, post, recording, select, wiretape
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, ScriptedUpstream, answer
from wiretape.recorder.errors import UpstreamError
from wiretape.recorder.relay import local, providers
from wiretape.recorder.relay.upstream import ConnectionFacts, Transport

FEW = 40
ADVICE = "no file descriptors are left (the limit is 40): raise the limit with 'ulimit -n' and start wiretape again"


def limit(soft: int, hard: int) -> Callable[[], None]:
    return functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """Lower this process's limit to the number of its open files."""
    previous_limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open("/dev/null") as lowest:
        limit(lowest.fileno(), previous_limits[1])()
        try:
            yield
        finally:
            limit(*previous_limits)()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "name.test"])
@on_loop
async def test_upstream_is_not_blamed_for_our_missing_descriptors(host: str) -> None:
    upstream = providers.parse(f"http://{host}:9/")
    transport = Transport()
    with no_descriptors(), pytest.raises(UpstreamError) as caught:
        await transport.connect(upstream, ConnectionFacts())
    assert (caught.value.ended_by, "ulimit -n" in str(caught.value)) == ("local", True)


def test_what_is_missing_is_named_with_what_to_do() -> None:
    assert local.cause(OSError(28, "No space left on device")).startswith("no space is left in /")
    assert local.cause(OSError(24, "Too many open files")).endswith(
        "raise the limit with 'ulimit -n' and start wiretape again"
    )
    assert local.cause(OSError(13, "Permission denied")) == "Permission denied"


async def ask(base: str, number: int) -> Answer:
    return await fetch(base, post(f"/v1/{number}", headers=[("connection", "close")]))


@on_loop
async def test_with_few_descriptors_clients_get_answers_or_the_reason(tmp_path: Path) -> None:
    def choose(request: ReceivedRequest) -> Scene:
        return answer([(0.0, chunk("a")), (0.7, chunk("b", finish="stop")), (0.0, DONE)])

    tape = tmp_path / "tape.db"
    async with (
        ScriptedUpstream(choose) as upstream,
        recording(tape, upstream.url, preexec_fn=limit(FEW, FEW)) as (process, base),
    ):
        answers = await asyncio.gather(*(ask(base, number) for number in range(30)))
        served = [got for got in answers if got.status == 200]
        refused = [got for got in answers if got.status == 503]
        assert len(served) + len(refused) == 30
        assert all(got.complete for got in answers)
        assert all(got.body.decode().startswith("wiretape: " + ADVICE) for got in refused)
        assert served
        assert refused
        assert (await ask(base, 99)).status == 200
        code, _, err = await finish(process, signal.SIGTERM)
    rows = select(tape, "SELECT outcome FROM measures")
    assert [row["outcome"] for row in rows] == ["complete"] * (len(served) + 1)
    assert (code, err.count(ADVICE)) == (0, 2)


@on_loop
async def test_connections_that_do_nothing_do_not_end_the_recorder(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(lambda _: answer([(0.0, DONE)])) as upstream,
        recording(tmp_path / "tape.db", upstream.url, preexec_fn=limit(FEW, FEW)) as (_, base),
    ):
        host, port = base.removeprefix("http://").split(":")
        idle = [await asyncio.open_connection(host, int(port)) for _ in range(FEW + 20)]
        assert (await ask(base, 1)).status == 503
        for _, writer in idle:
            writer.transport.abort()
        assert any([(await ask(base, number)).status == 200 for number in range(100)])


@on_loop
async def test_a_start_without_descriptors_says_so(tmp_path: Path) -> None:
    command = ("record", "--db", tmp_path / "tape.db", "--upstream", "http://127.0.0.1:9", "--listen", ":0")
    async with wiretape(*command, is_fresh=True, preexec_fn=limit(16, 16)) as process:
        code, out, err = await finish(process)
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert "no file descriptors are left (the limit is 16)" in err


@on_loop
async def test_the_descriptor_limit_rises_for_relay_and_writer(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(lambda _: answer([(0.0, DONE)])) as upstream,
        recording(tmp_path / "tape.db", upstream.url, preexec_fn=limit(64, 4096)) as (process, _),
    ):
        assert [soft_limit(pid) for pid in (process.pid, child_of(process.pid))] == [4096, 4096]


def child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def soft_limit(pid: int) -> int:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Max open files")).split()[3])


def test_a_refused_limit_is_followed_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[int, int]] = []

    def refuse(_: int, limits: tuple[int, int]) -> None:
        tried.append(limits)
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1 << 20))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    local.raise_descriptor_limit()
    assert [soft for soft, _ in tried] == list(local.WANTED_DESCRIPTORS)


def test_a_limit_that_is_high_enough_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 20, 1 << 20))
    monkeypatch.delattr(resource, "setrlimit")
    local.raise_descriptor_limit()


def test_without_a_descriptor_directory_a_few_count_as_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(_: str) -> None:
        raise PermissionError

    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    monkeypatch.setattr(local.os, "listdir", deny)
    assert 50 < local.free_descriptors() < 100
