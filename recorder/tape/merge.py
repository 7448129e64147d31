"""Merging tapes: copying the exchanges of other tapes onto one, with all that belongs to them.

Exchanges and sessions are identified by their ids, so that a merge that was interrupted, or is repeated, copies only
missing ones. Copies are numbered by the time at which they began, across all sources, after the tape's own exchanges.
Every cell of a source is checked before anything is written: damaged exchanges stay out, so that an undamaged tape
stays undamaged, even with hostile sources.
"""

import itertools
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, Table, select

from wiretape.recorder import paths
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.tape import cells, checks, file, lock, peek
from wiretape.recorder.tape.column_types import cells_of
from wiretape.recorder.tape.schema import STREAMS, exchanges, measures, request_versions, sessions, uploads

_BATCH = 500
"""Exchanges copied in one transaction."""


@dataclass(slots=True)
class MergePlan:
    """The plan of a merge: `(started_at, source, no)` of each exchange to copy, in the order of their new numbers.

    `present` counts those that are on the tape already, `running` those that a recorder still runs: both are left out,
    and so are damaged ones, with one sentence in `damaged` for each.
    """

    exchanges: list[tuple[str, int, int]] = field(default_factory=list)
    present: int = 0
    running: int = 0
    damaged: list[str] = field(default_factory=list)


def plan(connection: Connection | None, sources: Sequence[Path], selected: Collection[int] | None = None) -> MergePlan:
    """Return the plan for the tape of `connection` (None: a new one); `selected`: numbers of a sole source's exchanges.

    Raises `WiretapeError`, also of the kinds of `TapeError` for a source that is not a tape of this schema.
    """
    result = MergePlan()
    present_ids: set[str] = set()
    if connection is not None:
        with connection.begin():
            present_ids.update(connection.execute(select(exchanges.c.id)).scalars())
    columns = (exchanges.c.no, exchanges.c.id, exchanges.c.started_at, exchanges.c.ended_by)
    for number, source in enumerate(sources):
        is_recorded = bool(lock.holder(source))
        with file.reading(source) as source_tape:
            damaged = _damaged_rows(source_tape)
            for no, id, started_at, ended_by in source_tape.execute(select(*columns)).all():
                if selected is not None and no not in selected:
                    continue
                if ended_by is None and is_recorded:
                    result.running += 1
                elif problem := damaged.get(no) or next(iter(checks.of_exchange(source_tape, no)), ""):
                    row = cells.row_of(file.driver_of(source_tape), exchanges.name, no)[:80]
                    result.damaged.append(f"{row} of {source} is damaged and left out: {problem}")
                elif id in present_ids:
                    result.present += 1
                else:
                    present_ids.add(id)
                    result.exchanges.append((started_at, number, no))
    result.exchanges.sort()
    return result


def _damaged_rows(source: Connection) -> dict[int, str]:
    """Return the problem of each exchange with a damaged cell in its row, its measures or its session, by number."""
    problems: dict[int, str] = {}
    for table in (exchanges, measures, request_versions):
        for no, problem in cells.faults(file.driver_of(source), table.name, cells_of(table.c)):
            problems.setdefault(no, problem)
    of_sessions = dict(cells.faults(file.driver_of(source), sessions.name, cells_of(sessions.c)))
    session_numbers = set(source.execute(select(sessions.c.no)).scalars())
    for no, session_no in source.execute(select(exchanges.c.no, exchanges.c.session_no)):
        if session_no not in session_numbers or session_no in of_sessions:
            problems.setdefault(no, of_sessions.get(session_no, "its session is missing"))
    return problems


_FAMILIES = """INSERT INTO temp.families (was, no)
    SELECT family, (SELECT coalesce(max(family), 0) FROM main.request_parts) + row_number() OVER (ORDER BY family)
    FROM (SELECT DISTINCT family FROM temp.numbered n CROSS JOIN source.request_versions s ON s.exchange_no = n.was
    WHERE n.source = ?)"""
"""Families of request bodies get new numbers."""


