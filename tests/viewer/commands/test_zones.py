"""Times in outputs: local for people, with their offset, UTC for programs; each selects what it showed."""

import contextlib
import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.growing_tape import recorder
from tests.support.zones import local_time

TIMES = [f"2025-11-02T0{hour}:30:00.250000Z" for hour in (4, 5, 6, 7)]
"""The clocks of New York are put back between the second and the third."""


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kolkata"], autouse=True)
def zone(request: pytest.FixtureRequest) -> Iterator[None]:
    with local_time(request.param):
        yield


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("repeated") / "tape.db"
    with recorder(path) as tape:
        for number in range(len(TIMES)):
            tape.record(f"{number}" * 16, at=number)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for number, time in enumerate(TIMES, 1):
            connection.execute("UPDATE exchanges SET started_at = ? WHERE no = ?", (time, number))
    return path


def ids(tape: Path, *arguments: str) -> list[str]:
    return run(tape, "ls", *arguments, "--format", "ids").stdout.split()


@pytest.mark.parametrize("command", ["show", "show --part facts", "ls --format table -f id:"])
@pytest.mark.parametrize("number", range(len(TIMES)))
def test_a_copied_time_selects_its_exchange(repeated: Path, command: str, number: int) -> None:
    id = f"{number}" * 16
    words = f"{command}{id}" if command.endswith(":") else f"{command} {id}"
    time = re.search(r"2025-11-0[12] [\d:.]{12}( [-+]\d\d:\d\d| UTC)?", run(repeated, *words.split()).stdout)
    assert time is not None
    later = [f"{letter}" * 16 for letter in reversed(range(number, len(TIMES)))]
    assert ids(repeated, "--since", time[0]) == ids(repeated, "-f", f"since:{time[0]}") == later
    assert ids(repeated, "-f", f"at:{time[0]}") == ids(repeated, "-f", f'at:"{time[0]}" model:*') == [id]


@pytest.mark.parametrize("by", ["day", "hour"])
def test_a_days_or_hours_label_selects_its_group(repeated: Path, by: str) -> None:
    for group in json.loads(run(repeated, "stats", "--by", by, "--format", "json").stdout):
        assert len(ids(repeated, "-f", f"at:{group[by]}")) == group["n"]


@pytest.mark.parametrize("command", ["ls", "ls --format csv", "export --format csv", "export --format jsonl"])
def test_programs_get_utc(repeated: Path, command: str) -> None:
    assert all(time in run(repeated, *command.split()).stdout for time in TIMES)
