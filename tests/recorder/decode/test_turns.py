"""Sessions over WebSockets, turn by turn: what began each, its times, its end, its tokens and its audio."""

import base64
from typing import Any

import pytest

from tests.support.websockets import ASK, MS, Spoken, response, session, side, websocket
from wiretape.recorder.decode import audio
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.derive import derive

REALTIME = "/v1/realtime?model=gpt-realtime"
LIVE = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent?key=REDACTED"
QUARTER = base64.b64encode(bytes(12_000)).decode()
"""A quarter of a second of PCM with 16 bits and 24,000 samples per second."""
CREATE: dict[str, Any] = {"type": "response.create"}
STARTED = (5, "server", {"type": "session.created", "session": {"model": "gpt-realtime"}})
ORDER = {"item_id": "i", "output_index": 0, "content_index": 0}


def turns(path: str, *messages: Spoken, **more: Any) -> list[dict[str, Any]]:
    return derive(*session(path, messages, **more)).turns or []


def created(at: int, id: str = "r1") -> Spoken:
    return at, "server", {"type": "response.created", "response": {"id": id, "status": "in_progress"}}


def delta(at: int, kind: str, value: str, id: str = "r1") -> Spoken:
    return at, "server", {"type": f"response.{kind}.delta", "response_id": id, "delta": value} | ORDER


def done(at: int, id: str = "r1", status: str = "completed", details: Any = None, **usage: Any) -> Spoken:
    answer = {"id": id, "status": status, "status_details": details, "usage": usage or None}
    return at, "server", {"type": "response.done", "response": answer}


def spoke(at: int, kind: str = "speech_stopped") -> Spoken:
    return at, "server", {"type": f"input_audio_buffer.{kind}", "audio_end_ms": 1}


@pytest.mark.parametrize("names", [("output_audio_transcript", "output_audio"), ("audio_transcript", "audio")])
def test_a_turn_is_timed_from_its_requesting_message(names: tuple[str, str]) -> None:
    transcript, sound = names
    (turn,) = turns(
        REALTIME, STARTED, (100, "client", CREATE), created(120), delta(180, transcript, "Hi "), delta(230, sound, ""),
        delta(250, sound, QUARTER), delta(300, transcript, "there"), delta(400, sound, QUARTER), done(450),
    )  # fmt: skip
    assert {name: turn[name] for name in turn if name.endswith("_ns")} == {
        "started_at_ns": 100 * MS, "first_output_at_ns": 180 * MS, "ended_at_ns": 450 * MS, "ttft_ns": 80 * MS,
        "ttfa_ns": 150 * MS, "last_ns": 300 * MS, "audio_ns": 500 * MS, "underrun_ns": 0,
    }  # fmt: skip
    assert (turn["turn"], turn["begun_by"], turn["outcome"]) == (1, "response.create", "complete")
    assert (turn["text"], turn["response_id"], turn["audio_bytes"]) == ("Hi there", "r1", 24_000)


@pytest.mark.parametrize(
    ("earlier_events", "cause", "start"),
    [
        ([spoke(50), spoke(60, "committed")], "end_of_speech", 50),
        ([spoke(40), spoke(70)], "end_of_speech", 70),
        ([spoke(60, "committed")], "commit", 60),
        ([spoke(60, "timeout_triggered")], "timeout", 60),
        ([spoke(60), (80, "client", CREATE)], "response.create", 80),
        ([], None, 100),
    ],
)
def test_a_turn_without_request_begins_by_the_server(
    earlier_events: list[Spoken], cause: str | None, start: int
) -> None:
    (turn,) = turns(REALTIME, *earlier_events, created(100), delta(190, "output_audio", QUARTER), done(200))
    assert (turn.get("begun_by"), turn["started_at_ns"], turn["ttfa_ns"]) == (cause, start * MS, (190 - start) * MS)


