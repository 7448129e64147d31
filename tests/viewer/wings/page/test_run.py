"""The page of a run: its columns are the tape's, its figures those of `stats` and `compare`, and it is bounded."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import page
from tests.support.commands import run
from tests.support.page import Read, undelta
from wiretape.viewer.source.base import ALL
from wiretape.viewer.source.place import TapePlace
from wiretape.viewer.source.tape import queries
from wiretape.viewer.wings.page import run as gaps


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic tape with every outcome."""
    tape = tmp_path_factory.mktemp("run") / "run.db"
    run(tape, "db", "fixture", "--exchanges", "160", "--chunks", "30", "--db", str(tape))
    return tape


@pytest.fixture(scope="module")
def read_page(fixture: Path, tmp_path_factory: pytest.TempPathFactory) -> Read:
    return exported(fixture, tmp_path_factory.mktemp("page"))


def exported(tape: Path, directory: Path, *options: str) -> Read:
    file = directory / "run.html"
    run(tape, "export", "--html", "-o", str(file), *options)
    return page.read(file.read_bytes())


def rows_of(tape: Path, *command: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(run(tape, *command, "--format", "json").stdout)
    return rows


def unpacked(document: Read) -> list[list[float]]:
    """Return the gaps of each exchange, in ns."""
    ratio, least = document.data["step"]
    counts, packed = document.data["gaps"]["count"], document.blocks["gaps"]
    total, at, deltas = sum(counts), 0, list[list[float]]()
    for count, middle in zip(counts, document.data["gaps"]["middle"], strict=True):
        coded = [packed[place] + 256 * packed[total + place] for place in range(at, at + count)]
        steps = [middle + (-(code + 1) // 2 if code % 2 else code // 2) for code in coded]
        deltas.append([least * ratio ** (step - 1) if step else 0 for step in steps])
        at += count
    return deltas


def test_the_columns_are_those_of_the_list(fixture: Path, read_page: Read) -> None:
    rows, page_rows = rows_of(fixture, "ls", "--columns", "all")[::-1], read_page.data["rows"]
    assert page_rows["id"] == [row["id"] for row in rows]
    for name in ("model", "outcome", "error_code", "upstream"):
        values, places = page_rows[name]["values"], page_rows[name]["places"]
        assert [None if at is None else values[at] for at in places] == [row[name] for row in rows]
    for name in ("ttft_ms", "latency_ms", "max_gap_ms", "icl_p99_ms"):
        assert page_rows[name] == [None if row[name] is None else round(row[name] * 1000) for row in rows]
    assert page_rows["output_tokens"] == [row["output_tokens"] for row in rows]


def test_gaps_are_exact_to_1_percent_and_0_exactly(fixture: Path, read_page: Read) -> None:
    with queries.opened(fixture) as connection:
        tape_gaps = [np.frombuffer(packed, "<i8") for _, packed in queries.packed_gaps(connection)]
    for mine, row_gaps in zip(unpacked(read_page), tape_gaps, strict=True):
        assert len(mine) == len(row_gaps)
        above = row_gaps > 0
        assert np.array_equal(np.array(mine) > 0, above)
        assert np.allclose(np.array(mine)[above], row_gaps[above], rtol=0.0101, atol=0)


@pytest.mark.parametrize("ns", [0, 1, 999, 1000, 20_000_000, 3_600_000_000_000])
def test_a_gap_of_any_length_has_a_step(ns: int) -> None:
    counts, middles, packed = gaps.pack_gaps([np.array([ns, 1000, 10**9], "<i8").tobytes(), None, b""])
    assert counts == [3, None, 0]
    assert len(middles) == 3
    assert len(packed) == 6
    assert gaps.gap_counts(np.array([ns])) == [(int(gaps.gap_steps(np.array([ns]))[0]), 1)]


def test_stalls_are_long_gaps_and_the_last_silence(fixture: Path, read_page: Read) -> None:
    stalls = read_page.data["stalls"]
    with queries.opened(fixture) as connection:
        tape_gaps = [np.frombuffer(packed, "<i8") for _, packed in queries.packed_gaps(connection)]
        silences = [row["last_silence_ms"] for row in queries.exchanges(connection, ("last_silence_ms",))]
    gaps = [
        (row, at, int(row_gaps[at]))
        for row, row_gaps in enumerate(tape_gaps)
        for at in np.flatnonzero(row_gaps > 2 * 10**9)
    ]
    ends = [(row, None, round(ms * 1e6)) for row, ms in enumerate(silences) if ms is not None and ms > 2000]
    stalls_shown = list(zip(undelta(stalls["row"]), stalls["gap"], stalls["ns"], strict=True))
    assert [stall for stall in stalls_shown if stall[1] is not None] == gaps
    assert [stall for stall in stalls_shown if stall[1] is None] == ends
    assert gaps
    assert ends


def test_figures_of_groups_are_those_of_stats(fixture: Path, read_page: Read) -> None:
    for row in rows_of(fixture, "stats", "--by", "model"):
        (group,) = (group for group in read_page.data["groups"]["model"] if group["name"] == row["model"])
        assert group["n"] == row["n"]
        assert group["error_rate_pct"] == row["error_rate_pct"]
        for name in ("ttft", "gap"):
            count = row[f"{name}_n"]
            needed = {"p50": 2, "p90": 10, "p95": 20, "p99": 100, "max": 0}
            values = [row[f"{name}_{key}_ms"] if count >= least else None for key, least in needed.items()]
            assert group["figures"][name] == [count, *values]
        assert sum(group["counts"]) == row["gap_n"]


def test_groups_that_are_left_out_are_counted(demo: tuple[Path, str], tmp_path: Path) -> None:
    data = exported(demo[0], tmp_path).data
    assert len(data["groups"]["model"]) + data["smaller"]["model"] == len(rows_of(demo[0], "stats", "--by", "model"))
    assert data["smaller"] == {"model": 3}


def test_headlines_have_their_n_and_an_interval_around_them(fixture: Path, read_page: Read) -> None:
    (row,) = rows_of(fixture, "stats")
    by_name = {one["name"]: one for one in read_page.data["headlines"]}
    assert by_name["TTFT p95"]["value"] == row["ttft_p95_ms"]
    assert (by_name["gap p99"]["value"], by_name["longest gap"]["value"]) == (row["gap_p99_ms"], row["gap_max_ms"])
    assert by_name["gap p99"]["n"] == row["gap_n"]
    assert by_name["error rate"]["value"] == pytest.approx(row["error_rate_pct"], abs=1e-6)
    assert by_name["error rate"]["n"] == row["error_rate_n"]
    for headline in by_name.values():
        assert headline["interval"] is None or headline["interval"][0] <= headline["value"] <= headline["interval"][1]


def test_comparisons_are_those_of_compare(fixture: Path, tmp_path: Path) -> None:
    sides = ("--base", "model:gpt-x", "--new", "model:thinker-1")
    main_comparison, *others = exported(fixture, tmp_path, *sides).data["comparisons"]
    expected = [list(row.values()) for row in rows_of(fixture, "compare", *sides)]
    assert main_comparison["rows"] == expected
    assert main_comparison["names"] == ["model:gpt-x", "model:thinker-1"]
    assert (
        expected in [comparison["rows"] for comparison in others if comparison["names"] == ["gpt-x", "thinker-1"]]
        or len(others) >= 3
    )


def test_who_was_worst_can_be_played(read_page: Read) -> None:
    data, streams = read_page.data, json.loads(read_page.blocks["streams"])
    assert list(streams) == data["playable"]
    assert {id for comparison in data["comparisons"] for id in comparison["worst"]} <= set(streams)
    assert not {"headers", "asked"} & set(next(iter(streams.values())))


def test_texts_are_in_the_page_only_on_request(demo: tuple[Path, str], tmp_path: Path) -> None:
    sentence = b"goes on"
    without = exported(demo[0], tmp_path)
    assert not any(sentence in block for block in without.blocks.values())
    assert "--with-text" in dict(without.data["banner"])["Left out:"]
    texts = json.loads(exported(demo[0], tmp_path, "--with-text").blocks["texts"])
    counts = without.data["rows"]["output_chunks"]
    for text, sizes, count in zip(texts["text"], texts["sizes"], counts, strict=True):
        assert (len(text), len(sizes)) == (sum(sizes), count or 0)
    assert any(sentence.decode() in text for text in texts["text"])


def test_a_run_is_limited_to_newest_exchanges_and_gaps(fixture: Path) -> None:
    fields = ("id", "max_gap_ms", "output_chunks")
    with TapePlace(fixture).opened() as source:
        every = source.columns(fields, ALL, 1000, 10**6)
        few = source.columns(fields, ALL, 50, 200)
    assert few.values["id"] == every.values["id"][-50:]
    positions = [at for at, packed in enumerate(few.gaps) if packed is not None]
    assert 0 < sum(len(few.gaps[at] or b"") // 8 for at in positions) <= 200
    longest = sorted((few.values["max_gap_ms"][at] or 0 for at in range(50)), reverse=True)
    assert sorted((few.values["max_gap_ms"][at] or 0 for at in positions), reverse=True) == longest[: len(positions)]


def test_a_run_of_nothing_measured_is_a_page(tmp_path: Path, fixture: Path) -> None:
    data = exported(fixture, tmp_path, "-f", "is:connect_error,http_error").data
    assert data["headlines"][1]["value"] is None
    assert data["comparisons"] == []


def test_turns_keep_their_place_in_time() -> None:
    ended = [70_000, 270_000, 470_000, 500_000, 4, False, False, "complete"]
    cut = [4_000_000, None, None, None, 0, False, False, None]
    assert gaps.turns([ended, cut], 9_000_000) == [[70, 270, 470, 500, 4], [4000, None, None, 9000, 0]]
    assert gaps.turns([cut, ended], 9_000_000) == [[4000, None, None, 4000, 0], [70, 270, 470, 500, 4]]
    assert gaps.turns(None, 9_000_000) is None
