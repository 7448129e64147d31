"""The command `export`, from the outside: where it writes, and in what format."""

import csv
import io
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import IO

import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from tests.support.commands import on_terminal, run
from tests.support.sample_tape import COMPLETE, LIVE, TOOLS, TRUNCATED
from wiretape.recorder.errors import OutputRefused
from wiretape.viewer.cli import group
from wiretape.viewer.export import text as export
from wiretape.viewer.record.fields import FIELDS


def run_with(tape: Path, stdin: str | IO[bytes], *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(group, [*arguments], input=stdin, env={"WIRETAPE_DB": str(tape)})
    assert result.exit_code == code, result.output
    return result


def test_export_is_csv_on_stdout_unless_told_otherwise(tape: Path) -> None:
    exported = run(tape, "export").stdout_bytes
    assert exported.startswith(",".join(FIELDS).encode() + b"\r\n")
    assert run(tape, "export", "-o", "-").stdout_bytes == exported
    assert "aaaa000000000001" in run(tape, "export", "--format", "table").stdout


@pytest.mark.parametrize(
    ("name", "begins"), [("x.jsonl", b'{"id":'), ("x.JSON", b"[\n{"), ("x.csv", b"id,"), ("x", b"id,")]
)
def test_a_files_suffix_gives_the_format(tape: Path, tmp_path: Path, name: str, begins: bytes) -> None:
    result = run(tape, "export", "--table", "reads", "-o", str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(begins)
    assert result.stdout == ""
    assert "rows)" in result.stderr


def test_booleans_are_true_or_false_in_every_format(demo: tuple[Path, str]) -> None:
    commands = dict.fromkeys(("export", "export --table texts", "ls"), "connection_reused")
    for command, column in {**commands, "export --table chunks": "output"}.items():
        exported = {
            format: set(run(demo[0], *command.split(), "--columns", column, "--format", format).stdout.split())
            for format in ("csv", "tsv", "jsonl")
        }
        assert exported["csv"] == exported["tsv"] == {column, "false", "true"}
        assert exported["jsonl"] == {f'{{"{column}":{value}}}' for value in ("false", "true")}


def test_the_helps_expressions_find_unknown_values_in_sqlite(demo: tuple[Path, str]) -> None:
    header, *lines = csv.reader(run(demo[0], "export").stdout.splitlines())
    expressions = re.findall(
        r"(?:avg|max)\((?!\)).*?\)\)(?=[,.])", " ".join(run(demo[0], "export", "--help").stdout.split())
    )
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE exchanges ({', '.join(f'{name} TEXT' for name in header)})")  # as .import
        connection.executemany(f"INSERT INTO exchanges VALUES ({', '.join('?' * len(header))})", lines)
        exported = connection.execute(f"SELECT {', '.join(expressions)} FROM exchanges").fetchone()
    values = [float(line[header.index("ttft_ms")]) for line in lines if line[header.index("ttft_ms")]]
    assert [expression[:4] for expression in expressions] == ["avg(", "max("]
    assert exported == (pytest.approx(sum(values) / len(values)), max(values))


def test_formulas_are_guarded_unless_raw_csv_is_asked_for(tape: Path) -> None:
    assert "'=cmd()" in run(tape, "export").stdout
    assert "'=cmd()" not in run(tape, "export", "--raw-csv").stdout


def ids(exported: str) -> list[str]:
    return [line.split(",")[0] for line in exported.splitlines()[1:]]


def test_a_mark_for_excel_is_written_on_request(tape: Path, tmp_path: Path) -> None:
    run(tape, "export", "--bom", "--columns", "id", "-o", str(file := tmp_path / "x.csv"))
    assert file.read_bytes().startswith("\ufeffid\r\n".encode())
    assert run(tape, "export", "--bom", "--format", "tsv", "--columns", "id").stdout.startswith("\ufeffid\n")
    assert "--bom is for CSV and TSV" in run(tape, "export", "--bom", "--format", "json", code=2).output


def test_ids_choose_exchanges_and_a_filter_narrows_them(tape: Path) -> None:
    assert ids(run(tape, "export", "@", TOOLS, "aaaa000000000001", TOOLS).stdout) == [COMPLETE, TOOLS, LIVE]
    assert ids(run(tape, "export", COMPLETE, TRUNCATED, "--errors").stdout) == [TRUNCATED]
    assert "fits several" in run(tape, "export", "aaaa", code=1).exception.args[0]  # type: ignore[union-attr]


def test_ids_are_read_from_stdin_with_or_without_header(tape: Path) -> None:
    for text in (f"{COMPLETE}\n{TOOLS}\n", f"id\r\n{COMPLETE}\r\n\r\n{TOOLS}"):
        assert ids(run_with(tape, text, "export", "-").stdout) == [COMPLETE, TOOLS]
    assert ids(run_with(tape, TOOLS, "export", COMPLETE, "-").stdout) == [COMPLETE, TOOLS]


def test_no_ids_on_stdin_are_none_and_not_all(tape: Path) -> None:
    assert ids(run_with(tape, "", "export", "-").stdout) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--format", "sse"),
        ("--format", "asciicast"),
        ("@", "--format", "gif", "--speed", "0"),
        ("@", "--format", "gif", "--size", "9x9"),
        ("@", "--format", "har", "--max-gap", "1s"),
        ("--format", "har", "--table", "chunks"),
        ("--format", "sse", "--schema"),
        ("--by", "model"),
        ("--by", "model", "--table", "reads"),
        ("--by", "nonsense", "--table", "summary"),
        ("--format", "parquet"),
        ("--format", "parquet", "-o", "-"),
        ("--with-messages",),
        ("--format", "trace", "--table", "reads"),
        ("--format", "trace", "--columns", "id"),
    ],
)
def test_nonsense_is_a_usage_error(tape: Path, arguments: tuple[str, ...]) -> None:
    result = run(tape, "export", *arguments, code=2)
    assert result.stdout == ""
    assert "Error: " in result.stderr


