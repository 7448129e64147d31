"""Upstreams by table: how they are read, and where a request goes."""

from urllib.parse import urlsplit

import pytest

from wiretape.recorder.relay import apis, providers


@pytest.mark.parametrize(
    ("text", "name", "scheme", "host", "port", "authority", "prefix"),
    [
        ("https://api.test", "", "https", "api.test", 443, b"api.test", b""),
        ("https://api.test/", "", "https", "api.test", 443, b"api.test", b""),
        ("http://127.0.0.1:8000/v1/", "", "http", "127.0.0.1", 8000, b"127.0.0.1:8000", b"/v1"),
        ("one=http://[::1]:80/a/b", "one", "http", "::1", 80, b"[::1]:80", b"/a/b"),
        ("my-api_2=https://API.Test:8443", "my-api_2", "https", "api.test", 8443, b"api.test:8443", b""),
        ("http://bücher.test", "", "http", "xn--bcher-kva.test", 80, b"xn--bcher-kva.test", b""),
    ],
)
def test_an_upstream_is_read_in_its_parts(
    text: str, name: str, scheme: str, host: str, port: int, authority: bytes, prefix: bytes
) -> None:
    upstream = providers.parse(text)
    assert (upstream.name, upstream.scheme, upstream.host, upstream.port) == (name, scheme, host, port)
    assert (upstream.authority, upstream.prefix, upstream.authorization) == (authority, prefix, None)


@pytest.mark.parametrize(
    ("upstream", "target", "location"),
    [
        ("http://api.test:81", b"http://api.test:81/a?b#c", b"http://us/a?b#c"),
        ("http://api.test:81", b"http://API.test:81", b"http://us/"),
        ("https://api.test", b"https://api.test:443/a", b"http://us/a"),
        ("https://api.test", b"//api.test/a", b"http://us/a"),
        ("http://[::1]:81", b"http://[::1]:81/a", b"http://us/a"),
        ("one=https://api.test", b"https://api.test/a", b"http://us/one/a"),
        ("one=https://api.test/v1", b"https://api.test/v1/a", b"http://us/one/a"),
        ("one=https://api.test/v1", b"https://api.test/v1?a", b"http://us/one?a"),
        ("https://api.test/v1", b"/v1?a", b"/?a"),
        ("one=https://api.test/v1", b"/v1/a", b"/one/a"),
        ("https://api.test", b"/a", b"/a"),
        ("one=https://api.test", b"a/b", b"a/b"),
        ("one=https://api.test/v1", b"https://api.test/login", b"https://api.test/login"),
        ("one=https://api.test/v1", b"/v1x", b"/v1x"),
        ("https://api.test", b"http://api.test/a", b"http://api.test/a"),
        ("https://api.test", b"https://api.test:444/a", b"https://api.test:444/a"),
        ("https://api.test", b"https://api.test.evil.test/a", b"https://api.test.evil.test/a"),
        ("https://api.test", b"https://api.test@evil.test/a", b"https://api.test@evil.test/a"),
        ("https://api.test", b"mailto:me@api.test", b"mailto:me@api.test"),
        ("https://api.test", b"", b""),
    ],
)
def test_an_upstream_location_is_mapped_to_wiretape(upstream: str, target: bytes, location: bytes) -> None:
    assert providers.location(providers.parse(upstream), target, b"http://us") == location


def test_user_info_becomes_basic_authorization_outside_the_authority() -> None:
    upstream = providers.parse("https://me:s%2Fcret@api.test:1/x")
    assert (upstream.authority, upstream.authorization) == (b"api.test:1", b"Basic bWU6cy9jcmV0")


@pytest.mark.parametrize(
    "text",
    ["", "api.test", "ftp://api.test", "https://", "https://api.test?x=1", "https://api.test/#f", "https://api.test:x",
     "https://api.test:99999", "Name=https://api.test", "=https://api.test", "https://a..b", "https://.evil.test",
     "https://api.test/a b", "https://api.test/é", "https://" + "x" * 64,
     f"https://é{'x' * 62}.test", "https://" + ".".join(["x" * 60] * 5), "https://a%41.test",
     "https://☃.test", "https://xn--a.test", "https://xn--.test", "https://٣.test",
     "https://[::1", "https://a b.test", "https://a\ud800.test"],
)  # fmt: skip
def test_an_invalid_upstream_is_reported(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        providers.parse(text)


def test_a_url_error_quotes_no_part_of_a_password() -> None:
    with pytest.raises(ValueError, match="percent-encoded") as caught:
        providers.parse("https://me:hunter2#x@api.test")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("target", "name", "remainder"),
    [
        (b"/openai/v1/chat", "openai", b"/v1/chat"),
        (b"/openai", "openai", b"/"),
        (b"/openai?q=1", "openai", b"/?q=1"),
        (b"/openai//evil.test/x", "openai", b"//evil.test/x"),
        (b"/openaix/v1", "", b"/openaix/v1"),
        (b"/openai@evil.test/x", "", b"/openai@evil.test/x"),
        (b"/v1/chat?x=/openai/", "", b"/v1/chat?x=/openai/"),
    ],
)
def test_a_target_goes_to_its_named_or_root_upstream(target: bytes, name: str, remainder: bytes) -> None:
    upstreams = [providers.parse("https://root.test"), providers.parse("openai=https://api.test/base")]
    route = providers.route(upstreams, target)
    assert route is not None
    assert (route[0].name, route[1]) == (name, remainder)
    assert route[0].prefix + remainder == (b"/base" if name else b"") + remainder


def test_without_one_at_the_root_other_targets_go_nowhere() -> None:
    assert providers.route(providers.well_known(), b"/v1/chat") is None


