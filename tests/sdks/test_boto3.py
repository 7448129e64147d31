"""AWS's SDK, boto3, at Bedrock: `converse` and invoked models; errors and signatures."""

import asyncio
import base64
import contextlib
import json
import os
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support import eventstream
from tests.support.relay import Relay, on_loop
from tests.support.sdks import BLOCKS, END, START, STOP, calls, measured, plain
from wiretape.recorder.demo.upstream import Scene, answer

KEYS = {"aws_access_key_id": "AKIACANARYCANARY1234", "aws_secret_access_key": "canary/secret",
        "aws_session_token": "canary/token/of/a/session"}  # fmt: skip
QUESTION: Any = {"modelId": "us.amazon.nova-v1:0", "messages": [{"role": "user", "content": [{"text": "Hi."}]}]}
COUNTED = {"inputTokens": 43, "outputTokens": 9, "totalTokens": 57, "cacheReadInputTokens": 5}


def thrown(kind: str, message: str) -> tuple[float, bytes]:
    return 0.001, eventstream.event(kind, {"message": message}, "exception")


def framed(*pairs: tuple[str, dict[str, Any]], then: Sequence[tuple[float, bytes]] = (), **more: Any) -> Scene:
    """Return an AWS event stream, one read each."""
    pieces = [(0.001, eventstream.event(kind, payload)) for kind, payload in pairs]
    return answer([*pieces, *then], content_type="application/vnd.amazon.eventstream", **more)


def parts(index: int, start: dict[str, Any] | None, *deltas: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        *([("contentBlockStart", {"contentBlockIndex": index, "start": start})] if start else []),
        *(("contentBlockDelta", {"contentBlockIndex": index, "delta": delta, "p": "abc"}) for delta in deltas),
        ("contentBlockStop", {"contentBlockIndex": index}),
    ]


def use(id: str, name: str, **more: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": id, "name": name, **more}}


TALK = [
    ("messageStart", {"role": "assistant"}),
    *parts(
        0,
        None,
        {"reasoningContent": {"text": "Where "}},
        {"reasoningContent": {"text": "is it?"}},
        {"reasoningContent": {"signature": "EtAC"}},
    ),
    *parts(1, None, {"text": "Let me "}, {"text": "see…"}, {"citation": {"title": "d", "source": "s"}}),
    *parts(2, use("t1", "weather"), {"toolUse": {"input": '{"at": "Ro'}}, {"toolUse": {"input": 'me"}'}}),
    *parts(3, use("t2", "now"), {"toolUse": {"input": ""}}),
    ("messageStop", {"stopReason": "tool_use"}),
    ("metadata", {"usage": COUNTED, "metrics": {"latencyMs": 12}}),
]
TOLD = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Where is it?", "signature": "EtAC"}}},
                {"text": "Let me see…"},
                use("t1", "weather", input={"at": "Rome"}),
                use("t2", "now", input={}),
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": COUNTED,
    "metrics": {"latencyMs": 12},
}


def wrapped(*inner: dict[str, Any], **more: Any) -> Scene:
    """Return the stream of a model's own objects."""
    packed = [base64.b64encode(json.dumps(one).encode()).decode() for one in inner]
    return framed(*[("chunk", {"bytes": one, "p": "abc"}) for one in packed], **more)


METRICS = {"inputTokenCount": 43, "outputTokenCount": 9, "invocationLatency": 1200, "firstByteLatency": 300}
INVOKED: dict[str, list[dict[str, Any]]] = {
    "bedrock-anthropic": [START, *BLOCKS, END, STOP | {"amazon-bedrock-invocationMetrics": METRICS}],
    "bedrock-nova": [{kind: payload} for kind, payload in TALK],
}
SCENES: dict[str, Scene] = {
    "bedrock-stream": framed(*TALK),
    "bedrock-whole": plain(TOLD),
    **{name: wrapped(*objects) for name, objects in INVOKED.items()},
    "bedrock-signed": framed(*TALK),
    "bedrock-refused": answer(
        [(0.0, b'{"message":"Too many tokens"}')],
        status=429,
        content_type="application/json",
        framing="length",
        headers=[("x-amzn-errortype", "ThrottlingException:http://internal.amazon.com/")],
    ),
    "bedrock-first": framed(then=[thrown("throttlingException", "Too many tokens")]),
    "bedrock-mid": framed(*TALK[:8], then=[thrown("modelStreamErrorException", "The model failed")]),
    "bedrock-cut": framed(*TALK[:8], end="fin"),
    "bedrock-short": framed(*TALK[:8], framing="close"),
}


