"""Pure: why an exchange ended, and what is odd about it, in words: what the viewer shows of the one under the cursor.

Recorded text passes `safe` here, all but the answer, which is wrapped by `wrap`. Verdicts and their words are
`verdicts` and `wording`; what a row holds is `watching.preview`'s.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from recorder.decode.outcome import FLAGS
from recorder.plurals import counted
from viewer import formatting
from viewer.model.silence import silence
from viewer.model.states import NOTABLE, Look, Part, Tone, elapsed_ms, ranked, span, state
from viewer.rows import Row
from viewer.timing import wording
from viewer.timing.verdicts import Verdict

_MOST_VERDICTS: Final = 3
_TEXTS: Final = ("content", "refusal", "tool_calls", "reasoning")


def heading(row: Row, look: Look) -> list[Part]:
    """Name the exchange: its id, how it stands, its model and where it went."""
    found = state(row, recording=look.recording)
    word = "orphan" if found.word == "orphan" else formatting.outcome(row)
    target = formatting.line(formatting.host(row["upstream"]) + row["path"])
    return [
        (f"{found.sign} ", found.tone),
        (formatting.line(row["id"])[:8], "strong"),
        (f" {word}", found.tone),
        (f" · {formatting.line(row['model'])} · {formatting.line(row['method'])} {target}", "muted"),
    ]


def reason(row: Row, look: Look) -> str:
    """Say why it ended, or that it has not; `recorder_pid` and `dialect` of the row may be missing."""
    if row["outcome"] == "open":
        return _unended(row, look)
    told = _TOLD.get(row["outcome"], _unknown)(row)
    if row.get("ended_detail"):
        told += f" ({formatting.line(row['ended_detail'])})"
    return told


def figures(row: Row, look: Look) -> str:
    """Sum its timing up, as far as it is known."""
    came, between, longest = row["ttft_ms"], row["icl_p50_ms"], row["max_stall_ms"]
    silent = row["max_silence_ms"]
    told = [] if came is None else [f"first output {span(came)}"]
    told += [] if between is None else [f"inter-chunk p50 {span(between)}"]
    told += [] if longest is None else [f"longest gap {span(longest)}"]
    told += [] if silent is None else [f"longest silence {span(silent)}"]
    # A body that is no stream has no events of the standard: it is one record, which its last read completed.
    is_one_record = "nonstream" in row["flags"] or (row["outcome"] == "http_error" and not row["events"])
    what = "one body" if is_one_record else _counted(row["events"], "event")
    told.append(f"{what} in {_counted(row['reads'], 'read')}")
    told.append(f"{span(elapsed_ms(row, look))}{'+' if row['outcome'] == 'open' else ''}")
    told += [] if row["completion_tokens"] is None else [counted(row["completion_tokens"], "token")]
    return " · ".join(told)


def evidence(row: Row, verdicts: Sequence[Verdict]) -> Iterator[tuple[str, Tone, str]]:
    """Give what is odd about it, each with its tone and its evidence: verdicts first, the longest ones, then flags."""
    longest = sorted(verdicts, key=lambda verdict: -verdict.lasted_ns)[:_MOST_VERDICTS]
    for verdict in (one for one in verdicts if one in longest):
        told, grounds = wording.sentences(verdict)
        yield verdict.kind, "warning", f"{told}; {grounds}"
    judged = {verdict.kind for verdict in verdicts}
    for flag in ranked(row["flags"]):
        if flag not in judged:
            yield formatting.line(flag), NOTABLE.get(flag, "muted"), FLAGS.get(flag, "not known to this version")


def text(row: Row) -> tuple[str, str, int | None]:
    """Give the end of what was answered, what that is, and how long all of it is: content, else whatever there is."""
    for name in _TEXTS:
        if row.get(name):
            return name.replace("_", " "), str(row[name]), row.get(f"{name}_size")
    return "", "", None


def _counted(number: int | None, thing: str) -> str:
    return f"{formatting.UNKNOWN} {thing}s" if number is None else counted(number, thing)


def _unended(row: Row, look: Look) -> str:
    if row["ended_by"] is not None:
        return "ended, and being measured"
    last = row.get("last_read_ms")
    if look.recording:
        return f"still running{_silent(row, look)}; the last read came {span(last)} after the request"
    after = "nothing was read of it" if last is None else f"the last read came {span(last)} after the request"
    return f"nothing records it any more; {after}. The next recorder on this tape will mark it as interrupted."


def _silent(row: Row, look: Look) -> str:
    """Say for how long nothing has come of one that still runs, if that is worth telling."""
    passed, last = elapsed_ms(row, look), row.get("last_read_ms")
    if passed is None:
        return ""
    found = silence(round(passed * 1e6), None if last is None else round(last * 1e6), 0)
    return "" if found is None else f", {found}"


def _complete(row: Row) -> str:
    signs = [f"finish reason {formatting.line(row['finish_reason'])}"] if row["finish_reason"] else []
    signs += ["[DONE]"] if row.get("dialect") == "chat" and not {"no_done", "nonstream"} & set(row["flags"]) else []
    return f"all came: {', '.join([*signs, _AFTERWARDS.get(row['ended_by'], 'then the end')])}"


def _malformed(row: Row) -> str:
    return f"an event is no JSON, although {_complete(row)}"


def _truncated(row: Row) -> str:
    missing = [sign for flag, sign in _MISSING.items() if flag in row["flags"]]
    without = f", without {' or '.join(missing)}" if missing else ""
    return f"{_CUT.get(row['ended_by'], 'upstream stopped').format(after=_after(row))}{without}"


def _timeout(row: Row) -> str:
    waited = "" if row["duration_ms"] is None else f" ({span(row['duration_ms'])} after the request)"
    if row["ended_by"] == "idle_timeout":
        return f"upstream fell silent {_after(row)}, for longer than the recorder waits{waited}"
    what = "connection came about" if row["ended_by"] == "connect_timeout" else "answer came"
    return f"no {what} for as long as the recorder waits{waited}"


def _http_error(row: Row) -> str:
    fault = _fault(row)
    return f"upstream answered {formatting.cell(row['status'])}{f': {fault}' if fault else ''}"


def _error_event(row: Row) -> str:
    fault, where = _fault(row), _WHERE.get(row["outcome_detail"], "")
    if not fault and row["outcome_detail"] == "finish":
        return "upstream ended the answer with the finish reason error"
    return f"upstream sent an error{where}{f': {fault}' if fault else ', without a message'}"


def _connect_error(row: Row) -> str:
    host = formatting.line(formatting.host(row["upstream"]))
    return _UNCONNECTED.get(row["ended_by"], "{host} closed the connection without an answer").format(host=host)


def _client_closed(row: Row) -> str:
    did = "stopped reading" if row["ended_by"] == "client_stalled" else "closed the connection"
    return f"the client {did} {_after(row)}, before the answer was complete"


def _interrupted(row: Row) -> str:
    pid = f" (pid {row['recorder_pid']})" if row.get("recorder_pid") else ""
    did = {"shutdown": "was told to stop", "local": "lacked resources"}.get(row["ended_by"], "died")
    return f"the recorder{pid} {did} {_after(row)}, before the answer was complete"


def _unknown(row: Row) -> str:
    return f"{formatting.outcome(row)}, which this version does not know"


def _fault(row: Row) -> str:
    return ": ".join(formatting.line(row[name]) for name in ("error_code", "error_message") if row.get(name))


def _after(row: Row) -> str:
    if row["events"]:
        return f"after {_counted(row['events'], 'event')}"
    return f"after {_counted(row['bytes'], 'byte')}" if row["bytes"] else "before anything of the answer came"


_AFTERWARDS: Final = {
    "end": "then the end",
    "client": "then the client closed the connection",
    "client_stalled": "then the client stopped reading",
    "shutdown": "then the recorder was told to stop",
    "died": "then the recorder died",
    "local": "then the recorder lacked file descriptors, ports or disk",
    "idle_timeout": "then nothing, not even the end, until the recorder waited no longer",
    "eof": "then upstream closed the connection without ending the body",
    "length": "then upstream closed the connection before its Content-Length",
    "reset": "then upstream reset the connection",
    "framing": "then what is no HTTP",
}
_CUT: Final = {
    "end": "upstream ended the answer {after}",
    "eof": "upstream closed the connection {after}",
    "length": "upstream closed the connection {after}, before its Content-Length",
    "reset": "upstream reset the connection {after}",
    "framing": "upstream sent what is no HTTP {after}",
}
_MISSING: Final = {"no_done": "[DONE]", "no_finish": "a finish reason"}
_WHERE: Final = {"before_output": " before any output", "mid_stream": " in mid-stream"}
_UNCONNECTED: Final = {
    "dns": "the name {host} did not resolve",
    "refused": "{host} refused the connection",
    "local": "this machine had no file descriptors, ports or disk left for it",
    "tls": "the TLS handshake with {host} failed",
    "protocol": "what {host} answered is no HTTP",
    "framing": "what {host} answered is no HTTP",
    "reset": "{host} reset the connection without an answer",
}
_TOLD: Final[dict[str, Callable[[Row], str]]] = {
    "complete": _complete,
    "malformed": _malformed,
    "truncated": _truncated,
    "timeout": _timeout,
    "http_error": _http_error,
    "error_event": _error_event,
    "connect_error": _connect_error,
    "client_closed": _client_closed,
    "interrupted": _interrupted,
}