@pytest.mark.parametrize(
    ("status", "details", "outcome", "reason"),
    [
        ("completed", None, "complete", "completed"),
        ("incomplete", {"reason": "max_output_tokens"}, "complete", "max_output_tokens"),
        ("cancelled", {"reason": "turn_detected"}, "interrupted", "turn_detected"),
        ("cancelled", {"reason": "client_cancelled"}, "cancelled", "client_cancelled"),
        ("failed", {"error": {"type": "server_error", "code": "boom"}}, "error", "failed"),
    ],
)
def test_the_server_says_when_a_turn_ends(status: str, details: Any, outcome: str, reason: str) -> None:
    (turn,) = turns(REALTIME, created(10), delta(20, "output_text", "a"), done(30, "r1", status, details))
    assert (turn["outcome"], turn["finish_reason"]) == (outcome, reason)
    assert turn.get("error_code") == ("boom" if outcome == "error" else None)


def test_a_turn_that_the_connection_cuts_is_truncated() -> None:
    cut = session(REALTIME, [(10, "client", CREATE), created(20), delta(30, "output_audio", QUARTER)], "reset", None)
    measures = derive(*cut)
    (turn,) = measures.turns or ()
    assert (turn["outcome"], turn["last_ns"], "ended_at_ns" in turn) == ("truncated", 20 * MS, False)
    assert (measures.outcome, measures.outcome_detail) == ("truncated", "reset")


@pytest.mark.parametrize("deltas", [[], ['{"on":', "1}"], ["gAAA"]])
def test_finished_arguments_count_once_with_or_without_deltas(deltas: list[str]) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "lamp", "arguments": ""}
    of_call = {"response_id": "r1", "output_index": 0, "call_id": "c1"}
    kinds = [("output_item.added", {"item": call})]
    kinds += [("function_call_arguments.delta", {"delta": arguments}) for arguments in deltas]
    kinds += [("function_call_arguments.done", {"arguments": '{"on":1}'})]
    events = [
        (120 + 10 * no, "server", {"type": f"response.{kind}"} | of_call | more)
        for no, (kind, more) in enumerate(kinds)
    ]
    measures = derive(*session(REALTIME, [(100, "client", CREATE), created(110), *events, done(200)]))
    (turn,) = measures.turns or ()
    assert [(call["name"], call["arguments"]) for call in measures.tool_calls or ()] == [("lamp", '{"on":1}')]
    count = max(len(deltas), 1)
    assert (measures.output_chunks, turn["last_ns"]) == (1 + count, (20 + 10 * count) * MS)


def test_response_ids_keep_overlapping_turns_apart() -> None:
    first, second = turns(
        REALTIME, (10, "client", CREATE), (20, "client", CREATE), created(30), created(40, "r2"),
        delta(50, "output_text", "b1", "r2"), delta(60, "output_text", "a1"), delta(70, "output_text", "b2", "r2"),
        done(80, "r2"), delta(90, "output_text", "a2"), done(100),
    )  # fmt: skip
    assert (first["text"], first["started_at_ns"], first["ttft_ns"]) == ("a1a2", 10 * MS, 50 * MS)
    assert (second["text"], second["started_at_ns"], second["ttft_ns"]) == ("b1b2", 20 * MS, 30 * MS)


def test_only_a_refused_request_is_a_failed_turn() -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "code": "bad", "event_id": "e2"}}
    stray = {"type": "error", "error": {"type": "invalid_request_error", "code": "response_cancel_not_active"}}
    messages = [
        (10, "client", CREATE | {"event_id": "e1"}), created(20), done(30), (40, "client", CREATE | {"event_id": "e2"}),
        (50, "server", error), (60, "server", stray),
    ]  # fmt: skip
    measures = derive(*session(REALTIME, messages))
    assert [(turn["outcome"], turn.get("error_code")) for turn in measures.turns or ()] == [
        ("complete", None), ("error", "bad"),
    ]  # fmt: skip
    assert measures.outcome == "complete"


def test_an_error_before_any_turn_ends_the_session() -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "code": "model_not_found", "message": "No"}}
    measures = derive(*session(REALTIME, [(10, "server", error)], close=("server", 1000)))
    assert (measures.outcome, measures.error_code, measures.turns) == ("error_event", "model_not_found", None)


def test_a_request_that_only_an_error_answers_has_failed() -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "code": "bad_voice"}}
    measures = derive(*session(REALTIME, [STARTED, (10, "client", CREATE), (30, "server", error)]))
    (turn,) = measures.turns or ()
    assert (turn["outcome"], turn["error_code"], turn["last_ns"]) == ("error", "bad_voice", 20 * MS)
    assert (measures.outcome, measures.error_code) == ("error_event", "bad_voice")


