"""The pytest plugin: a test that is marked `wiretape` is answered from a tape, without a network.

pytest imports this module in every run. All that serves is imported when the first marked test begins.
"""

import contextlib
import os
import shlex
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pytest

from wiretape.recorder import paths
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import safe
from wiretape.viewer.wings.replay import marks

if TYPE_CHECKING:
    from wiretape.viewer.wings.replay.background import PluginServer, WiretapeServer

_FIXTURE: Final = "wiretape_server"
_FORM: Final = "wiretape_form"
"""The parameter of a test that is run in several forms."""
_ADVICE: Final = (
    "Make the client within the test, or in a fixture of function scope, without a base URL of its own, "
    "or with wiretape_server.url_of('openai')"
)
_MARK: Final = (
    f"wiretape(tape, *, {', '.join(f'{name}=…' for name in marks.ARGUMENTS)}): answer the test's requests to LLM APIs "
    "from a tape, beside the test's file unless its path is absolute; see 'wiretape help testing'"
)
_RECORD_MODE: Final = "--record-mode"
_BACKGROUND: Final["pytest.StashKey[PluginServer]"] = pytest.StashKey()
_SERVER: Final = pytest.StashKey["WiretapeServer"]()
_PROBLEMS: Final = pytest.StashKey[Sequence[str]]()
"""Errors after the last test."""
_MASKED: Final = pytest.StashKey[int]()
"""The number of secrets masked in new recordings."""
_REPORTED: Final = pytest.StashKey[set[str]]()
"""Messages about a test that were reported already."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("wiretape", "answers of LLM APIs from tapes (wiretape help testing)")
    group.addoption("--wiretape-record", choices=(*marks.RECORD, marks.NEW), metavar="MODE",
                    help=f"The recording mode, overriding the marks: {', '.join(marks.RECORD)}.")  # fmt: skip
    group.addoption("--wiretape-fault", action="append", default=[], metavar="FAULT",
                    help="Break every answer: cut@50%%, reset@#3, stall:5s@#120, status:429:0.1, … as serve does; may "
                    "be repeated.")  # fmt: skip
    parser.addini("wiretape_record", "The recording mode if neither the command line nor a mark sets it.")


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Generator[None]:
    """Add pytest-recording's option, unless another plugin or a conftest has one of that name."""
    result = yield
    option = f"{_RECORD_MODE}=none"
    with contextlib.suppress(pytest.UsageError):  # it is there, and has other values
        if option in parser.parse_known_and_unknown_args([option])[1]:
            names = tuple(marks.RECORD_MODES)
            meaning = f"The same, as pytest-recording names it: {', '.join(names)}."
            parser.getgroup("wiretape").addoption(_RECORD_MODE, choices=names, metavar="MODE", help=meaning)
    return result


