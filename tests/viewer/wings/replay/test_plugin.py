"""The pytest plugin: marked tests are answered from their tape, and missing requests are reported."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

from tests.support import forked
from tests.support.frames import exchange, opened, record
from wiretape.viewer.wings.replay import forms, marks, planning

pytest_plugins = ("pytester",)

ROOT = Path(__file__).parents[4]
HEAD = """
import os, pathlib, unittest
import anyio, httpx, pytest

def asked(model, **more):
    messages = [{{"role": "user", "content": f"Play the scene {{model}}."}}]
    return {{"model": f"demo-{{model}}", "stream": True, "messages": messages, **more}}

def ask(model="openai", base=None, **more):
    url = (base or os.environ["OPENAI_BASE_URL"]) + "/chat/completions"
    return httpx.post(url, json=asked(model, **more), trust_env=False)

TAPE = {tape!r}
"""


class Loaded:
    """Keeps the modules that suites load, which pytester unloads.

    What stays would go on with those that were unloaded: httpx with the exceptions of an httpcore that is not the one
    of later requests, in all tests that come after.
    """

    def __init__(self) -> None:
        self._modules: dict[str, ModuleType] = {}

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        for name, module in sys.modules.items():
            if not (getattr(module, "__file__", None) or "").startswith(str(config.rootpath)):
                self._modules[name] = module

    def restore(self) -> None:
        sys.modules.update(self._modules)


@pytest.fixture
def loaded() -> Iterator[Loaded]:
    yield (loaded := Loaded())
    loaded.restore()


class Suite:
    """Runs tests in a directory of their own; the demo's tape is their `TAPE`."""

    def __init__(self, pytester: pytest.Pytester, loaded: Loaded, tape: Path) -> None:
        self._pytester, self._loaded, self._head = pytester, loaded, HEAD.format(tape=str(tape))

    def run(self, code: str, *options: str) -> pytest.RunResult:
        self._pytester.makepyfile(self._head + code)
        # A setup.py in a directory above would become the root, and the names of tests longer.
        root = f"--rootdir={self._pytester.path}"
        options_given = (root, "-W", "error", "--strict-markers", "-p", "no:cacheprovider", *options)
        result = self._pytester.runpytest_inprocess(*options_given, plugins=[self._loaded])
        self._loaded.restore()
        return result


