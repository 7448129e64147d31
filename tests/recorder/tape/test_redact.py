import base64
import time
from collections.abc import Callable
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import each_case
from tests.support.growth import WORDS, grows_too_fast, hostile
from wiretape.recorder.tape.redact import Redactor, message

CANARY = "sk-CANARY-p4ssw0rd/+=%?&"
PLAIN = "CANARYp4ssw0rd"
REDACTOR = Redactor(b"the salt of one tape")
MARK = "REDACTED:sha256:"


def header(name: str, value: str) -> str:
    ((_, redacted),) = REDACTOR.headers([(name.encode(), value.encode())])
    return redacted


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
        ("X-Acme-Key", PLAIN),
        ("X-Acme-Keys", PLAIN),
        ("x-acme-key-v2", PLAIN),
        ("X-Acme-Access", PLAIN),
        ("X-Acme-Access-Id", PLAIN),
        ("X-Acme-Secret", PLAIN),
        ("X-Acme-Tokens", PLAIN),
        ("x-acmetoken", PLAIN),
        ("x_acme_key", PLAIN),
        ("X-Acme-Key2", PLAIN),
        ("x-acme-access-1", PLAIN),
        ("location", f"/proxy/https://u:{PLAIN}@host/v1"),
        ("location", f"/proxy/https:/u:{PLAIN}@host/v1"),  # as a proxy that tidies slashes passes it on
        ("x-acmekey", PLAIN),
        ("X-Pass", PLAIN),
        ("cf-access-client-id", PLAIN),
        ("x-ms-sas", PLAIN),
        ("sec-websocket-protocol", f"realtime, openai-insecure-api-key.sk-{PLAIN}"),
        ("sec-websocket-protocol", f"realtime, openai-insecure-api-key.ek_{PLAIN}7"),
        ("x-config", f'{{"provider": "acme", "api_key": "{PLAIN}"}}'),
        ("x-config", f"a=1,apiKey={PLAIN},b=2"),
        ("x-config", f"a%3D1%26api%255Fkey%3D{PLAIN}"),
        ("x-callback", f"see https://user:{PLAIN}@host/"),
        ("referer", f"https://host/a?next=https%3A%2F%2Fu%3A{PLAIN}%40host"),
        ("location", f"https://host/sk-{PLAIN}/v1"),
        ("Content-Location", f"https://host/a?api%5Fkey={PLAIN}"),
        ("x-ratelimit-reset-tokens", f"sk-{PLAIN}"),
        ("anthropic-beta", f"gsk_{PLAIN}"),
        ("x-anything", f"eyJhbGciOiJIUzI1NiJ9.{PLAIN}.x"),
        ("x-wiretape-label", f"run=1, api_key={PLAIN}"),
    ],
)
def test_a_header_that_carries_a_credential_is_redacted(name: str, value: str) -> None:
    redacted = header(name, value)
    assert MARK in redacted
    for secret in (CANARY, PLAIN, base64.b64encode(CANARY.encode()).decode()):
        assert secret not in redacted


OPAQUE = "4f9cCANARY1b2e8d7a60315c9b7e2f4d"
"""A key without a prefix that would tell it from the id of a request."""


@each_case("key", [f"sk-proj-{OPAQUE}", OPAQUE, "0f8fad5b-d9cb-469f-a165-70867728950e"])
@each_case(
    ("name", "value"),
    [
        ("WWW-Authenticate", 'Bearer realm="api", error="invalid_token", error_description="API key {} is invalid"'),
        ("Proxy-Authenticate", "Bearer error_description='Incorrect API key provided: {}. Find yours in the console'"),
        ("WWW-Authenticate", 'ApiKey realm="a", key="{}"'),
        ("WWW-Authenticate", 'Bearer resource_metadata="https://host/.well-known/a?token={}"'),
        ("WWW-Authenticate", 'Bearer error_description="Incorrect%20API%20key%20provided%3A%20{}"'),
        ("Location", "https://host/login?reason=Incorrect+API+key+provided%3A+{}"),
        ("Location", "/login?error_description=API%20key%20{}%20was%20revoked"),
        ("Link", '<https://host/a>; rel="next", <https://host/b?api_key={}>; rel="last"'),
        ("Link", '</docs>; title="Incorrect API key provided: {}"'),
        ("x-error-message", "Incorrect API key provided: {}. You can find your API key in the console."),
        ("x-error", "Access denied due to invalid subscription key ({})"),
        ("x-error", '{"error": {"message": "API key not valid: {}"}}'),
        ("x-error", "Incorrect%20API%20key%20provided%3A%20{}"),
        ("grpc-message", "the access token '{}' has expired"),
        ("x-amzn-errormessage", "The security token {} included in the request is invalid"),
        ("warning", '199 - "key {} is deprecated"'),
    ],
)
def test_a_key_in_an_answers_headers_is_redacted(name: str, value: str, key: str) -> None:
    redacted = header(name, value.replace("{}", key))
    assert key not in redacted
    assert MARK in redacted


