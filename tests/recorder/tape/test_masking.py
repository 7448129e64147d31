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
def test_a_credentials_field_is_masked_at_any_depth(name: str, depth: int) -> None:
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
        "xapp-1-A0B1C2D3E4F-8834656480412-9f8e7d6c5b4a39281706f5e4d3c2b1a0",
        "dapi0a1b2c3d4e5f60718293a4b5c6d7e8f9",
        "SK0a1b2c3d4e5f60718293a4b5c6d7e8f9",
        "GOCSPX-Zq81LmX0wPvT6yRk92bcDE",
        "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",
        "ABSKQmVkcm9ja0FQSUtleS1hYmNkMTIzNDU2Nzg5MA==",
        "sq0atp-Zq81LmX0wPvT6yRk92bcDE",
        f"EAA{'Zq81LmX0wPvT6yRk92bc' * 4}",
        f"sl.{'Zq81-mX0_wPvT6yRk92' * 4}",
        "esecret_Zq81LmX0wPvT6yRk92bcDE",
        "ak-Zq81LmX0wPvT6yRk92bcDE",
        "0a1b2c3d4e5f60718293a4b5c6d7e8f9-us12",
        "0a1b2c3d4e5f60718293a4b5c6d7e8f9.Zq81LmX0wPvT6yRk",
        "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_masking_a_text_keeps_its_line_ends(secret: str) -> None:
    text = f"use {secret} and ü go on"
    masked = Masker()(text.encode()).decode()
    assert masked == f"use {''.join(c if c == chr(10) else '*' for c in secret)} and ü go on"


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("A=1\nAWS_SECRET_ACCESS_KEY=wJalrXUtn/K7MDENG+bPx", "wJalrXUtn/K7MDENG+bPx"),
        ('export FOO_TOKEN="9f8e7d6c5b4a39281706"', "9f8e7d6c5b4a39281706"),
        ("DB_PASSWORD=swordfish\n", "swordfish"),
        ("host: db\n  password: hunter2\n", "hunter2"),
        ("Foo(api_key='9f8e7d6c5b4a')", "9f8e7d6c5b4a"),
        ("curl -H 'x-api-key: 9f8e7d6c5b4a' u", "9f8e7d6c5b4a"),
        ("login --password hunter2", "hunter2"),
        ("Server=x;Password=hunter2;", "hunter2"),
        ("<password>hunter2</password>", "hunter2"),
        ("//registry.example/:_authToken=9f8e7d6c-5b4a", "9f8e7d6c-5b4a"),
        ("https://example.com/?q=1&api_key=swordfish", "swordfish"),
        ("grant_type=password&client_secret=swordfish&scope=a", "swordfish"),
        ("Cookie: theme=dark; session=9f8e7d6c", "theme=dark; session=9f8e7d6c"),
        ("redis://:hunter2@cache:6379", ":hunter2"),
        ("https://9f8e7d6c5b4a39281706@github.com/a", "9f8e7d6c5b4a39281706"),
        ("https://hooks.slack.com/services/T0A/B0C/9f8e7d6c5b4a", "T0A/B0C/9f8e7d6c5b4a"),
        ("https://discord.com/api/webhooks/123/9f8e7d6c5b4a39281706", "9f8e7d6c5b4a39281706"),
        ("machine api.example.com login me password swordfish\n", "swordfish"),
        ("machine localhost\n\tlogin me\n\tpassword swordfish", "swordfish"),
        ("curl -s -u me:swordfish https://a.example/?b=1&c=2", "swordfish"),
        ("curl 'https://a.example/?b=1&c=2' \\\n  --user 'me:swordfish'", "swordfish"),
        ('curl -X POST -d "a" -u "me:sword@fish" u', "sword@fish"),
        ("curl -H 'Accept: text/html; q=1' -H \"A: b|c\" -u me:swordfish u", "swordfish"),
        ("machine build login me account b password hunter2", "hunter2"),
        ("default login me password hunter2", "hunter2"),
        ('{"name": "X_KEY", "value": "9f8e7d6c-5b4a-39281706"}', "9f8e7d6c-5b4a-39281706"),
        ('{\n  "Name": "DB_PASSWORD",\n  "Value": "hunter2"\n}', "hunter2"),
        ('[{"key":"api_token","value":"9f8e7d6c"}]', "9f8e7d6c"),
        ('{"value": "hunter2", "name": "DB_PASSWORD"}', "hunter2"),
        ('{"value": "swordfish", "key": "DB_PASSWORD"}', "swordfish"),
        ("env:\n  - name: DB_PASSWORD\n    value: swordfish\n  - name: B\n    value: b2", "swordfish"),
        ("- value: 'hunter2'\n  name: DB_PASSWORD\n", "hunter2"),
        ('- name: "DB_PASSWORD"\n  value: "$ecret$7"\n', "$ecret$7"),
        ('["curl","-u","me:swordfish"]', "swordfish"),
        ('[\n  "curl.exe",\n  "-H",\n  "a: [b]",\n  "--user",\n  "me:$word9"\n]', "$word9"),
        ("['/usr/bin/curl', '-s', '-ume:pw9', 'u']", "pw9"),
        ("curl.exe -s -u me:swordfish https://a.example", "swordfish"),
        ("curl -u me:$word9! u", "$word9!"),
        ("DB_PASSWORD=$ecret_word\n", "$ecret_word"),
        ("password: '$tr0ngest'\n", "$tr0ngest"),
        ("redis://:$word9@cache:6379", ":$word9"),
    ],
)
def test_a_credentials_value_in_a_text_is_masked(text: str, secret: str, depth: int) -> None:
    masked = Masker()(nested(text, depth).encode()).decode()
    assert masked == nested(text.replace(secret, "*" * len(secret)), depth)