@pytest.fixture
def suite(loaded: Loaded, pytester: pytest.Pytester, demo: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> Suite:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    return Suite(pytester, loaded, demo[0])


def test_tests_of_every_kind_are_answered_from_their_tape(suite: Suite) -> None:
    code = """
pytestmark = pytest.mark.wiretape(TAPE)

def test_plain(wiretape_server):
    assert "first" in (answer := ask()).text or answer.status_code == 200
    assert [one.exchange for one in wiretape_server.timeline()] == [answer.headers["x-wiretape-exchange"]]
    assert wiretape_server.url_of("openai") == os.environ["OPENAI_BASE_URL"] == wiretape_server.url + "/openai/v1"
    assert wiretape_server.url_of("anthropic") == os.environ["ANTHROPIC_BASE_URL"]
    assert os.environ["OPENAI_API_KEY"]

@pytest.mark.parametrize("model", ["reasoning", "tool"])
def test_parametrised(model):
    assert ask(model).status_code == 200

@pytest.fixture
def client():
    return httpx.Client(base_url=os.environ["OPENAI_BASE_URL"], trust_env=False)

@pytest.mark.wiretape(match="model")
def test_with_a_client_of_a_fixture_and_another_way_to_match(client):
    with client:
        assert client.post("/chat/completions", json=asked("openai", temperature=1)).status_code == 200

class TestCase(unittest.TestCase):
    def test_method(self):
        assert ask().status_code == 200

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_async():
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json=asked("openai"))).is_success

@pytest.mark.wiretape(match="sequence")
@pytest.mark.parametrize("round", range(2))
def test_a_sequence_begins_again_with_each_test(round, wiretape_server):
    ask()
    assert wiretape_server.timeline()[0].exchange == SEEN.setdefault("first", wiretape_server.timeline()[0].exchange)
SEEN = {}

@pytest.mark.wiretape(match="last")
def test_with_another_system_prompt(wiretape_server):
    request = asked("openai")
    request["messages"].insert(0, {"role": "system", "content": "Be."})
    answer = httpx.post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json=request, trust_env=False)
    assert answer.headers["x-wiretape-match"] == "last"
    assert [one.match for one in wiretape_server.timeline()] == ["last"]

@pytest.mark.wiretape(fault=["cut@50%"])
def test_with_a_fault(wiretape_server):
    with pytest.raises(httpx.RemoteProtocolError):
        ask()
    assert [(one.faults, one.ended) for one in wiretape_server.timeline()] == [(("cut@50%",), "close")]
"""
    result = suite.run(code, "-rP")
    result.assert_outcomes(passed=10)
    assert sum("whose last message is equal; differs in messages[0].role" in line for line in result.outlines) == 1
    assert "OPENAI_BASE_URL" not in os.environ


def test_an_unmarked_test_is_left_alone(suite: Suite) -> None:
    code = """
def test(request):
    assert "OPENAI_BASE_URL" not in os.environ
    assert "wiretape_server" not in request.fixturenames
"""
    suite.run(code).assert_outcomes(passed=1)


def test_a_test_with_an_unrecorded_request_fails(suite: Suite) -> None:
    code = """
@pytest.mark.wiretape(TAPE)
def test_swallowed():
    ask("openai", temperature=1)

@pytest.mark.wiretape(TAPE)
def test_raised():
    ask("openai", voice="\\x1b[31m").raise_for_status()

@pytest.mark.wiretape(TAPE)
def test_after():
    ask()
"""
    result = suite.run(code)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines([
        "wiretape: *::test_swallowed sent requests that could not be answered:",
        "  no recording answers POST /openai/v1/chat/completions: the nearest is *, which differs in temperature: *",
        "*HTTPStatusError*",
        "*voice: nothing recorded, *",
    ])  # fmt: skip
    assert "\x1b[31m" not in result.stdout.str()


def test_a_client_that_outlives_its_test_is_told_so(suite: Suite) -> None:
    code = """
OLD = []

@pytest.mark.wiretape(TAPE)
def test_first():
    OLD.append(os.environ["OPENAI_BASE_URL"])
    ask()

@pytest.mark.wiretape(TAPE)
def test_second(wiretape_server):
    assert "of a test that is over" in ask(base=OLD[0]).text
    assert wiretape_server.timeline() == []
    ask()
"""
    suite.run(code).assert_outcomes(passed=2)


def test_a_set_variable_is_replaced_and_restored(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_API_BASE", "https://x.openai.azure.com/openai")
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "example.com")
    code = """
@pytest.mark.wiretape(TAPE)
def test_inside(wiretape_server):
    assert os.environ["AZURE_API_BASE"] == wiretape_server.url + "/azure/openai"
    assert os.environ["OPENAI_API_KEY"] == "mine"
    assert os.environ["NO_PROXY"] == "example.com,127.0.0.1,localhost"
    ask()

def test_outside():
    assert os.environ["AZURE_API_BASE"] == "https://x.openai.azure.com/openai"
    assert os.environ["NO_PROXY"] == "example.com"
"""
    suite.run(code).assert_outcomes(passed=2)


@pytest.mark.parametrize(("mark", "message"), [("TAPE, speeed=1", "there are tape, record, speed"),
                                            ("TAPE, 'b.db'", "name one tape")])  # fmt: skip
def test_a_marker_that_is_wrong_ends_the_collection(mark: str, message: str, suite: Suite) -> None:
    result = suite.run(f"@pytest.mark.wiretape({mark})\ndef test(): pass")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *{message}*"])


def test_a_wrong_tape_or_value_is_one_line(suite: Suite) -> None:
    marks = {
        "'none.db'": "no tape at */none.db: record it by 'pytest *::test_0 --wiretape-record=once'",
        "__file__": "*is not a database, not a wiretape tape*",
        "": "no tape at */tapes/test_a_wrong_tape_or_value_is_one_line.jsonl: *",
        "TAPE, speed=-1": "speed=-1: give a number*",
        "TAPE, max_gap='1'": "max_gap='1': expected a duration*",
        "TAPE, max_gap=-1": "max_gap=-1: give seconds*",
        "TAPE, max_gap=float('inf')": "max_gap=inf: give seconds*",
        "TAPE, match='x'": "match='x' is none of request*",
        "TAPE, fault='x'": "fault='x': 'x' is no fault*",
        "TAPE, record='x'": "record='x' is none of none, once, new, all",
        "TAPE, upstream='ftp://x'": "upstream='ftp://x': an upstream must be*",
        "TAPE, ignore=1": "ignore=1 is no text*",
        "TAPE, filter='x:'": "filter='x:': *",
    }
    tests = "".join(f"@pytest.mark.wiretape({mark})\ndef test_{place}(): pass\n" for place, mark in enumerate(marks))
    result = suite.run(tests, "--tb=short")
    result.assert_outcomes(errors=len(marks))
    result.stdout.fnmatch_lines([f"wiretape: {message}" for message in marks.values()])


SMALL = """
def ask_small(path="/v1/chat/completions", **more):
    return httpx.post(os.environ["OPENAI_BASE_URL"].removesuffix("/openai/v1") + path,
                      content=b'{"model":"gpt-test","stream":true}', trust_env=False, **more)
"""


@pytest.fixture
def small(pytester: pytest.Pytester) -> Path:
    with opened(path := pytester.path / "small.db") as store:
        record(store, list(exchange("a1")))
    return path


def test_a_test_runs_once_in_each_form(suite: Suite, small: Path) -> None:
    code = """
@pytest.mark.parametrize("number", [1])
@pytest.mark.wiretape("small.db", forms="all")
def test_all(wiretape_server, wiretape_form, number):
    answer = ask_small()
    [request] = wiretape_server.timeline()
    assert request.form == answer.headers.get("x-wiretape-form")
    assert request.form in (None if wiretape_form == "recorded" else wiretape_form, None)
    assert wiretape_form != "crlf"
"""
    result = suite.run(SMALL + code, "-v", "-rs")
    counts = result.parseoutcomes()
    assert sum(counts.values()) == len(forms.FORMS)
    assert counts["failed"] == 1
    section = "*wiretape: form crlf (every line ends in CR LF; WHATWG HTML 9.2.5)*"
    result.stdout.fnmatch_lines(["*test_all?1-recorded? PASSED*", "*test_all?1-h2? SKIPPED*"])
    result.stdout.fnmatch_lines([section, "*the last bytes written: *data: [[]DONE[]]\\r\\n\\r\\n"])
    result.stdout.fnmatch_lines(["*form h2: no answer of this test takes it (HTTP/1.1)"])


def test_a_named_form_that_is_not_possible_fails(suite: Suite, small: Path) -> None:
    code = """
@pytest.mark.wiretape("small.db", forms=["bom", "h2,crlf"])
def test_named(wiretape_form):
    assert ask_small().content.startswith(b"\\xef\\xbb\\xbf") == (wiretape_form == "bom")
"""
    result = suite.run(SMALL + code)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["wiretape: form h2: no answer of this test takes it (HTTP/1.1): leave out 'h2,crlf'"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("form='crlf,cr'", "form='crlf,cr': crlf and cr contradict each other"),
        ("forms=['x']", "forms='x': 'x' is no form"),
        ("form='cr', forms='all'", "form= and forms= contradict each other"),
    ],
)
def test_wrong_forms_are_an_error_at_collection(suite: Suite, arguments: str, message: str) -> None:
    result = suite.run(f"@pytest.mark.wiretape(TAPE, {arguments})\ndef test_x(): pass\n")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in f"{result.stdout}{result.stderr}"


