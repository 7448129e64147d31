"""Two tiers of tests: by itself, `pytest` runs the quick one; `.ci/run` and named files run the slow one, too.

A test is slow if `tests/slow.txt` has it, with the CPU that it took when the tiers were last measured, of itself and of
the programs it started. `pytest -m "not nightly" --renew-tiers` measures them again. CPU, not time: it is the same on a
machine with much else to do.
"""

import resource
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

QUICK = "not nightly and not slow"
"""The tests that `pytest` runs by itself: what `-m` is in `pyproject.toml`."""
ALL = "not nightly"
LIMIT_S = 0.2
"""CPU from which on a test is slow, all its parameters together."""
UNLISTED_S = 10.0
"""CPU at which a test fails that is not in the table: far above the limit, since CPU varies, too."""
HEAD = """\
# Tests of the slow tier, with their CPU in seconds. Renewed by: pytest -m "not nightly" --renew-tiers
# The quick tier took {:.0f} s.
"""


class Tiers:
    """Marks the tests of the table, measures every test, and fails those that should be in the table."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.table = config.rootpath / config.getini("testpaths")[0] / "slow.txt"
        self.quick_s, self.slow = read(self.table)
        self.measured: dict[str, float] = defaultdict(float)
        self.began_s = self.ended_s = self.shared_s = 0.0
        self.is_renewing: bool = config.getoption("renew_tiers")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if name(item.nodeid) in self.slow:
                item.add_marker("slow")

    def pytest_runtest_logstart(self) -> None:
        self.began_s, self.shared_s = _cpu_s(), 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        began_s = _cpu_s()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":  # made for whichever test comes first
                self.shared_s += _cpu_s() - began_s

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        if fixturedef.scope == "function":  # those that tests share end after them, with the servers they started
            self.ended_s = _cpu_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when != "teardown":
            self.ended_s = _cpu_s()
        else:
            took_s = self.ended_s - self.began_s - self.shared_s
            report.user_properties.append(("cpu_s", took_s))
            is_listed = self.is_renewing or any(item.iter_markers("slow")) or any(item.iter_markers("nightly"))
            if took_s > UNLISTED_S and report.passed and not is_listed:
                report.outcome = "failed"
                report.longrepr = (
                    f"{item.nodeid} took {took_s:.1f} s of CPU, and is not in {self.table.name}. Make it cheaper, "
                    f"or list it: pytest --renew-tiers {item.nodeid.partition('[')[0]}"
                )
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self.measured[name(report.nodeid)] += dict(report.user_properties).get("cpu_s", 0.0)  # type: ignore[arg-type]

    def pytest_sessionfinish(self) -> None:
        if not self.is_renewing or hasattr(self.config, "workerinput"):
            return
        slow = {test: took_s for test, took_s in self.measured.items() if took_s >= LIMIT_S}
        if self.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
            self.quick_s = sum(self.measured.values()) - sum(slow.values())
        else:
            slow = {test: took_s for test, took_s in self.slow.items() if test not in self.measured} | slow
        lines = [f"{took_s:.2f} {test}\n" for test, took_s in sorted(slow.items())]
        self.table.write_text(HEAD.format(self.quick_s) + "".join(lines), "utf-8")


def add_options(parser: pytest.Parser) -> None:
    """Add the option that measures."""
    parser.addoption("--renew-tiers", action="store_true", help="measure tests, and list the slow ones in slow.txt")


def configure(config: pytest.Config) -> None:
    """Let named files run both tiers, and mark the slow tests of whatever runs."""
    config.addinivalue_line("markers", "slow: takes much CPU, as tests/slow.txt has it; left out where all tests run")
    is_named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    if is_named and config.option.markexpr == QUICK and not hasattr(config, "workerinput"):
        config.option.markexpr = ALL
    config.pluginmanager.register(Tiers(config), "tiers")


def name(nodeid: str) -> str:
    """Return the name of a test without its folder, so that it may be moved, and without its parameters."""
    return nodeid.partition("[")[0].rpartition("/")[2]


def read(table: Path) -> tuple[float, dict[str, float]]:
    """Return the CPU of the quick tier and of each slow test, in seconds."""
    lines = table.read_text("utf-8").splitlines() if table.exists() else []
    rows = dict(line.split(" ", 1)[::-1] for line in lines if not line.startswith("#"))
    (quick_s,) = [line.split()[-2] for line in lines if line.startswith("# The quick tier took")] or [0]
    return float(quick_s), {test: float(took_s) for test, took_s in rows.items()}


def _cpu_s() -> float:
    """Return the CPU of this process and of the programs it started that have ended, in seconds."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
