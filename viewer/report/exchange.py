"""One exchange for people: a page that sums it up, its verdicts and who was slow, its assembled texts, its request.

As in `report`, every recorded text passes `safe` and is only ever put into `rich.text.Text`. Unknown is `–`.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text

from recorder.decode.encoding import is_utf8
from recorder.decode.outcome import FLAGS, OUTCOMES
from recorder.decode.stalls import Thresholds
from recorder.plurals import counted
from recorder.sanitize import safe
from viewer import rows
from viewer.formatting import UNKNOWN, block, cell, count, cut, line, moment, ms, outcome
from viewer.model.text import hexdump
from viewer.rows import Row
from viewer.timing import wording
from viewer.timing.attribution import Slowness
from viewer.timing.verdicts import Verdict

_PREVIEW: Final = 60
_QUOTED: Final = 24
_MOST_VERDICTS: Final = 5
_JUDGED: Final = ("stall", "burst")
_TELLING: Final = re.compile(r"(?:^|-)request-?id$|^cf-ray$|^retry-after|rate-?limit", re.IGNORECASE)
"""The names of headers that say which request it was for its API, and what limits it met."""
_HEX_BYTES: Final = 4096


def page(row: Row, verdicts: Sequence[Verdict] | None = None, answered: Sequence[Sequence[str]] = ()) -> Iterator[Text]:
    """Sum up one exchange: `row` is `queries.detail`'s, `answered` are the response's headers, of which those that name
    the request or its limits are shown. Of many stalls the longest are shown.

    Stalls and bursts are what the verdicts say; where there are none (None), what the tape's flags say.
    """
    flags = row["flags"] if verdicts is None else [flag for flag in row["flags"] if flag not in _JUDGED]
    burst = "burst" in flags if verdicts is None else any(verdict.kind == "burst" for verdict in verdicts)
    yield Text.assemble((safe(row["id"]), "bold"), f"  {line(row['method'])} {line(row['upstream'] + row['path'])}")
    told = [("header", f"{line(name)}: {line(value)}") for name, value in answered if _TELLING.search(name)]
    for label, text in (*_story(row), *told, *_numbers(row, burst)):
        yield _labelled(label, text)
    yield from _told(verdicts or ())
    for flag in flags:
        yield _labelled("flag", f"{safe(flag)}: {FLAGS.get(flag, 'not known to this version')}")
    for name in ("reasoning", "content", "refusal"):
        if row[name] is not None:
            yield _labelled(name, f"{len(row[name]):,} characters: {cut(line(row[name]), _PREVIEW)}")
    for call in row["tool_calls"] or ():
        yield _labelled("tool call", cut(line(f"{call['name']}({call['arguments']})"), 2 * _PREVIEW))


def timing(slowness: Slowness, verdicts: Sequence[Verdict], limits: Thresholds) -> Iterator[Text]:
    """Say who was slow, and give every verdict."""
    yield from _spreads(slowness)
    if slowness.client is not None and not slowness.client.max_ns:
        yield Text("note: a client that reads slowly shows only once the system's buffers for it are full", "dim")
    yield Text()
    for verdict in verdicts:
        yield from _verdict(verdict)
    if not verdicts:
        share, window = (f"{100 * value:g} %" for value in (limits.burst_share, limits.burst_window))
        yield Text(
            f"no stall of more than {limits.stall_ms:,g} ms; no burst: {limits.burst_chunks} or more output chunks, "
            f"{share} of them in {limits.burst_reads} reads or all within {window} of the latency"
        )


def answer(row: Row) -> Iterator[Text]:
    """Show the assembled texts of an exchange: reasoning dimmed, then content, refusal and tool calls."""
    for name, style in (("reasoning", "dim"), ("content", ""), ("refusal", "red")):
        if row[name] is not None:
            if name != "content":
                yield Text(f"{name}:", f"bold {style}")
            yield Text(block(row[name]), style)
    for call in row["tool_calls"] or ():
        yield Text.assemble(("tool call: ", "bold"), line(f"{call['name']}({call['arguments']})"))


def headers(of: str, found: Sequence[Sequence[str]]) -> Iterator[Text]:
    """Show the headers of a request or a response, as stored (redacted)."""
    if found:
        yield Text()
        yield Text(f"{of} headers", "bold")
    for name, value in found:
        yield Text.assemble((f"{line(name)}: ", "dim"), line(value))


def no_text(row: Row) -> str:
    """Say why an answer has no content: `row` is `queries.detail`'s."""
    others = [name.replace("_", " ") for name in ("refusal", "tool_calls", "reasoning") if row[name]]
    if others:
        return f"the answer has only {' and '.join(others)}; --format json has all of it"
    if row["error_code"] or row["error_message"]:
        fault = ": ".join(line(row[name]) for name in ("error_code", "error_message") if row[name])
        return f"an error came before any output ({fault})"
    if not row["bytes"] or row["gap_bytes"] == row["bytes"]:
        return no_body(row)
    if row["outcome"] == "open":
        return "the exchange is still open, and no content has come or been measured yet"
    size = f"{counted(row['bytes'], 'byte')} of body ({outcome(row)}); --part raw shows it"
    if "unknown_payload" in row["flags"]:
        return f"the API of this stream is not decoded: {size}"
    return f"no content was found in {size}"