@dataclass(slots=True)
class Converse:
    """The parts of an answer, assembled from boto3's events."""

    content: str = ""
    reasoning: str = ""
    calls: list[list[str]] = field(default_factory=list)
    reason: str | None = None
    usage: dict[str, int] = field(default_factory=dict)
    objects: list[Any] = field(default_factory=list)

    def event(self, event: dict[str, Any]) -> None:
        (value,) = event.values()
        match value.get("delta") or value.get("start"):
            case {"text": text}:
                self.content += text
            case {"reasoningContent": {"text": text}}:
                self.reasoning += text
            case {"toolUse": {"toolUseId": id, "name": name}}:
                self.calls.append([id, name, ""])
            case {"toolUse": {"input": text}}:
                self.calls[-1][2] += text
        self.reason = value.get("stopReason", self.reason)
        self.usage |= value.get("usage", {})

    def whole(self, answer: dict[str, Any]) -> None:
        self.reason, self.usage = answer["stopReason"], answer["usage"]
        for block in answer["output"]["message"]["content"]:
            match block:
                case {"text": text}:
                    self.content += text
                case {"reasoningContent": {"reasoningText": thought}}:
                    self.reasoning += thought["text"]
                case {"toolUse": call}:
                    self.calls.append([call["toolUseId"], call["name"], json.dumps(call["input"])])


def ask_bedrock(relay: Relay, name: str, got: Converse, host: str = "") -> None:
    """Request an answer with boto3, signed for `host` if there is one, else for the recorder."""
    import boto3
    from botocore.config import Config

    def name_host(request: Any, **_: Any) -> None:
        if host:
            request.headers["host"] = host

    config = Config(retries={"total_max_attempts": 1}, proxies={})
    session = boto3.Session(region_name="us-east-1", **KEYS)
    client: Any = session.client("bedrock-runtime", endpoint_url=f"{relay.base}/{name}", config=config)
    client.meta.events.register("before-sign", name_host)
    with contextlib.closing(client):
        if name == "bedrock-whole":
            got.whole(client.converse(**QUESTION))
        elif name in INVOKED:
            model = {"modelId": QUESTION["modelId"], "body": b"{}"}
            with contextlib.closing(client.invoke_model_with_response_stream(**model)["body"]) as stream:
                got.objects = [json.loads(event["chunk"]["bytes"]) for event in stream]
        else:
            with contextlib.closing(client.converse_stream(**QUESTION)["stream"]) as stream:
                for event in stream:
                    got.event(event)


