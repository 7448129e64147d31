"""`db cut`: the cut holds the recorded bytes, the same every time, as a tape and as text."""

import base64
import gzip
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.support import forked
from tests.support.commands import run
from tests.support.compressors import COMPRESS
from tests.support.frames import SESSION, begin, bodies_of, body, end, head, opened, record, upload, websocket
from tests.support.rpc import message
from tests.support.sample_tape import COMPLETE, HOSTILE, LIVE, ODD
from tests.support.websockets import CAME, SENT
from wiretape.recorder.errors import NotFound, OutputRefused, TapeDamaged, WiretapeError
from wiretape.recorder.tape import cut, journal
from wiretape.recorder.tape.masking import Masker, Rules
from wiretape.recorder.tape.schema import FROM_CLIENT

TABLES = ("texts", "reads", "chunks", "turns")
GZIP = [(b"content-type", b"text/event-stream"), (b"content-encoding", b"gzip")]


def exported(tape: Path) -> list[str]:
    """Return all that is to be known of the exchanges, and of their reads."""
    return [run(tape, "export", "--format", "jsonl", "--table", table).stdout for table in TABLES]


def cut_of(tape: Path, there: Path, *arguments: str) -> Path:
    run(tape, "db", "cut", *arguments, "-o", str(there))
    return there


@pytest.mark.parametrize("suffix", ["db", "jsonl"])
def test_a_cut_has_its_tapes_exchanges_reads_and_measures(wires: Path, tmp_path: Path, suffix: str) -> None:
    assert exported(cut_of(wires, tmp_path / f"cut.{suffix}")) == exported(wires)


