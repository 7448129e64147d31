"""Candidates for a shell's completion: the ids, labels and values of a tape's newest exchanges.

It has to be quick: only the standard library is loaded, and the tape is read with a short wait for locks.
"""

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any, Final

from wiretape.recorder import paths
from wiretape.recorder.tape import definitions

_LATEST = 50
_LOOKED_AT = 2000
_MOST_STEPS = 2_000_000
_TIMEOUT_SECONDS = 0.05
_JOINED = "FROM exchanges e LEFT JOIN measures m ON m.exchange_no = e.no"
_NEWEST = f"{_JOINED} WHERE e.no > (SELECT max(no) FROM exchanges) - {_LOOKED_AT}"
FIELDS: Final = {
    "model": "coalesce(e.request_model, m.response_model)",
    "response_model": "m.response_model",
    "operation": "m.operation",
    "api": "m.api",
    "request_model": "e.request_model",
    "status": "e.status",
    "finish_reason": "m.finish_reason",
    "error_code": "m.error_code",
    "method": "e.method",
    "path": "e.path",
    "upstream": "e.upstream",
    "protocol": "e.protocol",
    "rpc_method": "m.rpc_method",
    "tool_name": "m.tool_name",
}
"""The SQL of the fields that have candidates."""


def exchanges(path: Path, beginning: str) -> list[Any]:
    """Return the latest exchanges whose id begins so: id, start, model, duration in ns, outcome, flags."""
    # Numbers first, and by the index of ids only where a beginning is given: else it would be gone through as a whole.
    where, values = ("WHERE id >= ? AND id < ?", (beginning, f"{beginning}~")) if beginning else ("", ())
    latest = f"SELECT no FROM exchanges {where} ORDER BY no DESC LIMIT {_LATEST}"
    columns = f"e.id, e.started_at, {FIELDS['model']}, m.duration_ns, m.outcome, m.flags"
    return _rows(path, f"SELECT {columns} {_JOINED} WHERE e.no IN ({latest}) ORDER BY e.no DESC", *values)


def values(path: Path, field: str) -> list[str]:
    """Return the values of one of `FIELDS`, sorted."""
    rows = _rows(path, f"SELECT DISTINCT {FIELDS[field]} {_NEWEST} LIMIT {_LOOKED_AT}")
    return sorted(str(value) for (value,) in rows if value is not None)


def sessions(path: Path) -> list[str]:
    """Return the keys of the newest sessions whose clients gave them one, the newest first."""
    newest = f"SELECT m.conversation_key {_NEWEST} AND m.conversation_key IS NOT NULL"
    return [key for (key,) in _rows(path, f"{newest} GROUP BY m.conversation_key ORDER BY max(e.no) DESC")]


def labels(path: Path) -> list[tuple[str, str]]:
    """Return the labels as keys and values, sorted."""
    rows = _rows(path, f"SELECT DISTINCT e.labels {_NEWEST}")
    return sorted({pair for (text,) in rows for pair in json.loads(text).items()})


def _rows(path: Path, statement: str, *values: str) -> list[Any]:
    """Query a tape for a shell that waits: no rows from a busy or slow one, and no file is made beside it."""
    if not paths.is_file(path):
        return []
    # Without a WAL nobody writes the tape, and SQLite need not make the files by which it would see a writer.
    option = "" if paths.exists(f"{path}-wal") else "&immutable=1"
    uri = paths.sqlite_uri(paths.real(path), f"mode=ro{option}")
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=_TIMEOUT_SECONDS)) as connection:
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        connection.set_progress_handler(lambda: True, _MOST_STEPS)
        connection.execute("PRAGMA trusted_schema=OFF")
        if definitions.unreadable(connection):
            return []
        return connection.execute(statement, values).fetchall()
