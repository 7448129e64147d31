"""`wiretape env`: the lines that point SDKs at a recorder."""

import signal
from pathlib import Path

from tests.support.relay import finish, on_loop, recording, select, until, wiretape
from wiretape.recorder.tape import file


async def env(tape: Path, *arguments: str) -> tuple[str, str]:
    async with wiretape("env", "--db", tape, *arguments) as process:
        code, out, err = await finish(process)
    assert code == 0
    return out, err


@on_loop
async def test_a_running_recorder_is_found_before_its_tape_exists(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    async with recording(tape, "http://user:secret@127.0.0.1:1/v1") as (process, base):
        out, err = await env(tape)
        assert (await finish(process, signal.SIGTERM))[0] == 0
    assert out.splitlines() == [f"export OPENAI_BASE_URL={base}", f"export OPENAI_API_BASE={base}"]
    assert err == ""


@on_loop
async def test_the_newest_running_recorder_of_a_tape_is_found(tape: Path) -> None:
    async with (
        recording(tape, "http://127.0.0.1:1") as (first, base),
        recording(tape, "http://127.0.0.1:2") as (second, new),
    ):
        assert (await env(tape))[0].splitlines()[0] == f"export OPENAI_BASE_URL={new}/v1"
        async with recording(tape, "http://127.0.0.1:3") as (killed, _):
            killed.kill()
            await killed.communicate()
        first.kill()
        await first.communicate()
        assert (await env(tape))[0].splitlines()[0] == f"export OPENAI_BASE_URL={new}/v1"
        assert base != new
        assert (await finish(second, signal.SIGTERM))[0] == 0


@on_loop
async def test_a_killed_recorder_is_not_a_running_one(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    async with recording(tape, "http://127.0.0.1:1") as (process, base):
        await until(lambda: select(tape, "SELECT * FROM sessions"))
        (session,) = select(tape, "SELECT pid FROM sessions")
        assert session["pid"] == process.pid
        process.kill()
        await process.communicate()
    out, err = await env(tape)
    assert base not in out
    assert err.startswith(f"wiretape: no recorder is running on {tape};")


@on_loop
async def test_without_a_recorder_the_lines_are_the_defaults(tmp_path: Path) -> None:
    out, err = await env(tmp_path / "none.db")
    assert out.splitlines()[0] == "export OPENAI_BASE_URL=http://127.0.0.1:8377/openai/v1"
    assert "export ANTHROPIC_BASE_URL=http://127.0.0.1:8377/anthropic" in out.splitlines()
    assert "no recorder is running" in err
    assert "unset GOOGLE_GEMINI_BASE_URL for gemini, " in err
    assert not (tmp_path / "none.db").exists()


@on_loop
async def test_upstreams_without_a_variable_show_their_base_urls(tmp_path: Path) -> None:
    out, err = await env(tmp_path / "none.db", "--upstream", "gpu=http://10.0.0.7:8000")
    assert out == ""
    assert err.endswith("their base URLs are http://127.0.0.1:8377/gpu\n")


@on_loop
async def test_the_lines_follow_what_record_was_given(tmp_path: Path) -> None:
    arguments = ("--listen", "[::1]:9", "--upstream", "groq=https://api.test")
    assert await env(tmp_path / "none.db", *arguments) == ("export GROQ_BASE_URL='http://[::1]:9/groq'\n", "")


@on_loop
async def test_a_tape_of_another_command_has_no_recorder(tmp_path: Path) -> None:
    with file.writing(tmp_path / "tape.db", "wiretape db merge"):
        _, err = await env(tmp_path / "tape.db")
    assert err.startswith(f"wiretape: no recorder is running on {tmp_path / 'tape.db'};")
