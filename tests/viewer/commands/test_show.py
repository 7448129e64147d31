"""The command `show`, from the outside: its parts, their formats, exact bytes on a pipe."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from tests.support import turns
from tests.support.commands import on_terminal, run
from tests.support.compressors import COMPRESS, by_brotli, zstd
from tests.support.frames import begin, body, end, head, opened, record
from tests.support.growing_tape import recorder
from tests.support.sample_tape import COMPLETE, COMPLETE_READS, LIMITED, LIVE, ODD, TOOLS, event, recorded
from wiretape.recorder.decode import allowance
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.viewer.exchange import markers
from wiretape.viewer.exchange import opened as opening
from wiretape.viewer.record.fields import DETAIL_FIELDS, EVENT_FIELDS, FIELDS, SENT_READ_FIELDS, TEXT_FIELDS
from wiretape.viewer.source.tape import exchange, queries
from wiretape.viewer.timing import verdicts

ANSWERED = b'data: {"choices":[{"index":0,"delta":{"content":"answer"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
BODY = b"".join(data for _, data in COMPLETE_READS)


def test_show_finds_the_newest_that_failed(tape: Path) -> None:
    assert json.loads(run(tape, "show", "@err", "--format", "json").stdout)["id"] == ODD


def test_show_as_json_is_one_object_of_the_contract(tape: Path) -> None:
    rows = json.loads(run(tape, "show", COMPLETE, "--format", "json").stdout)
    heads = ("request_headers", "response_headers", "response_trailers")
    assert tuple(rows) == FIELDS + TEXT_FIELDS + DETAIL_FIELDS + heads
    assert rows["response_headers"] == [["content-type", "text/event-stream"]]
    assert (rows["content"], rows["labels"], rows["usage"]["total_tokens"]) == ("Hello, world", {"run": "a7"}, 9)


def test_show_as_csv_has_the_structures_as_json(tape: Path) -> None:
    (row,) = csv.DictReader(io.StringIO(run(tape, "show", TOOLS, "--format", "csv").stdout))
    assert json.loads(row["tool_calls"])[0]["arguments"] == '{"city":"Oslo"}'
    assert (row["flags"], row["output_tokens"]) == ("no_usage stall", "")


@pytest.mark.parametrize("part", ["events", "reads"])
def test_events_and_reads_come_in_every_format(tape: Path, part: str) -> None:
    fields = {"events": EVENT_FIELDS, "reads": SENT_READ_FIELDS}[part]
    rows = json.loads(run(tape, "show", COMPLETE, "--part", part, "--format", "json").stdout)
    assert {tuple(row) for row in rows} == {fields}
    assert tuple(run(tape, "show", COMPLETE, "--part", part).stdout.splitlines()[0].split()) == fields
    assert len(run(tape, "show", COMPLETE, "--part", part, "--format", "jsonl").stdout.splitlines()) == len(rows)


def test_events_have_their_place_and_time(tape: Path) -> None:
    rows = json.loads(run(tape, "show", COMPLETE, "--part", "events", "--format", "json").stdout)
    kinds = ["role", "content", "comment", "content", "content", "content", "finish", "usage", "done"]
    assert [row["kind"] for row in rows] == kinds
    assert [row["delta"] for row in rows[:5]] == [None, "Hel", None, "lo", ", "]
    assert [row["seq"] for row in rows] == list(range(9))
    assert [row["at_ms"] for row in rows] == [100.0, 110.0, 120.0, 120.0, 120.0, 170.0, 180.0, 180.0, 180.0]
    assert [row["gap_ms"] for row in rows] == [None, 10.0, 10.0, 0.0, 0.0, 50.0, 10.0, 0.0, 0.0]
    assert BODY[rows[2]["start"] : rows[2]["end"]].startswith(b": keep-alive")


def test_the_summary_tells_a_stall_and_who_was_slow(tape: Path) -> None:
    output = run(tape, "show", TOOLS).stdout
    assert "stall      3,000.0 ms from 0.050 s, before event #1: 'Think. ' … 'get_weather{\"city\":'" in output
    assert "upstream silent, relay 0.1 ms, no wait for the client" in output
    by_others = run(tape, "show", TOOLS, "--stall-ms", "3000").stdout
    assert "upstream silent" not in by_others
    assert "stall:" not in by_others
    assert "flags      no_usage" in by_others


def test_the_summary_begins_with_outcome_and_party(tape: Path) -> None:
    assert run(tape, "show", TOOLS).stdout.startswith("✓ complete, stall 3.0 s by upstream\n")
    assert run(tape, "show", COMPLETE).stdout.startswith("✓ complete, max gap 50.0 ms\n")
    limited = run(tape, "show", LIMITED).stdout
    assert limited.startswith("✗ upstream answered 429: rate_limit_exceeded: slow down\n")
    assert (
        "times      sent → headers 20.0 ms → first token 110.0 ms → done 180.0 ms" in run(tape, "show", COMPLETE).stdout
    )


@pytest.mark.parametrize("columns", [40, 80])
def test_the_summary_draws_scaled_gaps_within_the_terminal(tape: Path, columns: int) -> None:
    output = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(tape, "show", COMPLETE, columns=columns))
    assert ("▃" in output, "╷100 ms" in output, "gaps: ▁ <3" in output) == (True, True, True)
    drawing = output[output.index("╷0") - 11 : output.index("· first output")]
    assert max(map(len, drawing.splitlines())) <= columns


@pytest.mark.parametrize("part", ["text", "conversation", "events", "reads", "request", "raw"])
def test_thresholds_are_refused_where_nothing_is_judged(tape: Path, part: str) -> None:
    output = run(tape, "show", TOOLS, "--part", part, "--stall-ms", "3000", "--burst-reads", "1", code=2).stderr
    assert f"--part {part} is not judged: leave out --stall-ms, --burst-reads" in output


def test_a_conversation_page_marks_news(tmp_path: Path) -> None:
    tape = recorded(tmp_path / "t.db", list(turns.frames()))
    page = run(tape, "show", turns.SECOND, "--part", "conversation").stdout
    assert [line for line in page.splitlines() if line[:1] not in ("", " ")] == [
        "model       gpt-x", "parameters  stream true  temperature 0", "system · 179 characters, as before",
        "tools · 1, as before", "messages · 3", "1 user", "2 assistant",
        "── new since 11110000 ".ljust(120, "─"), "3 tool", "answer · complete, finish reason stop",
    ]  # fmt: skip
    assert "Rule 19." in page
    assert page.endswith("  Yes: ␛[31msnow.\n")


def test_a_conversation_is_folded_on_terminals_and_json_records(tmp_path: Path) -> None:
    tape = recorded(tmp_path / "t.db", list(turns.frames()))
    output = on_terminal(tape, "show", turns.FIRST, "--part", "conversation")
    assert "… 9 more lines: a pipe gets all of it" in output
    rows = json.loads(run(tape, "show", turns.SECOND, "--part", "conversation", "--format", "json").stdout)
    assert (rows["continues"], [message["new"] for message in rows["messages"]]) == (
        turns.FIRST,
        [False, False, True],
    )


def test_thresholds_set_elsewhere_are_no_error(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIRETAPE_STALL_MS", "3000")
    assert run(tape, "show", COMPLETE, "--part", "text").stdout == "Hello, world"


def test_the_help_says_what_comes_without_a_format(tape: Path) -> None:
    output = " ".join(run(tape, "show", "--help").stdout.split())
    assert "[default: a page; on a pipe tsv of timing, events and reads, bytes of text and request]" in output
    assert run(tape, "show", TOOLS, "--part", "facts").stdout.startswith(f"{TOOLS}  POST https://")


def test_timing_has_rows_for_programs_and_a_page(tape: Path) -> None:
    (rows,) = json.loads(run(tape, "show", TOOLS, "--part", "timing", "--format", "json").stdout)
    assert tuple(rows) == verdicts.FIELDS
    assert (rows["kind"], rows["form"], rows["who"], rows["lasted_ms"]) == ("stall", "gap", "upstream", 3000)
    assert run(tape, "show", TOOLS, "--part", "timing").stdout.splitlines()[0].split("\t") == list(verdicts.FIELDS)
    assert run(tape, "show", COMPLETE, "--part", "timing", "--format", "jsonl").stdout == ""
    stalls = run(tape, "show", COMPLETE, "--part", "timing", "--stall-ms", "5", "--format", "jsonl").stdout
    assert [json.loads(line)["lasted_ms"] for line in stalls.splitlines()] == [10, 50, 10]
    assert "who was slow?" in run(tape, "show", TOOLS, "--part", "timing", "--format", "table").stdout


def test_timing_of_hostile_and_of_open_exchanges_is_safe(tape: Path) -> None:
    output = on_terminal(tape, "show", ODD, "--part", "timing", "--stall-ms", "1")
    assert "who was slow?" in output
    assert "\x1b]52" not in output
    assert "upstream gap" in run(tape, "show", "@", "--part", "timing", "--format", "table").stdout


def test_piped_text_is_only_the_content(tape: Path) -> None:
    assert run(tape, "show", COMPLETE, "--part", "text").stdout_bytes == b"Hello, world"
    assert run(tape, "show", TOOLS, "--part", "text").stdout_bytes == b""
    rows = json.loads(run(tape, "show", TOOLS, "--part", "text", "--format", "json").stdout)
    assert (rows["reasoning"], rows["tool_calls"][0]["name"]) == ("Think. ", "get_weather")


def test_a_piped_request_is_its_exact_body(tape: Path) -> None:
    assert run(tape, "show", "c000", "--part", "request").stdout_bytes == b"\xff\xfe not UTF-8"
    rows = json.loads(run(tape, "show", "c000", "--part", "request", "--format", "json").stdout)
    assert tuple(rows) == (
        "id", "method", "path", "upstream", "headers", "body", "body_base64", "size", "sha256", "labels",
    )  # fmt: skip
    assert "authorization: REDACTED" in run(tape, "show", "c000", "--part", "request", "--format", "table").stdout


def test_compressed_requests_and_answers_are_shown_decoded(tmp_path: Path) -> None:
    request = b'{"model":"packed-model","messages":[{"role":"user","content":"a question"}]}'
    *parts, final_part = by_brotli([b'data: {"choices":[{"index":0,"delta":{"content":"an "}}]}\n\n', ANSWERED], True)
    parts[-1] += final_part
    headers = [(b"content-type", b"text/event-stream"), (b"content-encoding", b"br")]
    with opened(tape := tmp_path / "packed.db") as store:
        sent = begin("e1e1", body=zstd.compress(request), headers=[(b"content-encoding", b"zstd")])
        record(store, [sent, head("e1e1", headers), *body("e1e1", parts), end("e1e1", parts)])
    row = json.loads(run(tape, "show", "@", "--format", "json").stdout)
    assert (row["model"], row["outcome"], row["flags"]) == ("packed-model", "complete", ["no_usage"])
    assert run(tape, "show", "@", "--part", "text").stdout == "an answer"
    reads = json.loads(run(tape, "show", "@", "--part", "events", "--format", "json").stdout)
    assert [event["read"] for event in reads] == [0, 1, 1]
    page = run(tape, "show", "@", "--part", "request", "--format", "table").stdout
    assert f"(it came as zstd; decoded: {len(request)} bytes)" in page
    assert '"content": "a question"' in page
    assert "a question" in run(tape, "show", "@", "--part", "conversation").stdout
    assert run(tape, "show", "@", "--part", "request").stdout_bytes == request
    assert run(tape, "ls", "-f", 'prompt:"a question" prompt~quest', "--format", "jsonl").stdout.count("\n") == 1
    assert run(tape, "ls", "-f", "prompt:answer", "--format", "jsonl").stdout == ""


def test_a_piped_raw_body_is_exact_even_while_open(tape: Path) -> None:
    assert run(tape, "show", COMPLETE, "--part", "raw").stdout_bytes == BODY
    assert run(tape, "show", "@", "--part", "raw").stdout_bytes == COMPLETE_READS[0][1] + COMPLETE_READS[1][1]


@pytest.mark.parametrize("part", ["text", "conversation", "events"])
def test_what_was_decoded_up_to_a_limit_says_so(tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowance, "MAX_LINES", 100)
    tape = tmp_path / "tape.db"
    pieces = [ANSWERED.partition(b"data: [DONE]")[0], b"x\n" * 200]
    with opened(tape) as store:
        record(store, [begin("e1"), head("e1"), *body("e1", pieces), end("e1", pieces)])
        record(store, [begin("e2"), head("e2"), *body("e2", pieces[1:]), end("e2", pieces[1:])])
    output = run(tape, "show", "@-1", "--part", part)
    assert "answer" in output.stdout
    assert "only the beginning: decoding stopped at a limit" in output.stderr
    assert "decode_limit" in run(tape, "show", "@").stdout
    assert "stopped at a limit before any" in run(tape, "show", "@", "--part", "events").stderr


@pytest.mark.parametrize("coding", COMPRESS)
def test_raw_and_play_decompress_unless_the_head_is_printed(tmp_path: Path, coding: str) -> None:
    path, pieces = tmp_path / "tape.db", COMPRESS[coding]([BODY[:99], BODY[99:]], True)
    parts = [(at, piece) for at, piece in enumerate(pieces, 1) if piece]
    with recorder(path) as tape:
        tape.begin(
            COMPLETE, parts, headers=[(b"content-type", b"text/event-stream"), (b"content-encoding", coding.encode())]
        )
        tape.end(COMPLETE, parts)
    assert run(path, "show", "@", "--part", "raw").stdout_bytes == BODY
    assert run(path, "play", "@", "--as", "sse", "--speed", "1000").stdout_bytes == BODY
    assert run(path, "show", "@", "--part", "raw", "-i").stdout_bytes.endswith(b"".join(pieces))


def test_raw_has_no_format(tape: Path) -> None:
    assert "has no --format" in run(tape, "show", "@", "--part", "raw", "--format", "json", code=2).stderr


def test_raw_text_reaches_terminals_without_controls_unless_forced(tape: Path) -> None:
    assert "keep-alive" in on_terminal(tape, "show", COMPLETE, "--part", "raw")
    assert "keep-alive" in on_terminal(tape, "show", COMPLETE, "--part", "raw", "--force")


def test_a_binary_body_on_terminals_is_hex(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as tape:
        tape.answer("aaaa000000000001", b"\x89PNG\r\n\x1a\n\x00\xff" + b"\x00" * 5000, 30)
    output = on_terminal(path, "show", "@", "--part", "raw")
    assert "00000000  89 50 4e 47 0d 0a 1a 0a" in output
    assert "5,010 bytes, not text; a pipe or a file gets all of them" in " ".join(output.split())
    assert "\x1a" not in output


def test_terminal_events_are_listed_like_the_viewers(tape: Path) -> None:
    output = on_terminal(tape, "show", COMPLETE, "--part", "events").splitlines()
    assert output[0].split() == ["#", "t", "s", "Δ", "ms", "kind", "bytes", "read", "data"]
    assert output[2].split() == ["1", "0.110", "10.0", "content", "157", "1", "'Hel'"]
    assert output[4].split()[2:4] == ["same", "content"]
    assert output[8].split()[-4:] == ["5", "in,", "4", "out"]


def test_the_page_names_request_ids_and_limits_first(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    sent = [(b"content-type", b"text/event-stream"), (b"x-request-id", b"req_1"), (b"retry-after", b"20"),
            (b"x-ratelimit-remaining-tokens", b"7")]  # fmt: skip
    with recorder(path) as tape:
        tape.begin("aaaa000000000001", COMPLETE_READS, headers=sent)
        tape.end("aaaa000000000001", COMPLETE_READS)
    output = run(path, "show", "@", "--part", "facts").stdout
    for page in (output, run(path, "show", "@").stdout):
        headers = [row.split(maxsplit=1)[1] for row in page.splitlines() if row.startswith("header ")]
        assert headers == ["x-request-id: req_1", "retry-after: 20", "x-ratelimit-remaining-tokens: 7"]
    assert "response headers\ncontent-type: text/event-stream\n" in output
    assert "request headers\nhost: api.example.com\nauthorization: REDACTED" in output
    assert "request headers" not in on_terminal(path, "show", "@", "--part", "facts")


def test_the_servers_times_stand_beside_the_wires(tmp_path: Path) -> None:
    path, ids = tmp_path / "tape.db", ("aaaa000000000001", "aaaa000000000002")
    with recorder(path) as tape:
        for id, headers in zip(ids, ([(b"openai-processing-ms", b"20")], []), strict=True):
            tape.begin(id, COMPLETE_READS, headers=[(b"content-type", b"text/event-stream"), *headers])
            tape.end(id, COMPLETE_READS)
    row = json.loads(run(path, "show", ids[0], "--format", "json").stdout)
    rest = row["ttfb_ms"] - 20
    assert (row["server_total_ms"], row["network_ms"]) == (20, rest)
    (line,) = (line for line in run(path, "show", ids[0]).stdout.splitlines() if line.startswith("server"))
    assert line == f"server ms  total 20.0  network and gateways {rest:.1f}  from openai-processing-ms"
    assert "server ms" not in run(path, "show", ids[1]).stdout
    compared = on_terminal(path, "compare", *ids).splitlines()
    assert [line.split()[:2] for line in compared if "server" in line] == [["server_total_ms", "20.0"]]
    assert "the server's own time (server_total) ms  1" in on_terminal(path, "stats")
    assert "server" not in on_terminal(path, "stats", "-f", f"id:{ids[1]}")


@pytest.mark.parametrize(("id", "reason"), [
    (TOOLS, "the answer has only tool calls and reasoning"),
    (LIMITED, "an error came before any output (rate_limit_exceeded: slow down)"),
    (LIVE, "the exchange is still open"),
])  # fmt: skip
def test_without_any_text_standard_error_says_why(tape: Path, id: str, reason: str) -> None:
    result = run(tape, "show", id, "--part", "text")
    assert result.stdout_bytes == b""
    assert result.stderr.startswith(f"wiretape: there is no text: {reason}")


@pytest.mark.parametrize("part", ["events", "reads"])
def test_a_missing_body_is_reported_on_stderr(tmp_path: Path, part: str) -> None:
    path = tmp_path / "tape.db"
    with recorder(path) as tape:
        tape.begin("aaaa000000000001", [])
    result = run(path, "show", "@", "--part", part)
    assert result.stderr == f"wiretape: there are no {part}: no body came (open)\n"
    assert len(result.stdout.splitlines()) == 1


def test_missing_text_of_an_undecoded_api_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    reads = [(100, b'event: tick\ndata: {"kind":"tick"}\n\n')]
    with recorder(path) as tape:
        tape.begin("aaaa000000000001", reads)
        tape.end("aaaa000000000001", reads)
    output = run(path, "show", "@", "--part", "text").stderr
    assert "there is no text: not decoded: no dialect knows this stream; 35 bytes of body (complete)" in output


def test_an_event_has_the_same_number_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    stray = b'{"choices":[{"index":0,"delta":{"content":"stray"}}]}\n\n'
    parts = [(100, b": hi\n\n"), (110, event({"content": "a"})), (120, stray), (3120, event({"content": "late"}))]
    with recorder(path) as tape:
        tape.record("aaaa000000000001", parts)
    events = json.loads(run(path, "show", "@", "--part", "events", "--format", "json").stdout)
    assert [(row["seq"], row["kind"], row["delta"]) for row in events] == [
        (0, "comment", None), (1, "content", "a"), (2, "content", "stray"), (3, "content", "late")
    ]  # fmt: skip
    chunks = json.loads(run(path, "export", "--table", "chunks", "--format", "json").stdout)
    assert [(row["event"], row["content"], row["at_ms"]) for row in chunks] == [
        (row["seq"], row["delta"], row["at_ms"]) for row in events[1:]
    ]
    assert "before event #3: 'stray' … 'late'" in run(path, "show", "@").stdout
    with queries.opened(path) as connection:
        inspected = opening.open_exchange(exchange.stored(connection, 1), Thresholds())
    assert markers.label(inspected.markers[-1].position) == "#3"
    assert [inspected.transcript.text(seq) or None for seq in range(4)] == [row["delta"] for row in events]
