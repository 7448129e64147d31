"""`wiretape.record()`: a program's own calls, recorded by a thread of it, and read as they finish."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import wiretape
from tests.support.relay import STREAM, on_loop
from wiretape.recorder.demo.upstream import Scene, ScriptedUpstream, answer
from wiretape.viewer.wings.replay.thread import LoopThread

BODY = {"model": "m", "stream": True, "messages": []}


class Api:
    """An upstream in a thread; those to the path `/stall` do not end until the client leaves."""

    def __init__(self) -> None:
        self.thread = LoopThread("upstream")
        self.server = ScriptedUpstream(self._choose)
        self.thread.call(self.server.__aenter__())
        self.url = self.server.url

    def _choose(self, request: Any) -> Scene:
        return answer(STREAM, end="stall") if b"stall" in request.target else answer(STREAM)

    def close(self) -> None:
        self.thread.call(self.server.__aexit__())
        self.thread.close(10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "live.db"


@pytest.fixture
def api() -> Iterator[Api]:
    yield (api := Api())
    api.close()


def ask(base: str) -> str:
    return httpx.post(f"{base}/chat/completions", json=BODY, trust_env=False).text


def test_recorded_exchanges_come_as_they_finish(api: Api, path: Path) -> None:
    with wiretape.record(path, upstream=api.url, labels={"run": "a"}) as live:
        assert "[DONE]" in ask(live.url_of("openai"))
        first_exchange = live.wait()
        for _ in range(2):
            ask(live.url)
        assert [exchange.outcome for exchange in live] == ["complete", "complete"]
        assert list(live) == []
        assert (first_exchange.outcome, first_exchange.content, first_exchange.labels, first_exchange.model) == (
            "complete",
            "ab",
            {"run": "a"},
            "m",
        )
        assert first_exchange.ttft_ms is not None
        assert first_exchange == next(live.records())
    assert len(live.exchanges("label:run=a")) == 3


def test_finished_exchanges_can_be_taken_after_the_block(api: Api, path: Path) -> None:
    with wiretape.record(path, upstream=api.url) as live:
        ask(live.url)
        ask(live.url)
    assert [live.wait().outcome, *(exchange.outcome for exchange in live)] == ["complete", "complete"]
    with pytest.raises(wiretape.NotFound, match="the recording has ended"):
        live.wait()


def test_iterating_waits_for_another_threads_exchange(api: Api, path: Path) -> None:
    with wiretape.record(path, upstream=api.url) as live:
        with httpx.Client(trust_env=False) as client, client.stream("POST", f"{live.url}/stall", json=BODY) as response:
            next(response.iter_bytes())
            exchanges = list[Any]()
            taker = threading.Thread(target=lambda: exchanges.extend(live))
            taker.start()
            with pytest.raises(TimeoutError, match=r"within 0\.01 s; 1 exchange running"):
                live.wait(0.01)
            assert taker.is_alive()
        taker.join(60)
        assert [exchange.content for exchange in exchanges] == ["ab"]


def test_an_exception_passes_and_leaves_a_whole_tape(api: Api, path: Path) -> None:
    live = wiretape.record(path, upstream=api.url)
    with pytest.raises(ZeroDivisionError), live:
        1 / len(ask(live.url)[:0])
    assert [exchange.outcome for exchange in live.records()] == ["complete"]
    with pytest.raises(httpx.ConnectError):
        ask(live.url)


def test_two_recordings_on_a_tape_stay_apart(api: Api, path: Path) -> None:
    with wiretape.record(path, upstream=api.url) as outer, wiretape.record(path, upstream=f"lab={api.url}") as inner:
        ask(outer.url)
        ask(inner.url_of("lab"))
        ids = {outer.wait().id, inner.wait().id}
        assert list(outer) == list(inner) == []
    assert {exchange.id for exchange in wiretape.open_tape(path).records()} == ids


def test_several_upstreams_have_their_places_and_variables(api: Api, path: Path) -> None:
    upstreams = ["openai", f"anthropic={api.url}", f"lab={api.url}/v1"]
    with wiretape.record(path, upstream=upstreams) as live:
        assert live.url_of("openai") == live.variables["OPENAI_BASE_URL"] == f"{live.url}/openai/v1"
        assert live.url_of("anthropic") == live.variables["ANTHROPIC_BASE_URL"] == f"{live.url}/anthropic"
        assert live.url_of("lab") == f"{live.url}/lab"
        with pytest.raises(ValueError, match=r"'groq' is not among the upstreams \(openai, anthropic, lab\)"):
            live.url_of("groq")


def test_a_servers_variable_is_recorded_without_an_upstream(
    api: Api, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{api.url}/v1")
    with wiretape.record(path) as live:
        ask(live.url_of("openai"))
        assert live.wait().upstream == api.url


@on_loop
async def test_it_works_beside_a_running_event_loop(path: Path) -> None:
    async with ScriptedUpstream(lambda _: answer(STREAM)) as upstream:
        live = await asyncio.to_thread(wiretape.record, path, upstream=upstream.url)
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.post(live.url, json=BODY)
        assert (await asyncio.to_thread(live.wait)).outcome == "complete"
        await asyncio.to_thread(live.close)
        live.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"upstream": "nope"}, "an upstream must be a URL"),
        ({"upstream": "azure"}, "azure has a URL for each account or region: add yours, azure=https"),
        ({"upstream": ["http://a", "http://b"]}, "two upstreams for the root"),
        ({"labels": {"a b": "c"}}, "'a b=c' is not of the form key=value"),
    ],
)
def test_a_wrong_argument_is_a_value_error(path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wiretape.record(path, **arguments)
    assert not path.exists()


def test_an_unwritable_tape_is_an_error_before_the_block(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_text("text")
    with pytest.raises(wiretape.ForeignFile):
        wiretape.record(tmp_path / "other.db", upstream="openai")
    assert [thread.name for thread in threading.enumerate() if "wiretape.record" in thread.name] == []


def test_forgetting_to_close_leaves_a_whole_tape(api: Api, path: Path) -> None:
    code = f"""
import httpx, wiretape
tape = wiretape.record({str(path)!r}, upstream={api.url!r})
httpx.post(tape.url, json={BODY!r}, trust_env=False)
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONWARNINGS": "error"}, timeout=60)
    assert [exchange.outcome for exchange in wiretape.open_tape(path).records()] == ["complete"]


def test_records_are_read_without_pandas_and_numpy(demo: tuple[Path, str]) -> None:
    code = f"""
import sys, wiretape
tape = wiretape.open_tape({str(demo[0])!r})
exchanges = list(tape.records("model:demo-stall"))
print([exchange.max_gap_ms > 2000 for exchange in exchanges], "pandas" in sys.modules, "numpy" in sys.modules)
print(len(tape.exchanges()), "pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[True] False False\n19 True\n"
