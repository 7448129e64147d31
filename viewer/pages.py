"""One exchange for people: a page that sums it up, its assembled texts, its request.

As in `report`, every recorded text passes `safe` and is only ever put into `rich.text.Text`. Unknown is `–`.
"""

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from recorder.exchange import FLAGS, OUTCOMES
from recorder.safe import safe
from viewer.cells import block, cell, count, cut, line, moment, ms, outcome
from viewer.rows import Row

_PREVIEW: Final = 60


def page(row: Row) -> Iterator[Text]:
    """Tell about one exchange: `row` is `queries.detail`'s."""
    yield Text.assemble((safe(row["id"]), "bold"), f"  {line(row['method'])} {line(row['upstream'] + row['path'])}")
    for label, text in (*_story(row), *_numbers(row)):
        yield _labelled(label, text)
    for flag in row["flags"]:
        yield _labelled("flag", f"{safe(flag)}: {FLAGS.get(flag, 'not known to this version')}")
    for name in ("reasoning", "content", "refusal"):
        if row[name] is not None:
            yield _labelled(name, f"{len(row[name]):,} characters: {cut(line(row[name]), _PREVIEW)}")
    for call in row["tool_calls"] or ():
        yield _labelled("tool call", cut(line(f"{call['name']}({call['arguments']})"), 2 * _PREVIEW))


def answer(row: Row) -> Iterator[Text]:
    """Show the assembled texts of an exchange: reasoning dimmed, then content, refusal and tool calls."""
    for name, style in (("reasoning", "dim"), ("content", ""), ("refusal", "red")):
        if row[name] is not None:
            if name != "content":
                yield Text(f"{name}:", f"bold {style}")
            yield Text(block(row[name]), style)
    for call in row["tool_calls"] or ():
        yield Text.assemble(("tool call: ", "bold"), line(f"{call['name']}({call['arguments']})"))


def request(row: Row) -> Iterator[Text]:
    """Show a request: its line, its headers as stored (redacted), and its body."""
    yield Text(f"{line(row['method'])} {line(row['upstream'] + row['path'])}", "bold")
    for name, value in row["headers"]:
        yield Text.assemble((f"{line(name)}: ", "dim"), line(value))
    yield Text()
    if row["body"]:
        yield Text(block(row["body"]))
    if row["body"] is None or len(row["body"].encode()) != row["size"]:
        yield Text(f"({row['size']:,} bytes, not all of them shown: not UTF-8, or more than the tape keeps)", "dim")


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


def _numbers(row: Row) -> Iterator[tuple[str, str]]:
    yield "times, ms", _listed_ms(row, "ttfb", "ttfc", "ttft", "ttfo", "ttst", "latency", "duration")
    yield "gaps, ms", _listed_ms(row, "icl_p50", "icl_p90", "icl_p99", "icl_max", "max_stall")
    yield "pace", f"tpot {ms(row['tpot_ms'])} ms, {ms(row['tps_user'])} tokens a second"
    tokens = ("prompt", "completion", "reasoning", "total")
    yield "tokens", ", ".join(f"{name} {count(row[f'{name}_tokens'])}" for name in tokens)
    counts = ("reads", "events", "comments", "chunks", "output_chunks", "bytes", "gap_bytes")
    yield "counts", ", ".join(f"{name.replace('_', ' ')} {count(row[name])}" for name in counts)
    if row["sparkline"]:
        yield "", safe(row["sparkline"])


def _listed_ms(row: Row, *names: str) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {ms(row[f'{name}_ms'])}" for name in names)


def _labelled(label: str, text: str) -> Text:
    return Text.assemble((f"{label:<11}", "dim"), text)
