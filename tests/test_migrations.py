"""Tapes of older versions become like new ones: all or nothing, and the same from an installed wiretape."""

import itertools
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from click.testing import CliRunner
from sqlalchemy import Column, Integer, Table, create_engine, inspect, pool, select

from tests.support.forked import Forked
from tests.support.frames import bodies_of, damage, exchange, opened, outcomes_of, reading, record
from tests.support.wires import CONTENT, REASONING, WIRES
from wiretape.recorder.commands.db import db
from wiretape.recorder.errors import SchemaMismatch, TapeError
from wiretape.recorder.tape import checks, definitions, file, packing, peek, schema
from wiretape.recorder.tape.reading import reads_of_all

ROOT = Path(__file__).parent.parent
NOW = peek.REVISION
_LATER = "context_", "prompt_el", "max_output_", "first_output_", "answers", "stalled_", "given_up_", "last_silence"
LATER = [name for name in (column.name for column in schema.measures.c) if name.startswith(_LATER)]
"""Columns that an upgrade leaves unknown."""
NEXT = '''
"""A migration of a wiretape to come: replaces a table that others refer to, then adds one."""
import os, signal
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"

def upgrade():
    with op.batch_alter_table("exchanges", recreate="always", table_kwargs={{"sqlite_autoincrement": True}}):
        pass
    op.create_table("notes", sa.Column("no", sa.Integer, primary_key=True))
    if os.environ.get("FAULT") == "raise":
        raise RuntimeError("a bug in a migration")
    if os.environ.get("FAULT") == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
'''
UPGRADE = """
import sys
from pathlib import Path
from tests.test_migrations import come
come(Path(sys.argv[1]))
from wiretape.recorder.commands.db import db
db(["upgrade", "--db", sys.argv[2]])
"""


def come(scripts: Path, patch: pytest.MonkeyPatch | None = None) -> None:
    """Make this wiretape the one to come, whose schema is 9999."""
    for module in (file, peek, schema):
        (patch or pytest.MonkeyPatch()).setattr(module, "REVISION", "9999")
    (patch or pytest.MonkeyPatch()).setattr(file, "scripts", lambda: scripts)
    Table("notes", schema.metadata, Column("no", Integer, primary_key=True, comment="a number"), comment="notes")


