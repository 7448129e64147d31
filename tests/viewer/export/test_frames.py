"""Frames: the tape's own values under nullable types, unknown as NA, and percentiles of the complete exchanges only."""

import doctest
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from tests.support.cases import each_case
from tests.support.forked import run
from tests.support.sample_tape import COMPLETE, DONE, FAILED, HOSTILE, LIVE, ODD, TOOLS, begin, end, event, response
from tests.support.tables import table_rows
from wiretape.recorder.demo import synthetic
from wiretape.recorder.errors import ForeignFile, NotFound
from wiretape.recorder.tape import file, journal
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.schema import exchanges, measures
from wiretape.recorder.tape.store import Store
from wiretape.viewer.export import fields, frames, text
from wiretape.viewer.export.frames import Tape, open_tape
from wiretape.viewer.record import cells, units
from wiretape.viewer.source.tape import overview
from wiretape.viewer.stats import summary

TABLES = ("exchanges", "texts", "chunks", "reads", "turns", "conversations")


def table(of: Tape, name: str, *arguments: Any, **more: Any) -> pd.DataFrame:
    frame = getattr(of, name)(*arguments, **more)
    assert isinstance(frame, pd.DataFrame)
    return frame


@pytest.fixture(scope="module")
def full_tape(tape: Path) -> Tape:
    return open_tape(tape)


@pytest.fixture(scope="module")
def demo_tape(tmp_path_factory: pytest.TempPathFactory) -> Tape:
    """A tape of more exchanges than are read at a time."""
    path = tmp_path_factory.mktemp("made") / "tape.db"
    with file.writing(path, "a test") as connection:
        assert sum(1 for _ in synthetic.fill(connection, 450, 12, 1))
    return open_tape(path)


@each_case("name", TABLES)
def test_a_frame_has_the_exports_columns_and_values(full_tape: Tape, connection: Connection, name: str) -> None:
    columns = text.TABLES[name]
    frame = table(full_tape, name)
    assert tuple(frame.columns) == columns
    for moment in {"started_at", "last_at"}.intersection(columns):
        frame[moment] = frame[moment].dt.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    rows = [[None if pd.isna(value) else value for value in row] for row in frame.itertuples(index=False)]
    assert rows == [[_cell(value) for value in row.values()] for row in table_rows(connection, name)]


def _cell(value: Any) -> Any:
    return value if isinstance(value, bool) else cells.flat(value)


@each_case("name", [*TABLES, "gaps"])
def test_types_are_nullable_and_those_that_are_documented(full_tape: Tape, name: str) -> None:
    frame = table(full_tape, name)
    columns = frame.attrs["columns"]
    assert {field: str(dtype) for field, dtype in frame.dtypes.items()} == {
        field: column["dtype"] for field, column in columns.items()
    }
    assert {column["dtype"] for column in columns.values()} <= {
        "string", "Int64", "Float64", "boolean", "category", "datetime64[us, UTC]",
    }  # fmt: skip
    assert all(column["meaning"] for column in columns.values())
    assert {column["unit"] for field, column in columns.items() if field.endswith("_ms")} == {"ms"}


def test_types_say_what_a_column_is(full_tape: Tape) -> None:
    columns = {name: table(full_tape, name).attrs["columns"] for name in ("exchanges", "chunks")}
    ttft, size = columns["exchanges"]["ttft_ms"], columns["exchanges"]["bytes"]
    assert (ttft["dtype"], ttft["unit"], size["dtype"], size["unit"]) == ("Float64", "ms", "Int64", "bytes")
    assert [columns["exchanges"][name]["dtype"] for name in ("started_at", "status", "flags", "id")] == [
        "datetime64[us, UTC]", "Int64", "string", "string",
    ]  # fmt: skip
    assert [columns["chunks"][name]["dtype"] for name in ("id", "kinds", "output")] == [
        "category",
        "category",
        "boolean",
    ]
    assert full_tape.exchanges()["started_at"].iloc[0] == pd.Timestamp("2026-03-01T12:00:01Z")


def test_unknown_is_na_and_neither_0_nor_nan(full_tape: Tape) -> None:
    live = full_tape.exchanges().set_index("id").loc[LIVE]
    assert live["outcome"] == "open"
    assert [live[name] for name in ("ttft_ms", "output_tokens", "error_code")] == [pd.NA] * 3
    frame = full_tape.exchanges()
    assert frame["ttft_ms"].isna().sum() == 2
    assert frame["ttft_ms"].sum() == pytest.approx(frame["ttft_ms"].dropna().astype(float).sum())


