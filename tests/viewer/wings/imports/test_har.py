"""An archive: bodies, phases, and the times of events that it has."""

import base64
import itertools
import json
import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.cases import each_case
from tests.support.commands import run
from tests.support.frames import begin, end, head, http2, opened, read, record
from wiretape.viewer.imported import ImportedExchange, ImportedFile, NotImportable, Unimportable, problem
from wiretape.viewer.wings.imports import formats, har

SOURCE = ImportedFile("t", datetime(2026, 3, 1, tzinfo=UTC))
STARTED = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
TIMINGS = {"blocked": 1, "dns": 2, "ssl": 2, "connect": 4, "send": 1, "wait": 10, "receive": 90}
TEXT = "event: a\ndata: x\n\n: ping\n\ndata: y\n\n"
MESSAGES = [
    {"time": STARTED + 0.05, "eventName": "a", "eventId": "", "data": "x"},
    {"time": STARTED + 0.08, "eventName": "message", "eventId": "", "data": "y"},
]


def entry(content: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return an entry as Chrome has it; fields of `response_` are of the response, of `request_` of the request."""
    request = {"method": "GET", "url": "https://api.test/v1/x?a=b", "headers": [{"name": ":path", "value": "/"}]}
    response = {"status": 200, "headers": [{"name": "content-type", "value": "text/event-stream"}], "content": content}
    for part, name in ((request, "request_"), (response, "response_")):
        part |= {key.removeprefix(name): more.pop(key) for key in list(more) if key.startswith(name)}
    return {"startedDateTime": "2026-03-01T13:00:00.000+01:00", "time": 107, "request": request, "response": response,
            "timings": TIMINGS} | more  # fmt: skip


def archive(*entries: Any) -> bytes:
    return json.dumps({"log": {"version": "1.2", "creator": {"name": "x"}, "entries": entries}}).encode()


def parsed(*entries: Any) -> list[ImportedExchange | Unimportable]:
    return list(har.read(archive(*entries), SOURCE))


def only(*entries: Any) -> ImportedExchange:
    (exchange,) = parsed(*entries)
    assert isinstance(exchange, ImportedExchange)
    assert problem(exchange) is None
    return exchange


def test_a_streams_events_and_phases_have_their_times() -> None:
    assert formats.recognised(archive()) == "har"
    exchange = only(entry({"text": TEXT}, _eventSourceMessages=MESSAGES))
    assert exchange.started.timestamp() == STARTED
    assert (exchange.base, exchange.path, exchange.request_headers) == ("https://api.test", "/v1/x?a=b", [])
    assert [exchange.connected_ns, exchange.sent_ns, exchange.headers_ns, exchange.end_ns] == [
        7 * 10**6,
        8 * 10**6,
        18 * 10**6,
        108 * 10**6,
    ]
    assert (exchange.at_ns, exchange.sizes) == ([50 * 10**6, 80 * 10**6], [18, 17])
    assert (exchange.body, exchange.is_coarse, exchange.is_rebuilt) == (TEXT.encode(), True, False)


@each_case(
    ("version", "protocol"),
    [
        ("http/2.0", "h2"), ("HTTP/2", "h2"), ("h2", "h2"), ("h3", "h3"), ("HTTP/3", "h3"), ("http/1.1", "http/1.1"),
        ("HTTP/1.0", "http/1.0"), ("unknown", None), ("", None), (None, None),
    ],
)  # fmt: skip
def test_an_answers_version_is_its_protocol_however_written(version: str, protocol: str | None) -> None:
    assert only(entry({"text": TEXT}, response_httpVersion=version)).protocol == protocol
    assert only(entry({"text": TEXT}, request_httpVersion=version)).protocol == protocol


def test_an_http2_requests_authority_is_its_host() -> None:
    pseudo = [{"name": f":{name}", "value": value} for name, value in (("method", "GET"), ("authority", "api.test"))]
    accept = {"name": "accept", "value": "*/*"}
    host = {"name": "Host", "value": "other.test"}
    headers = {
        names: only(entry({"text": TEXT}, request_headers=list(fields))).request_headers
        for names, fields in {"authority": (*pseudo, accept), "both": (*pseudo, host)}.items()
    }
    assert headers == {"authority": [(b"host", b"api.test"), (b"accept", b"*/*")], "both": [(b"Host", b"other.test")]}


@each_case(
    "error", ["net::ERR_HTTP2_PROTOCOL_ERROR", "net::ERR_HTTP2_SERVER_REFUSED_STREAM", "net::ERR_QUIC_PROTOCOL_ERROR"]
)
def test_a_stream_that_chrome_could_not_finish_was_reset(error: str) -> None:
    assert only(entry({"text": TEXT}, _error=error)).ended_by == "reset"


def test_an_http2_export_returns_protocol_trailers_and_error(tmp_path: Path) -> None:
    tape, second_tape, archive = tmp_path / "tape.db", tmp_path / "again.db", tmp_path / "a.har"
    with opened(tape) as store:
        record(store, [*http2("a" * 16), *http2("b" * 16, is_reset=True)])
    run(tape, "export", "-o", str(archive))
    entries = {item["_wiretape"]["id"][0]: item for item in json.loads(archive.read_bytes())["log"]["entries"]}
    assert [entries[id][side]["httpVersion"] for id in "ab" for side in ("request", "response")] == ["HTTP/2"] * 4
    assert entries["a"]["response"]["_trailers"][0] == {"name": "grpc-status", "value": "8"}
    run(second_tape, "import", str(archive))
    names = ("protocol", "framing", "response_trailers", "reset_code", "outcome", "outcome_detail")
    for id in "ab":
        outputs = (run(one, "show", id * 16, "--format", "json").stdout for one in (tape, second_tape))
        first, second = (
            json.loads(re.sub("sha256:[0-9a-f]{8}", "", output)) for output in outputs
        )  # each has its own salt
        assert [second[name] for name in names] == [first[name] for name in names]


def test_a_missing_body_is_rebuilt_from_its_events() -> None:
    messages = [*MESSAGES, {"time": STARTED + 0.09, "eventName": "message", "eventId": "7", "data": "two\nlines"}]
    for text in ({}, {"text": ""}):
        exchange = only(entry(text, _eventSourceMessages=messages))
        assert exchange.body == b"event: a\ndata: x\n\ndata: y\n\nid: 7\ndata: two\ndata: lines\n\n"
        assert (len(exchange.at_ns), sum(exchange.sizes), exchange.is_rebuilt, exchange.is_coarse) == (
            3,
            len(exchange.body),
            True,
            True,
        )


def test_text_in_another_charset_is_corrected_by_its_events() -> None:
    text, data = "data: é€Š中\n\n", {"time": STARTED + 0.05, "data": "é€Š中"}
    misread = "".join(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in text.encode())
    for messages, at_ns in (([data], [50 * 10**6]), ([], []), ([data | {"data": "other"}], [])):
        note, exchange = parsed(entry({"text": misread}, _eventSourceMessages=messages))
        assert isinstance(note, Unimportable)
        assert note.is_note
        assert isinstance(exchange, ImportedExchange)
        assert (exchange.body, exchange.at_ns) == (text.encode(), at_ns)
    latin = "data: é\n\n"
    assert only(entry({"text": latin})).body == latin.encode()
    plain = [{"name": "content-type", "value": "text/plain"}]
    assert only(entry({"text": misread}, response_headers=plain)).body == misread.encode()


@each_case(
    "messages",
    [
        [MESSAGES[1], MESSAGES[0]],
        [{**MESSAGES[0], "time": STARTED + 0.09}, MESSAGES[1]],
        [{**MESSAGES[0], "time": STARTED - 1}, MESSAGES[1]],
        [{**MESSAGES[0], "time": None}, MESSAGES[1]],
        MESSAGES[:1],
        [*MESSAGES, MESSAGES[1]],
    ],
)
def test_times_outside_the_body_are_not_used(messages: list[dict[str, Any]]) -> None:
    note, exchange = parsed(entry({"text": TEXT}, _eventSourceMessages=messages))
    assert isinstance(note, Unimportable)
    assert note.is_note
    assert isinstance(exchange, ImportedExchange)
    assert (exchange.body, exchange.at_ns, exchange.is_timed) == (TEXT.encode(), [], False)


def test_what_an_archive_does_not_have_is_unknown() -> None:
    bare = only(entry({"size": 9}, response_status=429, timings={"send": -1, "wait": None, "receive": 3}))
    assert (bare.body, bare.missing, bare.is_timed, bare.end_ns, bare.headers_ns) == (b"", 9, False, None, None)
    untimed = [
        only(entry({"text": "{}"}, timings={"send": 1, "wait": 0, "receive": 9} | more))
        for more in ({}, {"receive": 0})
    ]
    assert [(exchange.sent_ns, exchange.headers_ns, exchange.end_ns) for exchange in untimed] == [
        (1_000_000, None, 10_000_000), (None, None, None),
    ]  # fmt: skip
    sent = only(entry({"text": "{}"}, request_bodySize=7, request_method="POST"))
    assert (sent.request, sent.request_size) == (None, 7)
    assert only(entry({"text": "{}"}, request_postData={"text": "é"})).request == "é".encode()
    assert only(entry({"text": "{}"})).request is None
    for unsaid in ({"bodySize": 7}, {"headers": [NINE]}, {"postData": {"text": "", "params": [{"name": "a"}]}}):
        fields = {"postData": {"text": ""}} | unsaid
        emptied = only(entry({"text": "{}"}, **{f"request_{name}": value for name, value in fields.items()}))
        assert (emptied.request, emptied.request_size) == (None, unsaid.get("bodySize"))
    started = only(entry({"text": "{}"}, request_postData={"text": "ab"}, request_bodySize=7))
    assert (started.request, started.request_size) == (b"ab", 7)
    odd = only(entry({"text": "{}"}, timings=None, response_headers=[{"name": "a", "value": None}, {"value": "b"}]))
    assert (odd.response_headers, odd.end_ns) == ([(b"a", b"")], None)


JSON, CHUNKED, ZERO, NINE = (
    {"name": name, "value": value}
    for name, value in (
        ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked"), ("content-length", "0"),
        ("content-length", "9"),
    )
)  # fmt: skip


@each_case(
    "changes",
    [
        {},
        {"response_content": {"size": 0, "text": None}},
        {"response_content": {"size": 0, "text": ""}},
        {"response_content": {"size": -1}},
        {"response_headers": [JSON, CHUNKED]},
        {"response_headers": [NINE]},
        {"response_content": {}, "response_headers": [CHUNKED]},
        {"response_content": {"size": 0, "text": "", "mimeType": "application/json"}, "response_headers": []},
    ],
)
def test_an_answer_without_archived_body_is_refused(changes: dict[str, Any]) -> None:
    refused, accepted = parsed(entry({"size": 0}, **changes), entry({"text": TEXT}))
    assert isinstance(refused, Unimportable)
    assert "streamed past" in refused.reason
    assert isinstance(accepted, ImportedExchange)


def test_an_answer_without_all_of_its_text_is_refused() -> None:
    absent, started = parsed(entry({"size": 9}), entry({"size": 5_321, "text": TEXT}))
    assert isinstance(absent, Unimportable)
    assert isinstance(started, Unimportable)
    assert absent.reason == "the archive has nothing of its body of 9 bytes"
    assert started.reason == "the archive has only 35 bytes of its body of 5,321 bytes"
    assert only(entry({"size": len(TEXT) + 3, "text": TEXT})).missing == 0  # it began with the mark of UTF-8
    coded = [{"name": "Content-Encoding", "value": "gzip"}]
    assert only(entry({"size": 99, "text": TEXT}, response_headers=coded)).missing == 0


@each_case(
    "changes",
    [
        {"response_headers": [ZERO, JSON]},
        {"response_headers": [CHUNKED]},
        {"response_status": 204},
        {"response_status": 429},
        {"request_method": "HEAD"},
        {"response__error": "net::ERR_ABORTED"},
        {"response__error": "net::ERR_ABORTED", "response_content": {"size": 9}},
    ],
)
def test_an_empty_or_evidently_ended_answer_is_imported(changes: dict[str, Any]) -> None:
    assert only(entry({"size": 0}, **changes)).body == b""


def test_an_undone_content_coding_leaves_the_headers() -> None:
    coded = [{"name": "Content-Encoding", "value": "br"}, {"name": "content-length", "value": "3"}]
    exchange = only(entry({"text": "aaaa"}, response_headers=coded))
    assert (exchange.response_headers, exchange.is_rebuilt, exchange.framing) == ([], True, None)
    binary = base64.b64encode(b"\xff\x00").decode()
    assert only(entry({"text": binary, "encoding": "base64"})).body == b"\xff\x00"


@each_case(
    ("changes", "ended_by"),
    [
        ({"response__error": "net::ERR_CONNECTION_REFUSED", "response_status": 0}, "refused"),
        ({"response__error": "net::ERR_INCOMPLETE_CHUNKED_ENCODING"}, "eof"),
        ({"response__error": "net::ERR_ABORTED"}, "client"),
        ({"_wiretape": {"ended_by": "idle_timeout"}}, "idle_timeout"),
    ],
)
def test_how_an_entry_ended(changes: dict[str, Any], ended_by: str) -> None:
    assert only(entry({"text": "a"}, **changes)).ended_by == ended_by


@each_case(
    ("changes", "reason"),
    [
        ({"response_status": 0}, "no answer"),
        ({"response_status": "200"}, "Expected `int`"),
        ({"response_status": 0, "response__error": "net::ERR_BLOCKED_BY_CLIENT"}, "BLOCKED"),
        ({"response_content": {"text": "a", "encoding": "base64"}}, "base64 is broken"),
        ({"startedDateTime": "yesterday"}, "Invalid isoformat"),
        ({"startedDateTime": "2026-03-01T12:00:00"}, "no time zone"),
        ({"request_url": "data:text/plain,a"}, "not one of HTTP"),
        ({"_webSocketMessages": []}, "WebSocket"),
        ({"_wiretape": {"ended_by": None}}, "still ran"),
        ({"_eventSourceMessages": [{"time": STARTED, "data": "a", "eventName": "a\nb"}]}, "several lines"),
        ({"_eventSourceMessages": 7}, "Expected `array"),
    ],
)
def test_a_broken_entry_is_named_and_the_others_imported(changes: dict[str, Any], reason: str) -> None:
    refused, accepted = parsed(entry({}, **changes), entry({"text": "a"}))
    assert isinstance(refused, Unimportable)
    assert refused.place == "entry 0"
    assert reason in refused.reason
    assert isinstance(accepted, ImportedExchange)


@each_case(
    "changes",
    [
        {"_eventSourceMessages": [{"time": 1e300, "data": "a"}], "response_content": {}},
        {"_eventSourceMessages": [{"time": STARTED + 101 * 86_400, "data": "a"}], "response_content": {}},
        {"response_content": {"size": 1e300}, "response_status": 429},
        {"request_bodySize": 1e300},
        {"request_url": "http://[x/"},
        {"request_url": "http://a\0b/"},
        {"request_method": "GE T"},
        {"response_status": 7},
        {"timings": {"blocked": 1e15, "send": 1, "wait": 1, "receive": 1}},
        {"startedDateTime": "0001-01-01T00:00:00Z"},
        {"startedDateTime": "1970-01-01T00:00:00.000+05:30"},
        {"startedDateTime": "9999-12-31T23:59:59.999Z"},
    ],
)
def test_what_no_tape_may_hold_is_a_problem(changes: dict[str, Any]) -> None:
    (exchange,) = parsed(entry({"text": "a"}, **changes))
    assert isinstance(exchange, ImportedExchange)
    assert problem(exchange)


def test_a_file_that_is_no_archive_is_refused() -> None:
    for data in (b'{"log": {', b'{"log": {}}', b'{"log": {"entries": {}}}', b'{"log": {"entries": []}}', b"\xff",
                 b'{"log": ' * 5000):  # fmt: skip
        with pytest.raises(NotImportable, match="archive"):
            list(har.read(data, SOURCE))
    assert len(list(har.read(b"\xef\xbb\xbf" + archive(entry({"text": "a"})), SOURCE))) == 1


def random_stream(chance: random.Random, no: int) -> list[Any]:
    """Return an exchange whose events are cut into reads anywhere; a text of it may be of any characters."""
    words = ["a", " ", "é", "中", "\\n", "\\u0000", "x" * 70]
    parts = [f": {chance.randint(0, 9)}\n\n" if chance.random() < 0.2 else
             f'data: {{"n":"{chance.choice(words)}"}}\n\n' for _ in range(chance.randint(1, 8))]  # fmt: skip
    body = "".join(parts).encode()
    cuts = sorted({0, len(body), *(chance.randint(1, len(body) - 1) for _ in range(chance.randint(0, 5)))})
    pieces = [body[start:stop] for start, stop in itertools.pairwise(cuts)]
    id, at = f"{no:016x}", 4_000_000
    reads = []
    for seq, piece in enumerate(pieces):
        at += chance.randint(0, 10**9)
        reads.append(read(id, seq, at, None, piece))
    return [begin(id), head(id), *reads, end(id, pieces)]


def test_an_export_of_wiretape_returns_bytes_and_times(tmp_path: Path) -> None:
    chance = random.Random(7)
    first, second, third = (tmp_path / f"{name}.db" for name in ("recorded", "imported", "stripped"))
    with opened(first) as store:
        for no in range(12):
            record(store, random_stream(chance, no))
    exported = tmp_path / "a.har"
    run(first, "export", "-o", str(exported))
    run(second, "import", str(exported))
    for table in ("reads", "chunks"):
        assert run(second, "export", "--table", table).stdout.replace("\r", "") == run(
            first, "export", "--table", table
        ).stdout.replace("\r", "")
    assert "already" in run(first, "import", str(exported)).output
    foreign = json.loads(exported.read_text())
    for item in foreign["log"]["entries"]:
        del item["_wiretape"]  # as any other archive
    exported.write_text(json.dumps(foreign))
    run(third, "import", str(exported))
    for original, stripped in zip(events(first), events(third), strict=True):
        assert [data for _, data in original] == [data for _, data in stripped]
        assert all(abs(a - b) <= 0.001 for (a, _), (b, _) in zip(original, stripped, strict=True))


def events(tape: Path) -> list[list[tuple[float, str]]]:
    """Return the events of each exchange, in the order of their bodies: ms and data."""
    ids = [row["id"] for row in map(json.loads, run(tape, "export", "--format", "jsonl").stdout.splitlines())]
    outputs = (run(tape, "show", id, "--part", "events", "--format", "jsonl").stdout.splitlines() for id in ids)
    return [[(row["at_ms"], row["data"]) for row in map(json.loads, lines) if row["kind"] != "comment"]
            for lines in outputs]  # fmt: skip


GOOD = json.dumps(entry({"text": TEXT}))


@pytest.mark.parametrize(
    "broken",
    [
        GOOD.replace("107", "NaN"), json.dumps(entry({"text": f"cut off {chr(0xD83D)}"})), GOOD.replace("107", "1e999"),
        '{"a":' * 20_000 + "1" + "}" * 20_000, "[" * 200_000 + "]" * 200_000, "nonsense", '{"]": 1, ,}', "null",
        json.dumps(entry({"text": 1})), json.dumps(entry({"text": TEXT}, request_headers=[[1]])),
        json.dumps(entry({"text": TEXT}, startedDateTime="0001-01-01T00:00:00+14:00")),
        json.dumps(entry({"text": TEXT}, response_status=10**4000)),
        json.dumps(entry({"text": TEXT}, timings={"send": 1e308, "wait": 1e308})),
    ],
    ids=range(13),
)  # fmt: skip
def test_a_broken_entry_costs_no_other(broken: str, tmp_path: Path) -> None:
    file = tmp_path / "a.har"
    file.write_text(f'{{"log": {{"entries": [{GOOD}, {broken}, {GOOD}]}}}}')
    done = run(tmp_path / "tape.db", "import", str(file), code=1)
    assert f"{file}: entry 1: " in done.stderr
    assert "2 exchanges of har imported" in done.stdout
    assert "1 left out" in done.stdout


def test_a_truncated_archives_whole_entries_are_imported() -> None:
    first, second = parsed(entry({"text": TEXT})), list(har.read(archive(*[entry({"text": TEXT})] * 2)[:-40], SOURCE))
    assert second[0] == first[0]
    assert second[1:] == [Unimportable("entry 1", "Input data was truncated")]
