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
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from click.testing import CliRunner
from sqlalchemy import Column, Integer, Table, create_engine, pool

from tests.support.commands import run
from tests.support.extended import replace
from tests.support.forked import Forked
from tests.support.frames import bodies_of, damage, exchange, opened, reading, record
from tests.support.wires import CONTENT, REASONING, WIRES
from wiretape.recorder.errors import SchemaMismatch, TapeError
from wiretape.recorder.tape import definitions, file, peek, schema
from wiretape.viewer.cli import group

ROOT = Path(__file__).parent.parent
NOW = peek.REVISION
NEXT = '''
"""A migration of a wiretape to come: adds a table and fills it in steps, then replaces one that others refer to."""
import os, signal
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{head}"
NOTES = "CREATE TABLE IF NOT EXISTS notes (no INTEGER NOT NULL, CONSTRAINT pk_notes PRIMARY KEY (no))"
NEXT = "SELECT no FROM exchanges WHERE no NOT IN (SELECT no FROM notes) LIMIT 50"

def steps(connection):
    count = 1
    while count:
        with connection.begin():
            connection.exec_driver_sql(NOTES)
            count = connection.exec_driver_sql(f"INSERT INTO notes {{NEXT}}").rowcount
        yield count, 100

def upgrade():
    op.execute(NOTES)
    with op.batch_alter_table("exchanges", recreate="always", table_kwargs={{"sqlite_autoincrement": True}}):
        pass
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
    (scripts / "versions" / "9999_next.py").write_text(NEXT.format(head=NOW))
    with monkeypatch.context() as patch:
        come(scripts, patch)
        yield scripts
    schema.metadata.remove(schema.metadata.tables["notes"])


@pytest.fixture
def recorded(tape: Path) -> Path:
    with opened(tape) as store:
        record(store, [*exchange("e1"), *exchange("e2")[:-1]])
    return tape


@pytest.fixture
def many(tape: Path) -> Path:
    with opened(tape) as store:
        record(store, [*exchange("e0", [])[:-1], *(frame for no in range(1, 130) for frame in exchange(f"e{no}"))])
        store.append(exchange("open")[:-1])
    return tape


def definitions_of(tape: Path) -> dict[str, str]:
    with closing(sqlite3.connect(tape)) as connection:
        return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))


def as_before(*tapes: Path) -> None:
    """Give tapes the number of the present revision again, so that they can be checked at the end of the test."""
    for tape in tapes:
        damage(tape, "DROP TABLE IF EXISTS notes", f"UPDATE alembic_version SET version_num='{NOW}'")


def upgrade(tape: Path) -> str:
    return run(tape, "db", "upgrade").stdout


def test_the_only_head_is_the_programs_schema() -> None:
    config = Config()
    config.set_main_option("script_location", str(ROOT / "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [peek.REVISION]


def test_a_migrated_tape_is_what_the_tables_say() -> None:
    with create_engine("sqlite://", poolclass=pool.NullPool).connect() as connection:
        file.migrate(connection)
        options = {"compare_type": True, "compare_server_default": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata) == []


def test_an_upgraded_tape_has_a_new_ones_schema(recorded: Path, coming: Path) -> None:
    new = recorded.with_name("new.db")
    assert f"schema {NOW} → 9999" in upgrade(recorded)
    with opened(new):
        pass
    with closing(sqlite3.connect(recorded)) as upgraded, closing(sqlite3.connect(new)) as connection:
        assert definitions.entries(upgraded) == definitions.entries(connection)
        for pragma in ("user_version", "application_id", "integrity_check"):
            statement = f"PRAGMA {pragma}"
            assert upgraded.execute(statement).fetchall() == connection.execute(statement).fetchall()
    # A migration may change the order of columns, and writes quotes; no line differs else, comments included.
    lines = [
        {name: sorted(line.replace('"', "").rstrip(",") for line in sql.splitlines()) for name, sql in found.items()}
        for found in (definitions_of(recorded), definitions_of(new))
    ]
    assert lines[0] == lines[1]
    as_before(recorded, new)


@pytest.mark.damages
@pytest.mark.parametrize("number", ["0000", "0002", "0024"])
@pytest.mark.parametrize("command", ["ls", "stats", "db info", "db check", "db upgrade", "db rebuild"])
def test_a_tape_from_before_the_release_is_unsupported(recorded: Path, command: str, number: str) -> None:
    damage(recorded, f"UPDATE alembic_version SET version_num='{number}'")
    before = recorded.read_bytes()
    with pytest.raises(SchemaMismatch, match=f"schema {number}, which was used before wiretape 0.1.0 and is not supp"):
        CliRunner().invoke(group, [*command.split(), "--db", str(recorded)], catch_exceptions=False)
    assert recorded.read_bytes() == before


@pytest.mark.damages
def test_a_later_version_does_not_upgrade_it_either(recorded: Path, coming: Path) -> None:
    damage(recorded, "UPDATE alembic_version SET version_num='0014'")
    with pytest.raises(SchemaMismatch, match="schema 0014, which was used before wiretape"):
        file.upgrade(recorded, "a test")


@pytest.mark.damages
def test_a_tape_of_the_first_schema_is_unsupported(recorded: Path) -> None:
    damage(recorded, "ALTER TABLE exchanges DROP COLUMN request_truncated")
    with pytest.raises(SchemaMismatch, match="request_truncated: it is damaged, or of a version before"):
        file.upgrade(recorded, "a test")


def test_an_older_tape_is_written_only_after_upgrading(recorded: Path, coming: Path) -> None:
    with pytest.raises(SchemaMismatch, match="not 9999: run 'wiretape db upgrade --db "), opened(recorded):
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
        tables = ("sessions", "exchanges", "segments", "bodies", "measures")
        return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]


@pytest.mark.parametrize("fault", ["raise", "kill"])
def test_an_interrupted_migration_leaves_the_tape_unchanged(recorded: Path, coming: Path, fault: str) -> None:
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


def test_a_killed_upgrade_can_be_continued(many: Path, coming: Path) -> None:
    contents = held(many)
    for point in itertools.count(1):
        copy = many.with_name(f"{point}.db")
        shutil.copy(many, copy)
        is_done = upgraded_until(copy, point)
        if not is_done and definitions_of(copy) == definitions_of(many):
            with pytest.raises(SchemaMismatch, match="run 'wiretape db upgrade --db "):
                file.read_engine(copy)
            assert file.upgrade(copy, "a test") == (NOW, copy.with_name(f"{copy.name}.before-9999"))
        assert held(copy) == contents
        assert file.upgrade(copy, "a test") is None
        assert {path.name for path in many.parent.glob(f"{copy.name}*")} <= {
            copy.name, f"{copy.name}.before-9999", f"{copy.name}.lock"
        }  # fmt: skip
        with closing(sqlite3.connect(copy)) as connection:
            assert connection.execute("PRAGMA auto_vacuum").fetchone() == (schema.AUTO_VACUUM,)
            assert connection.execute("SELECT count(*) FROM notes").fetchone() == (131,)
        as_before(copy)
        if is_done:
            break
    assert point > 7


def test_the_original_tape_keeps_its_mode_and_privacy(recorded: Path, coming: Path) -> None:
    recorded.chmod(0o640)
    before = held(recorded)
    _, backup = file.upgrade(recorded, "a test") or ("", recorded)
    assert (held(backup), oct(backup.stat().st_mode), oct(recorded.stat().st_mode)) == (before, "0o100640", "0o100640")
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
    installed = tmp_path / "site" / "wiretape" / "recorder"
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "recorder", installed, ignore=skipped)
    shutil.copy(ROOT / ".package" / "wiretape" / "__init__.py", installed.parent)
    shutil.copytree(ROOT / "migrations", installed / "migrations", ignore=skipped)
    replace(installed / "tape" / "peek.py", f'REVISION = "{NOW}"', 'REVISION = "9999"')
    following = installed / "migrations" / "versions" / "9999_next.py"
    following.write_text(f'revision, down_revision = "9999", "{NOW}"\n\n\ndef upgrade(): ...\n')
    program = (
        "import sys; from wiretape.recorder.commands.db import db; from wiretape.recorder.tape import file\n"
        "print(file.scripts(), flush=True); db(['upgrade', '--db', sys.argv[1]])"
    )
    command = (sys.executable, "-P", "-c", program, str(recorded))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    before = bodies_of(recorded)
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ended.stdout.startswith(f"{installed / 'migrations'}\n{recorded}: schema {NOW} → 9999;")
    as_before(recorded)
    assert bodies_of(recorded) == before


def test_upgrades_and_rebuilds_derive_older_measures_again(tape: Path) -> None:
    with opened(tape) as store:
        record(store, exchange("e1", WIRES["messages"].parts))
    unread = (
        "api = 'unknown', flags = 'unknown_payload', response_model = NULL, content = NULL, reasoning = NULL, "
        "finish_reason = NULL, input_tokens = NULL, output_tokens = NULL, ttft_ns = NULL, decoder_version = 2"
    )
    statement = (
        "SELECT api, operation, outcome, response_model, content, reasoning, input_tokens, output_tokens, "
        "finish_reason, ttft_ns > 0 FROM measures"
    )
    read = ("anthropic.messages", "chat", "complete", "claude-x", CONTENT, REASONING, 12, 9, "tool_use", 1)
    for name in ("upgrade", "rebuild"):
        damage(tape, f"UPDATE measures SET {unread}")
        assert run(tape, "db", name).stdout.endswith(f"{tape}: 1 exchange derived again, 1 changed\n")
        with reading(tape) as connection:
            assert connection.exec_driver_sql(statement).all() == [read]
