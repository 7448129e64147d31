"""Random HTTP/2 exchanges, as both sides see them."""

import asyncio
import random
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.http2 import Headers, Limits
from tests.support.http2_scripts import Script, Scripts, Seen, Side, View

CODES = st.integers(0, 13) | st.sampled_from((0x42, 0xFFFF_FFFF))
WINDOWS = st.sampled_from((1, 2, 7, 100, 1024, 16_384, 65_535, 1 << 20))
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40)
FIELDS = st.lists(st.tuples(st.from_regex(r"x-[a-z][a-z0-9-]{0,8}", fullmatch=True), VALUES), max_size=4)
MOST = 100_000
FRAMES_PER_BODY = 300
"""Limit of the frames that a small window makes of a body."""


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    connection = draw(st.sampled_from((65_535, 65_536, 1 << 20)))
    return Limits(window=draw(WINDOWS), connection=connection, frame=draw(st.sampled_from((16_384, 20_000, 1 << 20))))


@st.composite
def sides(draw: st.DrawFn, most: int, headers: Sequence[tuple[str, str]] = ()) -> Side:
    """Draw the script of one side, with at most `most` bytes."""
    random_bytes = random.Random(draw(st.integers(0, 1 << 32)))
    parts, left = list[tuple[bytes, int | None]](), most
    for _ in range(draw(st.integers(0, 5))):
        size = min(draw(st.integers(0, most) | st.integers(0, 20)), left)
        left -= size
        parts.append((random_bytes.randbytes(size), draw(st.none() | st.integers(0, 255))))
    end = draw(st.sampled_from(("plain", "plain", "plain", "trailers", "trailers", "reset")))
    return Side(
        headers=[*headers, *draw(FIELDS)],
        parts=parts,
        trailers=draw(FIELDS.filter(bool)) if end == "trailers" else None,
        reset=draw(CODES) if end == "reset" else None,
    )


@st.composite
def scripts(draw: st.DrawFn, client: Limits, upstream: Limits) -> Script:
    request = draw(sides(min(MOST, upstream.window * FRAMES_PER_BODY)))
    most = min(MOST, client.window * FRAMES_PER_BODY)
    status = (":status", draw(st.sampled_from(("200", "201", "404", "503"))))
    return Script(
        request=request,
        response=draw(sides(most, [status])),
        awaited=draw(st.none() | st.integers(0, len(request.body))),
        cancel=draw(st.none() | st.none() | st.none() | st.tuples(st.integers(0, most), CODES)),
    )


@st.composite
def plays(draw: st.DrawFn) -> tuple[Limits, Limits, list[Script]]:
    """Draw the limits of a client and of an upstream, and the scripts of a connection's streams."""
    client, upstream = draw(limits()), draw(limits())
    return client, upstream, draw(st.lists(scripts(client, upstream), min_size=1, max_size=8))


@pytest.fixture(scope="module")
def peers() -> Iterator[tuple[asyncio.Runner, Scripts]]:
    with asyncio.Runner() as runner:
        known = Scripts()
        runner.run(known.upstream.__aenter__())
        yield runner, known
        runner.run(known.upstream.__aexit__())


@given(plays())
def test_client_and_upstream_see_what_the_other_sent(
    peers: tuple[asyncio.Runner, Scripts], play: tuple[Limits, Limits, list[Script]]
) -> None:
    runner, known = peers
    client, upstream, told = play
    views = runner.run(known.play(known.upstream.url, told, client, upstream))
    for script, view in zip(told, views, strict=True):
        check(script, view)


def check(script: Script, view: View) -> None:
    """Check the parts of both views that are the same in every order of crossing frames."""
    cancelled = view.client.own_reset is not None
    check_side(script.response, view.client, is_whole=not cancelled)
    if view.upstream is None:
        assert cancelled
        return
    check_side(script.request, view.upstream, is_whole=script.response.reset is None and not cancelled)
    assert fields(view.upstream.headers)[: len(script.request.headers)] == script.request.headers
    if view.upstream.reset is not None:
        assert view.upstream.reset == view.client.own_reset
    elif cancelled:
        assert view.upstream.has_sent_end or view.upstream.own_reset is not None


def check_side(sent: Side, seen: Seen, *, is_whole: bool) -> None:
    """Check that one side saw a prefix of the other's script, or all of it."""
    assert sent.body.startswith(seen.body)
    if is_whole or seen.is_ended:
        assert (seen.body, seen.trailers) == (sent.body, sent.trailers)
    if is_whole:
        assert (seen.is_ended, seen.reset) == (sent.reset is None, sent.reset)


def fields(headers: Headers) -> list[tuple[str, str]]:
    """Return headers without those of the protocol."""
    return [(name, value) for name, value in headers if not name.startswith(":")]