def test_command_line_faults_are_added_and_in_the_header(suite: Suite) -> None:
    code = """
@pytest.mark.wiretape(TAPE)
def test_fault(wiretape_server):
    assert ask().status_code == 429
"""
    result = suite.run(code, "--wiretape-fault", "status:429")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["wiretape: fault status:429"])
    assert suite.run(code, "--wiretape-fault", "status:9").ret == pytest.ExitCode.USAGE_ERROR


class Api(BaseHTTPRequestHandler):
    """An API that numbers its answers."""

    protocol_version = "HTTP/1.1"
    count = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        Api.count += 1
        body = b'{"answer": %d}' % Api.count
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def api() -> Iterator[str]:
    Api.count = 0
    with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def test_only_the_run_as_recorded_records(
    suite: Suite, api: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", api)
    code = """
@pytest.mark.wiretape("new.jsonl", forms=["recorded", "split", "gzip"], match="sequence")
def test_forms(wiretape_server, wiretape_form):
    answer = httpx.post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json={"model": "m"}, trust_env=False)
    assert answer.json() == {"answer": 1}
    assert wiretape_server.is_recording == (wiretape_form == "recorded" and RECORDS)
"""
    assert "test_forms[recorded]' --wiretape-record=once" in str(suite.run("RECORDS = 0" + code).stdout)
    suite.run("RECORDS = 1" + code, "--wiretape-record=once").assert_outcomes(passed=3)
    suite.run("RECORDS = 0" + code).assert_outcomes(passed=3)
    assert '"test_only_the_run_as_recorded_records.py::test_forms"' in (pytester.path / "new.jsonl").read_text()


NAMED = "test_a_test_records_its_own_and_replays_it_later.py::test"


def test_a_test_records_its_own_and_replays_it_later(
    suite: Suite, api: str, monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", api)
    code = """
@pytest.mark.wiretape("new.jsonl", record="once")
@pytest.mark.parametrize("place", ["a", "sk-looks-like-a-key"])
def test(place, wiretape_server):
    seen = ask("same").json()["answer"]
    assert seen == (A if place == "a" else B)
    assert wiretape_server.url_of("openai") == os.environ["OPENAI_BASE_URL"]
    assert [one.ended for one in wiretape_server.timeline()] == [ENDED]
"""
    suite.run("A, B, ENDED = 1, 2, 'relayed'\n" + code).assert_outcomes(passed=2)
    labels = re.findall(r'"labels": {"test": "(.*?)"}', (pytester.path / "new.jsonl").read_text("utf-8"))
    assert [re.sub("[0-9a-f]{16}", "HASH", label) for label in labels] == [f"{NAMED}[a]", "id-HASH"]
    suite.run("A, B, ENDED = 1, 2, 'end'\n" + code).assert_outcomes(passed=2)
    assert Api.count == 2
    second_run = ["--wiretape-record=all", f"{NAMED}[sk-looks-like-a-key]"]
    run = suite.run("A, B, ENDED = 1, 3, 'relayed'\n" + code, *second_run)
    run.assert_outcomes(passed=1)
    suite.run("A, B, ENDED = 1, 3, 'end'\n" + code, "--wiretape-record=none").assert_outcomes(passed=2)


def test_a_recorded_test_needs_no_variable_of_the_user(suite: Suite) -> None:
    code = """
@pytest.mark.wiretape(TAPE, record="new")
def test(wiretape_server):
    assert wiretape_server.is_recording
    assert os.environ["OPENAI_BASE_URL"] == wiretape_server.url_of("openai") == f"{wiretape_server.url}/openai/v1"
    assert os.environ["ANTHROPIC_BASE_URL"] == f"{wiretape_server.url}/anthropic"
    ask()
"""
    suite.run(code).assert_outcomes(passed=1)


CLIENTS = {
    "made at import": "CLIENT.post(API)",
    "of httpx": "httpx.post(API)",
    "asynchronous": "anyio.run(fetch, API)",
    "of uvloop": "anyio.run(fetch, API, backend_options={'use_uvloop': True})",
    "of the standard library": "urllib.request.urlopen(API)",
    "swallowing its errors": "contextlib.suppress(OSError).__enter__(); socket.socket().connect_ex(ADDRESS)",
}
IMPORTS = """
import contextlib, socket, urllib.request
from urllib.parse import urlsplit

CLIENT = httpx.Client()
ADDRESS = (urlsplit(API).hostname, urlsplit(API).port)

async def fetch(url):
    async with httpx.AsyncClient() as client:
        await client.post(url)
"""


@pytest.mark.parametrize("call", CLIENTS.values(), ids=CLIENTS)
@pytest.mark.parametrize("record", ["none", "once"])
def test_a_marked_test_that_calls_an_api_fails(call: str, record: str, suite: Suite, api: str) -> None:
    code = f"""
@pytest.mark.wiretape(TAPE, record={record!r})
def test():
    ask()
    try:
        {call}
    except (httpx.ConnectError, OSError):
        pass
"""
    result = suite.run(f"API = {api!r}{IMPORTS}{code}")
    result.assert_outcomes(failed=1)
    host = api.removeprefix("http://").removesuffix("/v1")
    result.stdout.fnmatch_lines(
        ["wiretape: * opened connections to other hosts*", f"  {host}", "Make the client within*"]
    )
    assert Api.count == 0


def test_a_marked_test_looks_up_no_api(suite: Suite) -> None:
    code = """
import asyncio, socket

@pytest.mark.wiretape(TAPE)
@pytest.mark.parametrize("use_uvloop", [True, False])
def test(use_uvloop):
    ask()
    async def look_up():
        await asyncio.get_running_loop().getaddrinfo("api.example", 443)
    with pytest.raises(ConnectionRefusedError, match="api.example:443 is not the server of this test's tape"):
        anyio.run(look_up, backend_options={"use_uvloop": use_uvloop})

def test_outside():
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo("api.example", 443, 0, 0, 0, socket.AI_NUMERICHOST)
"""
    result = suite.run(code)
    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(["  api.example:443"])


@pytest.mark.parametrize("allowed", ["127.0.0.1", "localhost", "{host}"])
def test_a_host_that_a_marker_allows_can_be_reached(allowed: str, suite: Suite, api: str) -> None:
    host = api.removeprefix("http://").removesuffix("/v1").replace("127.0.0.1", "localhost")
    code = f"""
@pytest.mark.wiretape(TAPE, allow_hosts=[{allowed.format(host=host)!r}])
def test():
    ask()
    assert httpx.post("http://{host if allowed != "127.0.0.1" else host.replace("localhost", "127.0.0.1")}/v1").json()
"""
    suite.run(code).assert_outcomes(passed=1)
    assert Api.count == 1


def test_a_marked_test_without_requests_fails_with_advice(suite: Suite) -> None:
    code = """
@pytest.mark.wiretape(TAPE)
def test():
    pass

@pytest.mark.wiretape(TAPE)
def test_skipped():
    pytest.skip("today")
"""
    result = suite.run(code)
    result.assert_outcomes(failed=1, skipped=1)
    result.stdout.fnmatch_lines(["wiretape: *::test asked its tape for nothing. Make the client within the test*"])


@pytest.mark.parametrize(
    ("options", "record"),
    [
        (("--record-mode=new_episodes",), "none"),
        (("--record-mode", "once"), "none"),
        (("--record-mode=rewrite",), "none"),
        (("--wiretape-record=new_episodes",), "none"),
        (("--record-mode=none", "--wiretape-record=once"), "none"),
        ((), "new_episodes"),
        (("-o", "wiretape_record=new_episodes"), ""),
    ],
)
def test_names_of_vcrpy_and_pytest_recording_are_known(
    suite: Suite, api: str, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], record: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", api)
    code = f"""
@pytest.mark.wiretape("new.jsonl", record={record!r})
def test(wiretape_server):
    assert ask("same").json() == {{"answer": 1}}
    assert wiretape_server.is_recording
"""
    suite.run(code, *options).assert_outcomes(passed=1)


@pytest.mark.parametrize(("choices", "mode", "records"), [(None, "once", True), (["on", "off"], "on", False)])
def test_an_existing_option_record_mode_is_kept_and_used(
    suite: Suite, api: str, monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester,
    choices: list[str] | None, mode: str, records: bool,
) -> None:  # fmt: skip
    monkeypatch.setenv("OPENAI_BASE_URL", api)
    pytester.makeconftest(f"def pytest_addoption(parser): parser.addoption('--record-mode', choices={choices})")
    code = f"""
@pytest.mark.wiretape("new.jsonl", record="none" if {records} else "once")
def test(wiretape_server, pytestconfig):
    assert pytestconfig.getoption("--record-mode") == {mode!r}
    assert ask("same").json() == {{"answer": 1}}
"""
    suite.run(code, f"--record-mode={mode}").assert_outcomes(passed=1)


def test_new_recordings_are_served_beside_hand_cut_ones(
    suite: Suite, api: str, monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester, demo: tuple[Path, str]
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", api)
    assert forked.run(["db", "cut", "--db", demo[0], "-o", pytester.path / "cut.jsonl"]).returncode == 0
    code = """
@pytest.mark.wiretape("cut.jsonl")
def test(wiretape_server):
    assert ask("tool").headers["content-type"] == "text/event-stream"
    assert ask("new").json() == {"answer": 1}
    assert [one.ended for one in wiretape_server.timeline()] == ["end", ENDED]

@pytest.mark.wiretape("cut.jsonl")
def test_without_its_own():
    assert ask("tool").is_success
"""
    suite.run("ENDED = 'relayed'\n" + code, "--wiretape-record=new").assert_outcomes(passed=2)
    suite.run("ENDED = 'end'\n" + code).assert_outcomes(passed=2)
    assert Api.count == 1


def test_asking_about_an_unplayed_stall_warns(suite: Suite) -> None:
    code = """
@pytest.mark.wiretape(TAPE, speed=SPEED)
@pytest.mark.parametrize("model", ["stall", "openai"])
def test(model, wiretape_server):
    ask(model)
    assert wiretape_server.timeline()[0].closed_ms is None
"""
    message = "the recorded stall of exchange [0-9a-f]{16} was not played: at speed=0, the default, there are no waits"
    for speed, warned in (("0", 1), ("100", 0)):
        result = suite.run(f"SPEED = {speed}\n" + code, "-W", "default")
        result.assert_outcomes(passed=2, warnings=warned)
        assert (re.search(message, result.stdout.str()) is not None) == bool(warned)


def test_the_modes_of_recording_are_those_of_serve() -> None:
    assert marks.RECORD == planning.RECORD


@pytest.mark.nightly
@pytest.mark.parametrize("options", ["", "--wiretape-fault=cut@50%", "--wiretape-fault=status:429:0.5", "-n2"])
def test_the_sdk_suite_passes_with_and_without_faults(options: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options.split(), "tests/sdk_suite"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout


def test_the_plugin_loads_nothing_heavy_until_it_is_used() -> None:
    heavy = "sqlalchemy asyncio msgspec httptools pandas click"
    code = f"import sys, pytest; before = set(sys.modules)\n" \
           f"vars(pytest).pop('TerminalReporter', None)  # pytest 8 has none\n" \
           f"import wiretape.viewer.wings.replay.plugin\n" \
           f"print([name for name in {heavy.split()!r} if name in sys.modules and name not in before])"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("tape", ["own.jsonl", "own.db"])
def test_a_recorded_test_stores_no_secret_and_replays(
    tape: str, suite: Suite, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
@pytest.mark.wiretape({tape!r}, upstream={api!r}, redact="cust-[0-9]+")
def test_own():
    body = asked("openai", user="cust-" + os.environ["CUSTOMER"], api_key=os.environ["KEY"][::-1])
    body["messages"][0]["content"] += os.linesep + os.environ["KEY"]
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    for _ in range(2):  # the second is answered by the recording of the first
        assert httpx.post(url, json=body, trust_env=False).json() == {{"answer": 1}}
    assert not any(os.environ["KEY"].encode() in file.read_bytes() for file in pathlib.Path().glob("own.*"))
""".format(api="openai=" + api, tape=tape)
    key = "sk-ant-api03-Zq81LmX0wPvT6yRk92bcDE"
    for name, value in (("KEY", key), ("CUSTOMER", "17")):
        monkeypatch.setenv(name, value)
    recorded = suite.run(code, "--wiretape-record=once")
    recorded.assert_outcomes(passed=1)
    recorded.stdout.fnmatch_lines("wiretape: 3 secrets masked in new recordings")
    data = (Path.cwd() / tape).read_bytes()
    assert not any(part.encode() in data for part in (key, key[::-1], "cust-17"))
    assert b"*" * len(key) in data
    for name, value in (("KEY", "sk-proj-OTHER1234567890abcdefghijklmnop"), ("CUSTOMER", "2231")):
        monkeypatch.setenv(name, value)
    suite.run(code).assert_outcomes(passed=1)
    assert Api.count == 1


def test_a_test_holds_steps_and_releases_its_streams(suite: Suite) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
import wiretape

@pytest.mark.wiretape(TAPE)
def test_held(wiretape_server):
    control = wiretape_server.control
    control.hold(at="#3", times=1, model="demo-*")
    assert [entry["at"] for entry in control.next()] == ["#3"]
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(ask)
        stream = control.stream("@").wait("held", timeout=60)
        assert (stream.event, stream.status, control.next()) == (3, 200, [])
        stream.step(events=2)
        assert (stream.state, stream.event) == ("held", 5)
        pool.submit(stream.release).result()
        assert answer.result().text.endswith("[DONE]\\n\\n")
    assert [stream.state for stream in control.streams()] == ["done"]
    with pytest.raises(wiretape.ControlError) as raised:
        control.stream(1).release()
    assert raised.value.code == "over"
    for call in (lambda: control.hold(at="3"), lambda: control.fail(200), lambda: control.stream(9).state):
        with pytest.raises(wiretape.ControlError):
            call()

@pytest.mark.wiretape(TAPE)
def test_failed(wiretape_server):
    control = wiretape_server.control
    control.fail(429, headers={"retry-after": "0"})
    control.cut(at="50%")
    control.cut(at="#9", path="/nowhere")
    control.speed(4)
    answer = ask()
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "0")
    assert [entry["verb"] for entry in control.next()] == ["cut", "cut"]
    control.forget()
    assert ask().status_code == 200
    assert [row.status for row in wiretape_server.timeline()] == [429, 200]

@pytest.mark.wiretape(TAPE)
def test_by_http(wiretape_server):
    control = wiretape_server.control
    headers = {"authorization": f"Bearer {control.token}"}
    httpx.post(f"{control.url}/fail", json={"status": 503}, headers=headers, trust_env=False).raise_for_status()
    assert ask().status_code == 503
    assert httpx.get(f"{control.url}/streams", headers=headers, trust_env=False).json()["streams"][0]["status"] == 503
    assert len(wiretape_server.timeline()) == 1

THREADS = []

@pytest.mark.wiretape(TAPE)
@pytest.mark.parametrize("model", ["openai", "anthropic"])
def test_that_forgets_to_release(wiretape_server, model):
    import threading
    wiretape_server.control.hold(at="head")
    def run():
        with pytest.raises(httpx.HTTPError):
            ask()
    THREADS.append(threading.Thread(target=run))
    THREADS[-1].start()
    wiretape_server.control.stream().wait("held", timeout=60)

def test_after_it():
    for thread in THREADS:
        thread.join()
"""
    suite.run(code).assert_outcomes(passed=6)
