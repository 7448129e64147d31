"""Tapes made by others: any cell may hold anything, and every command shows the rest and tells which row it was.

Each test damages cells, and runs commands in this process: none may end in an exception that is not foreseen. By
default a dozen columns are damaged at once, each column meets two hostile values and each command some of the columns;
`-m nightly` is the full product, four columns at once, which takes a quarter of an hour.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.cases import each_case
from tests.support.sample_tape import COMPLETE, TOOLS
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.errors import NoResultFound, WiretapeError
from wiretape.recorder.tape import cells, schema, tables
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import false, select
from wiretape.viewer.cli import group
from wiretape.viewer.exchange import opened
from wiretape.viewer.export import frames
from wiretape.viewer.query.parser import parse
from wiretape.viewer.source.tape import conditions, exchange, live, overview, queries

pytestmark = pytest.mark.damages

HOSTILE: dict[str, Any] = {
    "null": None, "text": "no\x1b[2J number", "blob": b"\xff\xfe\x00blob", "huge": 2**63 - 1, "negative": -(2**63),
    "one": 1, "infinity": float("inf"), "fraction": 1.5, "empty": "", "empty blob": b"", "no JSON": "[{",
    "other JSON": '{"a": [1, {"b": null}]}', "list": '[1, "x", null, [["a"]]]', "nested": "[" * 100_000,
    "odd array": b"\x01\x02\x03", "absurd array": b"\xff" * 7 + b"\x7f" + b"\x00" * 7 + b"\x80",
    "day": "2026-02-31T99:00:00Z", "last day": "9999-12-31T23:59:59Z", "bad UTF-8": "CAST(x'c328ff' AS TEXT)",
    "JSON null": "null",
}  # fmt: skip
TABLES = [table for table in schema.metadata.sorted_tables if table.name != "uploads"]  # nobody but a writer reads it
COLUMNS = [f"{table.name}.{column.name}" for table in TABLES for column in table.c]
COMMANDS = [
    "ls", "ls --format json", "ls -s ttft", "ls -s -gap.p50 -f gap>1ms", "ls --label run=a7 --model gpt*",
    "ls --since 2020-01-01 -f text~hel", "ls -f tool:get* --spark", "show ID", "show ID --format json",
    "show ID --part text", "show ID --part timing", "show ID --part events", "show ID --part reads",
    "show ID --part request", "show ID --part raw", "stats", "stats --by model,label.run,day --format json",
    "stats --hist icl --include-failed", "stats --as vllm", "stats --as aiperf", "stats --as otel",
    f"compare ID {TOOLS}", "compare --base model:gpt* --new status:200", "check --max ttft.p95=1s --min n=1", "export",
    "export --format json", "export --table texts --format jsonl", "export --table chunks",
    "export --table reads --format tsv",
    "export --table summary --by hour", "export --table texts -o OUT.parquet", "export --format har",
    "export ID --format sse", "export ID --format asciicast", "export ID --format trace",
    "report ID", "report ID --with-text --format json", "report -f status:200",
    "export ID --html --with-bodies", "export --html --with-text", "db info", "db check", "doctor --format json",
    "env", "db prune --older 1d --dry-run", "rm ID --dry-run", "db rebuild",
]  # fmt: skip


KEYS = [name for name in COLUMNS if name.partition(".")[2] in ("no", "exchange_no", "session_no", "id", "seq")]
GROUPS, TURNS, NIGHTLY_GROUPS = 6, 2, 27


@pytest.fixture(scope="module")
def lax(tape: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The tape's bytes, without the constraints of its schema; every second request is in parts."""
    copy = tmp_path_factory.mktemp("lax") / "tape.db"
    copy.write_bytes(tape.read_bytes())
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE type='table'")
        of_second = "FROM exchanges WHERE no % 2 AND length(request_body) = request_size"
        connection.execute(f"INSERT INTO request_versions SELECT no, no, 1 {of_second}")
        connection.execute(f"INSERT INTO request_parts SELECT no, no, 7, 1, 256, request_body {of_second}")
        connection.execute("UPDATE exchanges SET request_body = NULL WHERE no IN (SELECT no FROM request_parts)")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return copy.read_bytes()


def damaged(tape: bytes, copy: Path, cells: Mapping[str, Any]) -> Path:
    """Write a tape with a damaged cell in each of these columns.

    They are in the row of one exchange; each key is in another row, as it would hide what else is wrong with its own.
    """
    copy.write_bytes(tape)
    with closing(sqlite3.connect(copy)) as connection:
        for column, value in cells.items():
            place = 1 + KEYS.index(column) if len(cells) > 1 and column in KEYS else 0
            _damage(connection, column, value, place)
        connection.commit()
    return copy


def _damage(connection: sqlite3.Connection, column: str, value: Any, place: int) -> None:
    table, _, name = column.partition(".")
    key = "no" if table in ("sessions", "exchanges", "request_parts") else "exchange_no"
    expression, values = ("?", (value,)) if not str(value).startswith("CAST") else (value, ())
    of_integers = f"FROM {table} WHERE typeof({key}) = 'integer'"
    keys = [no for (no,) in connection.execute(f"SELECT DISTINCT {key} {of_integers} ORDER BY {key}")]
    if not keys:  # nothing is there, or its one key is damaged already
        return
    row = keys[place % len(keys)]
    with suppress(sqlite3.IntegrityError):  # a key of integers holds nothing else
        connection.execute(f"UPDATE OR IGNORE {table} SET {name} = {expression} WHERE {key} = {row}", values)