def test_a_credentials_field_of_a_multipart_form_is_masked() -> None:
    form = 'Content-Disposition: form-data; name="{}"\r\n\r\n{}\r\n--b'
    assert Masker()(form.format("password", "swordfish").encode()).decode() == form.format("password", "*" * 9)
    assert Masker()(form.format("purpose", "swordfish").encode()).decode() == form.format("purpose", "swordfish")


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
        '{"secret_key": 12345678, "password": null, "tokens": 100000}',
        "password = get_password2(); token = tokens2[0]; secret = settings.secret2; key: str",
        "api_key=os.environ['API_KEY1'] OPENAI_API_KEY=$KEY1 OPENAI_API_KEY=<key 1> API_KEY=your-key-1",
        "Authorization: Bearer ${TOKEN1} and postgres://user:password@host/db, git@github.com:a/b1.git",
        '[{"name": "region", "value": "eu-1"}, {"name": "temperature", "value": "9f8e7d6c5b4a39281706abcd"}]',
        '{"key": "password", "value": "Password"}, {"name": "api_key", "value": "Enter key 1"}, {"value": "hunter2"}',
        "curl -u user:password https://a.example; docker run -u 1000:1000 me; curl -u $USER:$TOKEN1 -u <me>:<key1>",
        "curl https://a.example\ndocker run -u me:group1 image && curl https://a.example && ls -u me:group1",
        "machine learning: login page, password reset; machine a.example.com login <me> password <key1>",
        "PASSWORD=$DB_PASS1 password=$db_password1; password: ${PASS1}; secret = $settings->secret2; -p $env:PASSWORD1",
        "- name: DB_PASSWORD\n  valueFrom: secret1\n- name: API_KEY\n  value: $(KEY1)\n- name: city\n  value: rome1\n",
        '{"value": "Enter password", "name": "password"}, {"value": "eu-1", "name": "region"}',
        '["curl", "-u", "$USER:$TOKEN1"], ["docker", "run", "-u", "me:group1"], ["curl", "-u", "user:password"]',
        "install curl, then docker run -u 1000:1000; curl -u SID:AUTH_TOKEN u; curl -u me@example.com:api_token u",
        "a machine with login and password prompts; machine a.example.com password reset",
        "MainActivityViewModelFactory.Create.NewInstanceWithSavedStateHandle1",
        f'{{"audio": "EAA{"QAA8Aa1" * 80}"}}',
        "sl.exe, ak-47, sleep.until, MNO, 0a1b2c3d4e5f60718293a4b5c6d7e8f9.json, discord.com/api/webhooks/123/ID",
        "xai-grok-4-0709-reasoning, sk-primary-key-20240101, pypi-publish-action-v1.8.10, hf_hub_v2",
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