@pytest.mark.parametrize("name", [*TABLES, "gaps"])
def test_nothing_has_the_same_columns_and_types(full_tape: Tape, tmp_path: Path, name: str) -> None:
    with file.writing(tmp_path / "empty.db", "a test"):
        pass
    full = table(full_tape, name)
    for empty in (table(open_tape(tmp_path / "empty.db"), name), table(full_tape, name, "status:500")):
        assert len(empty) == 0
        assert list(map(str, empty.dtypes)) == list(map(str, full.dtypes))
        assert list(empty.columns) == list(full.columns)
        assert empty.attrs == full.attrs


def test_a_filter_selects_in_every_table(full_tape: Tape) -> None:
    assert full_tape.exchanges("outcome:complete ttft<100ms")["id"].tolist() == [TOOLS]
    for name in ("chunks", "reads", "gaps"):
        frame = table(full_tape, name, "outcome:complete")
        assert set(frame["id"]) == {COMPLETE, TOOLS}
        assert list(frame["id"].cat.categories) == [COMPLETE, TOOLS]


@pytest.mark.parametrize("nothing", ["", " \n"])
def test_an_empty_filter_is_none(full_tape: Tape, nothing: str) -> None:
    pd.testing.assert_frame_equal(full_tape.exchanges(nothing), full_tape.exchanges())
    pd.testing.assert_frame_equal(full_tape.gaps(nothing), full_tape.gaps())


def test_labels_are_compact_json(full_tape: Tape) -> None:
    labels = full_tape.exchanges().set_index("id")["labels"]
    assert (labels[COMPLETE], labels[LIVE]) == ('{"run":"a7"}', "{}")


