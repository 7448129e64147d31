"""What all tests share: a place for a tape, and the promise that every tape they leave behind is whole."""

import contextlib
import fcntl
import functools
import gc
import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.support import forked, tiers
from wiretape.recorder.errors import SchemaMissing, WiretapeError
from wiretape.recorder.tape import checks, file, peek

ROOT = Path(__file__).parent.parent
_WHOLE = set[bytes]()
"""Digests of tapes that were checked: most tests leave a copy of one as it was."""


def pytest_addoption(parser: pytest.Parser) -> None:
    tiers.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    tiers.configure(config)
    config.addinivalue_line("markers", "damages: the test damages its tape on purpose")
    config.addinivalue_line("markers", "nightly: takes long; left out unless asked for with -m nightly")
    # -m nightly also runs the property tests, with forty times as many examples.
    register = functools.partial(hypothesis.settings.register_profile, derandomize=True, database=None, deadline=None)
    register("default", max_examples=25)
    register("nightly", max_examples=1000)
    hypothesis.settings.load_profile("nightly" if config.option.markexpr == "nightly" else "default")
    hypothesis.configuration.set_hypothesis_home_dir(config.rootpath / ".pytest_cache" / "hypothesis")
    # A hundred processes start: they keep what they have compiled, as Python does unless it is told not to.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # They also start without what a script's background job ignores: tests interrupt them.
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    # Times of screens are local.
    os.environ["TZ"] = "UTC"
    time.tzset()
    # The processes that tests start find the checkout, installed or not.
    ours = (str(ROOT / ".package"), str(ROOT))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (*ours, os.environ.get("PYTHONPATH"))))


def pytest_collection(session: pytest.Session) -> None:
    gc.disable()  # half a million objects come into being that stay


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()
    gc.set_threshold(50_000)  # a test leaves little behind; by default, collections take a tenth of the run
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every property test as nightly, too, where the nightly tests are asked for."""
    for item in items:
        if (
            getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
            and item.config.option.markexpr == "nightly"
        ):
            item.add_marker("nightly")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Run all tests in two processes a core, since they also wait; named files in one."""
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return 0
    return 2 * len(os.sched_getaffinity(0))


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the certificates of recorders out of the cache of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def forked_writers() -> Iterator[None]:
    """Fork the writers of recorders that run in this process: that takes a tenth of an interpreter's start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", forked.Popen)
        yield
    forked.SERVER.close()


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The tape of `wiretape demo`, and what that printed: recorded once for the processes of a test run."""
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "demo"
    place.mkdir(exist_ok=True)
    tape, printed = place / "demo.db", place / "demo.txt"
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for _ in range(0 if printed.exists() else 5):
            for old in place.glob("demo.db*"):
                old.unlink()
            done = forked.run(["demo", "--db", tape])
            assert done.returncode == 0, done.stderr
            if _is_as_scripted(tape):  # else streams waited: others take most of the machine's time
                break
        if not printed.exists():
            printed.write_text(done.stdout, "utf-8")
    return tape, printed.read_text("utf-8")


def _is_as_scripted(tape: Path) -> bool:
    """Return True if a demo's stalls are those of its script, of upstream, and its last error is, too."""
    with contextlib.closing(sqlite3.connect(f"file:{tape}?mode=ro", uri=True)) as connection:
        rows = connection.execute(
            "SELECT request_model, outcome, flags FROM exchanges JOIN measures ON exchange_no = no ORDER BY no"
        ).fetchall()
    stalls = [model for model, _, flags in rows if "stall" in flags.split()]
    errors = [model for model, outcome, _ in rows if outcome in ("http_error", "error_event") and model != "demo-agent"]
    told = forked.run(["ls", "--db", tape, "-f", "flag:stall", "--format", "table"]).stdout
    return (len(stalls), errors[-1:], told.count("by upstream")) == (2, ["demo-failing"], 2)


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """Where a tape may be made; nothing is there yet."""
    return tmp_path / "tape.db"


@pytest.fixture(autouse=True)
def whole_tapes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Check every tape that a test left in its directory, unless it is marked with `damages`."""
    left: Path | None = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    yield
    if left is not None and request.node.get_closest_marker("damages") is None:
        for path in filter(_is_tape, left.rglob("*")):
            log = path.with_name(f"{path.name}-wal")
            digest = hashlib.sha256(path.read_bytes() + (log.read_bytes() if log.exists() else b"")).digest()
            if digest in _WHOLE:
                continue
            # A recorder that was cut while its writer loaded leaves a tape without a schema.
            with contextlib.suppress(SchemaMissing), file.read_engine(path).connect() as connection:
                assert list(checks.problems(connection)) == []
            _WHOLE.add(digest)


def _is_tape(path: Path) -> bool:
    try:
        peek.identify(path)
    except WiretapeError:
        return False
    return path.stat().st_size > 0
