"""The command `export`, from the outside: where it writes, and in what format."""

from pathlib import Path

import pytest

from viewer import rows

from .commanding import run
from .conftest import COMPLETE_READS

BODY = b"".join(data for _, data in COMPLETE_READS)


def test_export_is_csv_on_stdout_unless_told_otherwise(tape: Path) -> None:
    found = run(tape, "export").stdout_bytes
    assert found.startswith(",".join(rows.FIELDS).encode() + b"\r\n")
    assert run(tape, "export", "-o", "-").stdout_bytes == found
    assert "aaaa000000000001" in run(tape, "export", "--format", "table").stdout


@pytest.mark.parametrize(
    ("name", "begins"), [("x.jsonl", b'{"id":'), ("x.JSON", b"[\n{"), ("x.csv", b"id,"), ("x", b"id,")]
)
def test_a_files_suffix_gives_the_format(tape: Path, tmp_path: Path, name: str, begins: bytes) -> None:
    result = run(tape, "export", "--table", "reads", "-o", str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(begins)
    assert result.stdout == ""
    assert "rows)" in result.stderr


def test_formulas_are_guarded_unless_raw_csv_is_asked_for(tape: Path) -> None:
    assert "'=cmd()" in run(tape, "export").stdout
    assert "'=cmd()" not in run(tape, "export", "--raw-csv").stdout
