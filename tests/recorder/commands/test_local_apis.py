"""Whether a command of `wiretape run` is to ask the proxy for servers of this machine."""

import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from wiretape.recorder.commands import local_apis
from wiretape.recorder.relay import pointing


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def are_called(
    command: Sequence[str], hosts: Sequence[str] = (), environ: dict[str, str] | None = None, usual: Sequence[int] = ()
) -> bool:
    environ = environ or {}
    return local_apis.are_called(pointing.plan([], environ, command), hosts, environ, command, frozenset(usual))


@pytest.mark.parametrize("pattern", ["localhost", "127.0.0.1:8000", "127.0.0.*", "*", "LOCALHOST:*"])
def test_a_named_local_host_uses_the_proxy(pattern: str) -> None:
    assert are_called(["app"], [pattern])
    assert not are_called(["app"], ["*.example.com", "llm.test:443"])


def test_a_tls_variable_uses_the_proxy_unless_local(port: int) -> None:
    assert are_called(["app"], environ={"OPENAI_BASE_URL": "https://localhost:9/v1"})
    assert not are_called(["app"], environ={"OPENAI_BASE_URL": f"http://localhost:{port}/v1"})
    assert are_called(["app"], environ={"LLM_URL": f"http://localhost:{port}"})
    assert not are_called(["app"], environ={"HTTP_PROXY": f"http://127.0.0.1:{port}"})


def test_a_server_listening_at_its_usual_port_is_proxied(port: int) -> None:
    assert are_called(["app"], usual=[port])
    assert not are_called(["app"], usual=[port + 1 if port < 65535 else 1])


def test_commands_that_name_a_listening_api_use_the_proxy(port: int, tmp_path: Path) -> None:
    script = tmp_path / "app.py"
    for url, is_asked in (
        (f"http://127.0.0.1:{port}/v1/chat/completions", True),
        (f"http://[::1]:{port}/completion", True),
        (f"http://localhost:{port}/v1", True),
        (f"http://localhost:{port}/health", False),
        ("http://localhost:1/v1", False),
        (f"http://example.com:{port}/v1", False),
    ):
        script.write_text(f"call({url!r})\n")
        assert are_called(["curl", url]) is is_asked
        assert are_called(["python", str(script)]) is is_asked


def test_binaries_and_pipes_among_the_words_are_not_read(port: int, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff" + f"http://127.0.0.1:{port}/v1".encode())
    os.mkfifo(tmp_path / "pipe")
    assert not are_called([str(tmp_path / "binary"), str(tmp_path / "pipe"), "x\0y"])


CLIENT = "call('POST', '/v1/chat/completions')"


@pytest.mark.parametrize(
    "text",
    [
        'call(f"http://127.0.0.1:{port}/v1/chat/completions")',
        'call("http://localhost:" + port + "/v1/models")',
        'call("http://[::1]:%d/completion" % port)',
        "call(`http://localhost:${server.address().port}/api/chat`)",
        'request({hostname: "127.0.0.1", port, path: "/v1/messages"})',
        'from openai import OpenAI; OpenAI(base_url="http://localhost:%d" % port)',
        'serve(("127.0.0.1", 1)); call("http://127.0.0.1:1/v1/messages")',
        'createServer(answer).listen(1, () => fetch("http://localhost:1/v1/messages"))',
        "curl localhost:$PORT/api/generate",
    ],
)
def test_programs_that_compute_or_serve_their_port_are_proxied(text: str) -> None:
    assert are_called(["program", "-c", text])


@pytest.mark.parametrize(
    "text",
    [
        'wait(f"http://127.0.0.1:{port}/health")',
        'wait(f"http://127.0.0.1:{port}/health"); from openai import OpenAI',
        'wait("http://localhost:" + port); call("https://api.openai.com/v1/chat/completions")',
        "curl --retry-connrefused http://localhost/v1/models",
        "until curl localhost:1/health; do sleep 1; done; curl localhost:1/v1/chat/completions",
    ],
)
def test_a_program_with_its_own_server_needs_no_proxy(text: str) -> None:
    assert not are_called(["program", "-c", text])


@pytest.mark.parametrize("form", ["{}", "--port={}", "127.0.0.1:{}", "http://u:p@localhost:{}"])
def test_a_port_belongs_to_its_apis_path_or_sdk(port: int, form: str) -> None:
    word = form.format(port)
    assert are_called(["python", "-c", CLIENT, word])
    assert are_called(["sh", "-c", f"python -c '{CLIENT}' {word}"])
    assert are_called(["python", "-c", "import litellm", word])
    assert not are_called(["python", "-c", "call('/health')", word])
    assert not are_called(["python", "-c", f"{CLIENT.replace('/v1', 'https://llm.test:1/v1')}", word])


def test_variables_name_servers_without_a_scheme_and_ports(port: int) -> None:
    assert are_called(["app"], environ={"LLM": f"localhost:{port}"})
    assert are_called(["app", CLIENT], environ={"LLM_PORT": f"{port}"})
    assert not are_called(["app"], environ={"DATABASE": f"redis://localhost:{port}"})


def test_shell_lines_modules_imports_and_settings_are_read(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "client.py").write_text(f"call('http://localhost:{port}/v1/chat/completions')\n")
    (tmp_path / "main.py").write_text("from client import call\n")
    (tmp_path / "main.sh").write_text("exec python client.py\n")
    for command in (["sh", "-c", "python client.py; true"], ["python", "main.py"], ["sh", "main.sh"], ["-m", "main"]):
        assert are_called(command)
    assert not are_called(["app"])
    (tmp_path / ".env").write_text(f"LLM_URL=http://localhost:{port}/v1\n")
    assert are_called(["app"])
