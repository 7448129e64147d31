"""Everything that is derived from the facts of one exchange: its measures.

A pure function of the tape's facts, so that a tape can be derived again at any time with the same result. The steps:

1. A plain JSON answer of chat takes the short way of `direct`, with the same result.
2. `decoder` turns the body into items and chunks in time.
3. `assembly` joins the chunks to one answer: texts, tool calls, usage.
4. The end is judged (`exchange.judge`) by the evidence of the body and the facts of the transport.
5. Times are those of `metrics`, silences those of `stalls`; the request gives conversation and elements of the prompt.

No body, however broken or hostile, is an error: what cannot be read is left out and flagged. Reading and writing the
tape is left to `settle`.
"""

from collections.abc import Sequence
from typing import Any

from wiretape.recorder.decode import direct, encoding, layers, payloads, plain, reported, turns
from wiretape.recorder.decode.agent_turns import thread_at
from wiretape.recorder.decode.assembly import Answer, assemble
from wiretape.recorder.decode.conversation import RecordedRequest, answers_tools, belonging, resent
from wiretape.recorder.decode.decoder import BROKEN, COMMENT, EVENT, Decoded, decode
from wiretape.recorder.decode.dialect import ReportedError
from wiretape.recorder.decode.elements import PROMPTED, elements, measures_of
from wiretape.recorder.decode.encoding import Cleaner
from wiretape.recorder.decode.exchange import (
    Evidence,
    Exchange,
    Operation,
    Outcome,
    Read,
    Reads,
    judge,
    transport_flags,
)
from wiretape.recorder.decode.finish_reasons import CANCELLED
from wiretape.recorder.decode.metrics import Measures, Timeline, measured
from wiretape.recorder.decode.operation import GENERATIONS, GPT_LIVE, UNKNOWN, api_asked, operation, resumed
from wiretape.recorder.decode.sessions import session_id
from wiretape.recorder.decode.silences import silent_end
from wiretape.recorder.decode.stalls import AwaitedAnswer, StreamSilences
from wiretape.recorder.decode.values import JsonObject, text

_OF_THE_END = frozenset({
    "latency_ns", "tail_ns", "max_gap_ns", "max_output_silence_ns", "last_silence_ns", "tpot_ns", "tpot_est_ns",
    "tpot_adj_ns", "tps_user", "e2e_tps",
    "tokens_per_chunk", "coalesced_fraction", "icl_p50_ns", "icl_p90_ns", "icl_p99_ns", "icl_mean_ns", "icl_max_ns",
    "output_tokens", "total_tokens", "reasoning_tokens",
})  # fmt: skip
"""Values that stay unknown where decoding stopped before the end of the stream."""

_WHOLE = frozenset({"complete", "malformed", "error_event", "http_error", "open"})
"""Outcomes of an answer that came to an end of its own, also a bad one."""