def no_body(row: Row) -> str:
    """Say why the tape has no body, or one without events: `row` is `queries.detail`'s."""
    if not row["bytes"]:
        return f"no body came ({outcome(row)})"
    if row["gap_bytes"] == row["bytes"]:
        return "nothing of the body is on the tape"
    return f"the body of {counted(row['bytes'], 'byte')} has none ({outcome(row)}); --part raw shows it"


def body(data: bytes) -> Iterator[Text]:
    """Show a body: text without control characters, of anything else the first `_HEX_BYTES` as hex."""
    if is_utf8(data) and b"\0" not in data:
        for text in data.decode("utf-8", "replace").splitlines():
            yield Text(block(text))
        return
    shown = data[:_HEX_BYTES]
    for start in range(0, len(shown), 16):
        part = shown[start : start + 16]
        yield Text(f"{start:08x}  {part.hex(' '):<47}  {hexdump.printable(part)}")
    yield Text(f"({counted(len(data), 'byte')}, not text; a pipe or a file gets all of them)", "dim")


def request(row: Row) -> Iterator[Text]:
    """Show a request: its line, its headers as stored (redacted), and its body."""
    yield Text(f"{line(row['method'])} {line(row['upstream'] + row['path'])}", "bold")
    for name, value in row["headers"]:
        yield Text.assemble((f"{line(name)}: ", "dim"), line(value))
    yield Text()
    if row["body"]:
        yield Text(block(row["body"]))
    if row["body"] is None or len(row["body"].encode()) != row["size"]:
        yield Text(
            f"({counted(row['size'], 'byte')}, not all of them shown: not UTF-8, or more than the tape keeps)", "dim"
        )


def _story(row: Row) -> Iterator[tuple[str, str]]:
    """Say what was asked, what came of it and how it ended."""
    yield "started", f"{moment(row['started_at'])} UTC"
    asked = f" (asked for {line(row['request_model'])})" if row["request_model"] not in (None, row["model"]) else ""
    answered = f", answer {line(row['response_id'])}" if row["response_id"] else ""
    yield "model", f"{line(row['model'])}{asked}{answered}"
    meaning = OUTCOMES.get(row["outcome"])
    yield "outcome", outcome(row) + (f": {meaning}" if meaning else "")
    yield "status", f"{cell(row['status'])}, finish reason {line(row['finish_reason'])}"
    if row["error_code"] or row["error_message"]:
        yield "error", f"{line(row['error_code'])}: {line(row['error_message'])}"
    if row["ended_detail"]:
        yield "transport", f"{line(row['ended_by'])}: {line(row['ended_detail'])}"
    for key, value in row["labels"].items():
        yield "label", line(f"{key}={value}")


