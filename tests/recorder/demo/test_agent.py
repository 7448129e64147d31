"""The demo's agent: its requests, and the answers of its upstream."""

import json
from itertools import pairwise

from wiretape.recorder.demo import agent, scenes
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene

STEPS = list(agent.steps("s1"))


def answered(step: agent.AgentStep) -> Scene:
    headers = [(name.encode(), value.encode()) for name, value in step.headers.items()]
    return agent.choose(ReceivedRequest(headers=headers, body=json.dumps(step.body).encode()))


def test_each_request_repeats_its_predecessors_messages_but_cache_points() -> None:
    message_texts = [json.dumps(step.body["messages"]).replace(json.dumps(agent.CACHED)[1:-1], "") for step in STEPS]
    counts = [len(step.body["messages"]) for step in STEPS]
    assert counts == [1, 3, 3, 5, 7]
    for before, after in pairwise(message_texts):
        assert after.startswith(before[:-6])


def test_requests_are_small_and_share_all_but_messages() -> None:
    assert max(len(json.dumps(step.body)) for step in STEPS) < 4000
    assert len({json.dumps(step.body["system"]) for step in STEPS[:-1]}) == 1
    assert STEPS[-1].body["system"] != STEPS[-2].body["system"]
    assert len({json.dumps(step.body["tools"]) for step in STEPS}) == 1


def test_only_the_second_turns_first_attempt_is_refused() -> None:
    heads = [answered(step).pieces[0][1].decode() for step in STEPS]
    assert [head.split()[1] for head in heads] == ["200", "429", "200", "200", "200"]
    ids = {line for head in heads for line in head.splitlines() if line.startswith("request-id: ")}
    assert len(ids) == len(STEPS)


def test_the_turn_after_the_steps_stalls_before_its_silence() -> None:
    longest = [max(delay for delay, _ in answered(step).pieces) for step in STEPS]
    assert [silence > 2.0 for silence in longest] == [place == agent.STALLED for place in range(len(STEPS))]


def test_a_request_of_another_model_gets_its_scene() -> None:
    _, body = scenes.request("openai")
    request = ReceivedRequest(body=json.dumps(body).encode())
    assert agent.choose(request) == scenes.choose(request)
    assert b" 404 " in agent.choose(ReceivedRequest(body=b"{}")).pieces[0][1]
