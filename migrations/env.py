"""Runs the tape's migrations on the connection that `wiretape.recorder.tape.file` hands in, inside its transaction."""

from alembic import context
from sqlalchemy import create_engine

from wiretape.recorder.tape.schema import metadata


def _run(connection: object) -> None:
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True, transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()


_given = context.config.attributes.get("connection")
if _given is not None:
    _run(_given)
else:  # the alembic command line, by a developer: an empty database in memory to compare the models with
    with create_engine("sqlite://").connect() as _connection:
        _run(_connection)