def derive(
    exchange: Exchange,
    reads: Sequence[Read],
    body: bytes,
    decoded: Decoded | None = None,
    request: RecordedRequest | None = None,
) -> Measures:
    """Derive the measures of an exchange from its facts, and from its body if that is `decoded` already.

    Without the request its conversation is unknown.
    """
    reads = Reads.of(reads)
    if decoded is None and request is not None:
        measures = direct.measures(exchange, reads, body, request)
        if measures is not None:
            return measures
    if decoded is None:
        decoded = decode(exchange, reads, body)
    cleaner = Cleaner()
    succeeded = exchange.status is not None and exchange.status < 300
    understood = succeeded and decoded.dialect is not None
    # Embeddings and their like report a model and usage, too, though they are no chat.
    readable = understood or (succeeded and not decoded.stream)
    answer = assemble(decoded.runs if readable else (), cleaner)
    requested = operation(exchange, decoded.declared if decoded.is_recognised else decoded.dialect)
    # Over a WebSocket a failure is the turn's outcome. A stored answer that is read again failed in the past, and one
    # in the background was cancelled by its client.
    is_past = requested not in GENERATIONS or (answer.failure == CANCELLED and not decoded.stream)
    failure = None if decoded.turns or is_past else answer.failure
    fault, evidence = _evidence(exchange, decoded, answer, failure, succeeded)
    outcome, outcome_detail = judge(exchange, evidence)
    is_timed = succeeded and decoded.stream
    silences = layers.silences(exchange, reads, decoded, request.body if request else None)
    # If one of several responses was cut, the total of tokens is unknown.
    tokens = answer.values["output_tokens"] if decoded.ended or not decoded.turns else None
    # A running exchange has no silences yet, but may have had a stall.
    timeline = Timeline(exchange, reads, decoded if is_timed else None, tokens, silences if exchange.ended_by else ())
    # Without times there are no reads, whose sizes add up to it.
    values = measured(timeline) | ({} if exchange.is_timed else {"bytes": len(body) + exchange.gap_bytes})
    values |= ({"chunks": 0} if is_timed and not understood else {}) | silent(timeline, decoded, outcome, silences)
    api = _api(exchange, decoded, succeeded)
    flags = transport_flags(exchange, outcome, decoded.close) | stall_flags(values)
    flags |= decoded.flags & {"decode_limit", "undecoded", "wrong_coding"}  # these are true of errors' bodies, too
    if succeeded:
        flags |= _answer_flags(decoded, answer, outcome, timeline)
    if requested not in GENERATIONS:  # an embedding is no output that is missing
        flags.discard("empty")
    elif resumed(exchange) is not None or (request is not None and request.continues_answer):
        flags.add("continuation")
    values |= reported.values(exchange, answer.reported, values["ttfb_ns"], values["duration_ns"])
    values |= _error_values(fault, outcome, decoded, cleaner)
    values |= _declared_values(exchange, answer, decoded, api, cleaner)
    session = session_id(exchange, decoded)
    if request is not None:
        values |= _request_values(with_message(request, decoded), exchange, requested, api, answer, session)
    if (turn_measures := decoded.turn_measures) is None:
        turn_measures = turns.turn_measures(decoded.drafts, decoded.at_ns)
    else:
        thread = thread_at(exchange.path) or None
        values["ttft_ns"] = next((turn.ttft_ns for turn in turn_measures if turn.thread == thread), None)
    values = answer.values | values
    if "decode_limit" in decoded.flags and not decoded.ended:
        values |= dict.fromkeys(_OF_THE_END & values.keys())
    is_text = decoded.framing not in ("aws-eventstream", "websocket") and not decoded.is_call
    if cleaner.changed or (decoded.runs and is_text and not encoding.is_utf8(decoded.data)):
        flags.add("sanitized")
    return Measures(
        outcome=outcome,
        outcome_detail=outcome_detail,
        api=api,
        operation=UNKNOWN if is_timed and _is_unjudged(exchange, decoded, requested, outcome) else requested,
        events=decoded.kinds.count(EVENT) - sum(decoded.kinds[item] == EVENT for item in decoded.sent),
        comments=decoded.kinds.count(COMMENT),
        flags=tuple(sorted(flags)),
        turn_spans=_turn_spans(decoded),
        event_runs=plain.event_runs(exchange, decoded) if is_timed else None,
        turns=turns.stored(turn_measures, session, cleaner) or ([] if decoded.is_session else None),
        **values,
    )


def silent(timeline: Timeline, decoded: Decoded, outcome: Outcome, silences: Sequence[StreamSilences]) -> JsonObject:
    """Return the values of an exchange's silences, and of its stalls by the default threshold."""
    # A silence before the answer's own end did not end it.
    is_whole = outcome in _WHOLE
    answers = [one.stream for one in silences if one.stream.is_decoded]
    end = None if is_whole else silent_end(timeline.exchange, timeline.reads, decoded, answers)
    is_given_up = end is not None and outcome == "client_closed" and end.who == "upstream"
    lasting = answers[-1].last if answers and answers[-1].can_end_stalled else None
    return {
        "answers": max(len(answers), 1) if timeline.exchange.is_timed else None,
        "stalled_answers": sum(bool(answer.stalls()) for answer in answers) if answers else None,
        "given_up_answers": int(is_given_up) if answers else None,
        "last_silence_ns": None if lasting is None else lasting[1] - lasting[0],
        "silences": layers.packed(timeline.silences, layers.ending(outcome, end)),
        "ping_gaps": layers.ping_gaps(decoded, answers),
        "tool_spans": [[*span] for span in _tools(decoded, answers)] or None,
        "silent_end_by": None if end is None else end.who or "unclear",
        "silent_end_is_quiet": None if end is None else end.is_quiet,
    }


def _tools(decoded: Decoded, answers: Sequence[AwaitedAnswer]) -> Sequence[tuple[int, int]]:
    """Return the times in which tools ran; of a hosted session those in its turns that began here."""
    return decoded.tools if decoded.tools is not None else [span for answer in answers for span in answer.tools]


def stall_flags(values: JsonObject) -> set[str]:
    counts = {"stall": values["stalled_answers"], "given_up": values["given_up_answers"]}
    return {flag for flag, count in counts.items() if count}