@each_case(
    "value",
    [
        f"Negotiate {OPAQUE}==",
        f"Bearer {OPAQUE}",
        f'Basic realm="{OPAQUE}"',
        f'Digest realm="a", nonce="{OPAQUE}", qop="auth"',
    ],
)
def test_what_is_opaque_in_a_challenge_is_redacted(value: str) -> None:
    assert OPAQUE not in header("www-authenticate", value)


@each_case(
    "value",
    [
        'Bearer realm="api", error="invalid_token", error_description="Incorrect API key provided: {}"',
        'Bearer error_description="the token {} is expired", error="invalid_token"',
    ],
)
def test_a_challenge_keeps_its_other_words(value: str) -> None:
    assert header("www-authenticate", value.format(OPAQUE)) == value.format(REDACTOR.mark(OPAQUE))


@each_case(
    "value",
    [
        'Bearer realm="api", error="invalid_token", error_description="The access token expired"',
        'Bearer authorization_uri="https://login.test/72f988bf-86f1-41af-91ab-2d7cd011db47", error="invalid_token"',
        'Bearer resource_metadata="https://host.test/.well-known/oauth-protected-resource/v1"',
        'Bearer error_description="AADSTS50: Trace ID: 0f8fad5b-d9cb-469f-a165-70867728950e Timestamp: 2026-01-05"',
        'Basic realm="Sign in to api-v2.inference.test:8443", charset="UTF-8"',
        'Digest realm="users", qop="auth", algorithm=SHA-256',
        "Negotiate, NTLM",
        "Bearer",
    ],
)
def test_a_challenge_without_a_key_is_kept(value: str) -> None:
    assert header("www-authenticate", value) == header("proxy-authenticate", value) == value


@each_case("name", ["authorization", "x-api-key", "api-key", "ocp-apim-subscription-key", "x-auth-token"])
@each_case(
    ("echo", "value"),
    [
        ("Location", "https://host/{}/v1"),
        ("Location", "https://host/cb?state={}#{}"),
        ("Link", '<https://host/{}>; rel="next"'),
        ("x-debug", "upstream=https://host/v1/{} user={}"),
        ("server-timing", 'auth;desc="{}"'),
        ("x-request-id", "{}"),
    ],
)
def test_a_sent_key_is_redacted_in_the_answer(name: str, echo: str, value: str) -> None:
    redactor, key = Redactor(b"salt"), OPAQUE + "+/="
    redactor.headers([(name.encode(), f"Bearer {key}".encode())])
    for spelling in (key, quote(key, safe="")):
        ((_, redacted),) = redactor.headers([(echo.encode(), value.replace("{}", spelling).encode())])
        assert redacted == value.replace("{}", redactor.mark(key))


def test_any_text_sent_as_a_key_leaves_answers_decodable() -> None:
    redactor = Redactor(b"salt")
    answer = [[b"content-type", b"text/event-stream;charset=utf-8"], [b"x-a", b"application/json"]]
    keys = [(b"x-api-key", value) for _, value in answer] + [(b"authorization", b"Bearer "), (b"x-api-key", b"")]
    redactor.headers(keys)
    assert redactor.headers([(name, value) for name, value in answer]) == [
        [name.decode(), value.decode()] for name, value in answer
    ]