@each_case("name", [*TABLES, "gaps"])
def test_a_filter_that_cannot_be_read_is_told_why(full_tape: Tape, name: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        table(full_tape, name, "ttft>")


@each_case("name", TABLES)
def test_a_limit_gives_the_first_rows(demo_tape: Tape, name: str) -> None:
    frame = table(demo_tape, name)
    for limit in (0, 3, 250):
        pd.testing.assert_frame_equal(table(demo_tape, name, limit=limit), frame.head(limit), check_categorical=False)


def test_reads_of_many_exchanges_are_each_with_their_own(demo_tape: Tape) -> None:
    reads_frame, exchange = demo_tape.reads(), demo_tape.exchanges()
    counted = reads_frame.groupby("id").agg(reads=("seq", "count"), bytes=("size", "sum"), last=("seq", "max"))
    read_exchanges = exchange[exchange["reads"] > 0].set_index("id")
    assert counted["reads"].tolist() == read_exchanges["reads"].tolist()
    assert counted["bytes"].tolist() == read_exchanges["bytes"].tolist()
    assert (counted["last"] == counted["reads"] - 1).all()
    pd.testing.assert_frame_equal(demo_tape.reads("model:gpt-x-mini*"), _of(reads_frame, exchange, "gpt-x-mini"))


def _of(reads_frame: pd.DataFrame, exchange: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return the same selection, made by pandas."""
    ids = exchange.loc[exchange["model"].str.startswith(model), "id"]
    chosen = reads_frame[reads_frame["id"].isin(ids)].reset_index(drop=True)
    chosen["id"] = chosen["id"].cat.remove_unused_categories()
    return chosen


def test_the_numbers_are_those_of_the_statistics(demo_tape: Tape) -> None:
    from wiretape.viewer.source.tape import queries

    with queries.opened(demo_tape.path) as connection:
        (sample,) = overview.samples(connection)
    row = summary.row(sample, ())
    complete, gaps = demo_tape.exchanges("outcome:complete"), demo_tape.gaps("outcome:complete")["icl_ms"]
    assert (len(gaps), len(complete)) == (row["icl_n"], row["n_complete"])
    for name, values in (("icl", gaps), ("gap", gaps[gaps > 0]), ("ttft", complete["ttft_ms"])):
        assert values.mean() == pytest.approx(row[f"{name}_mean_ms"], abs=1e-6)
        assert values.quantile(0.95) == pytest.approx(row[f"{name}_p95_ms"], abs=1e-6)
    assert complete["output_tokens"].sum() <= row["output_tokens"]


def test_gaps_are_those_between_output_chunks(full_tape: Tape) -> None:
    frame = full_tape.gaps(f"id:{COMPLETE}")
    assert frame["seq"].tolist() == [0, 1, 2]
    assert frame["icl_ms"].tolist() == [10, 0, 50]
    assert full_tape.gaps(f"id:{FAILED}").empty


@given(st.integers(0, 2**53 - 1))
def test_array_nanoseconds_are_exact(ns: int) -> None:
    assert ns >= 10**18 or ns / 1e6 == units.ms(ns)


def test_hostile_text_comes_as_it_is(full_tape: Tape) -> None:
    odd = full_tape.texts(f"id:{ODD}").iloc[0]
    assert odd["content"] == odd["model"] == HOSTILE
    chunk = full_tape.chunks(f"id:{ODD}")
    assert chunk["tool_name"].dropna().tolist() == [HOSTILE]


def test_what_no_column_could_hold_is_unknown(tmp_path: Path) -> None:
    parts = [(100, event({"content": "a"}, usage={"completion_tokens": 10**30, "total_tokens": -1}))]
    first_frame = begin("9999000000000009", 1, b"{}")
    with file.writing(tmp_path / "tape.db", "a test") as connection:
        store = Store(connection)
        store.begin_session(journal.Session("u", "0", 1, None, "http://127.0.0.1:1", [], first_frame.started_at))
        store.settle(store.append([first_frame, *response(first_frame.id, parts), end(first_frame.id, parts)]))
    frame = open_tape(tmp_path / "tape.db").chunks()
    assert frame["output_tokens"].tolist() == [pd.NA]


def test_no_tape_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no tape at"):
        open_tape(tmp_path / "none.db")
    (tmp_path / "text.db").write_text("no tape" * 100)
    with pytest.raises(ForeignFile):
        open_tape(str(tmp_path / "text.db"))


def test_without_a_path_the_default_tape_is_opened(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIRETAPE_DB", str(tape))
    assert open_tape() == Tape(tape)
    monkeypatch.setenv("HOME", str(tape.parent))
    assert open_tape(f"~/{tape.name}").path == tape


@pytest.mark.damages
def test_damaged_timestamps_come_first_and_are_reported(
    tape: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(shutil.copy(tape, tmp_path / "tape.db"))
    with file.writing(path, "a test") as connection, connection.begin():
        connection.execute(update(exchanges).where(exchanges.c.no == 1).values(started_at="yesterday"))
    assert open_tape(path).exchanges()["started_at"].dt.year.tolist() == [1970, *[2026] * 6]
    assert f"exchange {COMPLETE} is damaged: exchanges.started_at is text, not a time" in capsys.readouterr().err


@pytest.mark.damages
def test_gaps_that_are_damaged_are_left_out(tape: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(tape, tmp_path / "tape.db"))
    with file.writing(path, "a test") as connection, connection.begin():
        connection.exec_driver_sql("UPDATE measures SET icl = ? WHERE exchange_no = 1", (bytes(8) + b"\x01",))
    assert open_tape(path).gaps(f"id:{COMPLETE}")["icl_ms"].tolist() == []
    assert len(open_tape(path).gaps()) > 1


def test_half_a_surrogate_pair_becomes_its_escape(tmp_path: Path) -> None:
    halves = [(10, event({"content": "\ud83d"})), (20, event({"content": "\ude00"})), (30, DONE)]
    with file.writing(tmp_path / "tape.db", "a test") as connection:
        store = Store(connection)
        store.begin_session(journal.Session("u", "0", 1, None, "", [], "2026-03-01T12:00:00.000000Z"))
        frame = begin(COMPLETE, 1, b"{}")
        store.settle(store.append([frame, *response(COMPLETE, halves), end(COMPLETE, halves)]))
    halved = open_tape(tmp_path / "tape.db")
    assert halved.chunks()["content"].tolist() == ["\\ud83d", "\\ude00"]
    assert halved.texts()["content"].tolist() == ["\U0001f600"]
    array = frames.as_array("category", ["\ud83d", "a", "\ud83d"])
    assert list(array) == ["\\ud83d", "a", "\\ud83d"]


def test_a_tape_outlives_its_with_block(tape: Path) -> None:
    with open_tape(tape) as recording:
        assert len(recording.exchanges()) > 0
    assert len(recording.exchanges()) > 0


def test_every_table_takes_a_filter(full_tape: Tape) -> None:
    for name in (*TABLES, "gaps"):
        selected = table(full_tape, name, "outcome:complete")
        assert table(full_tape, name, filter="outcome:complete").equals(selected)
        assert len(selected) < len(table(full_tape, name)) or not len(selected), name
    assert full_tape.exchanges("outcome:complete ttft<100ms")["id"].tolist() == [TOOLS]


def printed(tape: Path, *arguments: str) -> Any:
    done = run([*arguments, "--format", "json", "--db", tape])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _row(values: Any) -> dict[str, Any]:
    """Return a frame's row as JSON has it."""
    row = {name: None if pd.api.types.is_scalar(value) and pd.isna(value) else value for name, value in values.items()}
    return {
        name: value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if "_at" in name and value else value
        for name, value in row.items()
    }


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({}, ()),
        ({"by": "model, outcome", "slo": "ttft<100ms"}, ("--by", "model,outcome", "--slo", "ttft<100ms")),
        ({"filter": "outcome:complete", "by": "label.run"}, ("-f", "outcome:complete", "--by", "label.run")),
        (
            {"include_failed": True, "percentile_method": "mlperf"},
            ("--include-failed", "--percentile-method", "mlperf"),
        ),
        ({"filter": "model:none"}, ("-f", "model:none")),
    ],
)
def test_figures_are_those_of_the_command(tape: Path, options: dict[str, Any], arguments: tuple[str, ...]) -> None:
    frame = open_tape(tape).stats(**options)
    rows = [_row(row) for row in frame.to_dict("records")]
    expected = printed(tape, "stats", *arguments)
    assert rows == [
        {name: cells.flat(value) if name == "warnings" else value for name, value in row.items()} for row in expected
    ]
    assert list(frame.columns) == list(frame.attrs["columns"])


