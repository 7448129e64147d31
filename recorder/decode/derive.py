"""Everything that is derived from the facts of one exchange: its measures.

A pure function of what the tape holds, so that a tape can be derived again at any time with the same result. `decoder`
turns the body into items and chunks in time; here it is assembled, timed and judged. No body, however broken or
hostile, is an error: what cannot be read is left out and flagged. Reading and writing the tape is left to `store`.
"""

from collections.abc import Sequence
from typing import Any

from recorder.decode import encoding, payloads
from recorder.decode.assembly import Answer, assemble
from recorder.decode.decoder import COMMENT, EVENT, Decoded, decode
from recorder.decode.dialect import Fault
from recorder.decode.encoding import Cleaner
from recorder.decode.metrics import Measures, Timeline, measured
from recorder.decode.operation import GENERATIONS, api_asked, operation
from recorder.decode.outcome import Evidence, Exchange, Read, Reads, judge, transport_flags

_STREAM_ONLY = frozenset({"no_usage", "object_mismatch", "id_changed", "hidden_tokens"})


def derive(exchange: Exchange, reads: Sequence[Read], body: bytes, decoded: Decoded | None = None) -> Measures:
    """Derive the measures of an exchange from its facts, and from its body if that is `decoded` already."""
    reads = Reads.of(reads)
    if decoded is None:
        decoded = decode(exchange, reads, body)
    cleaner = Cleaner()
    succeeded = exchange.status is not None and exchange.status < 300
    understood = succeeded and decoded.dialect is not None
    # Embeddings and their like report a model and usage, too, though they are no chat.
    readable = understood or (succeeded and not decoded.stream)
    answer = assemble(decoded.runs if readable else (), cleaner)
    fault, evidence = _evidence(decoded, answer, succeeded)
    outcome, outcome_detail = judge(exchange, evidence)
    is_timed = succeeded and decoded.stream
    timeline = Timeline(exchange, reads, decoded if is_timed else None, answer.values["output_tokens"])
    values = measured(timeline)
    if is_timed and not understood:
        values["chunks"] = 0
    asked = operation(exchange, decoded.api)
    flags = transport_flags(exchange, outcome) | decoded.flags & {"decode_limit", "undecoded"}
    if succeeded:
        flags |= _flags(decoded, answer, outcome, timeline)
    if asked not in GENERATIONS:  # an embedding is no output that is missing
        flags.discard("empty")
    if fault is not None:
        values["error_code"], values["error_message"] = cleaner.optional(fault.code), cleaner.optional(fault.message)
    is_text = decoded.framing != "aws-eventstream"
    if cleaner.changed or (decoded.runs and is_text and not encoding.is_utf8(decoded.data)):
        flags.add("sanitized")
    return Measures(
        outcome=outcome,
        outcome_detail=outcome_detail,
        api=_api(exchange, decoded, succeeded),
        operation=asked,
        events=decoded.kinds.count(EVENT),
        comments=decoded.kinds.count(COMMENT),
        flags=tuple(sorted(flags)),
        **answer.values,
        **values,
    )


def _api(exchange: Exchange, decoded: Decoded, succeeded: bool) -> str | None:
    """Return whose API it was: by the answer, but by the path where that says nothing, or nothing but an error."""
    claimed = decoded.api if succeeded else None
    answered = any(run.chunk.fault is None for run in decoded.runs)
    return (claimed if answered else None) or api_asked(exchange) or claimed


def _evidence(decoded: Decoded, answer: Answer, succeeded: bool) -> tuple[Fault | None, Evidence]:
    place = next((place for place, run in enumerate(decoded.runs) if run.chunk.fault is not None), None)
    fault = decoded.runs[place].chunk.fault if place is not None else None
    if not succeeded and fault is None and decoded.data:
        fault = payloads.body_fault(decoded.data.decode("utf-8-sig", "replace"))
    error: Any = "finish" if answer.failed else None
    if place is not None:
        # In a dialect that is not known, any payload before the error may have been output.
        started = any(run.chunk.output for run in decoded.runs[: place + 1])
        error = "mid_stream" if started or (decoded.api == "unknown" and place > 0) else "before_output"
    finish_ends = decoded.dialect is None or decoded.dialect.finish_ends
    return fault, Evidence(
        stream=decoded.stream,
        understood=decoded.api != "unknown",
        whole=decoded.whole,
        done=decoded.ended,
        finished=answer.finished and finish_ends,
        error=error,
        malformed="malformed" in decoded.flags | answer.flags,
    )


def _flags(decoded: Decoded, answer: Answer, outcome: str, timeline: Timeline) -> set[str]:
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
    if understood:
        flags |= answer.flags | timeline.flags() if decoded.stream else answer.flags - _STREAM_ONLY
    return flags