def test_the_well_known_apis_are_served_by_name() -> None:
    route = providers.route(providers.well_known(), b"/groq/v1/chat/completions")
    assert route is not None
    assert route[0].prefix + route[1] == b"/openai/v1/chat/completions"


@pytest.mark.parametrize(
    ("upstream", "target", "reached"),
    [
        ("anthropic=https://api.anthropic.com", b"/anthropic/messages?beta=true", b"/v1/messages?beta=true"),
        ("anthropic=http://127.0.0.1:9", b"/anthropic/messages", b"/v1/messages"),
        ("anthropic=https://api.anthropic.com", b"/anthropic/v1/messages", b"/v1/messages"),
        ("anthropic=https://api.anthropic.com", b"/anthropic/api/hello", b"/api/hello"),
        ("openai=https://api.openai.com", b"/openai/v1/v1/chat/completions", b"/v1/chat/completions"),
        ("openai=https://api.openai.com", b"/openai/modelsx", b"/modelsx"),
        ("https://api.openai.com/v1", b"/v1/chat/completions", b"/v1/chat/completions"),
        ("groq=https://api.groq.com/openai", b"/groq/openai/v1/models", b"/openai/v1/models"),
        ("groq=https://api.groq.com/openai", b"/groq/chat/completions", b"/openai/v1/chat/completions"),
        ("http://127.0.0.1:9/v1", b"/v1/chat/completions", b"/v1/chat/completions"),
        ("http://127.0.0.1:9", b"/v1/v1/chat/completions", b"/v1/chat/completions"),
        ("http://127.0.0.1:9", b"/chat/completions", b"/chat/completions"),
        ("cohere=https://api.cohere.com", b"/cohere/v2/chat", b"/v2/chat"),
        ("deepseek=https://api.deepseek.com", b"/deepseek/chat/completions", b"/chat/completions"),
    ],
)
def test_an_unambiguous_version_is_added_or_removed(upstream: str, target: bytes, reached: bytes) -> None:
    route = providers.route([providers.parse(upstream)], target)
    assert route is not None
    assert route[0].prefix + route[1] == reached


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("api.openai.com", "openai"),
        ("API.OpenAI.com.", "openai"),
        ("agentn.global.api5.cursor.sh", "cursor"),
        ("cursor.com", None),
        ("chatgpt.com", "chatgpt"),
        ("mine.openai.azure.com", "azure"),
        ("bedrock-runtime.eu-west-1.amazonaws.com", "bedrock"),
        ("europe-west4-aiplatform.googleapis.com", "vertex"),
        ("dashscope-intl.aliyuncs.com", "dashscope"),
        ("api.openai.com.evil.com", None),
        ("evilapi.openai.com", None),
        ("evil.com/api.openai.com", None),
        ("a.b.openai.azure.com", None),
        ("bedrock-runtime.x.evil.amazonaws.com", None),
        ("xopenai.azure.com", None),
        ("api.openai.com\n", None),
        ("github.com", None),
        ("", None),
    ],
)
def test_an_api_is_recognised_by_its_hosts_only(host: str, name: str | None) -> None:
    assert providers.api_of(host) == name


def test_no_host_and_no_variable_is_of_two_apis() -> None:
    hosts = [host for api in apis.APIS for host in api.hosts]
    variables = [variable.name for api in apis.APIS for variable in api.variables]
    assert (len(hosts), len(variables)) == (len(set(hosts)), len(set(variables)))
    for api in apis.APIS:
        host = urlsplit(api.url).hostname
        assert providers.api_of(host or "") == (api.name if host and host != "127.0.0.1" else None)


def test_an_sdk_is_pointed_at_its_expected_path() -> None:
    bare, versioned = providers.parse("https://api.test"), providers.parse("openai=https://api.test/v1")
    beta = providers.parse("https://api.test/v1beta")
    assert providers.sdk_base("http://x", bare, "/v1") == "http://x/v1"
    assert providers.sdk_base("http://x", versioned, "/v1") == "http://x/openai"
    assert providers.sdk_base("http://x", beta, "/v1") == "http://x"


OPENAI = {"OPENAI_BASE_URL": "http://x/v1", "OPENAI_API_BASE": "http://x/v1"}
ANTHROPIC = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL", "ANTHROPIC_API_BASE")


@pytest.mark.parametrize(
    ("upstreams", "bases"),
    [
        (["https://api.openai.com"], OPENAI),
        (["http://127.0.0.1:8000"], OPENAI),
        (["https://api.anthropic.com"], dict.fromkeys(ANTHROPIC, "http://x")),
        (["anthropic=http://127.0.0.1:9"], dict.fromkeys(ANTHROPIC, "http://x/anthropic")),
        (["one=https://api.cerebras.ai"],
         {"CEREBRAS_BASE_URL": "http://x/one", "CEREBRAS_API_BASE": "http://x/one/v1"}),
        (["https://openrouter.ai/api"], {"OPENROUTER_API_BASE": "http://x/v1"}),
        (["openai=https://openrouter.ai/api/v1"], dict.fromkeys(OPENAI, "http://x/openai")),
        (["http://127.0.0.1:9", "openai=https://api.openai.com"], dict.fromkeys(OPENAI, "http://x/openai/v1")),
        (["gpu=http://127.0.0.1:9", "https://chatgpt.com"], {}),
    ],
)  # fmt: skip
def test_a_variable_is_pointed_only_at_its_own_api(upstreams: list[str], bases: dict[str, str]) -> None:
    assert providers.sdk_bases("http://x", [providers.parse(text) for text in upstreams]) == bases


def test_the_name_of_a_known_api_is_an_upstream() -> None:
    assert providers.parse("openai") == providers.parse("openai=https://api.openai.com")
    with pytest.raises(ValueError, match="azure has a URL for each account or region: add yours, azure=https"):
        providers.parse("azure")