def test_tokens_are_split_by_modality_and_summed_up() -> None:
    usage = {
        "total_tokens": 100, "input_tokens": 60, "output_tokens": 40,
        "input_token_details": {"text_tokens": 10, "audio_tokens": 50, "cached_tokens": 8},
        "output_token_details": {"text_tokens": 15, "audio_tokens": 25},
    }  # fmt: skip
    measures = derive(*session(REALTIME, [created(10), done(20, **usage), created(30, "r2"), done(40, "r2", **usage)]))
    first, second = measures.turns or ()
    assert {name: value for name, value in first.items() if name.endswith("_tokens")} == {
        "input_tokens": 60, "input_text_tokens": 10, "input_audio_tokens": 50, "input_cached_tokens": 8,
        "output_tokens": 40, "output_text_tokens": 15, "output_audio_tokens": 25,
    }  # fmt: skip
    assert second["output_tokens"] == 40
    assert (measures.input_tokens, measures.output_tokens, measures.cache_read_input_tokens) == (120, 80, 16)


def test_silence_is_heard_where_audio_comes_too_late() -> None:
    (turn,) = turns(
        REALTIME, created(0), delta(100, "output_audio", QUARTER), delta(200, "output_audio", QUARTER),
        delta(700, "output_audio", QUARTER), delta(1000, "output_audio", QUARTER), done(1001),
    )  # fmt: skip
    assert (turn["audio_ns"], turn["underrun_ns"]) == (1000 * MS, 150 * MS)


@pytest.mark.parametrize(
    ("session_facts", "format", "lasts"),
    [
        ({"audio": {"output": {"format": {"type": "audio/pcm", "rate": 24000}}}}, "pcm16/24000", 250),
        ({"audio": {"output": {"format": {"type": "audio/pcmu"}}}}, "g711_ulaw/8000", 1500),
        ({"output_audio_format": "g711_alaw"}, "g711_alaw/8000", 1500),
        ({}, "pcm16/24000", 250),
    ],
)
def test_the_session_says_how_its_audio_is_coded(session_facts: dict[str, Any], format: str, lasts: int) -> None:
    started = (0, "server", {"type": "session.updated", "session": session_facts})
    (turn,) = turns(REALTIME, started, created(1), delta(2, "output_audio", QUARTER), done(3))
    assert (turn["audio_format"], turn["audio_ns"]) == (format, lasts * MS)


def test_a_call_of_a_tool_is_output_without_audio() -> None:
    call = {"type": "function_call", "name": "lamp", "call_id": "c1"}
    added = {"type": "response.output_item.added", "response_id": "r1", "output_index": 0, "item": call}
    arguments = {"type": "response.function_call_arguments.delta", "response_id": "r1", "call_id": "c1", "delta": "{}"}
    measures = derive(*session(REALTIME, [created(10), (30, "server", added), (40, "server", arguments), done(50)]))
    (turn,) = measures.turns or ()
    assert (turn["ttft_ns"], turn.get("ttfa_ns"), turn["last_ns"]) == (20 * MS, None, 30 * MS)
    assert [(call["name"], call["arguments"]) for call in measures.tool_calls or ()] == [("lamp", "{}")]


def test_the_users_speech_is_no_answer_text() -> None:
    heard = {"type": "conversation.item.input_audio_transcription.completed", "transcript": "Hello?"}
    (turn,) = turns(REALTIME, created(10), delta(20, "output_text", "Yes"), (25, "server", heard), done(30))
    assert turn["text"] == "Yes"


def test_responses_over_one_websocket_are_turns() -> None:
    upstream, client = side(), side(client=True)
    sent = [(100, bytes(client.send_data(ASK))), (500, bytes(client.send_data(ASK)))]
    messages = [*zip((110, 150, 170, 180), response(1, "Hel", "lo", output_tokens=3), strict=True)]
    messages += [*zip((505, 560, 610), response(2, "a", output_tokens=5), strict=True)]
    measures = derive(*websocket([(at, bytes(upstream.send_data(text))) for at, text in messages], sent))
    first, second = measures.turns or ()
    assert (first["text"], first["ttft_ns"], first["last_ns"], first["output_tokens"]) == ("Hello", 50 * MS, 70 * MS, 3)
    assert (second["text"], second["ttft_ns"], second["ended_at_ns"]) == ("a", 60 * MS, 610 * MS)


