"""The demo's scenes through a recorder: each has the outcome and the flags of its description."""

import asyncio
import json
from pathlib import Path

from tests.support.cases import each_case
from tests.support.relay import Relay
from wiretape.recorder.demo import scenes
from wiretape.recorder.demo.upstream import ReceivedRequest

EXPECTED = {
    "openai": (("complete", None), set()),
    "envelope": (("complete", None), {"no_done", "object_mismatch", "no_usage"}),
    "pretty": (("complete", None), {"pretty_printed"}),
    "shifting": (("complete", None), {"id_changed", "no_done"}),
    "routed": (("complete", None), set()),
    "reasoning": (("complete", None), {"comments"}),
    "tool": (("complete", None), {"no_usage"}),
    "messages": (("complete", None), set()),
    "responses": (("complete", None), set()),
    "stall": (("complete", None), {"stall"}),
    "burst": (("complete", None), {"burst", "coalesced"}),
    "truncated": (("truncated", "eof"), {"no_finish"}),
    "limited": (("http_error", "rate_limited"), set()),
    "failing": (("error_event", "mid_stream"), set()),
}


def test_every_scene_is_expected_something_of() -> None:
    assert EXPECTED.keys() == scenes.SCENES.keys()


def test_a_recording_of_the_scenes_shows_what_they_promise(tmp_path: Path) -> None:
    async def main() -> None:
        bodies = {name: json.dumps({"model": f"demo-{name}"}).encode() for name in EXPECTED}
        await asyncio.gather(*(relay.get(f"/{name}", body=body) for name, body in bodies.items()))
        for name, (outcome, flags) in EXPECTED.items():
            tape = await relay.kept(f"/{name}")
            assert (name, tape.outcome) == (name, outcome)
            assert flags <= tape.flags, (name, tape.flags)

    with Relay(tmp_path, choose=scenes.choose) as relay:
        relay.runner.run(main())


def test_text_fragments_look_like_a_models() -> None:
    assert scenes.fragments("A ro|bot learned, then: **wait**\n\nOnce.") == [
        "A", " ro", "bot", " learned", ",", " then", ":", " **", "wait", "**\n\n", "Once", "."
    ]  # fmt: skip


@each_case("body", [b"", b"[]", b"{}", b'{"model": 1}', b'{"model": "gpt-x"}', b"\xff"])
def test_what_is_no_scene_is_not_found(body: bytes) -> None:
    (_, head), (_, text) = scenes.choose(ReceivedRequest(body=body)).pieces
    assert head.startswith(b"HTTP/1.1 404 ")
    assert json.loads(text)["error"]["code"] == "model_not_found"
