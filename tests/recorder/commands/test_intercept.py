"""`--intercept` of `run` and `record`: a program with a URL of its own, on the tape; a credential, nowhere on it."""

import json
import signal
import ssl
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.relay import DONE, chunk, finish, kept, on_loop, serving, wiretape
from wiretape.recorder.demo.upstream import ScriptedUpstream, answer

STREAM = answer([(0.0, chunk("a", finish="stop")), (0.0, DONE)])
CALL = """
import json, os, sys, urllib.request
with urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "/v1/chat/completions", data=b"{}")) as answer:
    json.dump([answer.read().decode(), dict(os.environ)], sys.stdout)
"""


def holding(directory: Path, secret: str) -> list[str]:
    """Return the files that contain a secret."""
    return [path.name for path in directory.iterdir() if path.is_file() and secret.encode() in path.read_bytes()]


def bundles(directory: Path) -> list[Path]:
    return list(directory.glob("wiretape/wiretape-ca-*/bundle.pem"))


@on_loop
async def test_run_records_a_program_with_its_own_url(tmp_path: Path, authority: Path) -> None:
    tape = tmp_path / "tape.db"
    async with ScriptedUpstream(lambda _: STREAM, serving(authority, "good")) as upstream:
        options = ("--db", tape, "--host", "127.0.0.*", "--ca-file", authority / "ca.pem")
        env = {"NO_PROXY": "*", "OPENAI_BASE_URL": "https://127.0.0.1:9/v1", "XDG_CACHE_HOME": str(tmp_path)}
        command = (sys.executable, "-c", CALL, upstream.url)
        async with wiretape("run", *options, "--", *command, env=env) as process:
            code, out, err = await finish(process)
    body, environment = json.loads(out)
    row = kept(tape, "/v1/chat/completions")
    assert row is not None
    assert (code, row.outcome, row.body) == (0, ("complete", None), body.encode())
    assert row.row["upstream"] == upstream.url
    assert err.startswith("wiretape: NO_PROXY=* is cleared for the command")
    assert "NO_PROXY" not in environment
    assert environment["OPENAI_BASE_URL"] == "https://127.0.0.1:9/v1"
    assert Path(environment["SSL_CERT_FILE"]).is_relative_to(tmp_path)
    assert bundles(tmp_path) == []
    password = environment["HTTPS_PROXY"].split(":")[2].split("@")[0]
    assert holding(tmp_path, password) == []
    assert password not in err


@pytest.mark.parametrize("name", ["NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR"])
@on_loop
async def test_an_authority_that_the_program_trusts_is_trusted_upstream(
    tmp_path: Path, authority: Path, name: str
) -> None:
    tape = tmp_path / "tape.db"
    (tmp_path / "certificates").mkdir()
    (tmp_path / "certificates" / "corporate.pem").write_text((authority / "ca.pem").read_text())
    env = {name: str(tmp_path / "certificates") if name == "SSL_CERT_DIR" else str(authority / "ca.pem")}
    async with ScriptedUpstream(lambda _: STREAM, serving(authority, "good")) as upstream:
        options = ("--db", tape, "--host", "127.0.0.1")
        command = (sys.executable, "-c", CALL, upstream.url)
        async with wiretape("run", *options, "--", *command, env=env) as process:
            code, _, _ = await finish(process)
    assert (code, kept(tape, "/v1/chat/completions") is not None) == (0, True)


@on_loop
async def test_a_tls_base_url_is_recorded_by_both_names(tmp_path: Path, authority: Path) -> None:
    script = CALL.replace("sys.argv[1]", "os.environ['OPENAI_BASE_URL']")
    async with ScriptedUpstream(lambda _: STREAM, serving(authority, "good")) as upstream:
        for number, name in enumerate(((), ("--intercept",))):
            tape = tmp_path / f"{number}.db"
            options = ("--db", tape, *name, "--ca-file", authority / "ca.pem")
            env = {"OPENAI_BASE_URL": upstream.url}
            async with wiretape("run", *options, "--", sys.executable, "-c", script, env=env) as process:
                code, out, _ = await finish(process)
            assert (code, json.loads(out)[1]["OPENAI_BASE_URL"]) == (0, upstream.url)
            assert kept(tape, "/v1/chat/completions") is not None


@on_loop
async def test_a_local_plain_api_is_recorded_alone(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    login = CALL.replace("/v1/chat/completions", "/login").replace("sys.stdout", "sys.stderr")
    async with ScriptedUpstream(lambda _: STREAM) as upstream:
        command = (sys.executable, "-c", f"{login}\n{CALL}", upstream.url)
        async with wiretape("run", "--db", tape, "--", *command) as process:
            code, _, _ = await finish(process)
    assert (code, len(upstream.requests)) == (0, 2)
    assert kept(tape, "/v1/chat/completions") is not None
    assert kept(tape, "/login") is None


@on_loop
async def test_record_shows_the_password_to_no_pipe(tmp_path: Path) -> None:
    async with wiretape("record", "--db", tmp_path / "tape.db", "--listen", ":0", "--intercept") as process:
        assert process.stdout is not None
        await process.stdout.readline()
        code, _, err = await finish(process, signal.SIGTERM)
    assert code == 0
    assert "set WIRETAPE_PROXY_PASSWORD to one of your own" in err
    assert "wiretape:" not in err.replace("wiretape: ", "")


@on_loop
async def test_record_takes_a_password_and_removes_its_certificates(tmp_path: Path, authority: Path) -> None:
    options = ("--listen", ":0", "--intercept", "--host", "127.0.0.1", "--ca-file", authority / "ca.pem")
    env = {"WIRETAPE_PROXY_PASSWORD": "sixteen-or-more-characters", "XDG_CACHE_HOME": str(tmp_path)}
    async with (
        ScriptedUpstream(lambda _: STREAM, serving(authority, "good")) as upstream,
        wiretape("record", "--db", tmp_path / "tape.db", *options, env=env) as process,
    ):
        assert process.stdout is not None
        base = (await process.stdout.readline()).decode().strip()
        (bundle,) = bundles(tmp_path)
        proxy = base.replace("//", f"//wiretape:{env['WIRETAPE_PROXY_PASSWORD']}@")
        async with httpx.AsyncClient(proxy=proxy, verify=ssl.create_default_context(cafile=bundle)) as client:
            got = await client.post(f"{upstream.url}/v1/x", json={})
        code, _, err = await finish(process, signal.SIGTERM)
    assert (code, got.status_code) == (0, 200)
    assert "http://wiretape:$WIRETAPE_PROXY_PASSWORD@127.0.0.1:" in err
    assert env["WIRETAPE_PROXY_PASSWORD"] not in err
    assert bundles(tmp_path) == []


@on_loop
async def test_connect_without_interception_says_what_to_do(tmp_path: Path) -> None:
    script = "import sys, urllib.request; urllib.request.urlopen('https://127.0.0.1:9')"
    options = ("--db", tmp_path / "tape.db", "--base-url", "--upstream", "http://127.0.0.1:9")
    command = f'HTTPS_PROXY="${{OPENAI_BASE_URL%/v1}}" NO_PROXY= no_proxy= exec "{sys.executable}" -c "{script}"'
    async with wiretape("run", *options, "--", "sh", "-c", command) as process:
        _, _, err = await finish(process)
    assert "405" in err
    assert "--base-url" in err