# Gemini Live


def content(at: int, who: str = "bytes", **fields: Any) -> Spoken:
    return at, who, {"serverContent": fields}


def sound(at: int, data: str = QUARTER) -> Spoken:
    part = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": data}}
    return content(at, modelTurn={"parts": [part]})


def message_at(at: int, **realtime: Any) -> Spoken:
    return at, "client", {"realtimeInput": realtime}


SAID = {"turns": [{"parts": [{"text": "Hi"}]}], "turnComplete": True}
SETUP: list[Spoken] = [
    (1, "client", {"setup": {"model": "models/gemini-live"}}),
    (5, "bytes", {"setupComplete": {}}),
]


@pytest.mark.parametrize("who", ["bytes", "server"])
def test_a_gemini_turn_lasts_from_request_to_completion(who: str) -> None:
    usage = {
        "promptTokenCount": 7, "responseTokenCount": 20, "thoughtsTokenCount": 3, "totalTokenCount": 30,
        "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 20}],
    }  # fmt: skip
    end = {"serverContent": {"turnComplete": True}, "usageMetadata": usage}
    messages = [
        *SETUP, (100, "client", {"clientContent": SAID}), sound(180),
        content(190, who, outputTranscription={"text": "Ho"}),
        sound(300), content(310, generationComplete=True), (600, who, end),
    ]  # fmt: skip
    measures = derive(*session(LIVE, messages))
    (turn,) = measures.turns or ()
    assert (turn["begun_by"], turn["ttft_ns"], turn["ttfa_ns"], turn["last_ns"]) == ("text", 80 * MS, 80 * MS, 200 * MS)
    assert (turn["outcome"], turn["text"], turn["audio_ns"]) == ("complete", "Ho", 500 * MS)
    assert (turn["input_tokens"], turn["output_tokens"], turn["output_audio_tokens"]) == (7, 23, 20)
    assert (measures.api, measures.operation, measures.outcome) == ("gemini.live", "realtime", "complete")
    assert (measures.response_model, measures.content, measures.output_tokens) == ("gemini-live", "Ho", 23)


@pytest.mark.parametrize(
    ("ask", "cause"),
    [
        (message_at(50, activityEnd={}), "end_of_speech"),
        (message_at(50, audioStreamEnd=True), "end_of_speech"),
        (message_at(50, text="Hi"), "text"),
        ((50, "bytes", {"voiceActivity": {"voiceActivityType": "ACTIVITY_END"}}), "end_of_speech"),
        ((50, "client", {"client_content": {"turn_complete": True}}), "text"),
    ],
)
def test_a_turn_of_gemini_begins_with_the_last_request(ask: Spoken, cause: str) -> None:
    (turn,) = turns(LIVE, *SETUP, message_at(20, text="one"), ask, sound(80), content(90, turnComplete=True))
    assert (turn["begun_by"], turn["started_at_ns"], turn["ttfa_ns"]) == (cause, 50 * MS, 30 * MS)


def test_without_an_end_of_speech_the_start_is_unknown() -> None:
    talk = [message_at(at, audio={"data": "AAAA", "mimeType": "audio/pcm;rate=16000"}) for at in (10, 20, 30)]
    (turn,) = turns(LIVE, *SETUP, *talk, sound(35), content(50, turnComplete=True))
    assert not {"begun_by", "started_at_ns", "ttft_ns", "ttfa_ns", "last_ns"} & turn.keys()
    assert (turn["first_output_at_ns"], turn["ended_at_ns"], turn["outcome"]) == (35 * MS, 50 * MS, "complete")


