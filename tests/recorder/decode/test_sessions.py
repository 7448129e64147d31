"""Sessions of hosted agents: the session of each exchange, by its path or by the answer that creates it."""

import json
from typing import Any

from tests.support.cases import each_case
from wiretape.recorder.decode.conversation import RecordedRequest
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.exchange import Exchange, Read

MS = 1_000_000
SESSION = {"object": "agent.session", "id": "sess_1"}
CREATED = {"type": "agent.session.created", "event_id": "ev_1", "session": SESSION}


def key(path: str, answer: object = None, headers: tuple[str, str] | None = None, **facts: Any) -> Any:
    """Return the conversation of an exchange, and what named it; the answer is an event, a JSON value, or nothing."""
    kind = facts.get("content_type", "application/json")
    body = b"" if answer is None else json.dumps(answer).encode()
    body = b": connected\n\ndata: " + body + b"\n\n" if "event-stream" in kind else body
    usual = {"status": 200, "content_type": kind, "ended_by": "end", "end_ns": 50 * MS}
    exchange = Exchange(**{"method": "POST", "path": path, **usual, **facts})
    reads = [Read(0, 5 * MS, None, 0, len(body))] if body else []
    measures = derive(exchange, reads, body, request=RecordedRequest([list(headers)] if headers else [], b"{}"))
    return measures.conversation_key, measures.conversation_key_from


@each_case(
    "method, path, session",
    [
        ("GET", "/v1/agents/sessions/sess_1/events?stream=true", "sess_1"),
        ("POST", "/openai/v1/agents/sessions/sess_1/events", "sess_1"),
        ("GET", "/v1/agents/sessions/sess_1/subagents/sa_1/items?limit=5", "sess_1"),
        ("DELETE", "/v1/agents/sessions/sess_1", "sess_1"),
        ("GET", "/v1/sessions/sesn%5F1/events/stream?event_deltas%5B%5D=agent.message", "sesn_1"),
        ("GET", "/v1/sessions/sesn_1/threads/th_2/stream", "sesn_1"),
        ("POST", "/api/v1/cloud/sessions/s-1/events", "s-1"),
        ("GET", "/v1/sessions/sesn_1/", "sesn_1"),
        ("POST", "/v1/live/sessions/ls_1/attach", None),
        ("POST", "/v1/realtime/sessions", None),
        ("POST", "/v1/chatkit/sessions/cks_1/cancel", None),
        ("POST", "/agents/A/agentAliases/B/sessions/C/text", None),
        ("GET", "/v1/sessions", None),
    ],
)
def test_the_path_names_the_session(method: str, path: str, session: str | None) -> None:
    assert key(path, method=method)[0] == session


@each_case(
    "path, answer, facts, session",
    [
        ("/v1/agents/sessions", SESSION, {}, "sess_1"),
        ("/v1/agents/sessions", CREATED, {"content_type": "text/event-stream"}, "sess_1"),
        ("/v1/sessions?beta=true", {"type": "session", "id": "sesn_1"}, {"status": 201}, "sesn_1"),
        ("/v1/agents/sessions", SESSION, {"status": 400}, None),
        ("/v1/sessions", {"data": [SESSION]}, {"method": "GET"}, None),
        ("/v1/sessions", [7], {}, None),
        ("/v1/sessions", None, {}, None),
    ],
)
def test_the_answer_of_a_create_names_it(path: str, answer: object, facts: dict[str, Any], session: str | None) -> None:
    assert key(path, answer, **facts)[0] == session


def test_the_session_wins_over_names_of_the_client() -> None:
    headers = ("x-session-id", "mine")
    assert key("/v1/sessions/sesn_1/events", headers=headers) == ("sesn_1", "session")
    assert key("/v1/sessions", headers=headers) == ("mine", "x-session-id")
