"""Golden files: the bytes in tests/data/export are the contract. Delete one to renew it."""

from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent.parent / "data" / "export"


def assert_golden(name: str, found: bytes) -> None:
    path = GOLDEN / name
    if not path.exists():
        path.write_bytes(found)
        pytest.fail(f"{path} was not there and has been written: look at it")
    assert found == path.read_bytes()