def run(tape: Path, command: str) -> None:
    arguments = [part.replace("ID", COMPLETE).replace("OUT", str(tape.with_suffix(""))) for part in command.split()]
    result = CliRunner().invoke(group, arguments, env={"WIRETAPE_DB": str(tape)})
    if result.exception is not None and not isinstance(result.exception, WiretapeError | SystemExit):
        raise result.exception
    assert "Traceback" not in result.output


def screens(connection: Connection) -> Iterator[Callable[[], Any]]:
    """Return the rows that the viewer's screens read."""
    numbers = live.numbers(connection)
    yield lambda: live.numbers(connection, by="ttft_ms", descending=True)
    yield lambda: live.listed(connection, numbers)
    yield lambda: live.change(connection, None)
    yield lambda: live.values(connection, "model")
    yield lambda: live.entries(connection, numbers)
    yield lambda: overview.figures(connection, "model")
    yield lambda: overview.failures(connection)
    yield lambda: overview.label_keys(connection)
    yield lambda: overview.samples(connection, ("outcome",))
    for no in numbers[:2]:
        yield lambda no=no: live.preview(connection, no)
        yield lambda no=no: exchange.known(connection, no)
        yield lambda no=no: opened.open_exchange(exchange.stored(connection, no), Thresholds())


def look(tape: Path) -> None:
    with suppress(WiretapeError):
        with queries.opened(tape) as connection:
            for screen in screens(connection):
                with suppress(NoResultFound):
                    screen()
        for table in ("exchanges", "texts", "chunks", "reads", "gaps"):
            getattr(frames.open_tape(tape), table)()


@pytest.mark.parametrize(
    "column", ["exchanges.path", "exchanges.request_model", "exchanges.upstream", "measures.conversation_key"]
)
def test_invalid_utf8_fails_no_function_of_a_query(tape: Path, tmp_path: Path, column: str) -> None:
    copy = damaged(tape.read_bytes(), tmp_path / "tape.db", {column: HOSTILE["bad UTF-8"]})
    condition = conditions.condition(parse("(path~. or model~.) -prompt~zzz -upstream:zzz"))
    with queries.opened(copy) as connection:
        numbers = [*queries.numbers(connection)]
        assert [*queries.numbers(connection, condition)] == numbers
        assert len([*queries.exchanges(connection, ("cost", "upstream_name"))]) == len(numbers)
    for number in numbers:
        with queries.opened(copy) as connection:
            assert "conversation" in queries.worked_out(connection, number)


@pytest.mark.parametrize("turn", range(TURNS))
@pytest.mark.parametrize("group", range(GROUPS))
def test_no_value_in_a_cell_upsets_a_command(lax: bytes, tmp_path: Path, group: int, turn: int) -> None:
    hostile = [*HOSTILE.values()]
    values = {column: (COLUMNS.index(column) + 11 * turn) % len(hostile) for column in COLUMNS[group::GROUPS]}
    copy = damaged(lax, tmp_path / "tape.db", {column: hostile[value] for column, value in values.items()})
    look(copy)
    for command in COMMANDS[group + GROUPS * turn :: GROUPS * TURNS]:
        run(copy, command)


@pytest.mark.nightly
@pytest.mark.parametrize("turn", range(len(HOSTILE)))
@pytest.mark.parametrize("group", range(NIGHTLY_GROUPS))
def test_no_value_in_any_cell_upsets_any_command(lax: bytes, tmp_path: Path, group: int, turn: int) -> None:
    hostile = [*HOSTILE.values()]
    cells = {
        column: hostile[(place + turn) % len(hostile)] for place, column in enumerate(COLUMNS[group::NIGHTLY_GROUPS])
    }
    look(damaged(lax, tmp_path / "tape.db", cells))
    for command in COMMANDS:
        run(damaged(lax, tmp_path / "tape.db", cells), command)


@each_case("column", [name for name in COLUMNS if name not in KEYS])
def test_a_column_is_checked_like_its_cells(column: str) -> None:
    table, _, name = column.partition(".")
    cell = tables.TABLES[table].c[name].type
    assert isinstance(cell, cells.Cell)
    edges = [0, -1, 1 << 31, (1 << 31) - 1, cells.MOST, cells.MOST - 1, -cells.MOST, float(cells.MOST)]
    for value in [*HOSTILE.values(), *edges, -float("inf"), "text", b"blob", 0.5]:
        damage, damage_of_column = cells.Damage(), cells.Damage()
        assert [cell.converter(damage)(value)] == [*cell.column([value], damage_of_column)], value
        assert damage == damage_of_column


def test_rows_checked_by_columns_are_those_checked_by_cells(tape: Path) -> None:
    with queries.opened(tape) as connection:
        for table in tables.TABLES.values():
            statement = select(*table.c.values())
            assert connection.fetch(statement) == [tuple(row) for row in connection.execute(statement)]
            assert connection.fetch(statement.where(false())) == []


@pytest.mark.parametrize(
    ("column", "value", "command"),
    [
        ("sessions.pid", None, "doctor --format json"),
        ("exchanges.started_at", b"\x01\x02\x03", "stats --by day --format json"),
        ("bodies.at_ns", 1.5, "show ID --part events"),
    ],
)
def test_a_value_that_upset_a_command_does_not(
    lax: bytes, tmp_path: Path, column: str, value: Any, command: str
) -> None:
    copy = damaged(lax, tmp_path / "tape.db", {column: value})
    look(copy)
    run(copy, command)
