"""Pure: the awaited answers of an exchange, whose silences of output `stalls` judges, and who let it end in one.

Silences of output are known of a generation that a dialect decodes, if the request asks for a stream or if one
answers, and has been sent: whole answers have none, nor has an upstream that refused the connection, nor a running
exchange. Over a WebSocket each response is an answer of its own, from the message that asks for it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from wiretape.recorder.decode import encoding, request
from wiretape.recorder.decode.attribution import Attribution, SilenceCause
from wiretape.recorder.decode.decoder import Decoded
from wiretape.recorder.decode.dialects import registry
from wiretape.recorder.decode.exchange import Exchange, Reads
from wiretape.recorder.decode.finish_reasons import is_failure
from wiretape.recorder.decode.operation import GENERATIONS, api_asked, operation
from wiretape.recorder.decode.runs import ItemRun
from wiretape.recorder.decode.stalls import DEFAULT, AwaitedAnswer, Ending, Span, Thresholds, Who
from wiretape.recorder.decode.turns import TurnOutcome, union

# Gemini (Vertex' `streamRawPredict` for Anthropic), Bedrock and TGI name the stream in the path, not in the body.
_STREAM_PATH: Final = re.compile(
    r":(?:streamGenerateContent|streamRawPredict)\b|/(?:converse|invoke-with-response)-stream\b|/generate_stream\b"
    r"|[?&](?:stream=true|alt=sse)\b"
)

_TURN_ENDINGS: Final[dict[TurnOutcome, Ending]] = {"complete": "good", "error": "dead", "truncated": "dead"}


def asks_for_stream(exchange: Exchange, body: bytes | None = None) -> bool:
    """Return True if a request asks for a stream: by its path, a header or its body, which the facts may lack."""
    if _STREAM_PATH.search(exchange.path):
        return True
    headers = dict(exchange.headers.request)
    if "text/event-stream" in headers.get("accept", "") or headers.get("x-dashscope-sse") == "enable":
        return True
    plain = encoding.uncoded(exchange.headers.request, body or b"") if exchange.request is None else exchange.request
    value: Any = request.decoded(plain)
    stream = value.get("stream") if isinstance(value, dict) else None
    # Ollama's own API streams unless the request says otherwise.
    return stream is True or (stream is None and isinstance(value, dict) and api_asked(exchange) == "ollama")


def awaited(exchange: Exchange, decoded: Decoded, body: bytes | None = None) -> list[AwaitedAnswer]:
    """Return the answers that an exchange has waited for; none where their silences of output are unknown.

    That of a running exchange has no end yet, unless its last event has come.
    `body` is that of the request, needed where the facts lack it.
    """
    return [stream for stream in streams(exchange, decoded, body) if stream.is_decoded]


def streams(exchange: Exchange, decoded: Decoded, body: bytes | None = None) -> list[AwaitedAnswer]:
    """Return the streams that an exchange has waited for, also those that no dialect decodes."""
    if not exchange.is_timed:
        return []
    if decoded.turns or decoded.is_session:
        return _turns(exchange, decoded)
    succeeded = exchange.status is not None and exchange.status < 300
    if exchange.framing == "websocket":
        return []
    # A head without a type, and no byte behind it, does not tell what was to come.
    tells_kind = succeeded and (exchange.content_type is not None or bool(decoded.data))
    if tells_kind and not decoded.stream:
        return []
    if not tells_kind:
        never_sent = exchange.ended_by in ("dns", "refused", "tls", "connect_timeout", "local")
        is_sent = exchange.status is not None or (exchange.sent_ns is not None and not never_sent)
        if not is_sent or not asks_for_stream(exchange, body):
            return []
    is_decoded = _is_generation(exchange, decoded, succeeded)
    runs = [run for run in decoded.runs if run.chunk.output] if succeeded and is_decoded else []
    outputs = [at_ns for run in runs for at_ns in decoded.at_ns[run.items] if at_ns is not None]
    end_ns, fault_ns = _end_ns(exchange, decoded), _fault_ns(decoded) if succeeded else None
    if fault_ns is not None and (end_ns is None or fault_ns <= end_ns):
        end_ns = fault_ns
        outputs = [at_ns for at_ns in outputs if at_ns <= fault_ns]
    is_pending = end_ns not in (fault_ns, decoded.ended_ns)
    # An event that came before the recorder died did end the silence before it.
    has_died = exchange.ended_by == "died" and is_pending
    return [
        AwaitedAnswer(
            0,
            end_ns,
            outputs,
            _tools(decoded, decoded.runs, end_ns),
            can_end_stalled=not has_died and (succeeded or exchange.status is None),
            is_pending=is_pending,
            is_decoded=is_decoded,
        )
    ]


def _is_generation(exchange: Exchange, decoded: Decoded, succeeded: bool) -> bool:
    """Return True if a dialect decodes the answer, or would by the path of the request, and it is generated."""
    recognised = decoded.declared if decoded.is_recognised else None
    dialect = decoded.dialect if succeeded and decoded.api is not None else recognised
    if dialect is None and not (succeeded and decoded.api is not None):
        dialect = registry.dialect_named(api_asked(exchange))
    return dialect is not None and operation(exchange, recognised or dialect) in GENERATIONS


def _end_ns(exchange: Exchange, decoded: Decoded) -> int | None:
    """Return the time of the event that ended a stream in good order, or else that of the exchange's known end."""
    times = [decoded.at_ns[run.item + len(run.texts) - 1] for run in decoded.runs if run.chunk.counts]
    last_ns = max((at_ns for at_ns in times if at_ns is not None), default=0)
    if (ended_ns := decoded.ended_ns) is not None and ended_ns >= last_ns:
        return ended_ns
    is_known = _is_end_known(exchange, decoded) and times[-1:] != [None]
    return max(exchange.end_ns, last_ns) if is_known and exchange.end_ns is not None else None


