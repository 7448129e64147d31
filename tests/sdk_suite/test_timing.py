"""The program when a stream stalls: what it does is read off the timeline.

    wiretape demo --db demo.db
    wiretape db cut --db demo.db -f model:demo-stall -o tests/sdk_suite/tapes/stall.jsonl

The tape was recorded for no test in particular, so that each of them is served it. Its stall takes 2.4 s, at half its
speed 4.8 s: the bounds are such that a machine that is late by some seconds does not reach them.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.sdk_suite import app
from tests.sdk_suite.conftest import is_broken

if TYPE_CHECKING:
    from wiretape import WiretapeServer

pytestmark = pytest.mark.wiretape("tapes/stall.jsonl", speed=0.5)

ASKED = ("Play the scene stall.", "demo-stall")
STALLED = "The model begins to speak,"
REST = " and goes on as if nothing had happened."
WRITES = 6  # before the stall


def test_a_stream_that_stalls_is_given_up(wiretape_server: "WiretapeServer") -> None:
    reply = app.ask(lambda: app.chat(*ASKED, timeout=1), attempts=1)
    (one,) = wiretape_server.timeline()
    assert not reply.is_whole
    if not one.faults:
        assert reply.text == STALLED
        assert one.ended == "client"
        assert len(one.writes) == WRITES
        assert 990 < one.closed_ms - one.writes[-1].at_ms < 4800


def test_a_user_who_cancels_closes_the_stream(wiretape_server: "WiretapeServer") -> None:
    pieces = app.chat(*ASKED)
    with contextlib.suppress(Exception):  # whatever breaks in an SDK
        assert next(pieces) == "The"
    pieces.close()
    (one,) = wiretape_server.timeline()
    if not one.faults:
        assert one.ended == "client"
        assert one.closed_ms < 5560  # in the stall, at the latest
        assert len(one.writes) <= WRITES


@pytest.mark.wiretape(speed=4)
def test_a_silent_model_still_shows_a_sign_of_life(wiretape_server: "WiretapeServer") -> None:
    async def watch() -> str:
        return "".join([text async for text in app.shown(*ASKED, patience=0.1)])

    try:
        shown = asyncio.run(watch())
    except Exception:  # noqa: BLE001 - whatever breaks in an SDK
        assert is_broken(wiretape_server.timeline())
    else:
        assert ",…" in shown
        assert shown.replace("…", "") == STALLED + REST
        assert wiretape_server.timeline()[0].ended == "end"
