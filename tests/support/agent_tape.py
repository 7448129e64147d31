"""Large tapes of agents' sessions, written as rows."""

import hashlib
import json
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from tests.support.frames import SESSION
from wiretape.recorder.decode.metrics import Measures
from wiretape.recorder.tape import file
from wiretape.recorder.tape.schema import exchanges, measures
from wiretape.recorder.tape.store import Store

MS = 1_000_000
_BATCH = 5000


def write(tape: Path, sessions: int, turns: int) -> None:
    """Write sessions whose turns alternate; each takes 4 s, every tenth stalls, and every eleventh attempt fails."""
    with file.writing(tape, "a test") as connection:
        store = Store(connection)
        store.begin_session(SESSION)
        rows = [_row(no, no % sessions, no // sessions) for no in range(sessions * turns)]
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            with connection.begin():
                connection.execute(insert(exchanges), [facts for facts, _ in batch])
                connection.execute(insert(measures), [measured for _, measured in batch])


def _row(no: int, session: int, turn: int) -> tuple[dict[str, Any], dict[str, Any]]:
    at_ms = 10_000 * turn + session
    failed, stalls = turn % 11 == 5, turn % 10 == 3
    facts = {
        "no": no + 1, "id": f"{no:016x}", "session_no": 1, "method": "POST", "path": "/v1/messages",
        "started_at": f"2026-03-01T{12 + at_ms // 3_600_000:02}:{at_ms // 60_000 % 60:02}:{at_ms // 1000 % 60:02}."
        f"{at_ms % 1000:03}000Z",
        "upstream": "https://api.test", "request_headers": [], "labels": {}, "boot_ns": at_ms * MS, "clock": "kernel",
        "ended_by": "end", "end_ns": 4000 * MS, "status": 429 if failed else 200, "framing": "chunked",
        "request_model": "claude-x", "request_sha256": hashlib.sha256(f"{session} {turn}".encode()).hexdigest(),
    }  # fmt: skip
    measured = {
        "exchange_no": no + 1, "decoder_version": Measures().decoder_version, "operation": "chat",
        "api": "anthropic.messages", "outcome": "http_error" if failed else "complete", "flags": "",
        "conversation_key": f"{session:08x}-key", "messages_hash": f"{session} {turn - (turn % 11 == 6)}",
        "continues_hash": f"{session} {turn - 1 - (turn % 11 in (6,))}" if turn else None,
        "duration_ns": 4000 * MS, "ttft_ns": None if failed else 500 * MS,
        "latency_ns": None if failed else 3900 * MS, "max_gap_ns": (3000 if stalls else 100) * MS,
        "icl": _gaps(3000 if stalls else 100), "gap_hist": b"", "sparkline": "", "reads": 35, "bytes": 9000,
        "chunks": 35, "output_chunks": 35, "events": 35, "comments": 0, "input_tokens": 1000 * (turn + 1),
        "output_tokens": 100, "cache_read_input_tokens": 1000 * turn, "answers_tools": turn > 0,
        "tool_calls": [{"index": 0, "id": "c", "name": "read", "arguments": json.dumps({"path": "a" * 200})}],
        "asked": "Fix it.", "silences": b"", "ping_gaps": b"",
    }  # fmt: skip
    return facts, measured


def _gaps(longest: int) -> bytes:
    return b"".join((gap * MS).to_bytes(8, "little") for gap in (longest, *[(3400 - longest) // 33] * 33))
