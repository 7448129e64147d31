import base64
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.redact import Redactor

CANARY = "sk-CANARY-p4ssw0rd/+=%?&"
PLAIN = "CANARYp4ssw0rd"
REDACTOR = Redactor(b"the salt of one tape")
MARK = "REDACTED:sha256:"


def header(name: str, value: str) -> str:
    ((_, stored),) = REDACTOR.headers([(name.encode(), value.encode())])
    return stored


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Authorization", f"Bearer {CANARY}"),
        ("authorization", f"Basic {base64.b64encode(CANARY.encode()).decode()}"),
        ("AUTHORIZATION", PLAIN),
        ("Proxy-Authorization", f"Basic {PLAIN}"),
        ("x-api-key", CANARY),
        ("X-API-KEY", PLAIN),
        ("api-key", PLAIN),
        ("x-goog-api-key", PLAIN),
        ("Ocp-Apim-Subscription-Key", PLAIN),
        ("Cookie", f"session={PLAIN}; theme=dark"),
        ("Set-Cookie", f"session={PLAIN}; HttpOnly"),
        ("X-Amz-Security-Token", PLAIN),
        ("X-Acme-Token", PLAIN),
        ("x-acme-client-secret-v2", PLAIN),
        ("X-Password", PLAIN),
        ("x-forwarded-access-token", PLAIN),
        ("x-anything", f"Bearer {PLAIN}"),
        ("x-anything", "sk-CANARYp4ssw0rd"),
        ("x-anything", "eyJDQU5BUllwNHNz.eyJDQU5BUllwNHNz.CANARYp4ssw0rd"),
        ("x-anything", f"a=1; token={PLAIN}"),
        ("location", f"https://user:{PLAIN}@host/a?code=1"),
        ("Location", f"/callback#access_token={PLAIN}&state=1"),
        ("referer", f"https://host/a?API_KEY={PLAIN}"),
        ("Link", f"<https://u:{PLAIN}@host/a?sig={PLAIN}>; rel=next"),
        ("x-original-url", f"/v1/models?key={PLAIN}"),
    ],
)
def test_a_header_that_carries_a_credential_is_redacted(name: str, value: str) -> None:
    stored = header(name, value)
    assert MARK in stored
    for secret in (CANARY, PLAIN, base64.b64encode(CANARY.encode()).decode()):
        assert secret not in stored


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("content-type", "text/event-stream; charset=utf-8"),
        ("accept", "application/json, text/*;q=0.5"),
        ("user-agent", "OpenAI/Python 1.70.0"),
        ("x-ratelimit-remaining-tokens", "149984"),
        ("anthropic-ratelimit-input-tokens-limit", "50000"),
        ("x-request-id", "req_0123456789abcdef"),
        ("idempotency-key", "stainless-python-retry-1b9f"),
        ("openai-organization", "org-acme"),
        ("openai-processing-ms", "42"),
        ("x-model", "gpt-4o-mini"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("www-authenticate", 'Bearer realm="api", error="invalid_token"'),
        ("location", "https://host:8443/v1/models?limit=2&after=m#top"),
    ],
)
def test_a_harmless_header_is_kept(name: str, value: str) -> None:
    assert header(name, value) == value


@pytest.mark.parametrize(
    "query",
    [
        "key={}", "api_key={}", "API_KEY={}", "apikey={}", "token={}", "sig={}", "access_token={}", "client_secret={}",
        "X-Amz-Signature={}", "X-Amz-Credential={}", "%6Bey={}", "api%5Fkey={}", "a=1&key={}&b=2", "key={}&key={}",
        "a=1;token={}", "password={}", "q=sk-{}",
    ],
)  # fmt: skip
def test_the_value_of_a_secret_query_key_is_redacted(query: str) -> None:
    for value in (PLAIN, quote(CANARY, safe="")):
        stored = REDACTOR.path("/v1/models?" + query.replace("{}", value))
        assert value not in stored
        assert stored.count(MARK) == query.count("{}")
        assert stored.startswith("/v1/models?")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions", "/v1/models?", "/v1/models?limit=20&after=gpt-4", "/v1/x?max_tokens=5", "/a?key",
        "/a?idempotency-key=7",
        "/a?key=",
        "/openai/deployments/gpt/chat/completions?api-version=2024-10-21", "/v1beta/models/g:stream?alt=sse", "",
    ],
)  # fmt: skip
def test_a_harmless_path_is_kept(path: str) -> None:
    assert REDACTOR.path(path) == path


def test_a_key_in_the_path_itself_is_redacted() -> None:
    assert REDACTOR.path("/proxy/sk-CANARYp4ssw0rd/v1") == f"/proxy/{REDACTOR.mark('sk-CANARYp4ssw0rd')}/v1"


def test_user_info_is_taken_out_of_urls_and_the_rest_is_kept() -> None:
    assert REDACTOR.url("https://me:pa@ss@host:8443/v1?a=1") == f"https://{REDACTOR.mark('me:pa@ss')}@host:8443/v1?a=1"
    assert REDACTOR.url("https://host/a@b?c=d@e") == "https://host/a@b?c=d@e"


def test_a_key_has_the_same_mark_wherever_it_stands() -> None:
    mark = REDACTOR.mark(CANARY)
    assert header("authorization", f"Bearer {CANARY}") == header("x-api-key", CANARY) == mark
    assert REDACTOR.path(f"/a?key={quote(CANARY, safe='')}") == f"/a?key={mark}"
    assert header("x-api-key", PLAIN) != mark


def test_the_same_key_has_another_mark_on_another_tape() -> None:
    assert Redactor(b"another tape").mark(CANARY) != REDACTOR.mark(CANARY)


def test_header_pairs_keep_their_order_and_number() -> None:
    pairs = [(b"X-B", b"1"), (b"Set-Cookie", b"a"), (b"x-b", b"2"), (b"set-cookie", b"b")]
    stored = REDACTOR.headers(pairs)
    assert [name for name, _ in stored] == ["x-b", "set-cookie", "x-b", "set-cookie"]
    assert stored[1][1] != stored[3][1]


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_no_header_is_too_odd(name: bytes, value: bytes) -> None:
    ((stored_name, stored),) = REDACTOR.headers([(name, value)])
    assert stored_name == name.decode("latin-1").lower()
    assert isinstance(stored, str)
