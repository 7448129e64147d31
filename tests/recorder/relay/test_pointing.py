"""The upstreams and variables of `run`, for each present environment."""

import pytest

from wiretape.recorder.relay import apis, pointing, providers
from wiretape.recorder.relay.apis import APIS


def planned(*command: str, upstream: str = "", **environ: str) -> dict[str, str]:
    """Return the value of each variable with `--base-url`, and its upstream: `base URL → upstream`."""
    return pointed(pointing.plan_base_urls([providers.parse(upstream)] if upstream else [], environ, command))


def changed(*command: str, upstream: str = "", **environ: str) -> dict[str, str]:
    """Return the value of each variable behind a forward proxy."""
    return pointed(pointing.plan([providers.parse(upstream)] if upstream else [], environ, command))


def pointed(plan: pointing.PointingPlan) -> dict[str, str]:
    pointed = {}
    for name, path in plan.variables.items():
        route = providers.route(plan.upstreams, path.encode())
        assert route is not None
        pointed[name] = f"{path} → {route[0].url}"
    return pointed


def test_a_forward_proxy_leaves_unset_variables_alone() -> None:
    assert changed("x") == {}
    assert {"openai", "ollama"} <= {upstream.name for upstream in pointing.plan([], {}, ["x"]).upstreams}


@pytest.mark.parametrize("variable", [variable.name for api in APIS for variable in api.variables])
def test_a_forward_proxy_keeps_variables_with_intercepted_tls(variable: str) -> None:
    plan = pointing.plan([], {variable: "https://me:secret@gw.test:8443/x/v1/"}, ["x"])
    assert plan.variables == {}
    (found,) = [upstream for upstream in plan.upstreams if upstream.host == "gw.test"]
    assert (found.url, found.authorization) == ("https://gw.test:8443", None)


@pytest.mark.parametrize("variable", [variable.name for api in APIS for variable in api.variables])
def test_a_forward_proxy_redirects_variables_with_plain_http(variable: str) -> None:
    variables = changed("x", **{variable: "http://gpu.test:8000/x/v1/"})
    base, _, upstream = variables[variable].partition(" → ")
    assert (upstream, base.endswith("/x/v1/"), len(variables)) == ("http://gpu.test:8000", True, 1)


@pytest.mark.parametrize("value", ["sk-secret", "unix:///run/api.sock", "http://[", "${GATEWAY}/v1"])
def test_a_forward_proxy_keeps_variables_without_a_server(value: str) -> None:
    plan = pointing.plan([], {"OPENAI_BASE_URL": value}, ["x"])
    assert (plan.variables, list(plan.left)) == ({}, ["OPENAI_BASE_URL"])
    assert "secret" not in plan.left["OPENAI_BASE_URL"]


def test_ollamas_client_gets_its_variable_despite_a_proxy() -> None:
    assert changed("ollama", "run", "x") == {"OLLAMA_HOST": "/ollama → http://127.0.0.1:11434"}
    assert changed("ollama", "run", "x", OLLAMA_HOST="box") == {"OLLAMA_HOST": "/ollama → http://box:11434"}
    assert "OLLAMA_HOST" not in changed("ollama", "run", "x", OLLAMA_API_BASE="http://gpu.test")
    assert changed("ollama", "serve", OLLAMA_HOST="0.0.0.0") == {}
    assert changed("ollama", "run", "x", upstream="openai=http://a.test").keys() == {
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
    }


@pytest.mark.parametrize("program", [program for program in apis.PROGRAMS if not program.agent])
def test_every_known_program_is_treated_as_its_entry_says(program: apis.Program) -> None:
    command = program.words.split()
    assert apis.program_of(["npx", *command, "-p", "x"]) == program
    assert program.reason
    for name in program.needs:
        assert name in changed(*command)
    for name in program.breaks:
        assert name not in planned(*command)
        assert name in planned(*command, **{name: "http://a.test"})
    for name in program.listens:
        assert name not in planned(*command, **{name: "http://a.test"})
        assert name not in changed(*command, **{name: "http://a.test"})


def test_codex_is_known_by_its_user_agent() -> None:
    program = apis.program_by_agent("codex_cli_rs/0.169 (Debian 12)")
    assert program is not None
    assert (program.words, program.falls_back_on) == ("codex", 426)
    assert apis.program_by_agent("OpenAI/JS 6.1") is None