@each_case(
    "token", [f"bot123456:{PLAIN}", "bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1", "bot123456%3AAAHdqTcvCH1v"]
)
def test_a_bots_token_in_a_path_is_redacted(token: str) -> None:
    assert REDACTOR.path(f"/{token}/sendMessage") == f"/{REDACTOR.mark(unquote(token))}/sendMessage"
    for text in (f"https://api.telegram.test/{token}/getMe", f"/file/{token}/a"):
        assert token not in header("location", text)
        assert token not in Redactor(None).text(f"no answer from {text}: refused") or "%" in token


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
        ("origin", "https://auth.host.test:8443"),
        ("x-ratelimit-reset-tokens", "6m0s"),
        ("anthropic-ratelimit-tokens-reset", "2026-01-01T00:00:00Z"),
        ("x-tokenlimit-remaining", "99"),
        ("ratelimit-policy", '"tokens";q=100;w=60'),
        ("x-max-tokens", "512"),
        ("x-token-count", "7"),
        ("retry-after", "2"),
        ("anthropic-beta", "prompt-caching-2024-07-31"),
        ("openai-version", "2020-10-01"),
        ("sec-websocket-protocol", "realtime, openai-beta.realtime-v1"),
        ("x-stainless-idempotency-key", "7"),
        ("access-control-allow-headers", "authorization, x-api-key"),
        ("vary", "Authorization, X-Api-Key"),
        ("author", "Ann"),
        ("authority", "api.openai.com"),
        ("cache-control", "max-age=0, private"),
        ("date", "Mon, 05 Jan 2026 10:11:12 GMT"),
        ("x-request-id", "0f8fad5b-d9cb-469f-a165-70867728950e"),
        ("cf-ray", "8f1c2d3e4a5b6c7d-FRA"),
        ("etag", 'W/"33a64df551425fcc55e4d42a148795d9f25f89d4"'),
        ("tracestate", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
        ("x-b3-traceid", "80f198ee56343ba864fe8b2a57d3eff7"),
        ("x-amzn-requestid", "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"),
        ("x-amzn-trace-id", "Root=1-67891233-abcdef012345678912345678"),
        ("x-amz-id-2", "Uuag1LuByRx9e6j5Onimru9pO4ZVKnJ2Qz7/C1NPcfTWAtRPfTaOFg=="),
        ("x-ms-request-id", "0f8fad5b-d9cb-469f-a165-70867728950e"),
        ("apim-request-id", "0f8fad5b-d9cb-469f-a165-70867728950e"),
        ("openai-processing-ms", "1204"),
        ("anthropic-organization-id", "0f8fad5b-d9cb-469f-a165-70867728950e"),
        ("request-id", "req_011CQG2YfJZ9x4VbK3a8mNpT"),
        ("x-cloud-trace-context", "105445aa7843bc8bf206b12000100000/1;o=1"),
        ("server-timing", 'cfExtPri, cfL4;desc="?proto=TCP&rtt=1204&sent=5&recv=7"'),
        ("link", '<https://host.test/v1/files?after=file-4f9c1b2e8d7a60315c9b>; rel="next"'),
        ("location", "/v1/responses/resp_0f8fad5bd9cb469fa16570867728950e"),
        ("location", "https://host.test/openai/operations/0f8fad5b-d9cb-469f-a165-70867728950e?api-version=2024-10-21"),
        ("x-error-message", "max_tokens: 100000 > 8192, the maximum of output tokens for claude-3-5-sonnet-20241022"),
        ("user-agent", "codex_cli_rs/0.46.0 (Ubuntu 24.4.0; x86_64) xterm-256color"),
        ("strict-transport-security", "max-age=31536000; includeSubDomains; preload"),
        ("alt-svc", 'h3=":443"; ma=86400'),
        ("via", "1.1 varnish, 1.1 4f9c1b2e8d7a60315c9b7e2f4d.cloudfront.test (CloudFront)"),
        ("grpc-message", "model projects/p/models/gemini-2.5-flash-preview-05-20 was not found"),
        ("report-to", '{"group":"a","max_age":604800,"endpoints":[{"url":"https://a.test/r?s=b%2Fc"}]}'),
    ],
)
def test_a_harmless_header_is_kept(name: str, value: str) -> None:
    assert header(name, value) == value