def test_a_request_during_an_answer_starts_the_next_turn() -> None:
    first, second = turns(
        LIVE, *SETUP, message_at(10, text="one"), sound(50), (60, "client", {"clientContent": SAID}),
        content(70, interrupted=True), content(75, turnComplete=True), content(76, interrupted=True), sound(90),
        content(100, turnComplete=True),
    )  # fmt: skip
    assert (first["outcome"], first["started_at_ns"], first["ended_at_ns"]) == ("interrupted", 10 * MS, 75 * MS)
    assert (second["outcome"], second["started_at_ns"], second["ttfa_ns"]) == ("complete", 60 * MS, 30 * MS)


def test_a_request_replaced_before_output_is_no_turn() -> None:
    (turn,) = turns(
        LIVE, *SETUP, message_at(10, text="one"), message_at(20, text="two"), content(30, interrupted=True),
        content(35, turnComplete=True), sound(50), content(60, turnComplete=True),
    )  # fmt: skip
    assert (turn["outcome"], turn["started_at_ns"], turn["ttfa_ns"]) == ("complete", 20 * MS, 30 * MS)


def test_a_late_transcript_belongs_to_its_ended_turn() -> None:
    first, second = turns(
        LIVE, *SETUP, message_at(10, text="one"), sound(20), content(30, turnComplete=True),
        content(35, outputTranscription={"text": "late", "finished": True}), message_at(40, text="two"),
        content(50, outputTranscription={"text": "next"}), sound(60), content(70, turnComplete=True),
    )  # fmt: skip
    assert (first["text"], first["last_ns"], second["text"], second["ttft_ns"]) == ("late", 10 * MS, "next", 10 * MS)


@pytest.mark.parametrize(
    ("close", "outcome"), [(("server", 1011), "error"), (("server", 1000), "truncated"), (None, "truncated")]
)
def test_the_close_frame_says_whether_a_cut_turn_failed(close: tuple[str, int] | None, outcome: str) -> None:
    messages = [*SETUP, message_at(10, text="one"), sound(20)]
    (turn,) = turns(LIVE, *messages, close=close)
    assert (turn["outcome"], turn.get("error_code")) == (outcome, "1011" if outcome == "error" else None)
    (unanswered,) = turns(LIVE, *messages[:-1], close=close)
    assert (unanswered["outcome"], "ttft_ns" in unanswered) == (outcome, False)


def test_calls_and_thoughts_of_gemini_are_output_without_text() -> None:
    call = {"toolCall": {"functionCalls": [{"id": "f1", "name": "lamp", "args": {"on": True}}]}}
    thought = content(30, modelTurn={"parts": [{"text": "Hm", "thought": True}]})
    measures = derive(*session(LIVE, [*SETUP, message_at(10, text="x"), thought, (40, "bytes", call)], close=None))
    (turn,) = measures.turns or ()
    assert (turn["ttft_ns"], turn["last_ns"], turn.get("text")) == (20 * MS, 30 * MS, None)
    assert (measures.reasoning, [call["arguments"] for call in measures.tool_calls or ()]) == ("Hm", ['{"on":true}'])


# Hostile and unknown


@pytest.mark.parametrize("path", [REALTIME, LIVE])
@pytest.mark.parametrize("message", [[], None, "x", 7, {}, {"type": 7}, {"type": "response.done", "response": 3}])
def test_a_message_of_any_form_is_no_error(path: str, message: Any) -> None:
    messages = [(10, "client", message), (20, "server", message), (30, "bytes", message)]
    assert derive(*session(path, messages)).turns is None
    for key in ("serverContent", "toolCall", "usageMetadata", "realtimeInput", "response", "item", "error", "session"):
        derive(*session(path, [(10, "client", {key: message}), (20, "server", {"type": "error", key: message})]))


def test_a_gpt_live_session_has_messages_without_turns() -> None:
    message = {"type": "session.output_audio.delta", "delta": QUARTER}
    facts = session("/v1/live/sessions", [(10, "server", {"type": "session.started"}), (20, "server", message)])
    measures = derive(*facts)
    assert (measures.operation, measures.turns, measures.events) == ("realtime", None, 2)
    assert len(decode(*facts).items()) == 3


