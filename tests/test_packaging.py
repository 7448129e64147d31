"""The wheel holds what an installed wiretape needs, and nothing at the top level that is not ours."""

import zipfile
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parent.parent


def test_the_wheel_ships_both_packages_and_the_migrations(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"recorder/migrations/env.py", "recorder/migrations/versions/0001_the_first_tape.py"} <= names
    assert {"recorder/py.typed", "viewer/py.typed", "recorder/writer.py", "viewer/cli.py"} <= names
    assert {name.split("/")[0] for name in names} == {"recorder", "viewer", "wiretape-0.1.0.dist-info"}
