"""`wiretape run -- CMD`: the command's own streams, signals and exit code, and its calls on a tape."""

import contextlib
import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.forked import CLI
from tests.support.outward import PASSWORD, CompanyProxy
from tests.support.relay import DONE, chunk, finish, kept, on_loop, select, serving, wiretape
from tests.support.relay import run as run_on_loop
from wiretape.recorder.commands import run
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, ScriptedUpstream, answer

CALL = """
import os, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
for variable, path in (("OPENAI_BASE_URL", "/chat/completions"), ("ANTHROPIC_BASE_URL", "/v1/messages")):
    if variable in os.environ:
        with opener.open(urllib.request.Request(os.environ[variable] + path, data=b"{}")) as answer:
            answer.read()
print(sorted(set(os.environ) & {"OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_BASE_URL"}))
"""
STREAM = answer([(0.0, chunk("a", finish="stop")), (0.0, DONE)])
NOWHERE = ("--upstream", "http://127.0.0.1:1")
IDLE = "import time\nwhile True: time.sleep(0.05)"
"""Python that waits for signals. Its handler of one that comes in the last instant before a wait runs after that."""


async def ran(tape: Path, *arguments: object, script: str, **more: Any) -> tuple[int, str, str]:
    """Run a script; return the exit code, the output, and the messages but for the one that a slow machine adds."""
    async with wiretape("run", "--db", tape, *arguments, "--", sys.executable, "-c", script, **more) as process:
        code, out, err = await finish(process)
    return code, out, err.replace("wiretape: storing and measuring 1 exchange (ctrl-c again to cut) …\n", "")


@on_loop
async def test_recorded_calls_are_summed_up_in_one_line(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    async with ScriptedUpstream(lambda _: STREAM) as upstream:
        code, out, err = await ran(
            tape, "--upstream", upstream.url, "--label", "a=1", "--label", "cwd=mine", script=CALL
        )
    assert (code, out) == (0, "['OPENAI_API_BASE', 'OPENAI_BASE_URL']\n")
    assert [request.target for request in upstream.requests] == [b"/v1/chat/completions"]
    row = kept(tape, "/v1/chat/completions")
    assert row is not None
    labels = json.loads(row.row["labels"])
    labels.pop("commit", None)  # where the tests run from a clone
    assert row.outcome == ("complete", None)
    assert labels == {"argv0": Path(sys.executable).name, "cwd": "mine", "a": "1"}
    assert err.startswith("wiretape: 1 generation: 1 complete · ttft p50 ")
    assert err.endswith(f"→  wiretape ls --db {tape} -n 1\n")
    assert err.count("\n") == 1


@on_loop
async def test_where_an_sdk_is_pointed_already_is_the_upstream(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(lambda _: STREAM) as first_upstream,
        ScriptedUpstream(lambda _: STREAM) as second_upstream,
    ):
        env = {"OPENAI_BASE_URL": f"{first_upstream.url}/mine/v1", "ANTHROPIC_BASE_URL": second_upstream.url}
        code, out, _ = await ran(tmp_path / "tape.db", script=CALL, env=env)
    assert (code, out) == (0, "['ANTHROPIC_BASE_URL', 'OPENAI_BASE_URL']\n")
    assert [request.target for request in first_upstream.requests] == [b"/mine/v1/chat/completions"]
    assert [request.target for request in second_upstream.requests] == [b"/v1/messages"]


@on_loop
async def test_it_ends_as_its_command_ends(tmp_path: Path) -> None:
    script = "import os; os.kill(os.getpid(), {})"  # the tests of signals have a code of the command's own
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        code = (await ran(tmp_path / "tape.db", *NOWHERE, script=script.format(number.value), is_fresh=True))[0]
        assert code == -number


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [("/no/such/command", 127, "command not found"), ("", 127, "'': command not found"), ("/", 126, "cannot be run")],
)
@on_loop
async def test_a_command_that_cannot_be_run_is_reported(tmp_path: Path, command: str, code: int, words: str) -> None:
    async with wiretape("run", "--db", tmp_path / "tape.db", *NOWHERE, "--", command) as process:
        got, _, err = await finish(process)
    assert (got, words in err, err.count("\n")) == (code, True, 1)