def test_figures_tell_which_exchanges_they_leave_out(tmp_path: Path) -> None:
    path = tmp_path / "tape.db"
    with file.writing(path, "a test") as connection:
        assert sum(1 for _ in synthetic.fill(connection, 12, 4, 1))
        connection.execute(update(measures).where(measures.c.exchange_no == 1).values(operation="embeddings"))
        connection.commit()
    tape = open_tape(path)
    count = len(tape.exchanges())
    assert (tape.stats()["n"][0], tape.stats(all_operations=True)["n"][0]) == (count - 1, count)
    assert tape.stats().attrs["notes"] == ["1 exchange is not a generation (1 embeddings)"]
    assert tape.stats(all_operations=True).attrs["notes"] == []
    assert tape.compare(base="", new="").attrs["notes"] == tape.stats().attrs["notes"]


def test_two_exchanges_are_compared_as_by_the_command(tape: Path) -> None:
    comparison = open_tape(tape).compare(COMPLETE, TOOLS)
    compared = [cells.rounded(_row(row), row) for row in comparison.to_dict("records")]
    assert compared == printed(tape, "compare", COMPLETE, TOOLS)


def test_two_groups_are_compared_as_by_the_command(demo_tape: Tape) -> None:
    base, new = "model:gpt-x", "model:local-8b"
    comparison = demo_tape.compare(base=base, new=new, filter="outcome:complete", seed=3)
    options = ("--base", base, "--new", new, "-f", "outcome:complete", "--seed", "3")
    assert [_row(row) for row in comparison.to_dict("records")] == printed(demo_tape.path, "compare", *options)
    assert set(comparison["verdict"]) >= {"new is better"}


def test_comparing_one_side_or_mixed_kinds_is_refused(full_tape: Tape) -> None:
    for options in ({}, {"a": "@"}, {"base": "x"}, {"a": "@", "base": "x", "new": "y"}):
        with pytest.raises(ValueError, match="two exchanges, or two groups"):
            full_tape.compare(**options)
    with pytest.raises(NotFound, match="new selects no exchange"):
        full_tape.compare(base="", new="model:none")


def test_one_exchange_is_shown_as_by_the_command(tape: Path) -> None:
    assert open_tape(tape).show(COMPLETE) == printed(tape, "show", COMPLETE)
    with pytest.raises(NotFound):
        open_tape(tape).show("@-99")


def test_an_invalid_group_is_a_value_error_listing_groups(full_tape: Tape) -> None:
    with pytest.raises(ValueError, match=r"'colour' is no group.*label\.KEY groups"):
        full_tape.stats(by="colour")


def test_the_example_is_true(tape: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(tape, tmp_path / "tape.db")
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(frames) == doctest.TestResults(failed=0, attempted=7)


def test_every_exported_table_of_exchanges_is_a_frame() -> None:
    assert set(TABLES) == set(text.TABLES) == {name for name in fields.TABLES if name != "summary"}