def _record(config: pytest.Config) -> str | None:
    """Return the recording mode of the command line, also if it is given as pytest-recording's."""
    mode: str | None = config.option.wiretape_record
    return mode or marks.RECORD_MODES.get(getattr(config.option, "record_mode", None) or "")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and refuse faults that cannot be parsed before the first test."""
    config.addinivalue_line("markers", _MARK)
    if config.option.wiretape_fault:
        from wiretape.viewer.wings.replay import faults

        try:
            for text in config.option.wiretape_fault:
                faults.parse(text)
        except ValueError as error:
            raise pytest.UsageError(f"--wiretape-fault: {error}") from error


def pytest_report_header(config: pytest.Config) -> str | None:
    faults, record = config.option.wiretape_fault, _record(config)
    settings = [*([f"record {record}"] if record else []), *(f"fault {fault}" for fault in faults)]
    return f"wiretape: {', '.join(settings)}" if settings else None


@pytest.hookimpl(trylast=True)  # its part of the id is the last one
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each of its forms."""
    if metafunc.definition.get_closest_marker("wiretape") is None:
        return
    with contextlib.suppress(ValueError):  # `pytest_collection_modifyitems` reports it
        _, arguments = marks.merged(metafunc.definition.iter_markers("wiretape"))
        if (runs := marks.runs(arguments)) is not None:
            metafunc.fixturenames.append(_FORM)
            metafunc.parametrize(_FORM, runs, ids=runs)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add the fixture to marked tests, before all others, which may make a client."""
    for item in items:
        if item.get_closest_marker("wiretape") is None:
            continue
        try:
            _, arguments = marks.merged(item.iter_markers("wiretape"))
            if marks.runs(arguments) is not None and _form(item) is None:
                raise ValueError("forms= is for functions and methods of pytest")
        except ValueError as error:
            raise pytest.UsageError(f"{item.nodeid}: {error}") from error
        names = getattr(item, "fixturenames", None)
        if names is not None and _FIXTURE not in names[:1]:  # an item of another plugin may have no fixtures
            names.insert(0, _FIXTURE)


@pytest.fixture
def wiretape_server(request: pytest.FixtureRequest) -> "Iterator[WiretapeServer]":
    """The server that answers this test from its tape: `url`, `url_of(api)`, `timeline()`, `misses`.

    The variables of all SDKs point at it until the test is over.
    """
    from wiretape.viewer.wings.replay import testenv

    item = request.node
    server = _begin(request.config, item)
    keys = {} if server.is_recording else testenv.keys(os.environ)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**server.variables, **keys, **testenv.bypasses(os.environ)}.items():
            patch.setenv(name, value)
        server.guard.install(patch)
        item.stash[_SERVER], item.stash[_REPORTED] = server, set()
        yield server
    server.end()


def _form(item: pytest.Item) -> str | None:
    """Return the form of this run of a test; None if there is one run only."""
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get(_FORM)


def _id(item: pytest.Item, form: str = "") -> str:
    """Return the id of a test in another form, or without one."""
    if (current := _form(item)) is None:
        return item.nodeid
    id = item.nodeid.removesuffix(f"{current}]").removesuffix("-")
    if form:
        return f"{id}{form}]" if id.endswith("[") else f"{id}-{form}]"
    return id.removesuffix("[") if id.endswith("[") else f"{id}]"


def _begin(config: pytest.Config, item: pytest.Item) -> "WiretapeServer":
    from wiretape.recorder.errors import WiretapeError

    try:
        settings = marks.read(item.path, item.iter_markers("wiretape"), _record(config), config.option.wiretape_fault,
                           config.getini("wiretape_record"), _form(item))  # fmt: skip
    except (WiretapeError, ValueError) as error:
        raise _failure(str(error)) from None
    background_server = config.stash.get(_BACKGROUND, None)
    is_recorded = background_server is not None and background_server.is_recorded(settings.tape)
    if settings.options.record == "none" and not is_recorded and not paths.exists(settings.tape):
        raise _failure(f"no tape at {settings.tape}: record it by 'pytest {_quoted(item)} --wiretape-record=once'")
    try:
        if _BACKGROUND not in config.stash:  # the thread that serves is started with the first test
            from wiretape.viewer.wings.replay import background

            config.stash[_BACKGROUND] = background.PluginServer()
        return config.stash[_BACKGROUND].begin(settings, _id(item), os.environ)
    except (WiretapeError, ValueError) as error:
        raise _failure(str(error)) from None


def _failure(message: str) -> BaseException:
    return pytest.fail.Exception(f"wiretape: {safe(message)}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test with an unrecorded request or a refused connection, even if its program handled the error.

    A test that asked its tape for nothing fails, too: its program called something else, or nothing.
    """
    report = yield
    server = item.stash.get(_SERVER, None)
    if server is not None:
        _judge(report, item, server)
        notices = list(dict.fromkeys(filter(None, server.notices))) if report.when == "call" else []
        report.sections += [("wiretape", "\n".join(map(safe, notices)))] if notices else []
        if report.when == "call":
            _judge_forms(report, item, server)
    return report