def copy(connection: Connection, sources: Sequence[Path], plan: MergePlan) -> Iterator[int]:
    """Copy the planned exchanges onto the tape of its only writing connection; yield the count of each transaction."""
    driver = file.driver_of(connection)
    driver.execute("CREATE TEMP TABLE numbered (source INTEGER, was INTEGER, no INTEGER, PRIMARY KEY (source, no))")
    (base,) = driver.execute("SELECT coalesce(max(no), 0) FROM main.exchanges").fetchone()
    rows = ((source, was, base + 1 + index) for index, (_, source, was) in enumerate(plan.exchanges))
    driver.executemany("INSERT INTO temp.numbered VALUES (?, ?, ?)", rows)
    driver.execute("CREATE TEMP TABLE families (was INTEGER PRIMARY KEY, no INTEGER)")
    for number, source in enumerate(sources):
        with _attached(connection, source):
            # Exchanges that were added to the tape, or deleted from the source, after the plan was made.
            missing = "SELECT no FROM source.exchanges WHERE id NOT IN (SELECT id FROM main.exchanges)"
            driver.execute(f"DELETE FROM temp.numbered WHERE source = {number} AND was NOT IN ({missing})")
            driver.execute("DELETE FROM temp.families")
            driver.execute(_FAMILIES, (number,))
            names = ", ".join(column.name for column in sessions.c if column.name != "no")
            of_copies = "temp.numbered n JOIN source.exchanges e ON e.no = n.was"
            used = f"SELECT e.session_no FROM {of_copies} WHERE n.source = {number}"
            missing = f"uuid NOT IN (SELECT uuid FROM main.sessions) AND no IN ({used})"
            driver.execute(f"INSERT INTO main.sessions ({names}) SELECT {names} FROM source.sessions WHERE {missing}")
            yield from _copy_exchanges(connection, number)


_SETTLED = """INSERT INTO main.settlements (exchange_no, version)
    SELECT n.no, max(?, (SELECT coalesce(max(version), 0) FROM main.settlements)) + row_number() OVER (ORDER BY n.no)
    FROM temp.numbered n CROSS JOIN source.settlements s ON s.exchange_no = n.was"""
"""Copies get new versions of settlement on this tape, in the order of their new numbers."""
_PARTS = """INSERT INTO main.request_parts (family, position, since, until, data)
    SELECT f.no, s.position, s.since, s.until, s.data
    FROM (SELECT DISTINCT v.family FROM temp.numbered n CROSS JOIN source.request_versions v ON v.exchange_no = n.was
    WHERE {copied}) b CROSS JOIN temp.families f ON f.was = b.family
    CROSS JOIN source.request_parts s ON s.family = f.was
    WHERE EXISTS ({has_it} AND v.exchange_no > {previous})
    AND NOT EXISTS ({has_it} AND v.exchange_no <= {previous})"""
_HAS_IT = "SELECT 1 FROM main.request_versions v WHERE v.family = f.no AND v.version BETWEEN s.since AND s.until"
"""Copies have the parts of their request bodies, but for those that copies up to the number `previous` have brought."""


def _copy_exchanges(connection: Connection, source: int) -> Iterator[int]:
    driver, previous = file.driver_of(connection), 0
    while True:
        batch = f"FROM temp.numbered WHERE source = {source} AND no > {previous} ORDER BY no LIMIT {_BATCH}"
        count, until = driver.execute(f"SELECT count(*), max(no) FROM (SELECT no {batch})").fetchone()
        if not count:
            return
        copied = f"n.source = {source} AND n.no > {previous} AND n.no <= {until}"
        with connection.begin():
            for table in (exchanges, uploads, *itertools.chain(*STREAMS), measures, request_versions):
                driver.execute(_copying(table, copied))
            driver.execute(_PARTS.format(copied=copied, has_it=_HAS_IT, previous=previous))
            driver.execute(f"{_SETTLED} WHERE {copied}", (SYSTEM.wall_ns() // 1000,))
        yield count
        previous = until


def _copying(table: Table, batch: str) -> str:
    key = "no" if table is exchanges else "exchange_no"
    session = "(SELECT no FROM main.sessions WHERE uuid = (SELECT uuid FROM source.sessions WHERE no = s.session_no))"
    family = "(SELECT f.no FROM temp.families f WHERE f.was = s.family)"
    replaced = {key: "n.no", "session_no": session, "family": family}
    values = ", ".join(replaced.get(column.name, f's."{column.name}"') for column in table.c)
    names = ", ".join(f'"{column.name}"' for column in table.c)
    # SQLite does not change the order of a CROSS JOIN: it goes from the copies of a batch to their rows.
    joined = f"temp.numbered n CROSS JOIN source.{table.name} s ON s.{key} = n.was"
    return f"INSERT INTO main.{table.name} ({names}) SELECT {values} FROM {joined} WHERE {batch}"


@contextmanager
def _attached(connection: Connection, source: Path) -> Iterator[None]:
    """Attach a tape as `source`, for reading only."""
    connection.rollback()
    driver = file.driver_of(connection)
    with peek.explained(source):
        driver.execute("ATTACH ? AS source", (peek.read_uri(source),))
    try:
        yield
    finally:
        driver.execute("DETACH source")


def refuse_itself(path: Path, sources: Sequence[Path]) -> None:
    """Raise `WiretapeError` if a source is the target itself, also through a link."""
    for source in sources:
        if paths.exists(path) and paths.exists(source) and path.samefile(source):
            raise WiretapeError(f"{source} is the target itself: name other tapes")