@pytest.fixture
def no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the machine's AWS profile and credentials from boto3."""
    for variable in ("AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(variable, os.devnull)


@pytest.mark.usefixtures("no_profile")
@pytest.mark.parametrize("name", ["bedrock-stream", "bedrock-whole"])
@on_loop
async def test_boto3_gets_of_converse_what_the_tape_has(relay: Relay, name: str) -> None:
    got = Converse()
    await asyncio.to_thread(ask_bedrock, relay, name, got)
    row = await measured(relay, name)
    assert (row["content"], row["reasoning"]) == (got.content, got.reasoning) == ("Let me see…", "Where is it?")
    assert calls(row) == [(id, name, json.loads(arguments or "{}")) for id, name, arguments in got.calls]
    assert len(got.calls) == 2
    assert (row["finish_reason"], row["outcome"], row["api"]) == (got.reason, "complete", "bedrock.converse")
    counts = ("input_uncached", "output", "total", "cache_read_input")
    assert [row[f"{name}_tokens"] for name in counts] == list(got.usage.values()) == list(COUNTED.values())
    assert row["input_tokens"] == COUNTED["inputTokens"] + COUNTED["cacheReadInputTokens"]


@pytest.mark.usefixtures("no_profile")
@pytest.mark.parametrize("name", ["bedrock-anthropic", "bedrock-nova"])
@on_loop
async def test_boto3_gets_the_tapes_answer_of_invoked_models(relay: Relay, name: str) -> None:
    got = Converse()
    await asyncio.to_thread(ask_bedrock, relay, name, got)
    row = await measured(relay, name)
    assert got.objects == INVOKED[name]
    assert (row["content"], row["reasoning"]) == ("Let me see…", "Where is it?")
    used = [(name, arguments) for _, name, arguments in calls(row)]
    assert used[-2:] == [("weather", {"at": "Rome"}), ("now", {})]
    assert (row["finish_reason"], row["outcome"], row["api"]) == ("tool_use", "complete", "bedrock.invoke")
    assert (row["output_tokens"], row["operation"]) == (9, "chat")


@pytest.mark.usefixtures("no_profile")
@pytest.mark.parametrize(
    ("name", "outcome", "raised"),
    [
        ("bedrock-refused", ("http_error", "rate_limited"), "botocore.exceptions:ClientError"),
        ("bedrock-first", ("error_event", "before_output"), "botocore.exceptions:EventStreamError"),
        ("bedrock-mid", ("error_event", "mid_stream"), "botocore.exceptions:EventStreamError"),
        ("bedrock-cut", ("truncated", "eof"), "urllib3.exceptions:ProtocolError"),
        ("bedrock-short", ("truncated", "eof"), None),
    ],
)
@on_loop
async def test_boto3_got_as_far_as_the_tape(
    relay: Relay, name: str, outcome: tuple[str, str], raised: str | None
) -> None:
    got = Converse()
    with pytest.raises(pkgutil.resolve_name(raised)) if raised else contextlib.nullcontext() as caught:
        await asyncio.to_thread(ask_bedrock, relay, name, got)
    row = await measured(relay, name)
    assert (row["outcome"], row["outcome_detail"], row["content"] or "") == (*outcome, got.content)
    assert (row["reasoning"] or "") == got.reasoning
    if caught and raised != "urllib3.exceptions:ProtocolError":
        error = caught.value.response["Error"]
        assert row["error_message"] == error["Message"]
        # A refusal has its code in a header only.
        assert row["error_code"] == (error["Code"] if row["outcome"] == "error_event" else None)


@pytest.mark.usefixtures("no_profile")
@on_loop
async def test_a_signature_survives_and_no_key_is_recorded(relay: Relay) -> None:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    host = relay.upstream.url.partition("://")[2]
    await asyncio.to_thread(ask_bedrock, relay, "bedrock-signed", Converse(), host)
    await measured(relay, "bedrock-signed")
    asked = next(one for one in relay.upstream.requests if one.target.startswith(b"/bedrock-signed/"))
    headers = {name.decode(): value.decode() for name, value in asked.headers}
    _, _, signed, signature = headers["authorization"].replace(",", "").split()
    names = signed.partition("=")[2].split(";")
    request = AWSRequest("POST", f"http://{host}{asked.target.decode()}", {n: headers[n] for n in names}, asked.body)
    request.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(Credentials(*KEYS.values()), "bedrock", "us-east-1")
    text = signer.string_to_sign(request, signer.canonical_request(request))
    assert signature == f"Signature={signer.signature(text, request)}"
    assert {"host", "x-amz-date", "x-amz-security-token"} <= set(names)
    assert all(b"canary" not in file.read_bytes().lower() for file in relay.tape.parent.iterdir() if file.is_file())
