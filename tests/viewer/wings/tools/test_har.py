"""HTTP archives: the structure that HAR 1.2 asks for, true instants, and bytes that are a contract."""

import base64
import io
import json
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import on_terminal, run
from tests.support.exchanges import full
from tests.support.golden import assert_golden
from tests.support.sample_tape import COMPLETE, HOSTILE, LIMITED, LIVE, MS, ODD, TOOLS, TRUNCATED
from wiretape.recorder.decode.decoder import Decoded
from wiretape.recorder.decode.exchange import Read
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.source.tape import exchange, queries
from wiretape.viewer.wings.tools import har

PHASES = ("blocked", "dns", "connect", "send", "wait", "receive")
TEXT = {"name": str, "value": str}
ENTRY = {
    "startedDateTime": str, "time": (int, float), "cache": dict,
    "request": {
        "method": str, "url": str, "httpVersion": str, "cookies": [TEXT], "headers": [TEXT], "queryString": [TEXT],
        "headersSize": int, "bodySize": int,
    },
    "response": {
        "status": int, "statusText": str, "httpVersion": str, "cookies": [TEXT], "headers": [TEXT], "redirectURL": str,
        "content": {"size": int, "mimeType": str}, "headersSize": int, "bodySize": int,
    },
    "timings": {"send": (int, float), "wait": (int, float), "receive": (int, float)},
}  # fmt: skip
"""The entry that HAR 1.2 requires."""


def assert_of_shape(value: Any, shape: Any) -> None:
    if isinstance(shape, dict):
        assert isinstance(value, dict)
        for name, inner in shape.items():
            assert_of_shape(value[name], inner)
    elif isinstance(shape, list):
        for item in value:
            assert_of_shape(item, shape[0])
    else:
        assert isinstance(value, shape)


def archive(connection: Connection) -> bytes:
    out = io.BytesIO()
    exchanges = (exchange.full(connection, no) for no in queries.numbers(connection))
    assert har.write(out, exchanges, "0") == 7
    return out.getvalue()


def entries(connection: Connection) -> dict[str, Any]:
    return {entry["_wiretape"]["id"]: entry for entry in json.loads(archive(connection))["log"]["entries"]}


def timed(last_ns: int | None = None, **instants: int) -> dict[str, float]:
    return har.timings(full([] if last_ns is None else [Read(0, last_ns, None, 0, 1)], **instants))


def test_an_archive_is_the_golden_file_byte_for_byte(connection: Connection) -> None:
    # The salt of redacted values is each tape's own.
    assert_golden("exchanges.har", re.sub(rb"(REDACTED:sha256:)[0-9a-f]{8}", rb"\g<1>00000000", archive(connection)))


def test_an_archive_has_the_structure_of_har(connection: Connection) -> None:
    log = json.loads(archive(connection))["log"]
    assert (log["version"], log["creator"]) == ("1.2", {"name": "wiretape", "version": "0"})
    (page,) = log["pages"]
    assert page["startedDateTime"] == min(one["startedDateTime"] for one in log["entries"])
    assert {"id", "title", "pageTimings"} < page.keys()
    assert {one["pageref"] for one in log["entries"]} == {page["id"]}
    for entry in log["entries"]:
        assert_of_shape(entry, ENTRY)
        assert datetime.fromisoformat(entry["startedDateTime"]).tzinfo
        assert all(entry["timings"][name] >= 0 for name in ("send", "wait", "receive"))
        assert entry["time"] == pytest.approx(sum(max(entry["timings"][name], 0) for name in PHASES))


def test_each_event_has_the_timestamp_of_its_read(connection: Connection) -> None:
    entry = entries(connection)[COMPLETE]
    started = datetime.fromisoformat(entry["startedDateTime"]).timestamp()
    messages = entry["_eventSourceMessages"]
    assert [round((message["time"] - started) * 1000) for message in messages] == [
        100,
        110,
        120,
        120,
        170,
        180,
        180,
        180,
    ]
    assert [read["at_ms"] for read in entry["_wiretape"]["reads"]] == [100, 110, 120, 150, 170, 180]
    assert (messages[-1]["eventName"], messages[-1]["eventId"], messages[-1]["data"]) == ("message", "", "[DONE]")


def test_bodies_are_exact_and_hostile_text_is_ascii(connection: Connection) -> None:
    data, entry = archive(connection), entries(connection)
    assert data.isascii()
    assert not {byte for byte in data if byte < 0x20 or byte == 0x7F} - {0x0A}
    assert json.loads(entry[ODD]["request"]["postData"]["text"]) == {"model": HOSTILE}
    assert entry[ODD]["response"]["content"]["text"].startswith("data: ")
    assert entry[ODD]["comment"] == f"error_event (mid_stream): {HOSTILE}"