def test_with_nothing_set_the_well_known_apis_are_served() -> None:
    variables = planned("x")
    assert variables["OPENAI_BASE_URL"] == variables["OPENAI_API_BASE"] == "/openai/v1 → https://api.openai.com"
    assert variables["ANTHROPIC_BASE_URL"] == "/anthropic → https://api.anthropic.com"
    assert variables["GROQ_BASE_URL"] == "/groq → https://api.groq.com/openai"
    assert variables["OLLAMA_HOST"] == "/ollama → http://127.0.0.1:11434"
    assert "AZURE_OPENAI_ENDPOINT" not in variables


@pytest.mark.parametrize("variable", [variable.name for api in APIS for variable in api.variables])
def test_a_set_variable_names_upstream_and_keeps_its_path(variable: str) -> None:
    variables = planned("x", **{variable: "https://gw.test/x/v1/"})
    base, _, upstream = variables[variable].partition(" → ")
    assert (upstream, base.endswith("/x/v1/")) == ("https://gw.test", True)
    assert [name for name, place in variables.items() if "gw.test" in place] == [variable]


def test_two_different_variables_reach_their_own_upstreams() -> None:
    variables = planned("x", OPENAI_BASE_URL="http://a.test/1", OPENAI_API_BASE="http://b.test/y")
    assert variables["OPENAI_BASE_URL"] == "/openai/1 → http://a.test"
    assert variables["OPENAI_API_BASE"] == "/openai_api_base/y → http://b.test"


def test_a_variable_used_by_host_clients_is_left_alone() -> None:
    for variable, url in (
        ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "https://bedrock-runtime.us-east-1.amazonaws.com"),
        ("GOOGLE_VERTEX_BASE_URL", "https://us-central1-aiplatform.googleapis.com"),
    ):
        plan = pointing.plan_base_urls([], {variable: url}, ["x"])
        assert (variable in plan.variables, variable in plan.left) == (False, True)


@pytest.mark.parametrize(
    ("command", "variable"),
    [
        (("gemini", "-p", "x"), "GOOGLE_GEMINI_BASE_URL"),
        (("npx", "-y", "@google/gemini-cli@latest"), "GOOGLE_GEMINI_BASE_URL"),
        (("/usr/bin/env", "A=1", "node", "/x/bin/gemini.js"), "GOOGLE_GEMINI_BASE_URL"),
        (("ollama", "serve"), "OLLAMA_HOST"),
    ],
)
def test_a_variable_its_program_cannot_use_is_not_set(command: tuple[str, ...], variable: str) -> None:
    assert variable in planned("python", "gemini")
    assert variable not in planned(*command)
    assert pointing.plan_base_urls([], {}, command).unreached == []


def test_users_keep_the_variables_of_gemini_and_ollama() -> None:
    variables = planned("gemini", GOOGLE_GEMINI_BASE_URL="http://a.test")
    assert variables["GOOGLE_GEMINI_BASE_URL"] == "/gemini → http://a.test"
    assert "OLLAMA_HOST" not in planned("ollama", "serve", OLLAMA_HOST="0.0.0.0")


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("0.0.0.0", "http://0.0.0.0:11434"),
        (":9", "http://127.0.0.1:9"),
        ("box:9", "http://box:9"),
        ("https://box", "https://box"),
    ],
)
def test_an_ollama_host_may_lack_what_ollama_adds(value: str, url: str) -> None:
    assert planned("x", OLLAMA_HOST=value)["OLLAMA_HOST"] == f"/ollama → {url}"


def test_given_upstreams_are_all_that_is_served() -> None:
    variables = planned("x", upstream="anthropic=http://a.test", OPENAI_BASE_URL="http://b.test")
    assert variables["ANTHROPIC_BASE_URL"] == "/anthropic → http://a.test"
    assert "OPENAI_BASE_URL" not in variables


def test_an_invalid_url_is_named_without_its_value() -> None:
    with pytest.raises(ValueError, match="OPENAI_BASE_URL is not set to the base URL of an API") as caught:
        planned("x", OPENAI_BASE_URL="sk-secret")
    assert "secret" not in str(caught.value)