@pytest.fixture
def coming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The migrations of a wiretape to come."""
    scripts = tmp_path / "migrations 100%"
    shutil.copytree(ROOT / "migrations", scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "9999_next.py").write_text(NEXT.format(head=peek.REVISION))
    with monkeypatch.context() as patch:
        come(scripts, patch)
        yield scripts
    schema.metadata.remove(schema.metadata.tables["notes"])


@pytest.fixture
def recorded(tape: Path) -> Path:
    with opened(tape) as store:
        record(store, [*exchange("e1"), *exchange("e2")[:-1]])
    return tape


RENAMED = {
    "measures.dialect": "replace(api, 'openai.chat', 'chat')",
    "measures.model": "response_model",
    "measures.prompt_tokens": "input_tokens",
    "measures.completion_tokens": "output_tokens",
    "measures.cache_creation_input_tokens": "cache_write_input_tokens",
    "measures.cache_creation_1h_input_tokens": "cache_write_1h_input_tokens",
    "measures.icl": "wide(icl)",
    "measures.max_stall_ns": "max_gap_ns",
}
"""Columns of older revisions, and what they hold on a tape of the present one."""


def older(recorded: Path, revision: str) -> Path:
    """Make a tape of an older revision with all that is on another."""
    path = recorded.with_name(f"of-{revision}.db")
    with create_engine(f"sqlite:///{path}", poolclass=pool.NullPool).connect() as connection:
        connection.exec_driver_sql(f"PRAGMA application_id={peek.APPLICATION_ID}")
        connection.rollback()
        with connection.begin():
            file.migrate(connection, revision)
        connection.exec_driver_sql("ATTACH ? AS recorded", (str(recorded),))
        file.driver_of(connection).create_function("wide", 1, packing.unpack_gaps)
        connection.rollback()
        with connection.begin():
            present = inspect(connection).get_table_names()
            tables = [*(table.name for table in schema.metadata.sorted_tables), "reads"]
            for table in (name for name in tables if name in present):
                names = [column["name"] for column in inspect(connection).get_columns(table)]
                values = ", ".join(RENAMED.get(f"{table}.{name}", name) for name in names)
                insert = f"INSERT INTO main.{table} ({', '.join(names)}) SELECT {values}"
                connection.exec_driver_sql(f"{insert} FROM recorded.{table}")
    return path


def definitions_of(tape: Path) -> dict[str, str]:
    with closing(sqlite3.connect(tape)) as connection:
        return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))


def as_before(tape: Path) -> None:
    """Give a tape the number of the present revision again, so that it can be checked at the end of the test."""
    damage(tape, "DROP TABLE IF EXISTS notes", f"UPDATE alembic_version SET version_num='{NOW}'")


def upgrade(tape: Path) -> str:
    result = CliRunner().invoke(db, ["upgrade", "--db", str(tape)])
    assert (result.exit_code, result.exception) == (0, None)
    return result.stdout


def test_there_is_one_head_and_it_is_the_schema_of_the_program() -> None:
    config = Config()
    config.set_main_option("script_location", str(ROOT / "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [peek.REVISION]


def test_a_migrated_tape_is_what_the_tables_say() -> None:
    with create_engine("sqlite://", poolclass=pool.NullPool).connect() as connection:
        file.migrate(connection)
        options = {"compare_type": True, "compare_server_default": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata) == []


def test_a_downgrade_takes_everything_away() -> None:
    with create_engine("sqlite://", poolclass=pool.NullPool).connect() as connection:
        config = Config()
        config.set_main_option("script_location", str(ROOT / "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        assert set(schema.metadata.tables) <= set(inspect(connection).get_table_names())
        command.downgrade(config, "base")
        assert inspect(connection).get_table_names() == ["alembic_version"]


@pytest.mark.parametrize("revision", ["0001", "0002"])
def test_an_upgraded_tape_has_the_schema_of_a_new_one_with_its_comments(recorded: Path, revision: str) -> None:
    tape = older(recorded, revision)
    with pytest.raises(SchemaMismatch, match=f"older schema {revision}, not {peek.REVISION}: run 'wiretape db upgr"):
        file.read_engine(tape)
    upgrade(tape)
    with closing(sqlite3.connect(tape)) as old, closing(sqlite3.connect(recorded)) as new:
        assert definitions.entries(old) == definitions.entries(new)
        for pragma in ("user_version", "application_id", "integrity_check"):
            assert old.execute(f"PRAGMA {pragma}").fetchall() == new.execute(f"PRAGMA {pragma}").fetchall()
    # The order of columns differs where a migration has added one; no line else does, comments included.
    lines = [
        {name: sorted(line.replace('"', "").rstrip(",") for line in sql.splitlines()) for name, sql in found.items()}
        for found in (definitions_of(tape), definitions_of(recorded))
    ]
    assert lines[0] == lines[1]
    with opened(tape) as store:
        record(store, exchange("e2")[-1:])
    tape.with_name(f"{tape.name}.before-{peek.REVISION}").unlink()


def test_an_older_tape_is_not_written_before_it_is_upgraded_and_loses_nothing_then(
    recorded: Path, coming: Path
) -> None:
    with pytest.raises(SchemaMismatch, match="not 9999: run 'wiretape db upgrade'"), opened(recorded):
        pass
    before = held(recorded)
    backup = recorded.with_name("tape.db.before-9999")
    assert upgrade(recorded).endswith(f" → 9999; the old tape is {backup}\n")
    assert {"notes", "exchanges", "exchange_metrics"} <= set(definitions_of(recorded))
    assert held(recorded) == held(backup) == before
    with opened(recorded) as store:
        record(store, exchange("e2")[-1:])
    as_before(recorded)


def held(tape: Path) -> list[list[tuple[object, ...]]]:
    """Return all rows of a tape, whatever its revision."""
    with closing(sqlite3.connect(tape)) as connection:
        tables = ("sessions", "exchanges", "segments", "bodies", "measures", "reads")
        return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]


def test_a_tape_of_the_first_schema_is_upgraded_with_all_that_it_holds(recorded: Path) -> None:
    before = bodies_of(recorded), outcomes_of(recorded)
    first = older(recorded, "0001")
    damage(first, "UPDATE measures SET decoder_version = 1")
    assert upgrade(first).endswith(f"{first}: 1 exchange derived again, 1 changed\n")
    with reading(first) as connection:
        (measured,) = connection.exec_driver_sql("SELECT max_silence_ns >= 0, api, operation FROM measures").all()
        assert measured == (1, "openai.chat", "chat")
    assert upgrade(first) == f"{first} has schema {peek.REVISION} already\n"
    assert (bodies_of(first), outcomes_of(first)) == before
    with file.writing(first, "a test, once more"):
        pass
    first.with_name(f"{first.name}.before-{peek.REVISION}").unlink()


@pytest.mark.parametrize("fault", ["raise", "kill"])
def test_a_migration_that_is_cut_short_leaves_the_tape_as_it_was(recorded: Path, coming: Path, fault: str) -> None:
    before = definitions_of(recorded)
    command = ("-c", UPGRADE, str(coming), str(recorded))
    with Forked(command, env={**os.environ, "FAULT": fault}, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait(60) == (1 if fault == "raise" else -9), said
    assert definitions_of(recorded) == before
    upgrade(recorded)
    assert set(definitions_of(recorded)) == {*before, "notes"}
    as_before(recorded)


def shown(tape: Path) -> tuple[object, ...]:
    """Return what a tape of the present schema holds, apart from how it is kept."""
    with reading(tape) as connection:
        numbers = connection.exec_driver_sql("SELECT no FROM exchanges ORDER BY no").scalars().all()
        its_reads = {no: list(reads) for no, reads in reads_of_all(connection, numbers).items()}
        measured = connection.execute(select(schema.measures).order_by(schema.measures.c.exchange_no)).all()
    return bodies_of(tape), its_reads, measured


def upgraded_until(tape: Path, point: int) -> bool:
    """Upgrade a tape in a process that is killed at a point of its work; return whether it came to its end before."""
    passed = itertools.count(1)

    def killing(function: Callable[..., Any]) -> Callable[..., Any]:
        def reached(*arguments: Any) -> Any:
            if next(passed) == point:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments)

        return reached

    child = os.fork()
    if not child:
        os.fsync = killing(os.fsync)
        for name in ("rename", "hardlink_to", "replace"):
            setattr(Path, name, killing(getattr(Path, name)))
        try:
            file.upgrade(tape, "a test", killing(lambda done, total: None))
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def test_an_upgrade_that_is_killed_leaves_a_tape_that_it_goes_on_with(tape: Path) -> None:
    with opened(tape) as store:
        record(store, [*exchange("e0", [])[:-1], *(frame for no in range(1, 130) for frame in exchange(f"e{no}"))])
        store.append(exchange("open")[:-1])
    damage(tape, f"UPDATE measures SET {', '.join(f'{name} = NULL' for name in LATER)}")
    old = older(tape, "0004")
    contents = shown(tape)
    for point in itertools.count(1):
        copy = tape.with_name(f"{point}.db")
        shutil.copy(old, copy)
        is_done = upgraded_until(copy, point)
        if not is_done and definitions_of(copy) == definitions_of(old):
            with pytest.raises(SchemaMismatch, match="run 'wiretape db upgrade'"):
                file.read_engine(copy)
            assert file.upgrade(copy, "a test") == ("0004", copy.with_name(f"{copy.name}.before-{NOW}"))
        assert shown(copy) == contents
        assert file.upgrade(copy, "a test") is None
        assert {path.name for path in tape.parent.glob(f"{copy.name}*")} <= {
            copy.name, f"{copy.name}.before-{NOW}", f"{copy.name}.lock"
        }  # fmt: skip
        with closing(sqlite3.connect(copy)) as connection:
            assert connection.execute("PRAGMA auto_vacuum").fetchone() == (schema.AUTO_VACUUM,)
        copy.with_name(f"{copy.name}.before-{NOW}").unlink()
        if is_done:
            break
    assert point > 7
    old.unlink()


def test_the_tape_as_it_was_keeps_its_mode_and_is_private(tape: Path, recorded: Path) -> None:
    old = older(recorded, "0004")
    old.chmod(0o640)
    before = held(old)
    _, kept = file.upgrade(old, "a test") or ("", old)
    assert (held(kept), oct(kept.stat().st_mode), oct(old.stat().st_mode)) == (before, "0o100640", "0o100640")
    kept.unlink()


@pytest.mark.damages
def test_damaged_reads_of_an_older_tape_stay_damaged_and_the_others_whole(recorded: Path) -> None:
    old = older(recorded, "0004")
    damage(old, "UPDATE reads SET at_ns='x' WHERE seq=1", "DELETE FROM reads WHERE exchange_no=2 AND seq=2")
    with closing(sqlite3.connect(old)) as connection:
        intact = connection.execute("SELECT * FROM reads WHERE at_ns <> 'x'").fetchall()
    upgrade(old)
    with closing(sqlite3.connect(old)) as connection:
        assert connection.execute("SELECT * FROM reads").fetchall() == intact
    with reading(old) as connection:
        assert [list(problem.split(": ")) for problem in checks.problems(connection)] == [
            ["exchange e1", "read 1 is damaged"], ["exchange e2", "read 1 is damaged"],
            ["exchange e2", "read 2 is damaged"],
        ]  # fmt: skip


def test_a_tape_cannot_be_made_by_halves(tape: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_short() -> Iterator[str]:
        yield from [*schema_statements()][:5]
        raise RuntimeError("a bug in a definition")

    schema_statements = schema.statements
    with monkeypatch.context() as patch:
        patch.setattr(schema, "statements", cut_short)
        with pytest.raises(RuntimeError, match="a bug in a definition"), opened(tape):
            pass
    assert definitions_of(tape) == {}
    with pytest.raises(TapeError, match="has no schema"):
        file.read_engine(tape)
    with opened(tape):
        pass


def test_an_installed_wiretape_finds_the_migrations_it_ships(recorded: Path, tmp_path: Path) -> None:
    tape = older(recorded, "0002")
    installed = tmp_path / "site" / "wiretape" / "recorder"
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "recorder", installed, ignore=skipped)
    shutil.copy(ROOT / ".package" / "wiretape" / "__init__.py", installed.parent)
    shutil.copytree(ROOT / "migrations", installed / "migrations", ignore=skipped)
    program = (
        "import sys; from wiretape.recorder.commands.db import db; from wiretape.recorder.tape import file\n"
        "print(file.scripts(), flush=True); db(['upgrade', '--db', sys.argv[1]])"
    )
    command = (sys.executable, "-P", "-c", program, str(tape))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ended.stdout.startswith(f"{installed / 'migrations'}\n{tape}: schema 0002 → {peek.REVISION};")
    assert bodies_of(tape) == bodies_of(recorded)
    tape.with_name(f"{tape.name}.before-{peek.REVISION}").unlink()


def test_what_an_older_decoder_did_not_read_is_there_after_an_upgrade_and_after_a_rebuild(tape: Path) -> None:
    with opened(tape) as store:
        record(store, exchange("e1", WIRES["messages"].parts))
    old = older(tape, "0003")
    unread = (
        "dialect = 'unknown', flags = 'unknown_payload', model = NULL, content = NULL, reasoning = NULL, "
        "tool_calls = NULL, usage = NULL, finish_reason = NULL, prompt_tokens = NULL, completion_tokens = NULL, "
        "total_tokens = NULL, ttft_ns = NULL, chunks = 0, output_chunks = 0, decoder_version = 2"
    )
    damage(old, f"UPDATE measures SET {unread}")
    assert upgrade(old).endswith(f"{old}: 1 exchange derived again, 1 changed\n")
    statement = (
        "SELECT api, operation, outcome, response_model, content, reasoning, input_tokens, output_tokens, "
        "finish_reason, ttft_ns > 0 FROM measures"
    )
    read = ("anthropic.messages", "chat", "complete", "claude-x", CONTENT, REASONING, 12, 9, "tool_use", 1)
    with closing(sqlite3.connect(old)) as connection:
        assert connection.execute(statement).fetchall() == [read]
    damage(old, "UPDATE measures SET content = NULL, api = 'unknown', decoder_version = 2")
    rebuilt = CliRunner().invoke(db, ["rebuild", "--db", str(old)])
    assert rebuilt.output == f"{old}: 1 exchange derived again, 1 changed\n"
    with closing(sqlite3.connect(old)) as connection:
        assert connection.execute(statement).fetchall() == [read]
    old.with_name(f"{old.name}.before-{peek.REVISION}").unlink()
