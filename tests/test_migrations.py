"""The schema by alembic: that of `recorder.tape.schema`, all or nothing, and the same from an installed wiretape."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from click.testing import CliRunner
from sqlalchemy import create_engine, inspect

from recorder.commands.db import db
from recorder.errors import SchemaMismatch, TapeError
from recorder.tape import file, schema
from tests.recorder.frames import bodies_of, damage, exchange, opened, outcomes_of, reading, record

ROOT = Path(__file__).parent.parent
NEXT = '''
"""A migration of a wiretape to come: replaces a table that others refer to, then adds one."""
import os, signal
import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

def upgrade():
    with op.batch_alter_table("exchanges", recreate="always") as batch:
        batch.add_column(sa.Column("note", sa.Text()))
    op.create_table("notes", sa.Column("no", sa.Integer, primary_key=True))
    if os.environ.get("FAULT") == "raise":
        raise RuntimeError("a bug in a migration")
    if os.environ.get("FAULT") == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
'''
UPGRADE = """
import sys
from pathlib import Path
from recorder.tape import schema, file as tapefile
tapefile.scripts = lambda: Path(sys.argv[1])
schema.REVISION = tapefile.REVISION = "0003"
from recorder.commands.db import db
db(["upgrade", "--db", sys.argv[2]])
"""


@pytest.fixture
def coming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The migrations of a wiretape to come, whose schema is 0003."""
    scripts = tmp_path / "migrations 100%"
    shutil.copytree(ROOT / "migrations", scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "0003_next.py").write_text(NEXT)
    with monkeypatch.context() as patch:
        patch.setattr(file, "scripts", lambda: scripts)
        patch.setattr(file, "REVISION", "0003")
        patch.setattr(schema, "REVISION", "0003")
        yield scripts


@pytest.fixture
def recorded(tape: Path) -> Path:
    with opened(tape) as store:
        record(store, [*exchange("e1"), *exchange("e2")[:-1]])
    return tape


def tables(tape: Path) -> set[str]:
    engine = file._reader(tape, settled=False)
    return set(inspect(engine).get_table_names())