def test_a_body_that_is_no_text_is_in_base64(connection: Connection) -> None:
    post = entries(connection)[LIMITED]["request"]["postData"]
    assert (base64.b64decode(post["text"]), post["_encoding"]) == (b"\xff\xfe not UTF-8", "base64")


def test_headers_are_as_stored_without_secrets(connection: Connection) -> None:
    assert b"sk-secret" not in archive(connection)
    headers = {header["name"]: header["value"] for header in entries(connection)[COMPLETE]["request"]["headers"]}
    assert headers["authorization"].startswith("REDACTED")


def test_what_did_not_complete_says_so(connection: Connection) -> None:
    entry = entries(connection)
    assert entry[TRUNCATED]["comment"] == "truncated (eof): closed mid-chunk"
    assert "comment" not in entry[TOOLS]
    assert "_eventSourceMessages" not in entry[LIMITED]


def test_phases_lie_between_the_exchanges_timestamps() -> None:
    timings = timed(connected_ns=2 * MS, sent_ns=3 * MS, headers_ns=20 * MS, end_ns=100 * MS)
    assert timings == {
        "blocked": -1, "dns": -1, "ssl": -1, "connect": 2.0, "send": 1.0, "wait": 17.0, "receive": 80.0,
    }  # fmt: skip


def test_disordered_timestamps_count_no_phase_twice() -> None:
    timings = timed(connected_ns=5 * MS, sent_ns=3 * MS, headers_ns=20 * MS, end_ns=100 * MS)
    assert [timings[name] for name in ("connect", "send", "wait", "receive")] == [5, 0, 15, 80]


def test_phases_after_the_end_took_no_time() -> None:
    refused = timed(end_ns=5 * MS)
    assert [refused[name] for name in ("connect", "send", "wait", "receive")] == [5, 0, 0, 0]
    silent = timed(connected_ns=2 * MS, sent_ns=3 * MS, end_ns=9 * MS)
    assert [silent[name] for name in ("connect", "send", "wait", "receive")] == [2, 1, 6, 0]


def test_an_open_exchange_is_timed_until_its_last_read(connection: Connection) -> None:
    assert entries(connection)[LIVE]["time"] == 110
    assert [timed()[name] for name in ("connect", "send", "wait", "receive")] == [-1, 0, 0, 0]
    assert [timed(7 * MS, sent_ns=3 * MS, headers_ns=4 * MS)[name] for name in ("connect", "send")] == [-1, 3]


def test_without_an_answer_status_is_0_with_the_error(connection: Connection) -> None:
    recorded = exchange.full(connection, queries.find(connection, TRUNCATED))
    row = replace(recorded.row, status=None, outcome="connect_error", outcome_detail="dns")
    entry = har.entry(replace(recorded, row=row, body=b"", decoded=Decoded(b"", "json")))
    assert_of_shape(entry, ENTRY)
    assert (entry["response"]["status"], entry["response"]["httpVersion"]) == (0, "")
    assert entry["response"]["_error"] == entry["comment"] == "connect_error (dns): closed mid-chunk"


def test_a_body_in_a_content_coding_is_shown_decoded(connection: Connection) -> None:
    recorded = exchange.full(connection, queries.find(connection, COMPLETE))
    content = har.entry(replace(recorded, body=b"0123456789"))["response"]["content"]
    assert content["compression"] == content["size"] - 10


def test_a_cut_request_or_broken_url_is_an_entry(connection: Connection) -> None:
    recorded = exchange.full(connection, queries.find(connection, COMPLETE))
    broken = replace(recorded.exchange, upstream="http://[", path="/?a=1")
    request = har.entry(replace(recorded, request=replace(recorded.request, exchange=broken, size=99, body=b"{")))[
        "request"
    ]
    assert request["postData"]["comment"] == "the first 1 of 99 bytes: the tape keeps no more"
    assert request["queryString"] == []
    queried = replace(recorded.request, exchange=replace(recorded.exchange, path="/v1?a=1&b="))
    asked = har.entry(replace(recorded, request=queried))["request"]
    assert asked["queryString"] == [{"name": "a", "value": "1"}, {"name": "b", "value": ""}]


def test_har_is_safe_on_a_terminal(tape: Path) -> None:
    output = on_terminal(tape, "export", ODD, "--format", "har")
    assert not {sign for sign in output if not sign.isprintable()} - {"\r", "\n"}


def test_ids_and_limits_say_which_exchanges(tape: Path) -> None:
    entry_list = json.loads(run(tape, "export", TOOLS, COMPLETE, "--format", "har").stdout)["log"]["entries"]
    assert [one["_wiretape"]["id"] for one in entry_list] == [COMPLETE, TOOLS]
    assert len(json.loads(run(tape, "export", "-n", "2", "--format", "har").stdout)["log"]["entries"]) == 2
    assert json.loads(run(tape, "export", "-n", "0", "--format", "har").stdout)["log"]["entries"] == []
