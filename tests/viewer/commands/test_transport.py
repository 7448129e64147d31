"""Facts about the connection and the clock of an exchange, in commands."""

from pathlib import Path

import msgspec
from click.testing import CliRunner

from tests.support.frames import STREAM, body, end, head, opened, record, upload
from wiretape.viewer.cli import group

FACTS = {"connection_reused": True, "clock": "loop"}


def run(tape: Path, *arguments: str) -> str:
    result = CliRunner().invoke(group, arguments, env={"WIRETAPE_DB": str(tape)})
    assert result.exception is None, result.output
    return result.output


def test_a_kept_connection_and_a_suspect_clock_are_shown_filtered_by_and_reported(tmp_path: Path) -> None:
    tape = tmp_path / "tape.db"
    ended = msgspec.structs.replace(end("eeee", STREAM), connected_ns=None, clock_error_ns=2_000_000, **FACTS)
    first = msgspec.structs.replace(head("eeee"), connected_ns=None, **FACTS)
    request = upload("eeee", [b"{}"], truncated=True)
    with opened(tape) as store:
        record(store, [*request, first, *body("eeee", STREAM), ended])
    shown = run(tape, "show", "eeee", "--part", "facts")
    assert "kept from an exchange before" in shown
    assert "late by at most 2" in shown
    assert "its body broke off" in shown
    assert "clock_suspect: timestamps may be late by more than 1 ms" in shown
    assert '"connection_reused":true' in run(tape, "show", "eeee", "--format", "json").replace(" ", "")
    assert run(tape, "ls", "-f", "connection_reused:yes clock:loop", "--format", "ids") == "eeee\n"
    assert "timestamps of 1 of 1 exchange may be late by more than 1 ms" in run(tape, "db", "check")
    assert "wiretape: 1 of 1: exchanges whose timestamps may be late" in run(tape, "check", "--max", "ttft.p50=9s")
