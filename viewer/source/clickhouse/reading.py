"""Reading a centre as a tape is read: a connection on which the statements for tapes run in the engine."""

import contextlib
from collections.abc import Iterator

from sqlalchemy import Connection, create_engine, pool
from sqlalchemy.dialects import registry

from viewer.source.clickhouse import driver
from viewer.source.clickhouse.client import Centre

registry.register("clickhouse", "viewer.source.clickhouse.dialect", "Dialect")


@contextlib.contextmanager
def opened(centre: Centre) -> Iterator[Connection]:
    """Connect to a centre for reading. What is asked of it raises `Refused`, `Unavailable` and `NotAtCentre`."""
    engine = create_engine(
        "clickhouse://", creator=lambda: driver.Connection(centre), poolclass=pool.NullPool, query_cache_size=0,
        hide_parameters=True,
    )  # fmt: skip
    with engine.connect() as connection:
        yield connection
