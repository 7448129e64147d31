"""Exports, as bytes: the files in tests/data/export are the contract. Delete one to renew it."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

from tests.support.cases import each_case
from tests.support.sample_tape import HOSTILE, ODD
from tests.support.tables import table_rows
from wiretape.recorder.sanitize import safe
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.export import text as export
from wiretape.viewer.record import rows
from wiretape.viewer.record.fields import FIELDS, TEXT_FIELDS
from wiretape.viewer.record.rows import Exchanges
from wiretape.viewer.source.tape import queries

GOLDEN = Path(__file__).parents[2] / "data" / "export"


def export_of(format: export.Format, table: list[rows.TableRow], **options: Any) -> bytes:
    out = io.BytesIO()
    assert export.write(out, format, list(table[0]), table, **options) == len(table)
    return out.getvalue()


def exported(connection: Connection, table: str, format: export.Format) -> bytes:
    out = io.BytesIO()
    export.write(out, format, export.TABLES[table], table_rows(connection, table))
    return out.getvalue()


@each_case(
    "name",
    ["exchanges.csv", "exchanges.jsonl", "exchanges.json", "texts.csv", "texts.jsonl", "chunks.csv", "reads.csv"],
)
def test_an_export_is_the_golden_file_byte_for_byte(connection: Connection, name: str) -> None:
    table, _, format = name.partition(".")
    data = exported(connection, table, format)  # type: ignore[arg-type]  # the suffix is the format
    golden = GOLDEN / name
    if not golden.exists():
        golden.write_bytes(data)
        pytest.fail(f"{golden} was not there and has been written: look at it")
    assert data == golden.read_bytes()


@each_case("table", [table for table in export.TABLES if table != "turns"])  # see test_turns
def test_all_formats_have_the_same_fields_and_rows(connection: Connection, table: str) -> None:
    lines = [json.loads(line) for line in exported(connection, table, "jsonl").decode().split("\n")[:-1]]
    cells = list(csv.DictReader(io.StringIO(exported(connection, table, "csv").decode(), newline="")))
    assert json.loads(exported(connection, table, "json")) == lines
    assert len(cells) == len(lines) > 0
    assert {tuple(line) for line in lines} == {export.TABLES[table]} == {tuple(row) for row in cells}


@each_case("limit", [None, 0, 1, 3, 99])
@each_case("options", [{}, {"raw_csv": True}, {"terminal": True}, {"header": False}])
@each_case("fields", [FIELDS, FIELDS + TEXT_FIELDS, ("flags", "ttft_ms"), ("id",)])
@each_case("format", ["csv", "tsv"])
def test_exchanges_are_written_alike_by_columns_and_rows(
    connection: Connection, format: export.Format, fields: tuple[str, ...], options: dict[str, Any], limit: int | None
) -> None:
    outputs = []
    for make in (iter, list):
        out = io.BytesIO()
        data: Any = make(queries.exchanges(connection, fields, limit=limit))
        count = export.write(out, format, fields, data, **options)
        outputs.append((count, out.getvalue()))
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(("raw", "expected"), [(False, b"a,'=1 b"), (True, b"a,=1 b")])
def test_a_damaged_tapes_flags_are_guarded_both_ways(raw: bool, expected: bytes) -> None:
    def exchanges() -> Exchanges:
        return Exchanges(("id", "flags"), [[(1, "a", " =1  b"), (2, "b", None)]])

    for rows_found in (exchanges(), list(exchanges())):
        out = io.BytesIO()
        assert export.write(out, "csv", ("id", "flags"), rows_found, raw_csv=raw) == 2
        assert out.getvalue().splitlines()[1:] == [expected, b"b,"]


def test_texts_are_the_contract_and_four_more() -> None:
    assert export.TABLES["texts"] == (*FIELDS, "content", "reasoning", "refusal", "tool_calls")


def test_json_is_exact_whatever_was_recorded(connection: Connection) -> None:
    lines = [json.loads(line) for line in exported(connection, "texts", "jsonl").decode().split("\n")[:-1]]
    (odd,) = [line for line in lines if line["id"] == ODD]
    assert (odd["content"], odd["model"], odd["error_message"]) == (HOSTILE, HOSTILE, HOSTILE)
    assert odd["tool_calls"][0]["arguments"] == HOSTILE


@each_case("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "\0x"])
def test_a_formula_like_text_is_guarded_unless_raw(text: str) -> None:
    row = {"a": text, "b": "1=1"}
    guarded, raw = export_of("csv", [row]), export_of("csv", [row], raw_csv=True)
    assert next(csv.DictReader(io.StringIO(guarded.decode(), newline=""))) == {"a": f"'{text}", "b": "1=1"}
    assert next(csv.DictReader(io.StringIO(raw.decode(), newline=""))) == row


@each_case(
    ("text", "guarded"),
    [
        ("ok;=1+1", "ok;'=1+1"),
        ("a\t@b", "a\t'@b"),
        ("\t=1", "'\t'=1"),
        ('ok;"=1+1"', 'ok;\'"=1+1"'),
        ("x;+1;-1", "x;'+1;'-1"),
        ("a; b\tc", "a; b\tc"),
    ],
)
def test_a_formula_behind_a_separator_is_guarded_and_quoted(text: str, guarded: str) -> None:
    cell = f'"{guarded.replace(chr(34), 2 * chr(34))}"'.encode()
    assert export_of("csv", [{"a": text, "b": None}]) == b"a,b\r\n%b,\r\n" % cell
    by_column = io.BytesIO()
    export.write(by_column, "csv", ("a", "b"), Exchanges(("a", "b"), [[(1, text, None)]]))
    assert by_column.getvalue() == b"a,b\r\n%b,\r\n" % cell
    raw = f'"{text.replace(chr(34), 2 * chr(34))}"'.encode()
    assert export_of("csv", [{"a": text, "b": None}], raw_csv=True) == b"a,b\r\n%b,\r\n" % raw


@each_case("text", ['"', '"Hello, he said', '"a" and "b"', 'no "quote" at its beginning', '""'])
def test_a_leading_quotation_mark_swallows_no_tsv_row(text: str) -> None:
    table = [{"a": text, "b": "x"}, {"a": "second", "b": None}]
    by_row, by_column = export_of("tsv", table), io.BytesIO()
    export.write(by_column, "tsv", ("a", "b"), Exchanges(("a", "b"), [[(1, text, "x"), (2, "second", None)]]))
    assert by_column.getvalue() == by_row
    cells = [*csv.reader(io.StringIO(by_row.decode(), newline=""), delimiter="\t")]
    assert cells == [["a", "b"], [text, "x"], ["second", ""]]


def test_a_mark_of_utf8_comes_once_before_the_header() -> None:
    assert export_of("csv", [{"a": "é"}], mark=True) == "\ufeffa\r\né\r\n".encode()
    assert export_of("tsv", [{"a": "é"}], mark=True) == "\ufeffa\né\n".encode()


def test_numbers_are_never_quoted_and_unknown_is_empty() -> None:
    assert (
        export_of("csv", [{"a": -1, "b": -0.5, "c": None, "d": False, "e": 0}]) == b"a,b,c,d,e\r\n-1,-0.5,,false,0\r\n"
    )


@each_case("format", ["csv", "tsv", "markdown", "jsonl", "json"])
def test_numbers_round_to_nanoseconds_and_costs_are_exact(format: export.Format) -> None:
    row = {"tps_user": 31.438702140840615, "cost": 0.000000123456, "at_ms": 0.000001, "n": 3, "unit": "ms"}
    text = export_of(format, [row, {**row, "tps_user": 0.1234567894, "unit": "s"}]).decode()
    numbers = re.findall(r"[\d.]+(?:e-\d+)?", text)
    assert numbers == ["31.438702", "1.23456e-07", "1e-06", "3", "0.123456789", "1.23456e-07", "1e-06", "3"]


@each_case("format", ["csv", "tsv"])
def test_a_rate_is_rounded_by_column_as_by_row(format: export.Format) -> None:
    out = io.BytesIO()
    fields = ("id", "tps_user")
    export.write(out, format, fields, Exchanges(fields, [[(1, "a", 31.438702140840615), (2, "b", None)]]))
    assert out.getvalue() == export_of(format, [{"id": "a", "tps_user": 31.438702}, {"id": "b", "tps_user": None}])


def test_labels_are_words_that_can_be_split() -> None:
    labels = {"run": "a7", "cwd": "/my home/50%", "a=b": "c=d", "none": ""}
    text = export_of("csv", [{"flags": ["no_usage", "stall"], "labels": labels}, {"flags": [], "labels": {}}])
    header, words, empty = text.decode().splitlines()
    flags, cell = words.split(",")
    assert (header, empty) == ("flags,labels", ",")
    assert (flags, cell) == ("no_usage stall", "run=a7 cwd=/my%20home/50%25 a%3Db=c=d none=")
    split = (word.partition("=") for word in cell.split())
    assert {unquote(name): unquote(value) for name, _, value in split} == labels


def test_csv_keeps_line_ends_and_quotes_inside_a_cell() -> None:
    assert export_of("csv", [{"a": 'x\r\n"y",\nz', "b": "é"}]) == 'a,b\r\n"x\r\n""y"",\nz",é\r\n'.encode()


def test_a_lone_surrogate_is_written_as_its_escape() -> None:
    assert json.loads(export_of("jsonl", [{"a": "\ud83d!"}])) == {"a": "\ud83d!"}
    assert export_of("csv", [{"a": "\ud83d!"}]) == b"a\r\n\\ud83d!\r\n"


def test_a_json_line_is_one_line_to_everyone() -> None:
    row = {"a": "1\x852\u20283\u20294"}
    (line,) = export_of("jsonl", [row]).decode().splitlines()
    assert json.loads(line) == row


def test_markdown_is_a_readable_table() -> None:
    row = {"rule": "max ttft.p95=1,500 ms", "n": 3, "none": None, "flags": ["a", "b"], "model_name": "gpt-4 | x"}
    assert export_of("markdown", [row]).decode().splitlines() == [
        "| rule | n | none | flags | model_name |",
        "| --- | --- | --- | --- | --- |",
        r"| max ttft.p95=1,500 ms | 3 |  | a b | gpt-4 \| x |",
    ]


@each_case(
    "text",
    [
        HOSTILE,
        "[x](y) ![i](j)",
        "<b>*a* _b_ ~c~",
        "a|b\\|c",
        "`d` $e$",
        "&lt; https://f.example www.g.example a@h.example",
        "g\nh\r\n",
    ],
)
def test_a_recorded_text_is_no_markup_in_markdown(text: str) -> None:
    document = export_of("markdown", [{"a": text, "b": 1}, {"a": "next", "b": 2}]).decode()
    parsed = MarkdownIt("gfm-like", {"html": True}).parse(document)
    (_, _, cell, *others) = [token.children or [] for token in parsed if token.type == "inline"]
    assert {token.type for token in cell} == {"text"}
    assert "".join(token.content for token in cell) == safe(text).strip()
    assert [cell_token.content for (cell_token,) in others] == ["1", "next", "2"]


def test_an_empty_array_is_still_json() -> None:
    out = io.BytesIO()
    assert export.write(out, "json", ["a"], []) == 0
    assert json.loads(out.getvalue()) == []


def test_terminal_json_is_equal_without_its_controls() -> None:
    row = {"a": HOSTILE}
    for found in (export_of("jsonl", [row], terminal=True), export_of("json", [row], terminal=True)):
        text = found.decode()
        assert not {sign for sign in text if not sign.isprintable()} - {"\n"}
        value = json.loads(text)
        assert (value[0] if isinstance(value, list) else value) == row


def test_one_object_is_indented_and_escaped_for_a_terminal() -> None:
    out = io.BytesIO()
    export.write_object(out, {"a": "\x9b\u202e\x7f"})
    assert out.getvalue() == b'{\n  "a": "\\u009b\\u202e\\u007f"\n}\n'


def test_terminal_csv_has_a_line_for_each_row() -> None:
    text = export_of("csv", [{"a": HOSTILE}], terminal=True).decode()
    assert text.count("\n") == 2
    assert not {sign for sign in text if not sign.isprintable()} - {"\n"}


def test_tsv_has_a_line_for_each_row() -> None:
    out = io.BytesIO()
    assert export.write(out, "tsv", ("a", "b"), [{"a": "x\ty\r\n\\", "b": None}, {"a": [1], "b": True}]) == 2
    assert out.getvalue() == b"a\tb\nx\\ty\\r\\n\\\\\t\n[1]\ttrue\n"


def test_tsv_can_go_on_without_a_header() -> None:
    out = io.BytesIO()
    export.write(out, "tsv", ("a",), [{"a": 1.5}], header=False)
    assert out.getvalue() == b"1.5\n"
