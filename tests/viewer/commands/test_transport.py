"""Facts about the connection and the clock of an exchange, in commands."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tests.support import page
from tests.support.cases import each_case
from tests.support.commands import on_terminal
from tests.support.frames import STREAM, body, damage, end, exchange, head, http2, opened, record, upload
from wiretape.viewer.cli import group

FACTS = {"connection_reused": True, "clock": "loop"}


def run(tape: Path, *arguments: str) -> str:
    result = CliRunner().invoke(group, arguments, env={"WIRETAPE_DB": str(tape)})
    assert result.exception is None, result.output
    return result.output


def test_kept_connections_and_suspect_clocks_are_shown_and_filtered(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    final = msgspec.structs.replace(end("eeee", STREAM), connected_ns=None, clock_error_ns=2_000_000, **FACTS)
    opening = msgspec.structs.replace(head("eeee"), connected_ns=None, **FACTS)
    request = upload("eeee", [b"{}"], truncated=True)
    with opened(tape) as store:
        record(store, [*request, opening, *body("eeee", STREAM), final])
    output = run(tape, "show", "eeee", "--part", "facts")
    assert "kept from an exchange before" in output
    assert "late by at most 2" in output
    assert "its body broke off" in output
    assert "clock_suspect: timestamps may be late by more than 1 ms" in output
    assert '"connection_reused":true' in run(tape, "show", "eeee", "--format", "json").replace(" ", "")
    assert run(tape, "ls", "-f", "connection_reused:yes clock:loop", "--format", "ids") == "eeee\n"
    assert "timestamps of 1 of 1 exchange may be late by more than 1 ms" in run(tape, "db", "check")
    assert "wiretape: 1 of 1: exchanges whose timestamps may be late" in run(tape, "check", "--max", "ttft.max=9s")


@pytest.fixture
def protocols(tmp_path: Path) -> Path:
    """A tape with an exchange over HTTP/1.1, two over HTTP/2, and one of a wiretape that noted no protocol."""
    tape = tmp_path / "tape.db"
    plain = [
        msgspec.structs.replace(frame, protocol="http/1.1") if "protocol" in frame.__struct_fields__ else frame
        for frame in exchange("a111")
    ]
    with opened(tape) as store:
        record(store, [*plain, *http2("b222"), *http2("c333", STREAM[:1], is_reset=True), *exchange("d444")])
    return tape


@each_case(
    ("filter_text", "ids"),
    [
        ("protocol:h2", ["c333", "b222"]),
        ("protocol:http/1.1", ["a111"]),
        ("protocol!=h2", ["a111"]),
        ("-has:protocol", ["d444"]),
        ("reset_code:rst_*", ["c333"]),
        ("detail:rst_cancel", ["c333"]),
    ],
)
def test_exchanges_are_found_by_their_protocol_and_http2_error(
    protocols: Path, filter_text: str, ids: Sequence[str]
) -> None:
    assert run(protocols, "ls", "-f", filter_text, "--format", "ids").split() == ids


def test_the_protocol_is_listed_exported_and_grouped(protocols: Path) -> None:
    rows = json.loads(run(protocols, "ls", "--columns", "id,protocol", "--format", "json"))
    protocols_by_id = {row["id"]: row["protocol"] for row in rows}
    assert protocols_by_id == {"a111": "http/1.1", "b222": "h2", "c333": "h2", "d444": None}
    header, *lines = run(protocols, "export", "--format", "csv").splitlines()
    column = header.split(",").index("protocol")
    assert sorted(line.split(",")[column] for line in lines) == ["", "h2", "h2", "http/1.1"]
    grouped = json.loads(run(protocols, "stats", "--by", "protocol", "--format", "json"))
    assert {group["protocol"]: group["n"] for group in grouped} == {"http/1.1": 1, "h2": 2, None: 1}


def test_an_exchanges_facts_include_protocol_error_and_trailers(protocols: Path) -> None:
    shown = run(protocols, "show", "b222", "--part", "facts")
    assert re.search(r"^connection +HTTP/2$", shown, re.MULTILINE)
    assert "response trailers\ngrpc-status: 8\nauthorization: REDACTED:sha256:" in shown
    facts = json.loads(run(protocols, "show", "b222", "--format", "json"))
    assert (facts["protocol"], facts["response_trailers"][0]) == ("h2", ["grpc-status", "8"])
    output = run(protocols, "show", "c333")
    assert "upstream reset the stream after 1 event" in output
    assert json.loads(run(protocols, "show", "c333", "--format", "json"))["reset_code"] == "rst_cancel"


def test_a_raw_answer_has_head_and_trailers_on_request(protocols: Path) -> None:
    redacted = json.loads(run(protocols, "show", "b222", "--format", "json"))["response_trailers"][1][1]
    whole = b"".join(STREAM).decode()
    assert run(protocols, "show", "b222", "--part", "raw") == whole
    assert run(protocols, "show", "b222", "--part", "raw", "-i").replace("\r\n", "\n") == (
        f"HTTP/2 200 \ncontent-type: text/event-stream\n\n{whole}grpc-status: 8\nauthorization: {redacted}\n"
    )
    plain = run(protocols, "show", "a111", "--part", "raw", "--include").replace("\r\n", "\n")
    assert plain == f"HTTP/1.1 200 \ncontent-type: text/event-stream\n\n{whole}"


def test_a_terminals_head_and_trailers_have_no_controls(protocols: Path) -> None:
    damage(protocols, """UPDATE exchanges SET response_trailers = '[["a", "\\u001b[2J"]]' WHERE id = 'b222'""")
    output = on_terminal(protocols, "show", "b222", "--part", "raw", "-i")
    assert output.splitlines()[0] == "HTTP/2 200 "
    assert output.splitlines()[-1] == "a: ␛[2J"


def test_an_unanswered_exchange_has_no_headers(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    with opened(tape) as store:
        record(store, [upload("a111", [b"{}"])[0], end("a111", [], "refused")])
    output = CliRunner().invoke(group, ["show", "--part", "raw", "-i"], env={"WIRETAPE_DB": str(tape)})
    assert (output.stdout, output.exit_code) == ("", 0)
    assert output.stderr == "wiretape: there are no headers: api.test refused the connection\n"


def test_an_exchanges_page_has_trailers_and_names_redacted_ones(protocols: Path, tmp_path: Path) -> None:
    run(protocols, "export", "--html", "b222", "-o", str(tmp_path / "page.html"))
    data = page.read((tmp_path / "page.html").read_bytes()).data
    assert data["headers"]["trailers"][0] == ["grpc-status", "8"]
    assert ["Redacted:", "authorization."] in data["banner"]


def test_the_protocol_survives_copying_and_deriving_again(protocols: Path, tmp_path: Path) -> None:
    facts = run(protocols, "export", "--format", "json"), run(protocols, "show", "b222", "--format", "json")
    run(protocols, "db", "cut", "-o", str(tmp_path / "cut.jsonl"))
    run(tmp_path / "cut.jsonl", "db", "cut", "-o", str(tmp_path / "cut.db"))
    run(protocols, "pull", "-o", str(tmp_path / "pulled.db"))
    run(protocols, "db", "merge", str(protocols), "--db", str(tmp_path / "merged.db"))
    run(protocols, "db", "rebuild")
    for tape in (protocols, *(tmp_path / f"{name}.db" for name in ("cut", "pulled", "merged"))):
        assert (run(tape, "export", "--format", "json"), run(tape, "show", "b222", "--format", "json")) == facts, tape
