"""Each process that a command starts, in a directory of modules with the names of those that it imports."""

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from textual.screen import Screen

from tests.support.frames import until
from tests.support.sample_tape import COMPLETE, TOOLS
from tests.support.screens import journey, press, shows, staged, wait_for
from wiretape.recorder import children
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.source.decoder import Decoders
from wiretape.viewer.source.tape import observed, queries
from wiretape.viewer.tui.dialogs.menus import export_menu

ROOT = Path(__file__).parents[2]
HOSTILE = (
    "viewer",
    "recorder",
    "wiretape",
    "migrations",
    "sitecustomize",
    "json",
    "pickle",
    "msgspec",
    "multiprocessing",
)
MARKER = "from pathlib import Path; Path(__file__).with_suffix('.imported').touch()\n"
WIRETAPE = children.python("-m", "wiretape.viewer.cli")
OWN, OTHER = "the-password-of-this-proxy", "the-password-of-another"
PASSWORDS = {children.PROXY_PASSWORD: OWN, children.CONTROL_TOKEN: OWN, "HOME": os.environ["HOME"],
             "HTTPS_PROXY": f"http://u:{OTHER}@127.0.0.1:9"}  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, in which nothing may be imported."""
    clone = tmp_path / "cloned"
    clone.mkdir()
    for name in HOSTILE:
        (clone / f"{name}.py").write_text(MARKER)
    monkeypatch.chdir(clone)
    return clone


def imported(directory: Path) -> set[str]:
    return {path.stem for path in directory.glob("*.imported")}


def test_an_interpreter_without_safe_path_imports_from_the_directory(directory: Path) -> None:
    subprocess.run([sys.executable, "-c", "import json, viewer"], check=True)
    assert imported(directory) == {"json", "viewer"}


def test_decoding_imports_nothing_from_the_directory(directory: Path, tape: Path, connection: Connection) -> None:
    decoders = Decoders(tape, Thresholds())
    assert len(decoders.ask(queries.find(connection, TOOLS)).answer().transcript) == 5
    decoders.close()
    assert imported(directory) == set()


def test_exporting_imports_nothing_from_the_directory(directory: Path, tape: Path) -> None:
    async def steps() -> None:
        async with staged(tape, Screen) as (app, pilot):
            app.push_screen(export_menu(app, [("one", ["export", COMPLETE])]))
            await shows(pilot, f"wiretape export {COMPLETE}")
            await press(pilot, "enter")
            await shows(pilot, "one: write to", "one.csv")
            await press(pilot, "enter")
            await wait_for(pilot, lambda: bool(app.toasts))

    journey(steps())
    assert (directory / "one.csv").read_text().splitlines()[1].startswith(COMPLETE)
    assert imported(directory) == set()


def test_processes_that_measure_import_nothing_from_the_directory(
    directory: Path, tape: Path, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed, "MANY", 0)
    assert len(list(observed.measured(connection, tape, "sglang"))) > 3
    assert imported(directory) == set()
    assert "PYTHONSAFEPATH" not in os.environ  # programs of the user's import as they always do


def descendants(pid: int) -> dict[str, bytes]:
    """Return the environment of each process below one, by the arguments of its command."""
    contents = dict[str, bytes]()
    children_of = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    for child in itertools.chain.from_iterable(children_of):
        with contextlib.suppress(OSError):  # it has ended since
            arguments = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            contents[arguments] = Path(f"/proc/{child}/environ").read_bytes()
            contents |= descendants(int(child))
    return contents


def test_a_recorders_children_import_nothing_and_get_no_password(directory: Path, tmp_path: Path) -> None:
    options = ["--workers", "2", "--metrics", ":0", "--otlp", "http://127.0.0.1:9", "--intercept"]
    command = ["record", "--db", str(tmp_path / "new.db"), "--listen", ":0", *options]
    modules = (
        "wiretape.recorder.tape.writer",
        "wiretape.recorder.relay.worker",
        "wiretape.viewer.wings.prometheus.serve",
        "wiretape.viewer.cli",
    )
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*WIRETAPE, *command], env=os.environ | PASSWORDS, **streams) as process:
        assert process.stdout is not None
        process.stdout.readline()
        contents = dict[str, bytes]()

        def have_started() -> bool:
            contents.update(descendants(process.pid))
            return all(any(f"-m {module} " in arguments for arguments in contents) for module in modules)

        until(have_started)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert imported(directory) == set()
    for arguments, environment in contents.items():
        if not arguments or "wiretape.viewer.cli record" in arguments:
            continue  # it has just been forked, and is not another program yet
        assert OWN.encode() not in environment, arguments
        assert (
            OTHER.encode() not in environment or "-m wiretape.viewer." in arguments
        )  # a companion ships by another's proxy


def test_a_command_imports_as_it_always_does(directory: Path, tmp_path: Path) -> None:
    program = "import os, json; print(os.environ.get('PYTHONSAFEPATH'))"
    command = [*WIRETAPE, "run", "--db", str(tmp_path / "new.db"), "--", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"
    assert imported(directory) == {"json"}


def test_only_one_module_names_the_interpreter_that_children_run() -> None:
    paths = [path for package in ("recorder", "viewer") for path in (ROOT / package).rglob("*.py")]
    executable = re.compile(r"\bsys\.executable\b")
    assert [path.name for path in paths if executable.search(path.read_text("utf-8"))] == ["children.py"]