def _numbers(row: Row, burst: bool) -> Iterator[tuple[str, str]]:
    yield "times, ms", _listed_ms(row, "ttfb", "ttfc", "ttft", "ttfo", "ttst", "latency", "duration")
    yield "gaps, ms", _listed_ms(row, "icl_p50", "icl_p90", "icl_p99", "icl_max")
    longest, silent = ms(row["max_stall_ms"]), ms(row["max_silence_ms"])
    yield "", f"longest gap {longest} (between reads with output), longest silence {silent} (without any byte)"
    tpot = row["tpot_ms"]  # of which tps_user is the inverse, unless the tape's flag withholds it
    if "hidden_tokens" in row["flags"]:
        yield "pace", "tpot and tokens a second withheld: usage counts tokens that did not come"
    else:
        rate = "tokens a second withheld: burst" if burst else f"{ms(1000 / tpot if tpot else None)} tokens a second"
        yield "pace", f"tpot {ms(tpot)} ms, {rate}"
    tokens = ("prompt", "completion", "reasoning", "total")
    yield "tokens", ", ".join(f"{name} {count(row[f'{name}_tokens'])}" for name in tokens)
    of_streams = () if "nonstream" in row["flags"] else ("events", "comments", "chunks", "output_chunks")
    counts = ("reads", *of_streams, "bytes", "gap_bytes")
    yield "counts", ", ".join(f"{name.replace('_', ' ')} {count(row[name])}" for name in counts)
    if row["sparkline"]:
        yield "", safe(row["sparkline"])


def _listed_ms(row: Row, *names: str) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {ms(row[f'{name}_ms'])}" for name in names)


def _labelled(label: str, text: str) -> Text:
    return Text.assemble((f"{label:<11}", "dim"), text)


def _told(verdicts: Sequence[Verdict]) -> Iterator[Text]:
    told = _longest(verdicts)
    for verdict in told:
        yield from _verdict(verdict)
    if len(told) < len(verdicts):
        yield _labelled("", f"and {counted(len(verdicts) - len(told), 'shorter stall')}: see --part timing")


def _longest(verdicts: Sequence[Verdict]) -> list[Verdict]:
    ranked = sorted(verdicts, key=lambda verdict: (verdict.kind == "stall", -verdict.lasted_ns))[:_MOST_VERDICTS]
    return [verdict for verdict in verdicts if verdict in ranked]


def _verdict(verdict: Verdict) -> Iterator[Text]:
    told, evidence = wording.sentences(verdict)
    yield Text.assemble((f"{verdict.kind:<11}", "yellow"), told)
    yield _labelled("", evidence)


def _spreads(slowness: Slowness) -> Iterator[Text]:
    lines = {
        "upstream gap": (slowness.upstream, "between reads with output: upstream, or the network before wiretape"),
        "relay delay": (slowness.relay, "wiretape itself, for each read that did not wait for the client"),
        "client wait": (slowness.client, "for each read: the client's side took no more"),
        "unclear": (slowness.unclear, "upstream, relay or client: the tape cannot tell"),
        "both together": (slowness.delay, "from when a read came to its handing on, behind others too"),
    }
    yield Text(_aligned("who was slow?", "n", ("p50 ms", "p99 ms", "max ms"), "what it is"), "bold")
    for name, (found, meaning) in lines.items():
        if found is not None:
            figures = [ms(rows.ms(value)) for value in (found.p50_ns, found.p99_ns, found.max_ns)]
            yield Text(_aligned(name, count(found.n), figures, meaning))
        elif name != "unclear":
            yield Text(_aligned(name, UNKNOWN, [UNKNOWN] * 3, meaning))


def _aligned(name: str, number: str, figures: Sequence[str], meaning: str) -> str:
    return f"{name:<13}  {number:>7}  {''.join(f'{figure:>10}  ' for figure in figures)}{meaning}"