def _declared_values(
    exchange: Exchange, answer: Answer, decoded: Decoded, api: str | None, cleaner: Cleaner
) -> JsonObject:
    """Return the values of an exchange whose API is a declared dialect: its version, and the attributes it names."""
    dialect = decoded.declared
    if dialect is None or dialect.api != api:
        return {}
    attributes = cleaner.value(dialect.attributes_of(exchange)) | (answer.values["attributes"] or {})
    # OpenTelemetry's names of the method and the tool of a call.
    method = next((name for key in ("mcp.method.name", "rpc.method") if (name := text(attributes.get(key)))), None)
    # Prompts have names, too.
    tool = text(attributes.get("gen_ai.tool.name")) if method in (None, "tools/call") else ""
    return {
        "rpc_method": method,
        "tool_name": tool or None,
        "dialect_version": dialect.version,
        "attributes": attributes or None,
    }


def _request_values(
    request: RecordedRequest,
    exchange: Exchange,
    operation: Operation,
    api: str | None,
    answer: Answer,
    session: str | None,
) -> JsonObject:
    """Return the values of a request: its conversation, and the elements of its prompt; none of a refused WebSocket."""
    # Every request for a WebSocket has this header, over HTTP/1.1 and HTTP/2.
    is_upgrade = any(name == "sec-websocket-version" for name, _ in request.headers)
    if is_upgrade and exchange.framing != "websocket" and exchange.status is not None:
        return {}  # its client asks over HTTP instead: it is no turn of a session
    values: JsonObject = {}
    if operation in PROMPTED:
        values = measures_of(elements(request.plain, api, exchange.request_model, request.value))
    if exchange.resent_from is not None:
        return values | resent(exchange.resent_in)
    content, calls = answer.values["content"], answer.values["tool_calls"]
    return values | belonging(request, operation, content, calls, resumed(exchange), session)


def _error_values(fault: ReportedError | None, outcome: Outcome, decoded: Decoded, cleaner: Cleaner) -> JsonObject:
    """Return the error that upstream reported, also as the reason for which it closed a WebSocket."""
    if outcome == "truncated" and decoded.close is not None:
        fault = ReportedError(str(decoded.close.code), decoded.close.reason)
    # The reason of a failed stream may stand in it outside of the events.
    if fault is None and outcome in ("truncated", "timeout", "malformed", "interrupted"):
        fault = ReportedError(None, decoded.remark or decoded.misfit)
    if fault is None:
        return {}
    return {"error_code": cleaner.optional(fault.code), "error_message": cleaner.optional(fault.message)}


def with_message(request: RecordedRequest, decoded: Decoded) -> RecordedRequest:
    """Return a request whose body, over a WebSocket, is the first message that asked for an answer."""
    for turn in decoded.turns:
        if turn.request in decoded.sent and turn.generates:
            message = decoded.data[decoded.starts[turn.request] : decoded.ends[turn.request]]
            return RecordedRequest(request.headers, message)
    return request


def _turn_spans(decoded: Decoded) -> list[list[Any]] | None:
    """Return the times of the responses over a WebSocket, and whether they call tools, or their requests answer calls.

    Those without a timestamped request are left out; None without any response.
    """
    if not decoded.turns:
        return None
    outputs: dict[int, list[int]] = {}
    calling = set[int]()
    for run in decoded.runs:
        if run.chunk.output and run.chunk.counts:
            number = decoded.turn_of(run.item)
            outputs.setdefault(number, []).extend(at_ns for at_ns in decoded.at_ns[run.items] if at_ns is not None)
            calling |= {number} if run.chunk.tool else set()
    spans = list[list[Any]]()
    for number, turn in enumerate(decoded.turns):
        asked_ns = decoded.asked_ns(turn)
        if turn.request is None or asked_ns is None:
            continue
        output_ns, end_ns = outputs.get(number, []), None if turn.last is None else decoded.at_ns[turn.last]
        edges = (output_ns[0], output_ns[-1]) if output_ns else (None, None)
        is_message = turn.request in decoded.sent
        message = decoded.data[decoded.starts[turn.request] : decoded.ends[turn.request]] if is_message else b""
        calls_tool, answers_tool, outcome = number in calling, answers_tools(message), None
        if (measures := turn.measures) is not None:  # of a hosted agent: its provider runs most tools within the turn
            if measures.first_output_at_ns is not None and measures.last_ns is not None:
                edges = measures.first_output_at_ns, asked_ns + measures.last_ns
            end_ns = measures.ended_at_ns
            calls_tool = measures.finish_reason == "requires_action"
            answers_tool, outcome = measures.begun_by in ("tool_result", "confirmation"), measures.outcome
        spans.append([asked_ns, *edges, end_ns, len(output_ns), calls_tool, answers_tool, outcome])
    return spans


def _api(exchange: Exchange, decoded: Decoded, succeeded: bool) -> str | None:
    """Return the API: from the answer, but from the path if the answer has none, or nothing but an error."""
    claimed = decoded.api if succeeded else None
    answered = any(run.chunk.fault is None for run in decoded.runs)
    recognised = decoded.declared.api if decoded.declared is not None and decoded.is_recognised else None
    api = (claimed if answered else None) or recognised or api_asked(exchange) or claimed
    return decoded.framing if decoded.is_call and api in (None, "unknown") else api