def test_a_cut_of_nothing_writes_nothing(tape: Path, tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    result = run(tape, "db", "cut", "-f", "model:none", "-o", str(path), code=1)
    assert isinstance(result.exception, NotFound)
    assert not path.exists()


def test_no_database_replaces_a_text(tape: Path, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    result = run(tape, "db", "cut", COMPLETE, "-o", str(path), code=1)
    assert isinstance(result.exception, OutputRefused)
    assert path.read_text() == "mine"
    run(tape, "db", "cut", COMPLETE, "--text", "-o", str(path))


def test_equal_exchanges_give_equal_files_even_through_text(tape: Path, tmp_path: Path) -> None:
    chosen = "-is:open"
    first, second = (cut_of(tape, tmp_path / name, "-f", chosen) for name in ("1.db", "2.db"))
    text = cut_of(tape, tmp_path / "cut.jsonl", "-f", chosen)
    from_text = cut_of(text, tmp_path / "3.db")
    assert first.read_bytes() == second.read_bytes() == from_text.read_bytes()
    assert run(first, "db", "cut", "-o", "-").stdout_bytes == text.read_bytes()
    assert HOSTILE.splitlines()[0].encode() in text.read_bytes()
    assert not {"\x1b", "\x9b", "\u202e", "\u2028"} & set(text.read_text("utf-8"))


def test_both_sides_of_a_websocket_are_cut(tmp_path: Path) -> None:
    with opened(tape := tmp_path / "tape.db") as store:
        record(store, websocket("0123456789abcdef", CAME, SENT))
    from_text = cut_of(cut_of(tape, tmp_path / "cut.jsonl"), tmp_path / "cut.db")
    assert bodies_of(from_text, FROM_CLIENT) == bodies_of(tape, FROM_CLIENT)
    assert exported(from_text) == exported(tape)


def test_websocket_messages_are_redacted_both_ways_within_frames(tmp_path: Path) -> None:
    with opened(tape := tmp_path / "tape.db") as store:
        record(store, websocket("0123456789abcdef", CAME, SENT))
    there = cut_of(tape, tmp_path / "cut.db", "--redact", 'gpt-[^"]*|[Hh]el')
    original, redacted = (run(path, "show", "@", "--part", "raw").stdout_bytes for path in (tape, there))
    assert redacted != original
    assert len(redacted) == len(original)
    run(there, "db", "check")


def run_raising(tape: Path, *arguments: str) -> None:
    error = run(tape, "db", "cut", "@", *arguments, "-o", "-", code=1).exception
    assert error is not None
    raise error


def test_what_is_redacted_keeps_its_length_across_reads(tape: Path, tmp_path: Path) -> None:
    there = cut_of(tape, tmp_path / "cut.jsonl", COMPLETE, "--redact", 'wor[^"]*', "--redact", "gpt-x-mini|a7")
    original, redacted = (json.loads(run(path, "export", COMPLETE, "--format", "json", "--table", "texts").stdout)[0]
                     for path in (tape, there))  # fmt: skip
    assert redacted["content"] == "Hello, *****"
    assert (redacted["model"], redacted["labels"]) == ("*" * 10, {"run": "**"})
    assert exported(there)[1] == run(tape, "export", COMPLETE, "--format", "jsonl", "--table", "reads").stdout
    assert redacted["icl_max_ms"] == original["icl_max_ms"]


def test_overlapping_patterns_are_redacted_with_stars_for_bytes() -> None:
    redact = Masker(Rules(("Ann", "Ann.Zoë", "[é-ü]", "\xe9\\r\\nx")))
    assert redact("I: Ann Zoë\né\r\nx…".encode() + b"\xff") == "I: ********\n**\r\n*…".encode() + b"\xff"


def compressed(path: Path, coding: str, secret: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> Path:
    """Write a tape with a stream that was compressed, each event flushed and in a read of its own, and its request."""
    events = [
        b'data: {"choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % word for word in (b"a", secret, b"b")
    ]
    parts = [piece for piece in COMPRESS[coding](events, True) if piece]
    request = b"".join(COMPRESS[coding]([b'{"model": "m", "user": "%s"}' % secret], False))
    coded = (b"content-encoding", coding.encode())
    answered = [(b"content-type", b"text/event-stream"), (b"content-length", b"%d" % len(b"".join(parts))), coded]
    with opened(path) as store:
        record(store, [begin("e1", body=request, headers=[(b"content-length", b"%d" % len(request)), coded]),
                       head("e1", headers or answered), *body("e1", parts), end("e1", parts)])  # fmt: skip
    return path


def rows_of(tape: Path, table: str) -> list[dict]:
    return [json.loads(line) for line in run(tape, "export", "--format", "jsonl", "--table", table).stdout.splitlines()]


@pytest.mark.parametrize("suffix", ["db", "jsonl"])
@pytest.mark.parametrize("coding", COMPRESS)
def test_a_compressed_body_is_redacted_and_stored_decoded(tmp_path: Path, coding: str, suffix: str) -> None:
    packed = compressed(tmp_path / "packed.db", coding, b"hidden")
    there = cut_of(packed, tmp_path / f"cut.{suffix}", "--redact", "hidden")
    original, redacted = rows_of(packed, "reads"), rows_of(there, "reads")
    assert [read["at_ms"] for read in redacted] == [read["at_ms"] for read in original]
    chunks = [[(chunk["at_ms"], chunk["read"]) for chunk in rows_of(tape, "chunks")] for tape in (packed, there)]
    assert chunks[0] == chunks[1]
    (row,) = rows_of(there, "texts")
    assert row["content"] == "a******b"
    text = cut_of(there, tmp_path / "text.jsonl").read_text("utf-8")
    exchange = next(line for line in map(json.loads, text.splitlines()) if "exchange" in line)
    assert exchange["request_body"] == '{"model": "m", "user": "******"}'
    assert "content-encoding" not in text
    assert ["content-length", str(len(exchange["request_body"]))] in exchange["request_headers"]
    assert ["content-length", str(sum(read["size"] for read in redacted))] in exchange["response_headers"]
    run(cut_of(there, tmp_path / "again.db"), "db", "check")


def test_a_compressed_body_without_anything_to_redact_stays_compressed(tmp_path: Path) -> None:
    packed = compressed(tmp_path / "packed.db", "gzip", b"open")
    assert exported(cut_of(packed, tmp_path / "cut.db", "--redact", "hidden")) == exported(packed)


def test_a_body_compressed_without_header_is_redacted(tmp_path: Path) -> None:
    packed = compressed(tmp_path / "packed.db", "gzip", b"hidden", [(b"content-type", b"text/event-stream")])
    assert rows_of(cut_of(packed, tmp_path / "cut.db", "--redact", "hidden"), "texts")[0]["content"] == "a******b"


def test_an_undecodable_body_is_not_cut_with_redaction(tmp_path: Path) -> None:
    parts = [gzip.compress(b"data: hidden\n\n")[:-8] + bytes(8)]
    with opened(packed := tmp_path / "gzip.db") as store:
        record(store, [begin("e1"), head("e1", GZIP), *body("e1", parts), end("e1", parts)])
    with pytest.raises(WiretapeError, match="compressed, and cannot be decoded: leave it out"):
        run_raising(packed, "--redact", "hidden")


@pytest.mark.parametrize(
    ("content_type", "data", "reason"),
    [
        (b"application/grpc", message(zlib.compress(b"my secret"), 1), "messages of it are compressed"),
        (b"application/grpc-web-text", base64.b64encode(message("my secret")), "messages of it are compressed"),
    ],
)
def test_messages_that_are_compressed_are_not_redacted(
    tmp_path: Path, content_type: bytes, data: bytes, reason: str
) -> None:
    headers = [(b"content-type", content_type), (b"grpc-encoding", b"deflate")]
    with opened(framed := tmp_path / "framed.db") as store:
        record(store, [begin("e1"), head("e1", headers), *body("e1", [data]), end("e1", [data])])
    with pytest.raises(WiretapeError, match=f"{reason}: leave it out"):
        run_raising(framed, "--redact", "secret")
    assert run(framed, "db", "cut", "@", "--redact", "other", "-o", "-").stdout


@pytest.mark.parametrize("content_type", [b"application/grpc", b"application/connect+json"])
def test_messages_with_a_length_are_redacted_one_by_one(tmp_path: Path, content_type: bytes) -> None:
    data = message("my secret") + message("secret")
    with opened(framed := tmp_path / "framed.db") as store:
        record(
            store, [begin("e1"), head("e1", [(b"content-type", content_type)]), *body("e1", [data]), end("e1", [data])]
        )
    there = cut_of(framed, tmp_path / "cut.db", "--redact", "secret[^x]*")
    assert bodies_of(there) == {"e1": message("my ******") + message("******")}


def test_a_truncated_request_keeps_its_size_or_unknown_size(tmp_path: Path) -> None:
    with opened(tape := tmp_path / "tape.db") as store:
        for id, size in (("e1", None), ("e2", 7), ("e3", 3)):
            first_part, *pieces, _ = upload(id, [b"abc"])
            record(
                store, [first_part, *pieces, journal.Uploaded(id, size, None, truncated=True), end(id, [], "refused")]
            )
    from_text = cut_of(cut_of(tape, tmp_path / "cut.jsonl"), tmp_path / "cut.db")
    for path in (tape, from_text):
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute(
                "SELECT id, request_size, request_sha256, request_body FROM exchanges ORDER BY id"
            )
            assert rows.fetchall() == [(f"e{n}", size, None, b"abc") for n, size in ((1, None), (2, 7), (3, 3))]


def test_one_that_still_runs_is_not_cut(tape: Path) -> None:
    with pytest.raises(WiretapeError, match=f"{LIVE} still runs"):
        run_raising(tape)


def edited(lines: list[bytes], at: int, old: bytes, new: bytes) -> list[bytes]:
    return [*lines[:at], lines[at].replace(old, new), *lines[at + 1 :]]


@pytest.fixture
def lines(tape: Path) -> list[bytes]:
    return run(tape, "db", "cut", COMPLETE, ODD, "-o", "-").stdout_bytes.splitlines(keepends=True)


def test_text_may_be_edited(lines: list[bytes], tmp_path: Path) -> None:
    said = edited(lines, 5, b"Hel", b"Well, hel")
    reordered = [json.dumps(dict(reversed(json.loads(line).items()))).encode() + b"\r\n" for line in said]
    (there := tmp_path / "cut.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(reordered) + b"\n")
    assert run(there, "show", COMPLETE, "--part", "text").stdout == "Well, hello, world"


@pytest.mark.parametrize(
    ("at", "old", "new", "message"),
    [
        (0, b'"format": 2', b'"format": 3', "line 1 .*the first line is"),
        (1, b'"version"', b'"age"', "line 2 .*unknown: age"),
        (2, b'"session": "u"', b'"session": "v"', "line 3 .*no line before it is of its session"),
        (2, b'"status": 200', b'"status": [200]', "line 3 .*status is no single value"),
        (2, b'"status": 200', b'"status": "many"', "makes no tape: .*status"),
        (2, b'"session": "u", ', b"", "line 3 is not of a cut .*'session' is missing"),
        (2, b'"exchange": ', b'"x": ', "line 4 is not of a cut .*it is of no exchange"),
        (3, b", 110000000, ", b", 1, ", "line 4 .*came before the one that it follows"),
        (3, b", 110000000, ", b', "1", ', "line 4 .*a time is no whole number"),
        (3, b", 110000000, ", b", ", "line 4 .*it has not . timestamps"),
        (6, b'{"read": 2', b'{"exchange": 2', "line 6 .*6 reads are announced, and 2 are there"),
        (3, b'"reads": ', b'"text": "", "reads": ', "line 4 .*unknown: text"),
        (5, b'"read": 1', b'"read": 7', "line 6 is not of a cut .*read 1 is expected"),
        (5, b'"read": 1', b'"read": 1, "at_ns": 2', "line 6 .*unknown: at_ns"),
        (5, b'"text": ', b'"txet": ', "line 6 .*unknown: txet"),
        (5, b'{"read"', b'<<<<<<< HEAD\n{"read"', "line 6 "),
        (5, b'"read": 1', b'"reads": 1', "line 6 .*unknown: text"),
    ],
)
def test_text_that_makes_no_tape_says_where(lines: list[bytes], at: int, old: bytes, new: bytes, message: str) -> None:
    broken = edited(lines, at, old, new)
    assert broken != lines
    with pytest.raises(TapeDamaged, match=message):
        cut.make_tape(broken, io.BytesIO())


DEMO = ["-f", "model:demo-stall"]


def test_equal_recordings_differ_only_in_ids_and_timestamps(demo: tuple[Path, str], tmp_path: Path) -> None:
    text = cut_of(demo[0], tmp_path / "cut.jsonl", *DEMO).read_text("utf-8").splitlines()
    kinds = [next(iter(json.loads(line))) for line in text]
    assert kinds == ["wiretape", "session", "exchange", "reads", *["read"] * (len(text) - 4)]
    session, exchange, *reads = map(json.loads, [*text[1:3], *text[4:]])
    assert session.keys() == {"session", "version", "upstreams"}
    assert [session["upstreams"][0][1], exchange["upstream"]] == ["http://127.0.0.1"] * 2
    assert ["host", "127.0.0.1"] in exchange["request_headers"]
    assert {name for read in reads for name in read} == {"read", "text"}


def test_a_session_lists_used_upstreams_with_distinct_ports(tmp_path: Path) -> None:
    fixed, first_url, second = (f"http://127.0.0.1:{port}/v1" for port in (8000, 40001, 40002))
    there = [("old", first_url), ("new", second), ("fixed", fixed), ("unused", "https://api.example.com")]
    ids = ("e111", "e222", "e333")
    with opened(tape := tmp_path / "tape.db", msgspec.structs.replace(SESSION, upstreams=there)) as store:
        for id, (_, url) in zip(ids, there, strict=False):
            record(store, [begin(id, upstream=url), head(id), *body(id, [b"x"]), end(id, [b"x"])])

    def upstreams(*ids: str) -> list[list[str]]:
        lines = run(tape, "db", "cut", *ids, "-o", "-").stdout.splitlines()
        names: list[list[str]] = json.loads(lines[1])["upstreams"]
        return names

    assert upstreams(*ids) == [["old", first_url], ["new", second], ["fixed", fixed]]
    assert upstreams(*ids[1:]) == [["new", "http://127.0.0.1/v1"], ["fixed", fixed]]


def test_a_cut_session_spans_its_exchanges(demo: tuple[Path, str], tmp_path: Path) -> None:
    with closing(sqlite3.connect(cut_of(demo[0], tmp_path / "cut.db"))) as connection:
        (times,) = connection.execute("SELECT started_at, heartbeat_at, ended_at, listen FROM sessions").fetchall()
        first, last = connection.execute("SELECT min(started_at), max(started_at) FROM exchanges").fetchone()
    assert times == (first, last, last, "")


def test_a_cut_is_merged_and_missing_ones_not_found(tape: Path, tmp_path: Path) -> None:
    text, there = cut_of(tape, tmp_path / "cut.jsonl", "-f", "-is:open"), tmp_path / "merged.db"
    run(there, "db", "merge", str(text))
    assert exported(there) == exported(text)
    assert isinstance(run(tmp_path / "no.jsonl", "ls", code=1).exception, NotFound)


def test_a_pattern_that_never_ends_is_given_up(tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiretape.viewer.commands.masking.REDACT_SECONDS", 0.1)
    there = tmp_path / "cut.jsonl"
    done = run(tape, "db", "cut", COMPLETE, "-o", str(there), "--redact", r"(\w+\W?)+\x00", code=1)
    assert "took more than 0.1 s for one text: write it without" in str(done.exception)
    assert not there.exists()


def test_reading_a_text_leaves_no_tape_behind(tape: Path, tmp_path: Path) -> None:
    text, place = cut_of(tape, tmp_path / "cut.jsonl", COMPLETE), tmp_path / "temporary"
    place.mkdir()
    command = [sys.executable, *forked.CLI, "play", COMPLETE, "--db", str(text), "--loop", "--no-wait"]
    remains = []
    for number in (signal.SIGKILL, signal.SIGTERM):
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"TMPDIR": str(place)}) as process:
            assert process.stdout is not None
            assert process.stdout.read(1)
            process.send_signal(number)
            process.stdout.close()
            code = process.wait(60)
        remains.append((code, len(remaining_files := list(place.iterdir()))))
        for remaining_file in remaining_files:
            os.utime(remaining_file, (1, 1))
    assert remains == [(-signal.SIGKILL, 1), (128 + signal.SIGTERM, 0)]