@pytest.mark.parametrize("path", ["/v1/live/sessions", "/openai/v1/live/sessions"])
def test_only_its_last_message_completes_a_gpt_live_session(path: str) -> None:
    message = [(10, "server", {"type": "session.started"}), (20, "client", {"type": "session.closed"})]
    closed = (30, "server", {"type": "session.closed", "reason": "close_requested", "usage": {"seconds": 3}})
    assert derive(*session(path, message, close=("upstream", 1000))).outcome == "truncated"
    assert derive(*session(path, message)).outcome == "client_closed"
    assert derive(*session(path, [*message, closed])).outcome == "complete"


@pytest.mark.parametrize("size", range(7))
def test_the_size_of_audio_is_read_from_its_base64(size: int) -> None:
    assert audio.size_of(base64.b64encode(bytes(size)).decode()) == size


@pytest.mark.parametrize(
    ("name", "rate", "bytes_a_second"),
    [
        ("audio/pcm;rate=16000", None, 32_000),
        ("audio/L16; rate=8000; channels=1", None, 16_000),
        ("audio/pcm", 48_000, 96_000),
        ("audio/pcmu", None, 8_000),
        ("audio/opus", None, None),
        ("audio/pcm;rate=0", None, None),
        (None, None, None),
    ],
)
def test_a_format_is_known_by_its_name_and_rate(name: object, rate: object, bytes_a_second: int | None) -> None:
    format = audio.format_named(name, rate)
    assert (None if format is None else 1_000_000_000 * 1000 // format.duration_ns(1000)) == bytes_a_second


def test_the_time_of_responses_at_once_counts_once() -> None:
    asks = [(at, "client", CREATE) for at in (100, 200, 300)]
    starts = [created(at + 10, id) for at, id in ((300, "r1"), (300, "r2"), (300, "r3"))]
    spoken = [delta(at, "output_text", "x", id) for at, id in ((400, "r1"), (450, "r2"), (470, "r3"), (600, "r3"))]
    later = [(1500, "client", CREATE), created(1510, "r4"), delta(1600, "output_text", "x", "r4"), done(1700, "r4")]
    measures = derive(
        *session(REALTIME, [*asks, *starts, *spoken, done(700, "r2"), done(720, "r1"), done(800, "r3"), *later])
    )
    assert measures.duration_ns == (800 - 100 + 1700 - 1500) * MS
    assert (measures.ttft_ns, measures.latency_ns) == ((400 - 100) * MS, (800 - 100 + 1600 - 1500) * MS)
    assert [turn["last_ns"] for turn in measures.turns or ()] == [300 * MS, 250 * MS, 300 * MS, 100 * MS]


def test_a_response_without_end_lasts_until_the_close() -> None:
    messages = [(100, "client", CREATE), (150, "client", CREATE), created(200), created(210, "r2"), done(400, "r2")]
    times = decode(*session(REALTIME, [*messages, delta(900, "output_text", "x")])).answering_ns
    assert times[2:6] == [100 * MS, 110 * MS, 300 * MS, 800 * MS]


@pytest.mark.parametrize("is_answered", [True, False])
def test_the_time_of_a_thousand_responses_counts_once(is_answered: bool) -> None:
    count = 1_000
    asks = [(100, "client", CREATE | {"event_id": f"e{number}"}) for number in range(count)]
    if is_answered:
        answers = [created(200, f"r{number}") for number in range(count)] + [done(300, f"r{n}") for n in range(count)]
    else:
        answers = [(200, "server", {"type": "error", "error": {"event_id": f"e{n}"}}) for n in reversed(range(count))]
    measures = derive(*session(REALTIME, [*asks, *answers]))
    assert (len(measures.turns or ()), measures.duration_ns) == (count, (200 if is_answered else 100) * MS)


@pytest.mark.parametrize("path", [REALTIME, "/v1/responses"])
def test_a_cancelled_turn_is_no_failure_of_its_websocket(path: str) -> None:
    ends = {"type": "response.cancelled" if path == "/v1/responses" else "response.done"}
    ending = ends | {"response": {"id": "r1", "object": "response", "status": "cancelled"}}
    messages = [(100, "client", CREATE), created(120), delta(180, "output_text", "Hi"), (400, "server", ending)]
    measures = derive(*session(path, messages))
    assert (measures.outcome, measures.finish_reason, [turn["outcome"] for turn in measures.turns or ()]) == (
        "complete", "cancelled", ["cancelled"],
    )  # fmt: skip
