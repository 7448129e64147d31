"""Tracebacks of wiretape's own faults."""

import asyncio
import sys
import threading

import pytest

from wiretape.recorder.tape import faults

KEY = "sk-ant-api03-q9Zk3LmN8vXw2RtY7uKpQs1fG4hJ6dB0c"


def fail() -> None:
    raise ValueError(f"the API said: {KEY}")


def test_a_thread_ends_with_a_traceback_without_keys(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for hooks in (sys, threading):
        monkeypatch.setattr(hooks, "excepthook", None)
    faults.report_all()
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    lines = capsys.readouterr().err.splitlines()
    assert (lines[0], lines[-1]) == ("Traceback (most recent call last):", "ValueError: the API said: REDACTED")


def test_what_an_event_loop_meets_is_reported_without_keys(capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(faults.report_of_loop)
        loop.call_soon(fail)
        await asyncio.sleep(0)

    asyncio.run(main())
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("wiretape: Exception in callback fail()")
    assert lines[-1] == "ValueError: the API said: REDACTED"