@on_loop
async def test_scripts_without_a_shebang_run_but_binaries_do_not(tmp_path: Path) -> None:
    script, binary = tmp_path / "script", tmp_path / "binary"
    script.write_text('echo "$0 $1"; exit 7\n')
    binary.write_bytes(b"\x7fNO\0")
    tape = tmp_path / "tape.db"
    within = (sys.executable, *CLI, "run")
    for file in (script, binary):
        file.chmod(0o700)
    for outer in ((), within):
        async with wiretape("run", "--db", tape, *NOWHERE, "--", *outer, script, "a b") as process:
            assert (await finish(process))[:2] == (7, f"{script} a b\n")
        async with wiretape("run", "--db", tape, *NOWHERE, "--", *outer, binary) as process:
            got, _, err = await finish(process)
        assert (got, f"{binary} cannot be run (Exec format error)" in err) == (126, True)


@on_loop
async def test_a_command_exiting_as_if_missing_is_summarised(tmp_path: Path) -> None:
    code, _, err = await ran(tmp_path / "tape.db", *NOWHERE, script="exit(127)")
    assert (code, err.startswith("wiretape: 0 generations, 0 failed\n")) == (127, True)


def ignore_children() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


@on_loop
async def test_the_exit_code_is_known_without_child_signals(tmp_path: Path) -> None:
    arguments = {"is_fresh": True, "preexec_fn": ignore_children}
    assert (await ran(tmp_path / "tape.db", *NOWHERE, script="exit(7)", **arguments))[0] == 7


@on_loop
async def test_without_a_tape_the_command_is_not_started(tmp_path: Path) -> None:
    (tmp_path / "tape.db").write_text("something else")
    code, out, err = await ran(tmp_path / "tape.db", *NOWHERE, script="print('started')")
    assert (code, out, err.count("\n")) == (125, "", 1)
    assert "not a wiretape tape" in err


