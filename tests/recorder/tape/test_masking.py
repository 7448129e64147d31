"""Secrets in bodies that are passed on: what is masked, and what stays."""

import json

import pytest

from wiretape.recorder.tape.masking import Masker, Rules

KEY = "sk-proj-4fTq9ZyLw83kXbVn27Rm"


def nested(text: str, depth: int) -> str:
    for _ in range(depth):
        text = json.dumps({"arguments": text})
    return text


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "name", ["api_key", "apiKey", "password", "client_secret", "authorization_token", "X-Api-Key", "accessToken"]
)
def test_a_field_named_like_a_credential_is_masked_at_every_depth_of_json(name: str, depth: int) -> None:
    value = 'a\\"hunter"\\2'
    text = nested(json.dumps({name: value, "city": "Rome"}), depth)
    masked = Masker()(text.encode()).decode()
    assert len(masked) == len(text)
    inner = json.loads(masked)
    for _ in range(depth):
        inner = json.loads(inner["arguments"])
    assert inner["city"] == "Rome"
    assert set(inner[name]) == {"*"}


@pytest.mark.parametrize(
    "secret",
    [
        KEY,
        "sk-ant-api03-Zq81LmX0wPvT6yRk",
        "AIzaSyB4x8Qm2LkPw9TzRvN3cYdFgHj",
        "ghp_16C7e42F292c6912E7710c838347Ae17",
        "AKIAIOSFODNN7EXAMPLE0",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_a_key_within_a_text_is_masked_and_line_ends_stay(secret: str) -> None:
    text = f"use {secret} and ü go on"
    masked = Masker()(text.encode()).decode()
    assert masked == f"use {''.join(c if c == chr(10) else '*' for c in secret)} and ü go on"


@pytest.mark.parametrize(
    "text",
    [
        '{"token": " the", "logprob": -0.1, "bytes": [32]}',
        '{"max_tokens": 100, "session_id": "0a1b2c3d4e5f60718293a4b5", "prompt_cache_key": "app-1"}',
        '{"type": "thinking", "signature": "ErUBCkYIBxgCIkDGm9tTq3pX7hJw"}',
        '{"properties": {"password": {"type": "string"}, "api_key": "string"}}',
        '{"next_page_token": "CAEQAA", "id": "chatcmpl-9f8e7d6c5b4a39281706"}',
        "learn sk-learn, hf_hub_download and basic authentication",
        '{"password": "********"}',
    ],
)
def test_what_only_resembles_a_secret_stays(text: str) -> None:
    masker = Masker()
    assert masker(text.encode()) == text.encode()
    assert masker.count == 0


def test_patterns_of_the_user_are_masked_too_and_counted() -> None:
    masker = Masker(Rules(("user-[0-9]+",)))
    assert masker(f"user-17 and {KEY}\xff".encode("latin-1")) == b"*" * 7 + b" and " + b"*" * len(KEY) + b"\xff"
    assert masker.count == 2
    assert Masker(Rules(("user-[0-9]+",), secrets=False))(f"user-1 {KEY}".encode()) == f"****** {KEY}".encode()


def test_many_fields_without_an_end_take_linear_time() -> None:
    text = b'\\"key\\": \\"a' * 20_000
    assert len(Masker()(text)) == len(text)