def _judge(report: pytest.TestReport, item: pytest.Item, server: "WiretapeServer") -> None:
    """Add new errors of a test to the report of one of its phases."""
    from wiretape.viewer.wings.replay import testenv

    misses = {request.miss.message: request.path for request in server.misses if request.miss is not None}
    reported = item.stash[_REPORTED]
    refused = [host for host in dict.fromkeys(server.guard.refused) if host not in reported]
    fresh = [problem for problem in dict.fromkeys([*server.troubles, *misses]) if problem not in reported]
    reported.update(refused, fresh)
    lines, name = list[str](), safe(item.nodeid)
    if fresh:
        lines.append(f"wiretape: {name} sent requests that could not be answered:")
        lines += (f"  {safe(problem)}" for problem in fresh)
        keys = dict.fromkeys(key for problem in fresh if (key := testenv.key_of(misses.get(problem, ""))))
        if any(problem in misses for problem in fresh):
            needed = f", with {' and '.join(keys)} set" if keys else ""
            lines.append(f"record them with: pytest {_quoted(item)} --wiretape-record=new{needed}")
    if refused:
        lines.append(f"wiretape: {name} opened connections to other hosts than its tape's server, which were refused:")
        lines += (f"  {safe(host)}" for host in refused)
        allowing = f"@pytest.mark.wiretape(…, allow_hosts={safe(refused[0])!r})"
        lines.append(f"{_ADVICE}. If a host is no API: {allowing}")
    elif report.when == "call" and report.passed and not server.was_asked:
        lines.append(f"wiretape: {name} asked its tape for nothing. {_ADVICE}; or remove its mark")
    if not lines:
        return
    if report.passed:
        report.outcome = "failed"
        report.longrepr = "\n".join(lines)
    else:
        report.sections.append(("wiretape", "\n".join(lines)))


def _judge_forms(report: pytest.TestReport, item: pytest.Item, server: "WiretapeServer") -> None:
    """Explain the forms of a test that failed; skip a passed one if none of its answers took its form."""
    from wiretape.viewer.wings.replay import forms

    answers = [request for request in server.requests if request.head is not None and request.ending != "relayed"]
    sent = {name: request.choice.framing for request in answers for name in request.choice.names}
    if report.failed and sent:
        meanings = [forms.explained(name, framing) for name, framing in sent.items()]
        tails = [f"{request.path}: the last bytes written: …{ascii(request.tail)[2:-1]}" for request in answers]
        report.sections.append((f"wiretape: {', '.join(meanings)}", "\n".join(map(safe, tails))))
    if (form := _form(item)) is None or not report.passed or not answers:
        return
    reasons = {name: reason for request in answers for name, reason in request.choice.left_out if name not in sent}
    if not reasons:
        return
    lines = [f"form {name}: no answer of this test takes it ({reason})" for name, reason in reasons.items()]
    message = f"wiretape: {'; '.join(lines)}"
    _, arguments = marks.merged(item.iter_markers("wiretape"))
    if arguments["forms"] == "all":
        report.outcome, report.longrepr = "skipped", (str(item.path), item.location[1] or 0, message)
    else:
        report.outcome, report.longrepr = "failed", f"{message}: leave out {form!r}"


def _quoted(item: pytest.Item) -> str:
    """Return the id of the test as it is recorded, for a shell."""
    return shlex.quote(safe(_id(item, "recorded")))


@pytest.hookimpl(trylast=True)  # after fixtures that an interrupt left
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the thread; a failed recording fails the session."""
    stash = session.config.stash
    if _BACKGROUND in stash:
        stash[_PROBLEMS] = stash[_BACKGROUND].close()
        stash[_MASKED] = stash[_BACKGROUND].masked_count
        del stash[_BACKGROUND]
        if stash[_PROBLEMS] and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter", config: pytest.Config) -> None:
    """Report the failed recordings, and the secrets masked in others."""
    if count := config.stash.get(_MASKED, 0):
        terminalreporter.write_line(f"wiretape: {counted(count, 'secret')} masked in new recordings")
    for problem in config.stash.get(_PROBLEMS, ()):
        terminalreporter.write_line(f"wiretape: {safe(problem)}", red=True)