def test_the_header_can_be_left_out(tape: Path, tmp_path: Path) -> None:
    for format in ("csv", "tsv"):
        full_export = run(tape, "export", "--format", format).stdout_bytes
        path = tmp_path / format
        run(tape, "export", "--format", format, "--no-header", "-o", str(path))
        exported = run(tape, "export", "--format", format, "--no-header").stdout_bytes
        assert path.read_bytes() == exported == full_export[full_export.index(b"\n") + 1 :]


def test_bytes_do_not_go_to_a_terminal(tape: Path) -> None:
    assert "raw bytes may upset a terminal" in on_terminal(tape, "export", "@", "--format", "sse")


@pytest.mark.parametrize(("name", "begins"), [("x.har", b'{"log"'), ("x.cast", b'{"version": 3'), ("x.SSE", b"data: ")])
def test_a_suffix_can_ask_for_a_whole_exchange(tape: Path, tmp_path: Path, name: str, begins: bytes) -> None:
    run(tape, "export", COMPLETE, "-o", str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_a_schema_needs_no_tape_and_may_be_written(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    run(tmp_path / "none.db", "export", "--schema", "-o", str(path))
    assert {row["table"] for row in json.loads(path.read_bytes())} == {*export.TABLES, "summary"}


class Interrupted(io.RawIOBase):
    """A stdin at which the user gives up."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        raise KeyboardInterrupt


def test_an_interrupt_is_quiet_and_leaves_no_file(tape: Path, tmp_path: Path) -> None:
    result = run_with(tape, io.BufferedReader(Interrupted()), "export", "-", "-o", str(tmp_path / "x.csv"), code=130)
    assert (result.stdout, result.stderr, list(tmp_path.iterdir())) == ("", "", [])


@pytest.mark.parametrize("format", ["csv", "json", "parquet", "har", "sse", "asciicast", "gif", "trace"])
def test_no_format_is_written_over_a_tape(tape: Path, format: str) -> None:
    content = tape.read_bytes()
    result = run_with(tape, "", "export", COMPLETE, "--format", format, "-o", str(tape), code=1)
    assert (type(result.exception), result.exception.exit_code) == (OutputRefused, 2)  # type: ignore[union-attr]
    assert tape.read_bytes() == content


def test_the_schema_is_not_written_over_a_tape(tape: Path) -> None:
    result = run_with(tape, "", "export", "--schema", "--format", "csv", "-o", str(tape), code=1)
    assert isinstance(result.exception, OutputRefused)


@pytest.mark.parametrize("name", ["a.xyz", "day.csv.gz", "v1.2"])
def test_an_unknown_suffix_requires_a_format(tape: Path, tmp_path: Path, name: str) -> None:
    error = run(tape, "export", "-o", str(tmp_path / name), code=2).stderr
    assert "add --format, or use one of .csv, .tsv, .jsonl, .json, .parquet, .sse, .html, .har, .cast" in error
    assert list(tmp_path.iterdir()) == []
    run(tape, "export", "--format", "tsv", "-o", str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(b"id\t")


def test_requested_columns_keep_their_order(tape: Path, tmp_path: Path) -> None:
    assert run(tape, "export", "--columns", "status,id,ttft", "-n", "1").stdout_bytes.splitlines() == [
        b"status,id,ttft_ms", b"200,aaaa000000000001,110.0",
    ]  # fmt: skip
    exported = run(
        tape, "export", COMPLETE, "--table", "reads", "--columns", "size,seq", "-n", "1", "--format", "jsonl"
    )
    assert list(json.loads(exported.stdout)) == ["size", "seq"]
    chunk = run(
        tape, "export", TOOLS, "--table", "chunks", "--columns", "tool_name,kinds", "-n", "2", "--format", "tsv"
    )
    assert chunk.stdout == "tool_name\tkinds\n\treasoning\nget_weather\ttool\n"
    path = tmp_path / "x.parquet"
    run(tape, "export", "--table", "summary", "--by", "status", "--columns", "n,status", "-o", str(path))
    assert pyarrow.parquet.read_table(path).to_pylist() == [{"n": 6, "status": 200}, {"n": 1, "status": 429}]


def test_an_unknown_column_lists_those_of_the_table(tape: Path) -> None:
    error = run(tape, "export", "--table", "reads", "--columns", "siz", code=2).stderr
    assert "there is no column 'siz': did you mean size" in error
    assert "leave it out" in run(tape, "export", "--columns", "id", "--format", "har", code=2).stderr


def test_an_asciicast_uses_the_users_stall_threshold(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "stall 3,000.0 ms" in run(tape, "export", TOOLS, "--format", "asciicast").stdout
    monkeypatch.setenv("WIRETAPE_STALL_MS", "3000")
    assert "stall" not in run(tape, "export", TOOLS, "--format", "asciicast").stdout


def test_two_exchanges_race_in_their_named_order(tape: Path, tmp_path: Path) -> None:
    for ids in ((COMPLETE, TOOLS), (TOOLS, COMPLETE)):
        header, *_ = run(tape, "export", *ids, "--format", "asciicast").stdout.splitlines()
        assert re.findall(r"aaaa0{11}\d", json.loads(header)["title"]) == [*ids]
    path = tmp_path / "x.gif"
    result = run(tape, "export", COMPLETE, TOOLS, "-o", str(path), "--max-gap", "500ms", "--size", "60x16").stderr
    assert result == f"wrote {path} (9 frames)\n"
    assert path.read_bytes().startswith(b"GIF89a")


def test_a_gif_does_not_go_to_a_terminal(tape: Path) -> None:
    assert "raw bytes may upset a terminal" in on_terminal(tape, "export", "@", "--format", "gif")
