"""`wiretape record` as a program: its output, its end, and the state that it leaves when it is killed."""

import asyncio
import functools
import os
import re
import signal
import socket
from pathlib import Path

import pytest

from tests.support.relay import (
    DONE,
    Kept,
    chunk,
    dial,
    fetch,
    finish,
    kept,
    on_loop,
    post,
    recording,
    run,
    select,
    take,
    until,
    writer_of,
)
from wiretape.recorder import __version__
from wiretape.recorder.commands import record
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, ScriptedUpstream, answer
from wiretape.recorder.relay import providers, service
from wiretape.recorder.tape import file

STREAM = [(0.0, chunk("a")), (0.03, chunk("b", finish="stop")), (0.0, DONE)]
LONG = [*((0.02, chunk(str(number))) for number in range(40)), (0.0, DONE)]
LONGER = [*((0.02, chunk(str(number))) for number in range(2000)), (0.0, DONE)]
HELD = Scene([(0, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")], "stall")


def choose(request: ReceivedRequest) -> Scene:
    scenes = {
        b"/long": answer(LONG),
        b"/longer": answer(LONGER),
        b"/held": HELD,
        b"/bad": answer([(0, b"{}")], status=429),
    }
    return scenes.get(request.target) or answer(STREAM)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def final_row(tape: Path, path: str) -> Kept:
    row: Kept = await until(lambda: kept(tape, path))
    return row


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@on_loop
async def test_record_prints_one_url_and_ends_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    tape = tmp_path / "tape.db"
    async with (
        ScriptedUpstream(choose) as upstream,
        recording(tape, upstream.url, "--label", "a=1", is_fresh=True) as (process, base),
    ):
        got = await fetch(base, post("/x", headers=[("x-wiretape-label", "b=2")]))
        await fetch(base, post("/bad"))
        await fetch(base, b"GET //evil.test/x HTTP/1.1\r\nhost: localhost\r\n\r\n")
        row = (await final_row(tape, "/x")).row
        await final_row(tape, "/bad")
        code, out, err = await finish(process, number)
    assert (code, out) == (0, "")
    assert base.startswith("http://127.0.0.1:")
    assert row["id"] == got.headers["x-wiretape-id"]
    assert row["labels"] == '{"a":"1","b":"2"}'
    lines = err.splitlines()
    assert [line for line in lines if f"  {row['id'][:8]}  complete  200  " in line]
    assert [line for line in lines if "  http_error/rate_limited  429  " in line]
    assert [line for line in lines if line.startswith("wiretape: refused (400): ")]
    assert lines[:3] == [
        f"point SDKs  export OPENAI_BASE_URL={base}/v1",
        f"tape        {tape}  (wiretape {__version__})",
        f'look        wiretape view --db {tape}    variables: eval "$(wiretape env --db {tape})"    stop: ctrl-c',
    ]
    assert f"upstream    {base}  →  {upstream.url}" in lines
    assert lines[-1] == "1 generation: 1 complete · 1 other request · not stored: 0 bytes, 0 frames, 0 exchanges"
    assert select(tape, "SELECT ended_at FROM sessions")[0][0]


@on_loop
async def test_verbose_lists_every_upstream_and_every_variable(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    arguments = ("--upstream", "gpu=http://10.0.0.7:8000", "--upstream", "anthropic=https://api.anthropic.com", "-v")
    async with recording(tape, "openai=https://user:secret@api.openai.com", *arguments) as (process, base):
        code, _, err = await finish(process, signal.SIGINT)
    lines = err.splitlines()
    assert code == 0
    assert [line[12:] for line in lines[:3]] == [
        f"export OPENAI_BASE_URL={base}/openai/v1",
        f"export OPENAI_BASE_URL={base}/gpu/v1",
        f"export ANTHROPIC_BASE_URL={base}/anthropic",
    ]
    assert f"upstream    {base}/gpu  →  http://10.0.0.7:8000" in lines
    assert f"SDKs        export ANTHROPIC_BASE_URL={base}/anthropic" in lines
    assert f"SDKs        export OPENAI_BASE_URL={base}/openai/v1" in lines
    assert "secret" not in err


@on_loop
async def test_a_running_stream_ends_before_it_does(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    async with ScriptedUpstream(choose) as upstream, recording(tape, upstream.url, is_fresh=True) as (process, base):
        async with dial(base) as (reader, writer):
            writer.write(post("/long"))
            await until(lambda: upstream.requests)
            stopping = asyncio.create_task(finish(process, signal.SIGINT))
            got = await take(reader)
        code, _, err = await stopping
    assert (got.complete, got.body) == (True, b"".join(piece for _, piece in LONG))
    assert code == 0
    assert "draining 1 live exchange (" in err
    row = kept(tape, "/long")
    assert row is not None
    assert (row.outcome, row.body) == (("complete", None), got.body)


@on_loop
async def test_a_second_signal_cuts(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    async with (
        ScriptedUpstream(choose) as upstream,
        recording(tape, upstream.url, is_fresh=True) as (process, base),
        dial(base) as (reader, writer),
    ):
        writer.write(post("/held"))
        await reader.readuntil(b"3\r\nabc\r\n")
        assert process.stderr is not None
        process.send_signal(signal.SIGTERM)
        await process.stderr.readuntil(b"draining")
        code, _, _ = await finish(process, signal.SIGINT, seconds=4.0)
        assert await reader.read() == b""
    row = kept(tape, "/held")
    assert row is not None
    assert (code, row.outcome, row.body) == (0, ("interrupted", "shutdown"), b"abc")


@on_loop
async def test_a_signal_that_was_to_be_ignored_is(tmp_path: Path) -> None:
    ignore = functools.partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)
    async with (
        ScriptedUpstream(choose) as upstream,
        recording(tmp_path / "tape.db", upstream.url, preexec_fn=ignore, is_fresh=True) as (process, base),
    ):
        process.send_signal(signal.SIGHUP)
        assert (await fetch(base, post("/x"))).complete
        assert (await finish(process, signal.SIGTERM))[0] == 0


@on_loop
async def test_a_taken_port_is_one_line_and_exit_7(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        arguments = ("http://127.0.0.1:1", "--listen", f":{port}")
        async with recording(tmp_path / "tape.db", *arguments, is_fresh=True) as (process, base):
            code, out, err = await finish(process)
    assert (code, base, out) == (7, "", "")
    assert err == (
        f"wiretape: cannot listen on 127.0.0.1:{port} (Address already in use): stop what does, or use --listen :0\n"
    )
    assert not (tmp_path / "tape.db").exists()


@on_loop
async def test_a_taken_tape_is_one_line_and_exit_6(tape: Path) -> None:
    with file.writing(tape, "wiretape db vacuum"):
        async with recording(tape, "http://127.0.0.1:1", is_fresh=True) as (process, nothing):
            code, _, err = await finish(process)
    assert (code, nothing, err.count("\n")) == (6, "", 1)
    assert f"is being written by wiretape db vacuum (pid {os.getpid()}): stop it, or use another tape" in err


@on_loop
async def test_a_second_recorder_survives_the_firsts_kill_without_losses(tape: Path) -> None:
    async with (
        ScriptedUpstream(choose) as upstream,
        recording(tape, upstream.url) as (first, base),
        recording(tape, upstream.url) as (second, second_base),
    ):
        held_call = asyncio.create_task(fetch(base, post("/held")))
        await until(lambda: select(tape, "SELECT count(*) FROM segments")[0][0] == 1)
        long = asyncio.create_task(fetch(second_base, post("/long")))
        await until(lambda: select(tape, "SELECT count(*) FROM exchanges")[0][0] == 2)
        first.kill()
        got = await long
        assert (await final_row(tape, "/held")).outcome == ("interrupted", None)
        code, _, err = await finish(second, signal.SIGTERM)
    assert (got.complete, code) == (True, 0)
    assert (await final_row(tape, "/long")).body == got.body == b"".join(piece for _, piece in LONG)
    assert f"wiretape: joins the recorder of pid {first.pid}\n" in err
    assert err.splitlines()[-1] == "1 generation: 1 complete · not stored: 0 bytes, 0 frames, 0 exchanges"
    sessions = select(tape, "SELECT listen, ended_at NOT NULL FROM sessions ORDER BY no")
    assert [tuple(row) for row in sessions] == [(base, 0), (second_base, 1)]
    held_call.cancel()


def test_it_fails_if_anything_could_not_be_stored(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> int:
        async with ScriptedUpstream(choose) as upstream:
            options_given = service.RecorderOptions(tmp_path / "tape.db", [providers.parse(upstream.url)])
            recording = asyncio.create_task(record.serve(options_given))
            base = await until(lambda: capfd.readouterr().out.strip())
            await fetch(base, post("/first"))
            await final_row(tmp_path / "tape.db", "/first")  # so the writer is ready
            os.kill(await writer_of(tmp_path / "tape.db", os.getpid()), signal.SIGSTOP)  # as a disk that never answers
            got = await fetch(base, post("/x"))
            assert (got.complete, got.body) == (True, b"".join(piece for _, piece in STREAM))
            os.kill(os.getpid(), signal.SIGTERM)
            return await recording

    monkeypatch.setattr(service, "STOP_SECONDS", 1.0)
    assert run(main()) == 1
    err = capfd.readouterr().err
    assert "frames could not be stored" in err
    assert re.match(r"(0 generations, 0 failed|1 generation: 1 complete) · not stored: ", err.splitlines()[-1])


@on_loop
async def test_a_killed_relay_leaves_an_exact_prefix(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    async with ScriptedUpstream(choose) as upstream, recording(tape, upstream.url, is_fresh=True) as (process, base):
        async with dial(base) as (reader, writer):
            writer.write(post("/longer"))
            got = await reader.readuntil(b'"content": "20"')
            byte_count = await until(lambda: select(tape, "SELECT sum(length(data)) FROM segments")[0][0])
            process.kill()
            got += await reader.read()
        row = await final_row(tape, "/longer")
        await until(lambda: upstream.requests[0].peer_left_ns)
    body = b"".join(piece for _, piece in LONGER)
    assert row.outcome == ("interrupted", None)
    assert body.startswith(row.body)
    assert len(row.body) >= byte_count
    assert row.body.count(b"data:") <= got.count(b"data:") + 1


@on_loop
async def test_when_the_writer_is_killed_the_tape_holds_everything(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    async with ScriptedUpstream(choose) as upstream, recording(tape, upstream.url, is_fresh=True) as (process, base):
        async with dial(base) as (reader, writer):
            writer.write(post("/long"))
            got = await reader.readuntil(b'"content": "20"')
            os.kill(children(process.pid)[0], signal.SIGKILL)
            got += await reader.readuntil(b"\r\n0\r\n\r\n")
        row = await final_row(tape, "/long")
        code, _, err = await finish(process, signal.SIGTERM)
    assert row.body == b"".join(piece for _, piece in LONG)
    assert (row.outcome, row.row["gap_bytes"], code) == (("complete", None), 0, 0)
    assert "the writer ended; starting another" in err
    assert select(tape, "SELECT count(*) FROM sessions")[0][0] == 1


@pytest.mark.damages
@on_loop
async def test_an_overwritten_tape_is_reported_and_then_refused(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    async with ScriptedUpstream(choose) as upstream:
        for number in range(2):
            async with recording(tape, upstream.url) as (process, base):
                await fetch(base, post(f"/{number}"))
                await final_row(tape, f"/{number}")
                if number:
                    os.truncate(tape, 8192)
                code, _, err = await finish(process, signal.SIGTERM)
        assert code == 1
        assert "wiretape: the tape is damaged: " in err
        async with recording(tape, upstream.url) as (process, base):
            code, _, err = await finish(process)
    assert (code, base, err.count("\n")) == (3, "", 1)
    assert f"{tape} is damaged" in err


@pytest.mark.parametrize("is_killed", [False, True])
@on_loop
async def test_a_removed_log_costs_nothing_or_is_counted(tmp_path: Path, is_killed: bool) -> None:
    tape, body = tmp_path / "tape.db", b"".join(piece for _, piece in LONG)
    async with ScriptedUpstream(choose) as upstream, recording(tape, upstream.url) as (process, base):
        async with dial(base) as (reader, writer):
            writer.write(post("/long"))
            got = await reader.readuntil(b'"content": "20"')
            (pid,) = children(process.pid)
            if is_killed:
                os.kill(pid, signal.SIGSTOP)
            os.unlink(f"{tape}-wal")
            if is_killed:
                os.kill(pid, signal.SIGKILL)
            await reader.readuntil(b"\r\n0\r\n\r\n")
        if not is_killed:
            await final_row(tape, "/long")
        code, _, err = await finish(process, signal.SIGTERM)
    assert got
    if is_killed:
        assert code == 1
        assert "the tape does not hold 1 running exchange (" in err
        # The next writer may have entered the exchange from the file beside the tape.
        assert re.search(rf"not stored: {len(body):,} bytes, 0 frames, (1 exchange|0 exchanges)\n$", err)
    else:
        assert code == 0
        row = kept(tape, "/long")
        assert row is not None
        assert (row.body, row.row["gap_bytes"]) == (body, 0)


@on_loop
async def test_old_exchanges_are_deleted_while_recording_without_losses(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    async with ScriptedUpstream(choose) as upstream, recording(tape, upstream.url, "--keep", "1s") as (process, base):
        await fetch(base, post("/x"))
        await fetch(base, post("/bad"))
        await final_row(tape, "/bad")
        await until(lambda: not select(tape, "SELECT no FROM exchanges"))
        code, _, err = await finish(process, signal.SIGINT)
    assert code == 0
    assert err.splitlines()[-1] == (
        "1 generation: 1 complete · 1 other request · 2 old exchanges deleted, "
        "not stored: 0 bytes, 0 frames, 0 exchanges"
    )


@on_loop
async def test_what_others_can_read_or_reach_is_warned_of(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    async with recording(tape, "http://127.0.0.1:1") as (process, _):
        assert (await finish(process, signal.SIGTERM))[0] == 0
    tape.chmod(0o644)
    async with recording(tape, "http://127.0.0.1:1", "--allow-host", "box.test") as (process, base):
        await fetch(base, post("/x"))  # else it does not wait for its writer
        _, _, err = await finish(process, signal.SIGTERM)
    warnings = [line for line in err.splitlines() if line.startswith("wiretape: warning: ")]
    assert len(warnings) == 2
    assert warnings[0].endswith("other machines that reach this address may relay through it")
