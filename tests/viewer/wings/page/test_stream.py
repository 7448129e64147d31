"""The page of one exchange: its data are the tape's, and bodies are in it only on request."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import page
from tests.support.commands import run
from tests.support.page import Read, undelta
from tests.support.page_streams import long_stream
from tests.support.sample_tape import (
    COMPLETE,
    FAILED,
    LIMITED,
    LIVE,
    ODD,
    TOOLS,
    TRUNCATED,
    begin,
    end,
    recorded,
    response,
)
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.report import tools
from wiretape.viewer.source.tape import exchange, queries
from wiretape.viewer.source.tape.columns import among
from wiretape.viewer.source.tape.observed import measured
from wiretape.viewer.stats.tools.summary import report_of
from wiretape.viewer.stats.tools.tools import TOOLS as OTHERS
from wiretape.viewer.text import sparkline

EVERY = (COMPLETE, TOOLS, TRUNCATED, LIMITED, FAILED, ODD, LIVE)


def exported(tape: Path, directory: Path, id: str, *options: str) -> Read:
    file = directory / f"{id}.html"
    run(tape, "export", "--html", id, "-o", str(file), *options)
    return page.read(file.read_bytes())


def texts_at(data: dict[str, Any], position: int) -> list[str]:
    """Return each text of a page after the given count of events."""
    return [
        "".join(piece for event, piece in zip(undelta(text["events"]), text["pieces"], strict=True) if event < position)
        for text in data["texts"]
    ]


@pytest.mark.parametrize("id", EVERY)
def test_the_columns_of_a_page_are_the_tapes(tape: Path, connection: Connection, tmp_path: Path, id: str) -> None:
    document = exported(tape, tmp_path, id, "--with-bodies")
    full = exchange.full(connection, queries.find(connection, id))
    transcript, reads, events = Transcript(full.decoded), document.data["reads"], document.data["events"]
    assert undelta(reads["seq"]) == list(full.reads.seq)
    assert undelta(reads["at"]) == list(full.reads.at_ns)
    assert reads["size"] == list(full.reads.size)
    relayed = zip(full.reads.at_ns, reads["relayed"], strict=True)
    assert [None if delay is None else at + delay for at, delay in relayed] == list(full.reads.relayed_ns)
    assert undelta(events["at"]) == list(full.decoded.at_ns)
    assert undelta(events["read"]) == list(full.decoded.reads)
    assert undelta(events["start"]) == list(full.decoded.starts)
    assert [events["kinds"][code] for code in events["kind"]] == [
        transcript.kind(event) for event in range(len(transcript))
    ]
    assert [events["types"][place] for place in events["type"]] == [item.type for item in full.decoded.items()]
    assert document.blocks["body"] == full.decoded.data
    assert document.blocks["asked"] == (full.request.body or b"")


@pytest.mark.parametrize("id", EVERY)
def test_the_texts_grow_as_the_tape_has_it(tape: Path, connection: Connection, tmp_path: Path, id: str) -> None:
    data = exported(tape, tmp_path, id, "--with-text").data
    transcript = Transcript(queries.observed(connection, queries.find(connection, id))[2])
    tracks = [track for voice in transcript.voices for _, track in voice.texts if len(track)]
    for position in range(len(transcript) + 1):
        assert sorted(texts_at(data, position)) == sorted(track.text[: track.length(position)] for track in tracks)


@pytest.mark.parametrize("id", [COMPLETE, TOOLS])
def test_a_pages_gaps_are_the_statistics(tape: Path, connection: Connection, tmp_path: Path, id: str) -> None:
    facts = exchange.known(connection, queries.find(connection, id))
    at = undelta(exported(tape, tmp_path, id).data["outputs"]["at"])
    assert at == sparkline.timestamps(at[0] or 0, facts.gaps)


def test_the_figures_of_other_tools_are_those_of_stats(tape: Path, connection: Connection, tmp_path: Path) -> None:
    no = queries.find(connection, COMPLETE)
    data = exported(tape, tmp_path, COMPLETE).data["tools"]
    assert [one["tool"] for one in data] == list(OTHERS)
    for item in data:
        report = report_of(item["tool"], measured(connection, tape, item["tool"], among([no])))
        names = ("metric", "unit", "n", "value", "mean", "p50", "p99", "max")
        assert item["rows"] == [[row[name] for name in names] for row in tools.rows(report)]


def test_a_verdict_reads_as_in_show(tape: Path, tmp_path: Path) -> None:
    output = run(tape, "show", TOOLS).stdout
    (verdict,) = exported(tape, tmp_path, TOOLS, "--with-text").data["verdicts"]
    assert verdict["sentence"] in output
    assert verdict["evidence"] in output


def test_no_text_is_in_a_page_unless_requested(tape: Path, tmp_path: Path) -> None:
    texts = {COMPLETE: ("Hel", "world"), TOOLS: ("Think", "Oslo", "city", "get_weather")}
    for id, words in texts.items():
        bare, with_text, complete = (
            exported(tape, tmp_path, id, *more) for more in ((), ("--with-text",), ("--with-bodies",))
        )
        assert [word for word in words if word in str(bare.data)] == []
        assert [word for word in words if word not in str(with_text.data)] == []
        assert bare.blocks.keys() == with_text.blocks.keys() == {"data"}
        assert complete.blocks.keys() == {"data", "body", "asked"}
        assert "stream" not in bare.data["asked"]["curl"]


def test_a_page_names_what_is_omitted_and_redacted(tape: Path, tmp_path: Path) -> None:
    def banner(*options: str) -> list[str]:
        return [f"{word} {sentence}" for word, sentence in exported(tape, tmp_path, COMPLETE, *options).data["banner"]]

    bare, complete = banner(), banner("--with-bodies")
    assert "Redacted: authorization." in bare
    assert bare[0].startswith("Left out: the texts of the answer (--with-text) and the bytes of the request")
    assert not any(line.startswith("Left out") for line in complete)
    assert "bodies, in which what looks like a key is masked" in complete[-1]


def test_a_key_in_an_error_stays_off_the_page(tmp_path: Path) -> None:
    body = b'{"error":{"message":"Incorrect API key provided: sk-proj-abcdefgh12345678","code":"invalid_api_key"}}'
    parts = [(30, body)]
    each = ((begin(id, 1, b"{}"), *response(id, parts, 401), end(id, parts)) for id in (ODD, LIMITED))
    tape = recorded(tmp_path / "key.db", [frame for frames in each for frame in frames])
    for selected in ([LIMITED], []):
        run(tape, "export", "--html", *selected, "-o", str(tmp_path / "key.html"))
        blocks = b"".join(page.read((tmp_path / "key.html").read_bytes()).blocks.values())
        assert b"Incorrect API key provided: REDACTED" in blocks
        assert b"sk-proj" not in blocks


def test_an_exchange_without_recorder_is_not_called_running(tape: Path, tmp_path: Path) -> None:
    (reason,) = exported(tape, tmp_path, LIVE).data["reasons"]
    assert reason.startswith("recorder pid 1 gone")


def test_hostile_text_adds_no_element_and_comes_back_exact(tape: Path, connection: Connection, tmp_path: Path) -> None:
    hostile, plain = (exported(tape, tmp_path, id, "--with-bodies") for id in (ODD, COMPLETE))
    assert len(hostile.tags) == len(plain.tags)
    row = queries.detail(connection, queries.find(connection, ODD))
    assert texts_at(hostile.data, 99)[0] == row.content


def test_a_page_of_1000_chunks_takes_150_kb(tmp_path: Path) -> None:
    id, tape = "a" * 16, long_stream(tmp_path / "long.db", 1000)
    file = tmp_path / f"{id}.html"
    exported(tape, tmp_path, id)
    assert file.stat().st_size <= 100_000
    exported(tape, tmp_path, id, "--with-bodies")
    assert file.stat().st_size <= 150_000