def test_there_is_one_head_and_it_is_the_schema_of_the_program() -> None:
    config = Config()
    config.set_main_option("script_location", str(ROOT / "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [schema.REVISION]


def test_a_migrated_tape_is_what_the_tables_say(tape: Path) -> None:
    with file.writing(tape, "a test") as connection:
        options = {"compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, schema.metadata) == []
    with create_engine("sqlite://").connect() as connection:
        schema.metadata.create_all(connection)
        made = {table: inspect(connection).get_columns(table) for table in schema.metadata.tables}
    with reading(tape) as connection:
        for table, columns in made.items():
            found = inspect(connection).get_columns(table)
            assert sorted(map(str, found)) == sorted(map(str, columns))


def test_a_downgrade_takes_everything_away(tape: Path) -> None:
    with create_engine("sqlite://").connect() as connection:
        config = Config()
        config.set_main_option("script_location", str(ROOT / "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        assert set(schema.metadata.tables) <= set(inspect(connection).get_table_names())
        command.downgrade(config, "base")
        assert inspect(connection).get_table_names() == ["alembic_version"]


def test_an_older_tape_is_not_written_before_it_is_upgraded_and_loses_nothing_then(
    recorded: Path, coming: Path
) -> None:
    with (
        pytest.raises(SchemaMismatch, match="older schema 0002, not 0003: run 'wiretape db upgrade'"),
        opened(recorded),
    ):
        pass
    result = CliRunner().invoke(db, ["upgrade", "--db", str(recorded)])
    backup = recorded.with_name("tape.db.before-0003")
    assert result.stdout == f"{recorded}: schema 0002 → 0003; the tape as it was is {backup}\n"
    assert {"notes", "exchanges"} <= tables(recorded)
    damage(backup, "UPDATE alembic_version SET version_num='0003'")
    assert bodies_of(backup) == bodies_of(recorded)
    with opened(recorded) as store:
        record(store, exchange("e2")[-1:])
    damage(recorded, "UPDATE alembic_version SET version_num='0002'")
    damage(backup, "UPDATE alembic_version SET version_num='0002'")


def first_schema(recorded: Path) -> Path:
    """Give a tape of revision 0001 with all that is on another."""
    path = recorded.with_name("first.db")
    with create_engine(f"sqlite:///{path}").connect() as connection:
        connection.exec_driver_sql(f"PRAGMA application_id={schema.APPLICATION_ID}")
        connection.rollback()
        with connection.begin():
            file.migrate(connection, "0001")
        connection.exec_driver_sql("ATTACH ? AS recorded", (str(recorded),))
        connection.rollback()
        with connection.begin():
            for table in schema.metadata.sorted_tables:
                names = ", ".join(column["name"] for column in inspect(connection).get_columns(table.name))
                insert = f"INSERT INTO main.{table.name} ({names}) SELECT {names} FROM recorded.{table.name}"
                connection.exec_driver_sql(insert)
    return path


def test_a_tape_of_the_first_schema_is_upgraded_with_all_that_it_holds(recorded: Path) -> None:
    before = (bodies_of(recorded), outcomes_of(recorded))
    first = first_schema(recorded)
    with pytest.raises(SchemaMismatch, match="older schema 0001"), reading(first):
        pass
    damage(first, "UPDATE measures SET decoder_version = 1")
    result = CliRunner().invoke(db, ["upgrade", "--db", str(first)])
    assert (result.exit_code, result.exception) == (0, None)
    assert result.stdout.endswith(f"{first}: 1 exchange derived again, 1 changed\n")
    with reading(first) as connection:
        assert connection.exec_driver_sql("SELECT max_silence_ns >= 0 FROM measures").scalars().all() == [1]
    again = CliRunner().invoke(db, ["upgrade", "--db", str(first)])
    assert (again.exit_code, again.stdout) == (0, f"{first} has schema {schema.REVISION} already\n")
    assert (bodies_of(first), outcomes_of(first)) == before
    with file.writing(first, "a test, once more"):
        pass
    first.with_name(f"{first.name}.before-{schema.REVISION}").unlink()


@pytest.mark.parametrize("fault", ["raise", "kill"])
def test_a_migration_that_is_cut_short_leaves_the_tape_as_it_was(recorded: Path, coming: Path, fault: str) -> None:
    before = tables(recorded)
    command = (sys.executable, "-c", UPGRADE, str(coming), str(recorded))
    ended = subprocess.run(command, env={**os.environ, "FAULT": fault}, stderr=subprocess.PIPE, check=False)
    assert ended.returncode == (1 if fault == "raise" else -9), ended.stderr
    assert tables(recorded) == before
    assert CliRunner().invoke(db, ["upgrade", "--db", str(recorded)]).exit_code == 0
    assert tables(recorded) == before | {"notes"}
    damage(recorded, "UPDATE alembic_version SET version_num='0002'")


def test_a_tape_cannot_be_made_by_halves(tape: Path, coming: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULT", "raise")
    with pytest.raises(RuntimeError, match="a bug in a migration"), opened(tape):
        pass
    assert tables(tape) == set()
    with pytest.raises(TapeError, match="has no schema"):
        file.read_engine(tape)
    monkeypatch.setenv("FAULT", "")
    with opened(tape):
        pass
    damage(tape, "UPDATE alembic_version SET version_num='0002'")


def test_an_installed_wiretape_finds_the_migrations_it_ships(tape: Path, tmp_path: Path) -> None:
    installed = tmp_path / "site" / "recorder"
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "recorder", installed, ignore=skipped)
    shutil.copytree(ROOT / "migrations", installed / "migrations", ignore=skipped)
    program = (
        "import sys; from pathlib import Path; from recorder.tape import file as tapefile\n"
        "with tapefile.writing(Path(sys.argv[1]), 'a test'): print(tapefile.scripts())"
    )
    command = (sys.executable, "-P", "-c", program, str(tape))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ended.stdout == f"{installed / 'migrations'}\n"
    assert bodies_of(tape) == {}