@pytest.mark.parametrize(
    "query",
    [
        "key={}", "api_key={}", "API_KEY={}", "apikey={}", "token={}", "sig={}", "access_token={}", "client_secret={}",
        "X-Amz-Signature={}", "X-Amz-Credential={}", "%6Bey={}", "api%5Fkey={}", "a=1&key={}&b=2", "key={}&key={}",
        "a=1;token={}", "password={}", "q=sk-{}", "%256bey={}", "apiKey={}", "auth%5Bkey%5D={}", "q=%73k-{}",
        "q=a%26api_key%3D{}", "next=https%3A%2F%2Fu%3A{}%40host", "next=%2Fa%3Fkey%3D{}", "api_key%3D{}", "sk-{}",
        "sk-{}=1", "access={}",
    ],
)  # fmt: skip
def test_the_value_of_a_secret_query_key_is_redacted(query: str) -> None:
    for value in (PLAIN, quote(CANARY, safe="")):
        redacted = REDACTOR.path("/v1/models?" + query.replace("{}", value))
        assert value not in redacted
        assert redacted.count(MARK) == query.count("{}")
        assert redacted.startswith("/v1/models?")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions", "/v1/models?", "/v1/models?limit=20&after=gpt-4", "/v1/x?max_tokens=5", "/a?key",
        "/a?idempotency-key=7", "/v1/tokenize", "/v1/models/gpt-4o:sk", "/a?max_tokens=5&author=ann",
        "/a?redirect=%2Fhome%3Fa%3D1",
        "/v1beta/models/gemini-2.0-flash:streamGenerateContent?alt=sse", "/v1/organization/admin_api_keys/key_1",
        "/a?key=",
        "/openai/deployments/gpt/chat/completions?api-version=2024-10-21", "/v1beta/models/g:stream?alt=sse", "",
    ],
)  # fmt: skip
def test_a_harmless_path_is_kept(path: str) -> None:
    assert REDACTOR.path(path) == path


@pytest.mark.parametrize(
    "key",
    [
        f"sk-{PLAIN}", f"%73k-{PLAIN}", f"sk%2D{PLAIN}", f"%2573k-{PLAIN}", f"sk-ant-api03-{PLAIN}", f"AIza{PLAIN}",
        f"gsk_{PLAIN}", f"xai-{PLAIN}", f"hf_{PLAIN}", f"r8_{PLAIN}", f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.{PLAIN}",
        f"ghp_{PLAIN}", f"v1.sk-{PLAIN}", f"api_key={PLAIN}", f"api%5Fkey%3D{PLAIN}", f"token/{PLAIN}0123456789",
        f"bearer%20{PLAIN}",
    ],
)  # fmt: skip
def test_a_key_in_a_path_is_redacted_by_looks(key: str) -> None:
    redacted = REDACTOR.path(f"/proxy/{key}/v1/chat?a=1")
    assert PLAIN not in redacted
    assert MARK in redacted
    assert redacted.startswith("/proxy/")
    assert redacted.endswith("/v1/chat?a=1")


def test_a_key_has_one_mark_plain_and_encoded() -> None:
    mark = REDACTOR.mark(f"sk-{PLAIN}")
    assert REDACTOR.path(f"/sk-{PLAIN}/a") == REDACTOR.path(f"/%73k-{PLAIN}/a") == f"/{mark}/a"


def test_only_labels_with_a_credential_are_redacted() -> None:
    labels = {
        "run": "a",
        "key": "c-major",
        "pass": "2",
        "prompt": "v3",
        "max_tokens": "5",
        "sha": "0af7651916cd43dd8448",
    }
    secret = {
        "a": f"sk-{PLAIN}",
        "b": f"Bearer {PLAIN}",
        "api_key": PLAIN,
        "token": PLAIN,
        "c": f"https://u:{PLAIN}@h/",
        "acme-key": f"{PLAIN}{PLAIN}1",
    }
    redacted = REDACTOR.labels(labels | secret | {f"sk-{PLAIN}": "1"})
    assert {name: redacted[name] for name in labels} == labels
    assert all(redacted[name].startswith(MARK) for name in secret)
    assert PLAIN not in str(redacted)


