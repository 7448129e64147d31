"""Programs that a command leaves behind, and those that ran before and make its calls."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.relay import finish, on_loop, until, wiretape
from wiretape.recorder import process as proc
from wiretape.recorder.commands import daemons

SLEEPS = "import time; print('ready', flush=True); time.sleep(60)"
LISTENS = (
    "import socket, time; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)"
    "; held = [s.accept() for _ in range(9)]"
)
HELP = '#!/bin/sh\n[ "$*" = --help ] && echo \'  {} Run without\' && exit\necho started with "$@"\n'


@pytest.fixture
def daemon() -> Iterator["subprocess.Popen[str]"]:
    """A program that listens at a port of this machine, which it prints."""
    with subprocess.Popen([sys.executable, "-c", LISTENS], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def program(directory: Path, option: str) -> str:
    path = directory / "codex"
    path.write_text(HELP.format(option))
    path.chmod(0o755)
    return str(path)


@on_loop
async def test_a_program_that_outlives_its_run_keeps_its_certificates(tmp_path: Path) -> None:
    script = (
        "import os, subprocess as s, sys; p = s.Popen([sys.executable, '-c', sys.argv[1], '--key=sk-secret-0123456']"
        ", start_new_session=True, stdin=-3, stdout=-3, stderr=-3); print(p.pid, os.environ['SSL_CERT_FILE'])"
    )
    options = ("--db", tmp_path / "tape.db", "--intercept")
    place = tmp_path / "cache" / "wiretape"
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    async with wiretape("run", *options, "--", sys.executable, "-c", script, SLEEPS, env=cache) as process:
        code, out, err = await finish(process)
    pid, name = out.split()
    bundle = place / Path(name).parent.name / Path(name).name
    try:
        assert (code, str(bundle)) == (0, name)
        assert f"wiretape: pid {pid} (python" in err
        assert f"goes on with the variables of this run, whose recorder has ended: kill {pid}\n" in err
        assert "sk-secret" not in err
        assert bundle.read_text().count("BEGIN CERTIFICATE") > 10
        assert bundle.parent.stat().st_mode & 0o077 == 0
        async with wiretape("run", *options, "--", "true", env=cache) as process:
            await finish(process)
        assert bundle.exists()
    finally:
        os.kill(int(pid), signal.SIGKILL)
    await until(lambda: int(pid) not in proc.pids_started_with(str(bundle)))
    os.utime(bundle.parent, (0, 0))
    async with wiretape("run", *options, "--", "true", env=cache) as process:
        await finish(process)
    assert not list(place.iterdir())


@on_loop
async def test_what_ends_soon_after_the_command_is_not_named(tmp_path: Path) -> None:
    async with wiretape("run", "--db", tmp_path / "tape.db", "--", "sh", "-c", "sleep 0.1 & exit 3") as process:
        code, _, err = await finish(process)
    assert (code, "goes on" in err) == (3, False)


@on_loop
async def test_an_older_daemon_of_an_empty_run_is_named(tmp_path: Path, daemon: "subprocess.Popen[str]") -> None:
    assert daemon.stdout is not None
    port = daemon.stdout.readline().strip()
    call = f"import socket, time; s = socket.create_connection(('127.0.0.1', {port})); time.sleep(5)"
    async with wiretape("run", "--db", tmp_path / "tape.db", "--", sys.executable, "-c", call) as process:
        _, _, err = await finish(process)
    assert f"called on this machine: pid {daemon.pid} (python" in err
    assert f"if pid {daemon.pid} serves an API; a daemon that makes the program's calls has to be started" in err
    assert "kill" not in err


@on_loop
async def test_a_daemon_behind_the_proxy_is_found_too(tmp_path: Path, daemon: "subprocess.Popen[str]") -> None:
    assert daemon.stdout is not None
    port = daemon.stdout.readline().strip()
    call = "import os, socket; host, at = os.environ['HTTPS_PROXY'].rpartition('@')[2].split(':')"
    call += "; import base64; user = os.environ['HTTPS_PROXY'][7:].rpartition('@')[0].encode()"
    call += (
        f"; s = socket.create_connection((host, int(at))); s.sendall(b'CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\nHost: x"
    )
    call += "\\r\\nProxy-Authorization: Basic ' + base64.b64encode(user) + b'\\r\\n\\r\\n'); print(s.recv(99))"
    options = ("--db", tmp_path / "tape.db", "--intercept")
    async with wiretape("run", *options, "--", sys.executable, "-c", call) as process:
        _, out, err = await finish(process)
    assert "200" in out
    assert f"try: --host 127.0.0.1, if pid {daemon.pid} serves an API; " in err


def test_a_program_starts_without_its_daemon_if_possible(tmp_path: Path) -> None:
    codex = program(tmp_path, "--no-daemon")
    for arguments in ([], ["fix the tests"], ["-m", "gpt-x"], ["resume", "--last"]):
        assert daemons.without([codex, *arguments], os.environ) == [codex, "--no-daemon", *arguments]
    for arguments in (["exec", "x y"], ["app-server"], ["--no-daemon"], ["login"]):
        assert daemons.without([codex, *arguments], os.environ) == [codex, *arguments]
    assert daemons.without(["sh"], os.environ) == ["sh"]


def test_a_release_without_the_option_starts_unchanged(tmp_path: Path) -> None:
    codex = program(tmp_path, "--no-demon")
    assert daemons.without([codex], os.environ) == [codex]
    assert daemons.without([str(tmp_path / "none" / "codex")], os.environ) == [str(tmp_path / "none" / "codex")]


@on_loop
async def test_the_option_is_printed(tmp_path: Path) -> None:
    codex = program(tmp_path, "--no-daemon")
    async with wiretape("run", "--db", tmp_path / "tape.db", "--", codex) as process:
        _, out, err = await finish(process)
    assert out == "started with --no-daemon\n"
    assert "is started with --no-daemon: its daemon would" in err


def test_a_process_is_described_without_what_may_be_secret(tmp_path: Path) -> None:
    (tmp_path / "hub.py").write_text(SLEEPS)
    command = [sys.executable, "hub.py", "http://me:hunter2@gw.test", "--token", "hunter3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        description = daemons.described(process.pid)
        process.kill()
    assert description == f"pid {process.pid} ({Path(sys.executable).name} hub.py http://REDACTED@gw.test …)"
