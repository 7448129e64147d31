"""Which recorded texts a report quotes."""

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from wiretape.viewer.sessions.disclosure import LOCAL, LONGEST, OTHER, Disclosure

RULE = Disclosure(["build-07.example.org", "build-07", "mira", "x"])


@each_case(
    "text",
    ["gpt-4o", "demo-stall", "meta-llama/Llama-3.1-8B", "claude-3-5-sonnet@20240620", "anthropic/claude-3:beta",
     "us.anthropic.claude-v2:0", "accounts/fireworks/models/llama", "ft:gpt-4o:org:name:id", "RESOURCE_EXHAUSTED",
     "8a1b2c3d4e5f-FRA", "req_0123", "a9f1c0de-0000-4000-8000-000000000000", "models/gemini-2.5-pro"],
)  # fmt: skip
def test_a_plain_name_is_quoted(text: str) -> None:
    assert RULE.name(text) == text


@each_case(
    "text",
    [None, 7, "", "two words", "/home/alice/model", "~/model", "./model", "../model", "C:/models/x", "C:\\models\\x",
     "models/llama.gguf", "file:///srv/x", "https://example.com/x", "data/home/alice/x", "a//b", "a/../b", "a`b", "a|b",
     "<b>x</b>", "@alice", "hi@alice", "[a](b)", "a\nb", "a\x1b[2J", "sk-abcdef0123456789abcdef",
     "ghp_0123456789abcdef", "arn:aws:bedrock:us-east-1:123456789012:x", "projects/secret/models/x", "build-07",
     "x/BUILD-07/y", "mira-model", "é", "a" * 2000],
)  # fmt: skip
def test_anything_else_is_left_out(text: object) -> None:
    assert RULE.name(text) is None


def test_a_long_name_is_cut_with_a_sign() -> None:
    assert RULE.name("a" * 200) == f"{'a' * (LONGEST - 1)}…"


@each_case("text", ["www.example.com", "GH-1", "0123456", "abcdef0123", "a-b", "_x", "x.y", "*x*"])
def test_a_name_that_a_tracker_links_is_no_word(text: str) -> None:
    assert RULE.word(text) is None


def test_a_word_stands_in_a_sentence() -> None:
    assert RULE.word("tool_calls") == "tool_calls"


@each_case(
    "agent, products",
    [
        ("python-httpx/0.28.1", ["python-httpx/0.28.1"]),
        ("OpenAI/Python 1.70.0", ["OpenAI/Python 1.70.0"]),
        ("claude-cli/2.1.0 (external, cli)", ["claude-cli/2.1.0"]),
        ("codex_cli_rs/0.169.0 (Ubuntu 22.4.0; alice@laptop (x)) xterm/1.0", ["codex_cli_rs/0.169.0", "xterm/1.0"]),
        ("GeminiCLI/0.61.0/gemini-2.5 (linux; x64)", ["GeminiCLI/0.61.0"]),
        ("app/1.0.0-beta.2 node", ["app/1.0.0-beta.2"]),
        ("app/1.0.alice.laptop", ["app/1.0"]),
        ("alice@laptop/1.0 alice laptop.corp alice/laptop", []),
        ("mira/1.0 build-07/2.0 app/3", ["app/3"]),
        ("app/2.0 (unclosed alice/1.0", ["app/2.0"]),
        ("sk-abcdef0123456789/1.0", []),
        ("a/1 b/2 c/3 d/4 e/5", ["a/1", "b/2", "c/3", "d/4"]),
        (None, []),
    ],
)  # fmt: skip
def test_of_a_user_agent_products_and_versions_are_kept(agent: str | None, products: list[str]) -> None:
    assert RULE.client(agent) == products


@each_case(
    "url, expected",
    [
        ("https://api.openai.com", "api.openai.com"),
        ("https://API.Anthropic.com.:443/x", "api.anthropic.com"),
        ("https://eu.api.openai.com", "eu.api.openai.com"),
        ("https://acme-secret.openai.azure.com/openai", "*.openai.azure.com"),
        ("https://bedrock-runtime.us-east-1.amazonaws.com", "bedrock-runtime.us-east-1.amazonaws.com"),
        ("http://127.0.0.1:8000", LOCAL), ("http://[::1]:8000", LOCAL), ("http://10.1.2.3", LOCAL),
        ("http://gpu7:8000", LOCAL), ("https://llm.corp.internal/v1", LOCAL), ("http://box.local", LOCAL),
        ("https://llm.acme.example.com", OTHER), ("https://8.8.8.8", OTHER), ("http://[bad", OTHER), (None, OTHER),
        ("", OTHER), ("https://build-07.example.org", OTHER),
    ],
)  # fmt: skip
def test_only_a_providers_host_is_named_without_account(url: str | None, expected: str) -> None:
    assert RULE.upstream(url) == expected


def test_a_private_upstreams_host_is_left_out_elsewhere() -> None:
    rule = RULE.hiding_hosts(["http://gpu7.corp.internal:8000/v1", "https://api.openai.com", None])
    assert rule.name("llama-gpu7.corp.internal") is None
    assert rule.name("api.openai.com") == "api.openai.com"
    assert rule.name("build-07") is None


def test_a_text_loses_keys_and_private_words() -> None:
    assert (
        RULE.text("Incorrect key sk-abcdef0123456789abcdef on Build-07, mira", 200) == "Incorrect key REDACTED on …, …"
    )
    assert RULE.text("abc", 2) == "a…"


@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_no_name_has_signs_of_markdown_or_html(text: str) -> None:
    quoted = [RULE.name(text), RULE.word(text), *RULE.client(text)]
    assert all(re.fullmatch(r"[A-Za-z0-9._:/+=@… -]*", name) for name in quoted if name is not None)