@on_loop
async def test_a_read_only_tape_starts_no_command(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    assert (await ran(tape, *NOWHERE, script=""))[0] == 0
    with contextlib.closing(sqlite3.connect(tape)) as connection:
        connection.execute("CREATE TABLE theirs (it)")
    code, out, err = await ran(tape, *NOWHERE, script="print('started')")
    assert (code, out, err.count("\n")) == (125, "", 1)
    assert "holds the table theirs, so it is only read" in err


@on_loop
async def test_standard_streams_are_the_commands(tmp_path: Path) -> None:
    script = "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data[::-1])"
    tape = tmp_path / "tape.db"
    command = ("run", "--db", tape, *NOWHERE, sys.executable, "-c", script)
    async with wiretape(*command, stdin=subprocess.PIPE) as process:
        out, err = await process.communicate(b"\x00\xff\n" * 100_000)
    assert (out, process.returncode) == (b"\n\xff\x00" * 100_000, 0)
    assert err.startswith(b"wiretape: 0 generations, 0 failed\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@on_loop
async def test_a_signal_is_passed_on_and_the_command_decides(tmp_path: Path, number: signal.Signals) -> None:
    script = f"import signal as s; s.signal({number:d}, lambda *_: exit(42)); print('ready', flush=True)\n{IDLE}"
    command = ("run", "--db", tmp_path / "t.db", *NOWHERE, "--", sys.executable, "-c", script)
    away = {"start_new_session": True, "is_fresh": True}  # from the terminal of these tests
    async with wiretape(*command, **away) as process:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        assert (await finish(process, number))[0] == 42


@on_loop
async def test_every_catchable_signal_is_passed_on_once(tmp_path: Path) -> None:
    untouchable = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ}
    numbers = sorted(int(number) for number in signal.valid_signals() - untouchable)
    script = f"""
import os, select, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {numbers})  # no handlers: see IDLE
os.write(1, b"ready\\n")
while not select.select([0], [], [], 0)[0]:
    if info := signal.sigtimedwait({numbers}, 0.05):
        os.write(1, b"%d\\n" % info.si_signo)
"""
    command = ("run", "--db", tmp_path / "t.db", *NOWHERE, "--", sys.executable, "-c", script)
    away = {"stdin": subprocess.PIPE, "start_new_session": True}  # from the terminal of these tests
    async with wiretape(*command, is_fresh=True, **away) as process:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        for number in numbers:
            os.kill(process.pid, number)
            assert await process.stdout.readline() == b"%d\n" % number
        out, _ = await process.communicate(b"x")
    assert (out, process.returncode) == (b"", 0)


def test_a_proxy_of_the_machine_does_not_stand_between() -> None:
    assert run.past_proxies({"HTTPS_PROXY": "http://proxy.test"}) == {}
    assert run.past_proxies({"http_proxy": "http://proxy.test", "NO_PROXY": "a.test"}) == {
        "NO_PROXY": "a.test,127.0.0.1",
        "no_proxy": "a.test,127.0.0.1",
    }
    assert run.past_proxies({"all_proxy": "http://proxy.test", "no_proxy": "*"})["NO_PROXY"] == "*"


def test_a_nested_run_uses_both_outer_proxies(tmp_path: Path, authority: Path) -> None:
    async def main() -> str:
        async with CompanyProxy() as proxy, ScriptedUpstream(lambda _: STREAM, serving(authority, "good")) as upstream:
            env = {"HTTPS_PROXY": proxy.url(), "OPENAI_BASE_URL": upstream.url.replace("127.0.0.1", "localhost")}
            script = CALL.replace("urllib.request.ProxyHandler({})", "").replace('"/chat', '"/v1/chat')
            within = (sys.executable, *CLI, "run", "--db", tmp_path / "inner.db", "--", sys.executable, "-c", script)
            options = ("--db", tmp_path / "outer.db", "--ca-file", authority / "ca.pem")
            async with wiretape("run", *options, "--", *within, env=env, is_fresh=True) as process:
                code, _, err = await finish(process)
            assert (code, len(proxy.heads), len(upstream.requests)) == (0, 1, 1), err
        return err

    err = run_on_loop(main())
    assert err.count("1 generation: 1 complete") == 2
    for name in ("inner.db", "outer.db"):
        row = kept(tmp_path / name, "/v1/chat/completions")
        assert row is not None
        assert row.outcome == ("complete", None)
    texts = [err.encode(), *(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())]
    assert not [text for text in texts if PASSWORD.encode() in text or quote(PASSWORD, safe="").encode() in text]


@on_loop
async def test_an_unusable_proxy_stops_a_run_before_its_command(tmp_path: Path) -> None:
    env = {"ALL_PROXY": "https://u:hunter2@proxy.test"}
    code, out, err = await ran(tmp_path / "tape.db", script="print(1)", env=env)
    assert (code, out) == (2, "")
    assert "ALL_PROXY names a proxy by https://" in err
    assert "hunter2" not in err
    code, out, _ = await ran(tmp_path / "tape.db", script="print(1)", env={**env, "NO_PROXY": "*"})
    assert (code, out) == (0, "1\n")


@on_loop
async def test_an_invalid_base_url_variable_is_wrong_usage(tmp_path: Path) -> None:
    env = {"OPENAI_BASE_URL": "api.test"}
    code, _, err = await ran(tmp_path / "tape.db", "--base-url", script="", env=env)
    assert (code, "OPENAI_BASE_URL is not set to the base URL of an API" in err) == (2, True)
    assert (await ran(tmp_path / "tape.db", script="", env=env))[0] == 0


@on_loop
async def test_unset_api_variables_stay_unset(tmp_path: Path) -> None:
    script = "import os; from wiretape.recorder.relay.apis import BY_VARIABLE as names; "
    script += "print(sorted(names.keys() & os.environ.keys()))"
    env = {"MISTRAL_BASE_URL": "https://gw.test/v1", "GROQ_API_BASE": "http://127.0.0.1:9"}
    code, out, err = await ran(tmp_path / "tape.db", script=script, env=env)
    assert (code, out) == (0, "['GROQ_API_BASE', 'MISTRAL_BASE_URL']\n")
    assert f"try: wiretape run --db {tmp_path / 'tape.db'} --base-url -- python" in err
    code, out, _ = await ran(tmp_path / "tape.db", "--base-url", script=script)
    assert (code, "'OPENAI_BASE_URL'" in out) == (0, True)
    code, _, err = await ran(tmp_path / "tape.db", "--base-url", "--host", "x.test", script=script)
    assert (code, "--intercept" in err) == (2, True)


@pytest.mark.damages
@on_loop
async def test_a_tape_damaged_meanwhile_fails_a_good_command(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    measured = f"sqlite3.connect({str(tape)!r}).execute('SELECT count(*) FROM measures').fetchone()[0]"
    script = f"{CALL}\nimport sqlite3, time\nwhile {measured} < 2: time.sleep(0.05)\nos.truncate({str(tape)!r}, 4096)"
    async with ScriptedUpstream(lambda _: STREAM) as upstream:
        assert (await ran(tape, "--upstream", upstream.url, script=CALL))[0] == 0
        code, _, err = await ran(tape, "--upstream", upstream.url, script=script)
        assert code == 125
        assert "wiretape: storing: " in err
        assert "cut short while it was recorded" in err
        code, _, err = await ran(tape, "--upstream", upstream.url, script="print('started')")
    assert (code, "is damaged" in err) == (125, True)


@on_loop
async def test_upstreams_and_the_longest_gap_are_summed_up(tmp_path: Path) -> None:
    script = "import os, urllib.request as u; u.urlopen(os.environ['OPENAI_BASE_URL'] + '/x', b'{}').read()"
    gap = answer([(0.0, chunk("a")), (0.05, chunk("b", finish="stop")), (0.0, DONE)])
    async with ScriptedUpstream(lambda _: gap) as upstream:
        arguments = ("--upstream", f"openai={upstream.url}", "--upstream", "gpu=http://127.0.0.1:1")
        code, _, err = await ran(tmp_path / "tape.db", *arguments, script=script)
    first, last = err.splitlines()
    assert code == 0
    assert first.startswith("wiretape: no variable is for /gpu: point the program at it, at http://127.0.0.1:")
    assert ", max gap " in last


@on_loop
async def test_the_closing_line_agrees_with_stats(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    script = """
import os, urllib.error, urllib.request
for target, data in (("/models", None), ("/quick", b"{}"), ("/cut", b"{}"), ("/slow", b"{}"), ("/slow", b"{}")):
    try:
        base = os.environ["OPENAI_BASE_URL"] + ("/chat/completions?" + target if data else target)
        urllib.request.urlopen(urllib.request.Request(base, data=data)).read()
    except (urllib.error.HTTPError, OSError):
        pass
"""

    def scene(request: ReceivedRequest) -> Scene:
        if request.target.endswith(b"models"):
            return answer([(0.0, b"{}")], status=404)
        if request.target.endswith(b"cut"):
            return answer([(0.0, chunk("a"))])
        return answer([(0.1 if request.target.endswith(b"slow") else 0.0, chunk("a", finish="stop")), (0.0, DONE)])

    async with ScriptedUpstream(scene) as upstream:
        _, _, err = await ran(tape, "--upstream", upstream.url, script=script)
    async with wiretape("stats", "--db", tape, "--format", "json") as process:
        (row,) = json.loads((await finish(process))[1])
    line = next(line for line in err.splitlines() if "generation" in line)
    median = f"ttft p50 {row['ttft_p50_ms']:.0f} ms"
    closing = f"wiretape: 4 generations: 3 complete, 1 cut by upstream · {median} · 1 other request"
    assert line.startswith(closing)
    assert (row["n"], row["n_truncated"]) == (4, 1)


@on_loop
async def test_an_empty_run_says_what_to_try(tmp_path: Path) -> None:
    script = "import urllib.request as u, os; u.urlopen(os.environ['OPENAI_BASE_URL'].replace('openai', 'nobody'))"
    code, _, err = await ran(tmp_path / "tape.db", "--base-url", script="")
    assert (code, "OPENAI_BASE_URL" in err, "connected: nothing" in err, "--base-url" in err) == (0, True, True, True)
    code, _, err = await ran(tmp_path / "tape.db", "--base-url", script=script)
    assert (code, "connected: 1 connection" in err, "refused: 404 no upstream is served here" in err) == (1, True, True)


@on_loop
async def test_a_proxy_in_java_options_stays_and_is_reported(tmp_path: Path) -> None:
    script = "import os; print(os.environ['JAVA_TOOL_OPTIONS'])"
    for option, is_kept in (("-Xmx1g", False), ("-Dhttps.proxyHost=corporate.test", True)):
        code, out, err = await ran(tmp_path / "tape.db", script=script, env={"JAVA_TOOL_OPTIONS": option})
        assert (code, out.startswith(f"{option} -Djavax.net.ssl.trustStore=/")) == (0, True)
        assert ("not set: JAVA_TOOL_OPTIONS, as it names a proxy" in err) == is_kept


@on_loop
async def test_a_nested_run_records_once_and_exits_alike(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    async with ScriptedUpstream(lambda _: STREAM) as upstream:
        inner = (sys.executable, *CLI, "run", sys.executable, "-c", CALL + "exit(7)")
        async with wiretape("run", "--db", tape, "--upstream", upstream.url, *inner) as process:
            code, _, err = await finish(process)
    assert (code, len(upstream.requests), len(select(tape, "SELECT no FROM exchanges"))) == (7, 1, 1)
    assert f" on {tape}: only runs the command\n" in err


def at_a_terminal() -> None:
    """Make standard input the controlling terminal, and read from something else, as `x | wiretape run` does."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


@on_loop
async def test_an_interrupt_by_a_terminal_reaches_the_command_once(tmp_path: Path) -> None:
    script = (  # the handler itself tells: a signal may come before the script waits for it
        "import os, signal as s; got = []; s.signal(2, lambda *_: (got.append(2), os.write(1, b'got\\n')))"
        "; s.signal(15, lambda *_: exit(len(got))); os.write(1, b'ready\\n')\n" + IDLE
    )
    outer, inner = os.openpty()
    command = ("run", "--db", tmp_path / "tape.db", *NOWHERE, "--", sys.executable, "-c", script)
    async with wiretape(
        *command, stdin=inner, start_new_session=True, is_fresh=True, preexec_fn=at_a_terminal
    ) as process:
        assert process.stdout is not None
        await process.stdout.readline()
        os.write(outer, b"\x03")
        await process.stdout.readline()
        assert (await finish(process, signal.SIGTERM))[0] == 1
    os.close(outer)
    os.close(inner)


def ignore() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


@on_loop
async def test_an_ignored_signal_is_ignored_by_the_command_too(tmp_path: Path) -> None:
    script = "import os, signal as s; os.kill(os.getppid(), 1); os.kill(os.getpid(), 1); print('still here')"
    code, out, _ = await ran(tmp_path / "tape.db", *NOWHERE, script=script, is_fresh=True, preexec_fn=ignore)
    assert (code, out) == (0, "still here\n")


def close_streams() -> None:
    os.close(0)
    os.close(2)


@on_loop
async def test_closed_standard_streams_are_nobody_elses(tmp_path: Path) -> None:
    script = "import os; os.write(2, os.read(0, 1)); exit(7)"
    code, _, _ = await ran(tmp_path / "tape.db", *NOWHERE, script=script, is_fresh=True, preexec_fn=close_streams)
    assert code == 7


@on_loop
async def test_the_closing_line_says_whose_a_stall_was(tmp_path: Path) -> None:
    def stalling(_: ReceivedRequest) -> Scene:
        return answer([(0.0, chunk("a")), (2.1, chunk("b", finish="stop")), (0.0, DONE)])

    async with ScriptedUpstream(stalling) as upstream:
        _, _, err = await ran(tmp_path / "tape.db", "--upstream", upstream.url, script=CALL)
    assert err.startswith("wiretape: 1 generation: 1 complete · 1 stall by upstream · ttft p50 ")


@on_loop
async def test_an_unknown_option_before_the_command_is_its_own(tmp_path: Path) -> None:
    for option, hint in (("--tape", "; did you mean --db?"), ("--nothing", "")):
        async with wiretape("run", option, "x", "--", "true") as process:
            code, _, err = await finish(process)
        assert (code, err) == (2, f"wiretape run: no option {option}{hint} (see wiretape run --help)\n")
    async with wiretape("run", "--db", tmp_path / "tape.db", "sh", "-c", "echo $0", "--tape") as process:
        code, out, _ = await finish(process)
    assert (code, out) == (0, "--tape\n")
