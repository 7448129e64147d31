"""A request as a command of curl: the shell's words, without a secret, and without a second command."""

import base64
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.support.cases import each_case
from tests.support.sample_tape import HOSTILE
from wiretape.recorder.tape.redact import Redactor
from wiretape.viewer.text import curl

UPSTREAM = "https://api.openai.com/v1"
BODY = b'{"model":"gpt-x","messages":[{"role":"user","content":"it\'s $HOME `id` $(id) \\n!"}]}'
MARK = Redactor(b"salt").mark("sk-secret")
_SHELL = 'curl() { for one in "$@"; do printf "%s\\0" "$one"; done; printf "<<<"; cat; }\n'


def shell(command: str, **environment: str) -> tuple[list[str], bytes]:
    """Return the arguments that a POSIX shell passes to curl, and its input."""
    environ = {"PATH": os.environ["PATH"], **environment}
    with tempfile.NamedTemporaryFile() as script:
        script.write(f"{_SHELL}{command}\n".encode())
        script.flush()
        ran = subprocess.run(["sh", script.name], env=environ, input=b"", capture_output=True, check=True)
    assert not ran.stderr
    arguments, _, data = ran.stdout.partition(b"\0<<<")
    return arguments.decode().split("\0"), data


def command(headers: Any = (), body: bytes | None = BODY, path: str = "/chat/completions", **more: Any) -> str:
    facts: dict[str, Any] = {"method": "POST", "upstream": UPSTREAM, "path": path, "headers": headers, "body": body}
    return curl.command(**facts | more)


def test_shell_passes_the_request_to_curl() -> None:
    headers = [["host", "127.0.0.1:8377"], ["authorization", MARK], ["content-type", "application/json"],
               ["content-length", "9"], ["x-empty", ""]]  # fmt: skip
    arguments, data = shell(command(headers), OPENAI_API_KEY="sk-mine")
    assert arguments == [
        "-N", "--url", f"{UPSTREAM}/chat/completions", "-H", "Authorization: Bearer sk-mine",
        "-H", "content-type: application/json", "-H", "x-empty;", "--data-raw", BODY.decode(),
    ]  # fmt: skip
    assert data == b""


@each_case(
    ("upstream", "protocol", "options"),
    [
        ("http://127.0.0.1:8000", "h2", ["--http2-prior-knowledge"]),
        ("http://127.0.0.1:8000", "http/1.1", []),
        ("https://api.test", "h2", []),
        ("http://127.0.0.1:8000", None, []),
    ],
)
def test_http2_without_tls_is_asked_for(upstream: str, protocol: str | None, options: list[str]) -> None:
    arguments, _ = shell(command(upstream=upstream, protocol=protocol))
    assert arguments[1 : arguments.index("--url")] == options


def test_command_is_as_people_would_write_it() -> None:
    line = command([["authorization", MARK], ["content-type", "application/json"]], b'{"stream":true}')
    assert line == (
        "curl -N \\\n  --url 'https://api.openai.com/v1/chat/completions' \\\n"
        "  -H \"Authorization: Bearer $OPENAI_API_KEY\" \\\n  -H 'content-type: application/json' \\\n"
        "  --data-raw '{\"stream\":true}'"
    )


@each_case(
    ("upstream", "header", "expected"),
    [
        ("https://api.anthropic.com", "x-api-key", "x-api-key: $ANTHROPIC_API_KEY"),
        ("https://openrouter.ai/api", "authorization", "Authorization: Bearer $OPENROUTER_API_KEY"),
        ("https://mine.openai.azure.com", "api-key", "api-key: $AZURE_OPENAI_API_KEY"),
        ("https://api.openai.com@gateway.example", "authorization", "Authorization: Bearer $API_KEY"),
        ("https://API.OpenAI.com:443/v1", "authorization", "Authorization: Bearer $OPENAI_API_KEY"),
        ("http://127.0.0.1:8000", "authorization", "Authorization: Bearer $API_KEY"),
        ("http://notanthropic.com", "x-goog-api-key", "x-goog-api-key: $API_KEY"),
        ("http://[", "x-api-key", "x-api-key: $API_KEY"),
    ],
)
def test_a_key_is_its_hosts_or_a_neutral_variable(upstream: str, header: str, expected: str) -> None:
    assert f'-H "{expected}"' in command([[header, MARK]], upstream=upstream)


@each_case(
    ("path", "url"),
    [
        ("@evil.example/x", "https://api.openai.com/@evil.example/x"),
        (".evil.example/x", "https://api.openai.com/.evil.example/x"),
        (":pass@evil.example", "https://api.openai.com/:pass@evil.example"),
        ("//evil.example", "https://api.openai.com//evil.example"),
        ("?a=b@evil.example", "https://api.openai.com?a=b@evil.example"),
        ("", "https://api.openai.com"),
    ],
)
def test_path_cannot_send_a_key_to_another_host(path: str, url: str) -> None:
    line = command([["authorization", MARK]], upstream="https://api.openai.com", path=path)
    arguments, _ = shell(line, OPENAI_API_KEY="sk-mine")
    assert arguments[arguments.index("--url") + 1] == url
    assert urlsplit(url).hostname == "api.openai.com"
    assert "Authorization: Bearer sk-mine" in arguments