def _is_end_known(exchange: Exchange, decoded: Decoded) -> bool:
    return exchange.ended_by is not None and not exchange.gap_bytes and "decode_limit" not in decoded.flags


def _fault_ns(decoded: Decoded) -> int | None:
    """Return the timestamp of the event by which upstream said that it failed."""
    index = decoded.fault_index()
    items = [] if index is None else [decoded.runs[index].item]
    items += [
        run.item
        for run in decoded.runs
        for piece in run.chunk.pieces
        if piece.finish_reason is not None and is_failure(run.chunk.api, piece.finish_reason)
    ]
    return min((at_ns for item in items if (at_ns := decoded.at_ns[item]) is not None), default=None)


def _turns(exchange: Exchange, decoded: Decoded) -> list[AwaitedAnswer]:
    """Return the responses over a WebSocket, or the turns of a hosted agent, whose requests are known."""
    runs: dict[int, list[ItemRun]] = {}
    for run in decoded.runs:
        runs.setdefault(decoded.turn_of(run.item), []).append(run)
    outcomes = {draft.end: draft.outcome for draft in decoded.drafts}
    answers = []
    for number, turn in enumerate(decoded.turns):
        asked_ns = decoded.asked_ns(turn)
        if asked_ns is None:
            continue
        turn_runs = runs.get(number, [])
        items = (run.items for run in turn_runs if run.chunk.output and run.chunk.counts)
        outputs = [at_ns for part in items for at_ns in decoded.at_ns[part] if at_ns is not None]
        end_ns = exchange.end_ns if _is_end_known(exchange, decoded) else None
        end_ns = end_ns if turn.last is None else decoded.at_ns[turn.last]
        if end_ns is not None:
            end_ns = max(end_ns, asked_ns, *outputs)
        answers.append(
            AwaitedAnswer(
                asked_ns,
                end_ns,
                outputs,
                _tools(decoded, turn_runs, end_ns) if turn.tools is None else _spans(decoded, turn.tools, end_ns),
                can_end_stalled=turn.last is not None or exchange.ended_by != "died",
                is_pending=turn.last is None,
                ending=None if turn.last is None else _TURN_ENDINGS.get(outcomes.get(turn.last, "complete"), "left"),
            )
        )
    return answers


def _spans(decoded: Decoded, tools: Sequence[tuple[int, int | None]], end_ns: int | None) -> list[Span]:
    """Return the times between items; to the end of its answer where a tool still runs."""
    ends = ((decoded.at_ns[first], end_ns if last is None else decoded.at_ns[last]) for first, last in tools)
    return union((from_ns, to_ns) for from_ns, to_ns in ends if from_ns is not None and to_ns is not None)


def _tools(decoded: Decoded, runs: Sequence[ItemRun], end_ns: int | None) -> list[Span]:
    """Return the times in which the provider ran tools: from a call, or the last event of it, to the result."""
    if not any(run.chunk.provider_calls or run.chunk.provider_results for run in runs):
        return []
    spans, open_calls, last_ns = list[Span](), 0, 0
    for run in runs:
        chunk, at_ns = run.chunk, decoded.at_ns[run.items][-1]
        if at_ns is None:
            continue
        if chunk.provider_results:
            spans.append((last_ns, at_ns))
            open_calls = max(open_calls - chunk.provider_results, 0)
        open_calls += chunk.provider_calls
        if chunk.output or chunk.provider_calls or chunk.provider_results:
            last_ns = at_ns
    if open_calls and end_ns is not None:
        spans.append((last_ns, end_ns))
    return spans


@dataclass(frozen=True, slots=True)
class SilentEnd:
    """The silence of output in which an answer ended without its own end, its owner, and whether no byte came in it."""

    from_ns: int
    lasted_ns: int
    who: Who | None
    is_quiet: bool


def silent_end(
    exchange: Exchange, reads: Reads, decoded: Decoded, answers: Sequence[AwaitedAnswer]
) -> SilentEnd | None:
    """Return the stall in which the last answer ended that only the end of the exchange ended; None without one."""
    pending = next((answer for answer in reversed(answers) if answer.is_pending and answer.can_end_stalled), None)
    silence = None if pending is None else pending.last
    if silence is None or not DEFAULT.is_stall(silence[1] - silence[0]):
        return None
    from_ns, to_ns = silence
    has_bytes = any(size > 0 and from_ns < at_ns <= to_ns for at_ns, size in zip(reads.at_ns, reads.size, strict=True))
    cause = cause_of_end(Attribution(exchange, reads, decoded), silence, DEFAULT)
    return SilentEnd(from_ns, to_ns - from_ns, cause.who, not has_bytes)


def cause_of_end(attribution: Attribution, silence: Span, limits: Thresholds) -> SilenceCause:
    """Return the cause of a silence in which an answer ended."""
    exchange, stuck = attribution.exchange, attribution.stuck
    if stuck is not None and (exchange.end_ns or 0) - stuck.began_ns > limits.stall_ns:
        # The client took no more: reading from upstream waits for it, or soon would.
        who: Who | None = "client" if exchange.ended_by == "client_stalled" else stuck.who
        return SilenceCause(who, unclear=None if who else "handing_on")
    return attribution.cause(*attribution.places_around(silence), silence[1] - silence[0])
