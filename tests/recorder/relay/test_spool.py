"""Request bodies in memory and in files, and what that costs when many are large."""

import asyncio
import hashlib
import os
import sys
import tempfile
from pathlib import Path

import pytest

from recorder.demo.upstream import answer
from recorder.relay import providers, spool
from recorder.relay.service import Observer, Options, Recorder
from recorder.relay.spool import Body, Memory
from recorder.tape import file
from recorder.tape.store import Store
from tests.forked import ROOT
from tests.relay import Relay, dial, fetch, kept, on_loop, post, run, until

LARGE = b"".join(bytes([n]) * (1 << 20) for n in range(18))
JSON = answer([(0.0, b"{}")], content_type="application/json", framing="length")


async def filled(memory: Memory, data: bytes, piece: int = 100_000) -> Body:
    body = Body(memory)
    for start in range(0, len(data), piece):
        await body.append(data[start : start + piece])
    return body


async def joined(body: Body) -> bytes:
    return b"".join([piece async for piece in body])


@pytest.mark.parametrize("size", [0, 1, spool.BODY_MEMORY_BYTES, spool.BODY_MEMORY_BYTES + 1, len(LARGE)])
@on_loop
async def test_a_body_comes_back_as_it_was_appended(size: int) -> None:
    memory, data = Memory(), LARGE[:size]
    body = await filled(memory, data)
    assert (body.size, body.sha256) == (size, hashlib.sha256(data).hexdigest())
    assert body.is_spooled == (size > spool.BODY_MEMORY_BYTES)
    assert await body.start(16 << 20) == data[: 16 << 20]
    assert await joined(body) == data
    body.close()
    assert memory.used == 0


@on_loop
async def test_all_bodies_share_one_budget_and_give_it_back() -> None:
    memory = Memory(250_000)
    bodies = [await filled(memory, LARGE[:200_000]) for _ in range(3)]
    assert [body.is_spooled for body in bodies] == [False, True, True]
    assert memory.used <= 250_000
    assert [await joined(body) == LARGE[:200_000] for body in bodies] == [True] * 3
    for body in bodies:
        body.close()
    assert memory.used == 0


@on_loop
async def test_a_spooled_body_has_no_name_and_is_gone_with_its_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    body = await filled(Memory(0), b"a secret prompt")
    assert os.listdir(tmp_path) == []
    (descriptor,) = [number for number in os.listdir("/proc/self/fd") if spooled(number, tmp_path)]
    assert os.fstat(int(descriptor)).st_mode & 0o777 == 0o600
    body.close()
    assert not any(spooled(number, tmp_path) for number in os.listdir("/proc/self/fd"))


def spooled(descriptor: str, directory: Path) -> bool:
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(directory)
    except OSError:
        return False


def test_a_large_request_goes_upstream_from_its_file_and_its_beginning_to_the_tape(tmp_path: Path) -> None:
    async def main() -> None:
        target = relay.plays(JSON)
        assert (await relay.get(target, body=LARGE)).status == 200
        asked, found = relay.request(target), await relay.kept(target)
        assert asked is not None
        assert asked.body == LARGE
        assert (found.row["request_body"] == LARGE[: 16 << 20], found.row["request_size"]) == (True, len(LARGE))
        assert found.row["request_sha256"] == hashlib.sha256(LARGE).hexdigest()
        assert "request_not_stored" in found.flags
        assert found.row["sent_ns"] is not None

    with Relay(tmp_path) as relay:
        relay.runner.run(main())
    with file.writing(relay.tape, "a test") as connection:
        assert not any(Store(connection).rebuild())


@on_loop
async def test_a_request_that_is_stored_whole_is_not_flagged(relay: Relay) -> None:
    for body in (b"", b"{}", LARGE[: 16 << 20]):
        target = relay.plays(JSON)
        await relay.get(target, body=body)
        assert "request_not_stored" not in (await relay.kept(target)).flags


def test_an_answer_before_the_end_of_the_request_passes_at_once(tmp_path: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")  # and nothing more: the kernel's buffers fill up
        writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\n{}")
        await left.wait()
        writer.close()

    left = asyncio.Event()

    async def main() -> None:
        server = await asyncio.start_server(refuse, "127.0.0.1", 0, limit=1 << 16)
        upstream = providers.parse(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        recorder = Recorder(Options(tmp_path / "tape.db", [upstream]), Observer())
        await recorder.start()
        got = await fetch(recorder.base, post("/x", LARGE))
        assert (got.status, got.body, got.complete) == (401, b"{}", True)
        left.set()
        await recorder.stop()
        server.close()

    run(main())
    found = kept(tmp_path / "tape.db", "/x")
    assert found is not None
    assert (found.outcome, found.row["sent_ns"]) == (("http_error", "client_error"), None)


@on_loop
async def test_a_body_that_cannot_be_held_is_refused_and_said(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    before = relay.upstream.connections
    got = await relay.get("/x", body=LARGE)
    assert got.status == 503
    assert b"wiretape: the request body cannot be held while it arrives: No such file or directory" in got.body
    assert b"TMPDIR" in got.body
    assert (await relay.get(relay.plays(JSON), body=b"{}")).status == 200
    assert relay.upstream.connections == before + 1


@on_loop
async def test_a_client_that_leaves_in_the_middle_of_a_large_request_leaves_no_file(relay: Relay) -> None:
    before = len(os.listdir("/proc/self/fd"))
    async with dial(relay.base) as (_, writer):
        writer.write(post("/x", b"", [("content-length", str(len(LARGE)))]) + LARGE[: 17 << 20])
        await until(lambda: writer.transport.get_write_buffer_size() == 0)
    await until(lambda: len(os.listdir("/proc/self/fd")) <= before and not relay.recorder.live)


@pytest.mark.nightly
def test_ten_large_uploads_at_a_time_stay_within_a_bound_of_memory() -> None:
    """The relay and the writer together; with all bodies in memory they took 1.4 GiB."""

    async def main() -> str:
        bench = ROOT / "tests" / "bench" / "uploads.py"
        command = (sys.executable, str(bench), "--uploads", "10", "--mib", "60")
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        return (await process.communicate())[0].decode()

    report = run(main())
    assert "10 answered right" in report
    together = next(line for line in report.splitlines() if line.startswith("together"))
    assert int(together.split()[-5]) < 400, report