def test_guessed_authorization_scheme_is_noted() -> None:
    warning = ": 'the scheme of Authorization is not recorded: Bearer is a guess'\n"
    assert command([["authorization", MARK]], upstream="http://localhost:8000").startswith(warning)
    assert command([["authorization", MARK]]).startswith("curl")
    assert command([["x-api-key", MARK]], upstream="http://localhost:8000").startswith("curl")


@pytest.mark.parametrize("program", ["sh", "bash", "zsh"])
def test_header_names_run_nothing_in_a_shell_without_comments(program: str, tmp_path: Path) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed here: one of three shells that the command is shown to be harmless in")
    names = [f"x&touch {tmp_path}/a", "x|id>b", "x`touch${IFS}c`", "x$(touch d)", "x'&touch e&'", "x\ntouch f\r!1*"]
    command_text = command([[name, MARK] for name in names])
    notes = command_text[: command_text.index("curl -N")]
    assert [line[:3] for line in notes.splitlines()] == [": '"] * len(names)
    options = ["-f", "-o", "no_interactive_comments"] if program == "zsh" else []
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    ran = subprocess.run(
        [program, *options, "-c", notes], cwd=tmp_path, env=environment, capture_output=True, check=True
    )
    assert (ran.stdout, ran.stderr, list(tmp_path.iterdir())) == (b"", b"", [])


def test_redacted_values_without_keys_are_noted_and_omitted() -> None:
    line = command([["cookie", MARK], ["x-original-url", f"/v1?key={MARK}"], ["@file", "x"], ["x-a", "b\x1bc"]])
    assert "REDACTED" not in line
    for name in ("cookie", "x-original-url", "@file", "x-a"):
        assert f": 'left out, as its value is not recorded: {name}'\n" in line
    arguments, _ = shell(line)
    assert arguments[:2] == ["-N", "--url"]


def test_a_key_in_the_url_becomes_a_variable() -> None:
    google = {"upstream": f"https://{MARK}@generativelanguage.googleapis.com/v1beta", "path": f"/m?key={MARK}&alt=sse"}
    line = command(**google)
    assert "REDACTED" not in line
    assert ": 'left out: the user and the password of the URL'\n" in line
    arguments, _ = shell(line, GEMINI_API_KEY="a b")
    assert arguments[2] == "https://generativelanguage.googleapis.com/v1beta/m?key=a b&alt=sse"


@pytest.mark.parametrize(
    ("method", "body", "size", "expected"),
    [("GET", None, 0, []), ("DELETE", None, 0, ["-X", "DELETE"]), ("POST", b"", 0, ["-H", "content-type:"])],
)
def test_method_is_given_where_the_default_of_curl_differs(
    method: str, body: bytes | None, size: int, expected: list[str]
) -> None:
    arguments, _ = shell(command(body=body, method=method, size=size))
    assert [
        argument for argument in arguments if argument not in ("-N", "--url", f"{UPSTREAM}/chat/completions")
    ] == expected


def test_unrecorded_body_is_noted() -> None:
    assert command(body=None, size=1234).startswith(": 'the body of 1,234 bytes is not recorded'\n")


@each_case("body", [b"\xff\xfe\x00", b"x" * 200_000, b"a\x1b[201~; rm -rf ~\n", "\u202e".encode()])
def test_body_that_cannot_be_pasted_goes_in_base64(body: bytes) -> None:
    line = command(body=body)
    assert not [sign for sign in line if not sign.isprintable() and sign != "\n"]
    arguments, data = shell(line)
    assert arguments[-2:] == ["--data-binary", "@-"]
    assert data == body
    assert base64.encodebytes(body).decode() in line


def test_hostile_text_runs_nothing_and_is_sent_unchanged() -> None:
    odd = "'; touch /tmp/x; $(id) `id` \\"
    for path in (f"/{odd}", f"/{odd}{{1..9}}[a-z]", "/../x", f"/{HOSTILE}"):
        arguments, _ = shell(command([["x-odd", odd]], body=odd.encode(), path=path, method=odd))
        assert unquote(arguments[arguments.index("--url") + 1]) == UPSTREAM + path
        assert arguments[-1] == odd
        assert arguments[arguments.index("-X") + 1] == odd
        assert f"x-odd: {odd}" in arguments
        assert ("--globoff" in arguments, "--path-as-is" in arguments) == ("{" in path or "[" in path, "/." in path)
