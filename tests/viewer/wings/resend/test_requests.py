"""Requests as they are sent again: their target, key, headers, path and body."""

import json
from typing import Any

import pytest

from tests.support.cases import each_case
from wiretape.recorder.decode.exchange import Exchange, Headers
from wiretape.recorder.relay import providers
from wiretape.viewer.record.rows import RequestRow
from wiretape.viewer.stats.prices import Prices, entry
from wiretape.viewer.wings.resend import requests
from wiretape.viewer.wings.resend.requests import FACTS, CannotResend, ResentRequest, Target
from wiretape.viewer.wings.resend.sending import Budget, Pace

SECRETS = {
    name: f"secret of {name}"
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "AZURE_OPENAI_API_KEY", "OTHER")
}
PRICES = Prices([entry({"model": "m", "input": 2, "output": 8})])
REDACTED = "REDACTED:sha256:0123abcd"


def recorded(**facts: Any) -> dict[str, Any]:
    usual = {
        "id": "aaaa000000000001", "started_at": "2026-03-01T12:00:00.000000Z", "operation": "chat", "flags": [],
        "api": "openai.chat", "method": "POST", "path": "/v1/chat/completions", "upstream": "https://api.openai.com",
        "model": "m", "input_tokens": 100, "input_uncached_tokens": 100, "output_tokens": 10,
    }  # fmt: skip
    return dict.fromkeys(FACTS) | usual | facts


def request(body: bytes | None = b'{"model": "m"}', *headers: tuple[str, str], size: int | None = None) -> RequestRow:
    exchange = Exchange(headers=Headers(tuple(map(tuple, headers))))
    return RequestRow("a", exchange, body, len(body or b"") if size is None else size, None, {})


def resent(row: dict[str, Any], sent: RequestRow, url: str = "http://127.0.0.1:1", **more: Any) -> ResentRequest:
    target = requests.target(providers.parse(url), more.pop("key_from", None), SECRETS)
    requests.check(row, sent)
    return requests.resent(row, sent, target, more.pop("model", None), PRICES)


@each_case(
    "url, key_from, variable, header",
    [
        ("https://api.openai.com", None, "OPENAI_API_KEY", "authorization"),
        ("https://api.anthropic.com", None, "ANTHROPIC_API_KEY", "x-api-key"),
        ("https://generativelanguage.googleapis.com", None, "GEMINI_API_KEY", "x-goog-api-key"),
        ("https://me.openai.azure.com", None, "AZURE_OPENAI_API_KEY", "api-key"),
        ("http://127.0.0.1:8000", None, None, None),
        ("https://llm.example.com", None, None, None),
        ("https://api.openai.com.example.com", None, None, None),
        ("https://llm.example.com", "OTHER", "OTHER", "authorization"),
        ("http://127.0.0.1:8000", "OTHER", "OTHER", "authorization"),
    ],
)
def test_a_key_goes_to_its_own_host_alone(
    url: str, key_from: str | None, variable: str | None, header: str | None
) -> None:
    sent = resent(recorded(), request(), url, key_from=key_from)
    assert sent.target.variable == variable
    secrets = [(name, value) for name, value in sent.headers if "secret" in value]
    assert [name for name, _ in secrets] == ([header] if header else [])
    assert all(SECRETS[str(variable)] in value for _, value in secrets)
    assert variable is None or SECRETS[variable] not in repr(sent)


@each_case(
    "url, key_from, reason",
    [
        ("https://api.mistral.ai", None, "MISTRAL_API_KEY is not set"),
        ("https://llm.example.com", "MISSING", "MISSING is not set"),
        ("http://llm.example.com", "OTHER", "no TLS"),
        ("http://api.openai.com", None, "no TLS"),
        ("http://user:password@llm.example.com", None, "no TLS"),
        ("https://bedrock-runtime.eu-west-1.amazonaws.com", None, "signed"),
        ("https://europe-west1-aiplatform.googleapis.com", None, "signed"),
    ],
)
def test_a_target_without_a_safe_key_is_refused(url: str, key_from: str | None, reason: str) -> None:
    with pytest.raises(CannotResend, match=reason):
        requests.target(providers.parse(url), key_from, SECRETS)


