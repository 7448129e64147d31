"""Why nothing was recorded."""

import pytest

from wiretape.recorder.commands.explain import RecordedCommand, explain
from wiretape.recorder.relay import pointing
from wiretape.recorder.relay.guard import Refusal


def explained(*command: str, **seen: object) -> str:
    is_intercepting = seen.get("is_intercepting")
    command = command or ("gemini",)
    plan = (pointing.plan if is_intercepting else pointing.plan_base_urls)([], {"PATH": "/bin"}, command)
    return "\n".join(explain(RecordedCommand(plan, **seen), command))  # type: ignore[arg-type]


def test_variables_set_and_left_are_named_with_reasons() -> None:
    lines = explained().splitlines()
    assert lines[0].startswith("set: OPENAI_BASE_URL, OPENAI_API_BASE, ")
    assert any(line.startswith("not set: GOOGLE_GEMINI_BASE_URL, as gemini does not work with it: ") for line in lines)
    assert lines[-1].startswith("try: wiretape run -- gemini, without --base-url, ")


def test_behind_a_forward_proxy_base_urls_are_suggested() -> None:
    lines = explained(is_intercepting=True).splitlines()
    assert lines[0].startswith("set: HTTPS_PROXY, HTTP_PROXY, the variables that name certificates, JAVA_TOOL_OPTIONS")
    assert lines[-1].startswith("try: wiretape run --base-url -- gemini, ")


def test_what_came_and_what_was_refused_is_named_once() -> None:
    text = explained(connections=2, refused=[Refusal(404, "no upstream"), Refusal(404, "no upstream")])
    assert "connected: 2 connections" in text
    assert text.count("404 no upstream") == 1


def test_a_host_that_was_not_intercepted_is_suggested() -> None:
    text = explained(is_intercepting=True, connections=1, asked={"gw.test:443": "tunnelled"})
    assert "asked of the proxy: gw.test:443 (tunnelled)" in text
    assert "try: --host gw.test" in text
    assert "trust" in explained(is_intercepting=True, asked={"a.test:443": "tunnelled", "b.test:443": "untrusted"})


def test_a_local_server_that_was_called_is_suggested_early() -> None:
    called_hosts = {"telemetry.test:443": "tunnelled", "127.0.0.1:8000": "relayed"}
    text = explained(is_intercepting=True, connections=1, asked=called_hosts, daemons={7: "pid 7 (vllm serve)"})
    assert "try: --host 127.0.0.1, if pid 7 serves an API; " in text
    assert "kill" not in text


def test_directly_asked_local_servers_get_an_option() -> None:
    assert "--host localhost, if it calls an API of this machine" in explained(is_intercepting=True)
    away = explained(is_intercepting=True, connections=1, asked={"gw.test:443": "tunnelled"})
    assert away.rstrip().endswith("; --host localhost, if it calls an API of this machine")
    explanation = explained(is_intercepting=True, daemons={7: "pid 7 (vllm serve)"})
    assert "try: --host localhost, or --base-url, if pid 7 serves an API; " in explanation
    assert "--host" not in explained(daemons={7: "pid 7 (vllm serve)"})


@pytest.mark.parametrize("command", ["docker run --rm app", "sudo podman run app"])
def test_a_container_gets_advice_on_passing_the_variables(command: str) -> None:
    *_, passed, final_line = explained(*command.split(), is_intercepting=True).splitlines()
    container = command.replace("sudo ", "").split()[0]
    assert f"'{container} run --network host -v " in passed
    assert " -e HTTPS_PROXY -e " in passed
    assert " -e SSL_CERT_FILE" in passed
    assert "NODE_OPTIONS" not in passed, "it names a file that is not there"
    assert final_line.startswith("or: wiretape record --listen 0.0.0.0:8377 --allow-host host.docker.internal, ")
    assert " -e OPENAI_BASE_URL -e " in explained(*command.split()).splitlines()[-2]


def test_a_command_without_environment_gets_advice_on_variables() -> None:
    advice = explained("env", "-i", "python", "x.py", is_intercepting=True).splitlines()[-1]
    assert advice.startswith(
        'env clears these variables; try: wiretape run -- sh -c \'env -i HTTPS_PROXY="$HTTPS_PROXY" '
    )
    for name in ("NODE_USE_ENV_PROXY", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "SSL_CERT_FILE"):
        assert f' {name}="${name}" ' in advice
    assert "NODE_OPTIONS" not in explained("env", "-i", "python", "x.py")
    assert "sudo --preserve-env=HTTPS_PROXY,HTTP_PROXY," in explained("sudo", "python", "x.py", is_intercepting=True)
    assert "env clears" not in explained("env", "A=-i", "python", is_intercepting=True)
