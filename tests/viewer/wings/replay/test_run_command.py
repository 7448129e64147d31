"""`run --replay`: a program that is answered from a tape, while no API is reached."""

import contextlib
import json
import shutil
import socket
import sqlite3
import sys
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.relay import finish, on_loop, wiretape
from wiretape.recorder.commands.run import run as command
from wiretape.recorder.demo.upstream import ScriptedUpstream, answer
from wiretape.recorder.tape import cut
from wiretape.viewer.wings.replay import testenv

KEYS = {
    "OPENAI_API_KEY": "sk-proj-canary00000000000000000001",
    "AWS_SECRET_ACCESS_KEY": "canary/0000000000000000000000000002",
    "PRIVATE_API_KEY": "canary-000000000003",
}
CALLS = """
import json, os, sys, urllib.error, urllib.request
def ask(url, body):
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    request = urllib.request.Request(os.path.expandvars(url), json.dumps(body).encode(), headers)
    try:
        answer = urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        answer = error
    except OSError as error:
        return str(error)
    answer.read()
    return [answer.status, answer.headers.get("x-wiretape-match") or answer.headers.get("x-wiretape-error")]
answers = [ask(*call) for call in json.loads(sys.argv[1])]
json.dump([answers, dict(os.environ)], sys.stdout)
"""
CHAT = {"model": "demo-openai", "stream": True, "messages": [{"role": "user", "content": "Play the scene openai."}]}


@on_loop
async def test_a_program_is_answered_while_no_api_is_reached(demo: tuple[Path, str]) -> None:
    tape = demo[0]
    calls = [
        ("https://api.openai.com/v1/chat/completions", CHAT | {"user": "other"}),
        ("$OPENAI_BASE_URL/chat/completions", CHAT),
        ("$CANARY/v1/chat/completions", CHAT),
        ("https://api.openai.com/v1/chat/completions", CHAT | {"seed": 1}),
        ("https://telemetry.invalid/", {}),
        ("http://telemetry.invalid/", {}),
    ]
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as canary:
        canary.setblocking(False)
        url = f"http://127.0.0.1:{canary.getsockname()[1]}"
        async with ScriptedUpstream(lambda _: answer([(0.0, b"ok")])) as tool:
            sent = json.dumps([*calls, (f"{tool.url}/tool", {})])
            env = {**KEYS, "CANARY": url, "OPENAI_BASE_URL": f"{url}/v1"}
            program = ("--", sys.executable, "-c", CALLS, sent)
            async with wiretape("run", "--replay", tape, "--no-wait", *program, env=env) as process:
                code, out, err = await finish(process)
        with pytest.raises(BlockingIOError):
            canary.accept()
    answers, environment = json.loads(out)
    assert answers == [
        [200, "fields"], [200, "fields"], [200, "fields"], [404, "not_recorded"],
        "<urlopen error Tunnel connection failed: 403 Forbidden>", [403, "closed"], [200, None],
    ]  # fmt: skip
    assert {environment[name] for name in KEYS} == {testenv.KEY}
    assert not any(secret in text for secret in KEYS.values() for text in (out, err))
    assert "404 POST /openai/v1/chat/completions: no recording answers" in err
    assert f"3 requests answered from {tape} (3 equal; 3 of the equal ones" in err
    assert "1 not on it; closed: telemetry.invalid (2)" in err
    assert code == 125


@on_loop
async def test_a_replay_within_a_run_reaches_no_api_either(demo: tuple[Path, str], tmp_path: Path) -> None:
    shutil.copy(demo[0], tape := tmp_path / "tape.db")
    with contextlib.closing(sqlite3.connect(tape)) as connection, connection:
        connection.execute("UPDATE exchanges SET upstream = 'https://private.invalid'")
    async with ScriptedUpstream(lambda _: answer([(0.0, b"ok")])) as upstream:
        places = "$OPENAI_BASE_URL", "https://private.invalid/v1"  # one of the tape is an API, and open to nobody
        calls = json.dumps([(f"{place}/chat/completions", CHAT) for place in places])
        replay = "run", "--replay", tape, "--speed", "0", "--keep-keys", "--open", "*"
        inner = (sys.executable, "-m", "wiretape.viewer.cli", *replay)
        program = ("--", *inner, "--", sys.executable, "-c", CALLS, calls)
        env = {**KEYS, "OPENAI_BASE_URL": f"{upstream.url}/v1"}
        async with wiretape("run", "--db", tmp_path / "outer.db", *program, env=env) as process:
            code, out, err = await finish(process)
        assert upstream.requests == []
    answers, environment = json.loads(out)
    assert (code, answers, environment["OPENAI_API_KEY"]) == (0, [[200, "fields"]] * 2, KEYS["OPENAI_API_KEY"])
    assert "2 requests answered from" in err


def test_a_text_is_a_tape_within_a_block(demo: tuple[Path, str], tmp_path: Path) -> None:
    text = tmp_path / "tape.jsonl"
    run(demo[0], "db", "cut", "@", "-o", str(text))
    with cut.opened(text) as tape:
        assert tape.exists()
    assert not tape.parent.exists()


def test_options_of_recording_are_refused(tmp_path: Path) -> None:
    for option in ("--db", "--label", "--upstream", "--base-url", "--identity", "--idle-timeout"):
        output = run(tmp_path, "run", "--replay", str(tmp_path / "tape.db"), option, "x", "--", "true", code=2).output
        assert f"{option} is for recording: leave it out" in output


@pytest.mark.parametrize(
    ("arguments", "replays"),
    [
        (["--replay", "t", "x"], True),
        (["--match", "last", "--replay=t", "--", "x"], True),
        (["--label", "a=--replay", "x", "--replay", "t"], False),
        (["--", "x", "--replay", "t"], False),
    ],
)
def test_an_option_of_the_program_is_its_own(arguments: list[str], replays: bool) -> None:
    context = command.make_context("run", arguments)
    assert ("tape" in context.params) == replays
    assert context.params["command"][0] == "x"


def test_a_tape_that_is_not_there_is_125(tmp_path: Path) -> None:
    output = run(tmp_path, "run", "--replay", str(tmp_path / "none.db"), "--", "true", code=125).output
    assert "none.db: record one by 'wiretape run --db" in output


def test_every_key_has_a_stand_in() -> None:
    names = ("GOOGLE_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLOUDFLARE_API_TOKEN", "API_KEY", "openai_api_key_2")
    environ = {**dict.fromkeys(names, "x"), "HOME": "/"}
    assert "GEMINI_API_KEY" not in testenv.placeholders(environ)  # Google's SDK warns where both are set
    keys = testenv.placeholders(environ)
    assert {"OPENAI_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", *environ} - keys.keys() == {"HOME"}
    assert set(keys.values()) == {testenv.KEY}