def test_headers_of_one_attempt_and_redacted_ones_stay() -> None:
    left_out = {
        "authorization": REDACTED, "cookie": REDACTED, "x-session": f"a {REDACTED}", "idempotency-key": "1",
        "traceparent": "00-1", "tracestate": "a=b", "x-request-id": "1", "x-client-request-id": "1", "host": "a",
        "x-stainless-retry-count": "2", "x-wiretape-label": "a=b", "content-length": "9",
    }  # fmt: skip
    kept = {"content-type": "application/json", "anthropic-beta": "a", "user-agent": "sdk", "accept-encoding": "br"}
    sent = resent(recorded(), request(b"{}", *left_out.items(), *kept.items()))
    assert dict(sent.headers) == kept


def test_a_key_in_the_query_becomes_a_header() -> None:
    row = recorded(path=f"/v1beta/models/m:streamGenerateContent?alt=sse&key={REDACTED}")
    sent = resent(row, request(b"{}"), key_from="OTHER")
    assert sent.path == "/v1beta/models/m:streamGenerateContent?alt=sse"
    assert dict(sent.headers) == {"x-goog-api-key": SECRETS["OTHER"]}


@each_case(
    "path, body, model_path, model_body",
    [
        ("/v1/chat", {"model": "m", "n": "é"}, "/v1/chat", {"model": "new", "n": "é"}),
        ("/v1/models/m:generateContent?alt=sse", {"a": 1}, "/v1/models/new:generateContent?alt=sse", {"a": 1}),
        ("/openai/deployments/m/chat", {"a": 1}, "/openai/deployments/new/chat", {"a": 1}),
    ],
)
def test_another_model_is_named_in_body_or_path(
    path: str, body: dict[str, Any], model_path: str, model_body: dict[str, Any]
) -> None:
    sent = resent(recorded(path=path), request(json.dumps(body).encode()), model="new")
    assert (sent.path, json.loads(sent.body), sent.model, sent.cost) == (model_path, model_body, "new", None)


@each_case(
    "row, sent",
    [
        (recorded(operation="models"), request()),
        (recorded(operation=None), request()),
        (recorded(framing="websocket"), request()),
        (recorded(request_truncated=True), request()),
        (recorded(), request(None, size=9)),
        (recorded(), request(b"{", size=9)),
        (recorded(), request(f'{{"key": "{REDACTED}"}}'.encode())),
        (recorded(path=f"/v1/{REDACTED}/chat"), request()),
    ],
)
def test_what_is_no_whole_generation_is_left_out(row: dict[str, Any], sent: RequestRow) -> None:
    with pytest.raises(CannotResend):
        resent(row, sent)


def test_an_estimate_prices_recorded_tokens_by_the_asked_model() -> None:
    assert resent(recorded(), request()).cost == (2 * 100 + 8 * 10) * 10**6
    assert resent(recorded(output_tokens=None), request()).cost is None


def some(*started_ms: int) -> list[ResentRequest]:
    target = Target(providers.parse("http://127.0.0.1:1"))
    return [ResentRequest({}, ms * 10**6, target, "/", [], b"", None, 10) for ms in started_ms]


@each_case(
    "pace, times",
    [
        (Pace(), [0, 30, None, 30]),
        (Pace(rate=10), [0, 100, 200, 300]),
        (Pace(every_ns=500 * 10**6), [0, 30, 500, 530]),
    ],
)
def test_a_pace_is_recorded_or_given(pace: Pace, times: list[int | None]) -> None:
    planned = [*pace.times(some(5, 35), 2)]
    assert [since_ns if since_ns is None else since_ns // 10**6 for since_ns, _, _ in planned] == times
    assert [number for _, number, _ in planned] == [1, 1, 2, 2]


def test_running_requests_count_by_their_estimate() -> None:
    first, second, third = some(0, 1, 2)
    budget = Budget(25)
    assert [budget.admits(request) for request in (first, second, third)] == [True, True, False]
    budget.settle(first, 4)
    assert budget.admits(third)
    budget.settle(second, None)
    assert (budget.spent, budget.running) == (14, 10)