def _is_unjudged(exchange: Exchange, decoded: Decoded, requested: str, outcome: Outcome) -> bool:
    """Return True if the outcome of a generation says nothing, as its stream is not decoded.

    An error, or data that is no JSON, is a failure even so if the path names the API.
    """
    is_failure = outcome in ("error_event", "malformed") and api_asked(exchange) is not None
    return decoded.api == "unknown" and requested in GENERATIONS and not is_failure


def _evidence(
    exchange: Exchange, decoded: Decoded, answer: Answer, failure: str | None, succeeded: bool
) -> tuple[ReportedError | None, Evidence]:
    index = decoded.fault_index()
    fault = decoded.runs[index].chunk.fault if index is not None else None
    if fault is None and decoded.status is not None and decoded.status.error is not None:
        fault, index = decoded.status.error, len(decoded.runs)
    if not succeeded and fault is None and decoded.data:
        fault = payloads.body_fault(decoded.data.decode("utf-8-sig", "replace"))
    error: Any = None
    if fault is None and failure is not None:
        error, fault = "finish", ReportedError(failure, None)
    if index is not None:
        # Any payload before the error may have been output if its dialect is unknown.
        started = any(run.chunk.output for run in decoded.runs[: index + 1])
        error = "mid_stream" if started or (decoded.api == "unknown" and index > 0) else "before_output"
    finish_ends = decoded.dialect is None or decoded.dialect.finish_ends
    dialect = decoded.declared if decoded.is_recognised else decoded.dialect
    eof_ends = dialect is not None and dialect.eof_ends(exchange) and not (decoded.is_aborted or decoded.is_cut)
    # A program that imports may not know trailers: then the status of a call is unknown, not missing.
    lacks_status = decoded.is_call and decoded.status is None and not exchange.is_imported
    is_judged_call = decoded.status is not None or lacks_status
    if decoded.is_call:
        is_broken = decoded.is_cut and decoded.status is not None
    else:
        kinds = enumerate(decoded.kinds) if BROKEN in decoded.kinds else ()  # as of nearly no answer
        is_broken = any(kind == BROKEN and item not in decoded.sent for item, kind in kinds)
    # The vendor of GPT-Live calls no other end of a session final than its own message.
    lacks_its_end = api_asked(exchange) == GPT_LIVE and decoded.end_item is None
    return fault, Evidence(
        stream=decoded.stream,
        understood=decoded.api != "unknown" or is_judged_call,
        # If the coding of a body breaks in the middle, the part before it shows whether the stream had ended.
        whole=decoded.whole or ("undecoded" in decoded.flags and bool(decoded.data) and not decoded.is_call),
        done=decoded.ended or (eof_ends and exchange.ended_by == "end" and not decoded.is_call),
        finished=answer.finished and finish_ends and not decoded.is_aborted and not decoded.is_call,
        error=error,
        malformed="malformed" in decoded.flags | answer.flags,
        close=decoded.close,
        pending=any(turn.last is None for turn in decoded.turns) or lacks_its_end,
        broken=is_broken,
        lacks_status=lacks_status,
        cut=decoded.is_cut and not decoded.is_call,
        aborted=decoded.is_aborted,
    )


def _answer_flags(decoded: Decoded, answer: Answer, outcome: Outcome, timeline: Timeline) -> set[str]:
    understood = decoded.dialect is not None
    raised = {
        "nonstream": not decoded.stream,
        "comments": COMMENT in decoded.kinds,
        "unknown_payload": decoded.api == "unknown" and "undecoded" not in decoded.flags,
        "empty": understood and outcome == "complete" and not any(run.chunk.output for run in decoded.runs),
        "no_done": decoded.dialect is not None and decoded.dialect.has_done and decoded.stream and not decoded.done,
        "no_finish": understood and decoded.stream and not answer.finished,
    }
    flags = decoded.flags | {flag for flag, is_raised in raised.items() if is_raised}
    if understood and decoded.stream:
        flags |= answer.flags | timeline.flags()
    elif understood:  # a whole body may lack fields of the API's streams
        flags |= answer.flags - {"no_usage", "object_mismatch", "id_changed", "hidden_tokens"}
    if decoded.dialect is not None:
        flags -= decoded.dialect.silent
    if sum(turn.generates for turn in decoded.turns) > 1:
        flags = flags - {"multi_choice"} | {"multi_response"}
        if not decoded.ended:  # the usage is that of the other responses
            flags |= {"no_usage"}
    return flags
