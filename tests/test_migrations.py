"""Tapes of older versions become like new ones: all or nothing, and the same from an installed wiretape."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from click.testing import CliRunner
from sqlalchemy import Column, Integer, Table, create_engine, inspect

from recorder.commands.db import db
from recorder.errors import SchemaMismatch, TapeError
from recorder.tape import definitions, file, schema
from tests.recorder.frames import bodies_of, damage, exchange, opened, outcomes_of, reading, record
from tests.viewer.wires import CONTENT, REASONING, WIRES

ROOT = Path(__file__).parent.parent
NOW = schema.REVISION
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
from recorder.commands.db import db
db(["upgrade", "--db", sys.argv[2]])
"""


def come(scripts: Path, patch: pytest.MonkeyPatch | None = None) -> None:
    """Make this wiretape the one to come, whose schema is 9999."""
    for module in (file, schema):
        (patch or pytest.MonkeyPatch()).setattr(module, "REVISION", "9999")
    (patch or pytest.MonkeyPatch()).setattr(file, "scripts", lambda: scripts)
    Table("notes", schema.metadata, Column("no", Integer, primary_key=True, comment="a number"), comment="notes")


@pytest.fixture
def coming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The migrations of a wiretape to come."""
    scripts = tmp_path / "migrations 100%"
    shutil.copytree(ROOT / "migrations", scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "9999_next.py").write_text(NEXT.format(head=schema.REVISION))
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
}
"""Columns of older revisions, and what they hold on a tape of the present one."""


def older(recorded: Path, revision: str) -> Path:
    """Make a tape of an older revision with all that is on another."""
    path = recorded.with_name(f"of-{revision}.db")
    with create_engine(f"sqlite:///{path}").connect() as connection:
        connection.exec_driver_sql(f"PRAGMA application_id={schema.APPLICATION_ID}")
        connection.rollback()
        with connection.begin():
            file.migrate(connection, revision)
        connection.exec_driver_sql("ATTACH ? AS recorded", (str(recorded),))
        connection.rollback()
        with connection.begin():
            present = inspect(connection).get_table_names()
            for table in (table for table in schema.metadata.sorted_tables if table.name in present):
                names = [column["name"] for column in inspect(connection).get_columns(table.name)]
                values = ", ".join(RENAMED.get(f"{table.name}.{name}", name) for name in names)
                insert = f"INSERT INTO main.{table.name} ({', '.join(names)}) SELECT {values}"
                connection.exec_driver_sql(f"{insert} FROM recorded.{table.name}")
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
    assert ScriptDirectory.from_config(config).get_heads() == [schema.REVISION]


def test_a_migrated_tape_is_what_the_tables_say() -> None:
    with create_engine("sqlite://").connect() as connection:
        file.migrate(connection)
        options = {"compare_type": True, "compare_server_default": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata) == []


def test_a_downgrade_takes_everything_away() -> None:
    with create_engine("sqlite://").connect() as connection:
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
    with pytest.raises(SchemaMismatch, match=f"older schema {revision}, not {schema.REVISION}: run 'wiretape db upgr"):
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
    tape.with_name(f"{tape.name}.before-{schema.REVISION}").unlink()


def test_an_older_tape_is_not_written_before_it_is_upgraded_and_loses_nothing_then(
    recorded: Path, coming: Path
) -> None:
    with pytest.raises(SchemaMismatch, match="not 9999: run 'wiretape db upgrade'"), opened(recorded):
        pass
    before = held(recorded)
    backup = recorded.with_name("tape.db.before-9999")
    assert upgrade(recorded).endswith(f" → 9999; the tape as it was is {backup}\n")
    assert {"notes", "exchanges", "exchange_metrics"} <= set(definitions_of(recorded))
    assert held(recorded) == held(backup) == before
    with opened(recorded) as store:
        record(store, exchange("e2")[-1:])
    as_before(recorded)


def held(tape: Path) -> list[list[tuple[object, ...]]]:
    """Return all rows of a tape, whatever its revision."""
    with closing(sqlite3.connect(tape)) as connection:
        tables = ("sessions", "exchanges", "reads", "segments", "bodies", "measures")
        return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]


def test_a_tape_of_the_first_schema_is_upgraded_with_all_that_it_holds(recorded: Path) -> None:
    before = bodies_of(recorded), outcomes_of(recorded)
    first = older(recorded, "0001")
    damage(first, "UPDATE measures SET decoder_version = 1")
    assert upgrade(first).endswith(f"{first}: 1 exchange derived again, 1 changed\n")
    with reading(first) as connection:
        (measured,) = connection.exec_driver_sql("SELECT max_silence_ns >= 0, api, operation FROM measures").all()
        assert measured == (1, "openai.chat", "chat")
    assert upgrade(first) == f"{first} has schema {schema.REVISION} already\n"
    assert (bodies_of(first), outcomes_of(first)) == before
    with file.writing(first, "a test, once more"):
        pass
    first.with_name(f"{first.name}.before-{schema.REVISION}").unlink()


@pytest.mark.parametrize("fault", ["raise", "kill"])
def test_a_migration_that_is_cut_short_leaves_the_tape_as_it_was(recorded: Path, coming: Path, fault: str) -> None:
    before = definitions_of(recorded)
    command = (sys.executable, "-c", UPGRADE, str(coming), str(recorded))
    ended = subprocess.run(command, env={**os.environ, "FAULT": fault}, stderr=subprocess.PIPE, check=False)
    assert ended.returncode == (1 if fault == "raise" else -9), ended.stderr
    assert definitions_of(recorded) == before
    upgrade(recorded)
    assert set(definitions_of(recorded)) == {*before, "notes"}
    as_before(recorded)


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
    installed = tmp_path / "site" / "recorder"
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "recorder", installed, ignore=skipped)
    shutil.copytree(ROOT / "migrations", installed / "migrations", ignore=skipped)
    program = (
        "import sys; from recorder.commands.db import db; from recorder.tape import file\n"
        "print(file.scripts(), flush=True); db(['upgrade', '--db', sys.argv[1]])"
    )
    command = (sys.executable, "-P", "-c", program, str(tape))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ended.stdout.startswith(f"{installed / 'migrations'}\n{tape}: schema 0002 → {schema.REVISION};")
    assert bodies_of(tape) == bodies_of(recorded)
    tape.with_name(f"{tape.name}.before-{schema.REVISION}").unlink()


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
    old.with_name(f"{old.name}.before-{schema.REVISION}").unlink()