def test_messages_keep_their_words_without_the_credentials() -> None:
    text = f"no answer from https://u:{PLAIN}@host:80/a?key={PLAIN}, and sk-{PLAIN} was refused"
    assert (
        Redactor(None).text(text) == "no answer from https://REDACTED@host:80/a?key=REDACTED, and REDACTED was refused"
    )
    assert Redactor(None).text("upstream 127.0.0.1: no answer in 3 s") == "upstream 127.0.0.1: no answer in 3 s"


@pytest.mark.parametrize(
    "text",
    [
        "KeyError: 'messages'",
        '{"message":null,"code":null}, HTTP code: 503, "code": "context_length_exceeded"',
        "Token limit exceeded: max_tokens: must be at most 4096, not 5000",
        "Basic authentication is required; the token is expired: bearer authentication failed",
        "Invalid key: temperature, hf_hub_download failed, api_key: null",
        "/etc/passwd: its format is not known; no tape at /var/lib/secret: record one with 'wiretape record'",
    ],
)
def test_messages_without_a_credential_stay_as_they_are(text: str) -> None:
    assert Redactor(None).text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-{}.",
        "password: {}",
        "/prod/db/password: {} is refused",
        '{{"api_key":"{}"}}',
        "Authorization: Bearer {}",
        "refused 'Basic {}'",
        "key={}x9f8e7d6",
        "see https://host/a?pwd={}&b=1",
        "hf_{}",
        "(token={})",
    ],
)
def test_a_credential_in_a_message_is_replaced(text: str) -> None:
    assert PLAIN not in Redactor(None).text(text.format(PLAIN))


def call_with(name: bytes, prefix: str = "") -> Callable[[str], object]:
    return lambda text: Redactor(b"").headers([(name, (prefix + text).encode())])


@each_case(
    "call",
    [
        call_with(b"x-a"),
        call_with(b"sec-websocket-protocol"),
        call_with(b"www-authenticate"),
        call_with(b"x-max-tokens", "0"),
        call_with(b"x-api-key"),
        lambda text: Redactor(b"").headers([(text.encode(), b"x")]),
        lambda text: Redactor(b"").path(f"/{text}?{text}"),
        lambda text: Redactor(b"").url(f"https://{text}"),
        Redactor(b"").text,
    ],
)
def test_redaction_of_any_text_takes_linear_time(call: Callable[[str], object]) -> None:
    slow = [make(9) for make in hostile(WORDS[:5], " \"'\\=0/") if grows_too_fast(call, make, 2_000)]
    assert slow == []


def test_ten_headers_of_nothing_but_blanks_take_no_time() -> None:
    pairs = [(name, b" " * 58_000 + b"x") for name in (b"sec-websocket-protocol", b"x-max-tokens") for _ in range(5)]
    began = time.thread_time()
    Redactor(b"").headers([(name, b"0" + value + bytes([number])) for number, (name, value) in enumerate(pairs)])
    assert time.thread_time() - began < 0.5  # one of them took seconds


def test_a_key_in_the_path_itself_is_redacted() -> None:
    assert REDACTOR.path("/proxy/sk-CANARYp4ssw0rd/v1") == f"/proxy/{REDACTOR.mark('sk-CANARYp4ssw0rd')}/v1"


def test_only_the_user_info_of_urls_is_redacted() -> None:
    assert REDACTOR.path("/proxy/https://me:pass@host/v1") == f"/proxy/https://{REDACTOR.mark('me:pass')}@host/v1"
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
    redacted = REDACTOR.headers(pairs)
    assert [name for name, _ in redacted] == ["x-b", "set-cookie", "x-b", "set-cookie"]
    assert redacted[1][1] != redacted[3][1]


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_no_header_is_too_odd(name: bytes, value: bytes) -> None:
    ((stored_name, redacted),) = REDACTOR.headers([(name, value)])
    assert stored_name == name.decode("latin-1").lower()
    assert isinstance(redacted, str)


def test_a_message_is_a_safe_line_without_credentials() -> None:
    assert message("GET /x?key=AIzaSyq9Zk3LmN8vXw2RtY7uKpQs1 \x1b[2J gone") == (
        "wiretape: GET /x?key=REDACTED \u241b[2J gone"
    )
