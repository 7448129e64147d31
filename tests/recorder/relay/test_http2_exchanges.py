"""Random HTTP/2 exchanges, as both sides see them."""

import asyncio
import contextlib
import hashlib
import json
import random
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvloop
from h2.errors import ErrorCodes
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.http2 import Headers, Limits, Stream, connect
from tests.support.http2_scripts import Leave, Part, Script, Scripts, Seen, Side, View, request
from tests.support.relay import Kept, Relay, kept, select, serving, until
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene
from wiretape.recorder.demo.upstream import answer as http1_answer

CODES = st.integers(0, 13) | st.sampled_from((0x42, 0xFFFF_FFFF))
WINDOWS = st.sampled_from((1, 2, 7, 100, 1024, 16_384, 65_535, 1 << 20))
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40)
FIELDS = st.lists(st.tuples(st.from_regex(r"x-[a-z][a-z0-9-]{0,8}", fullmatch=True), VALUES), max_size=4)
MOST = 100_000
FRAMES_PER_BODY = 300
"""Limit of the frames that a small window makes of a body."""
IS_NIGHTLY = settings.default.max_examples >= 1000


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    connection = draw(st.sampled_from((65_535, 65_536, 1 << 20)))
    return Limits(window=draw(WINDOWS), connection=connection, frame=draw(st.sampled_from((16_384, 20_000, 1 << 20))))


@st.composite
def sides(draw: st.DrawFn, most: int, headers: Sequence[tuple[str, str]] = ()) -> Side:
    """Draw the script of one side, with at most `most` bytes."""
    random_bytes = random.Random(draw(st.integers(0, 1 << 32)))
    parts, remaining = list[Part](), most
    for _ in range(draw(st.integers(0, 5))):
        size = min(draw(st.integers(0, most) | st.integers(0, 20)), remaining)
        remaining -= size
        parts.append(Part(random_bytes.randbytes(size), draw(st.none() | st.integers(0, 255))))
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


@dataclass(frozen=True)
class Http1Answer:
    """A response of HTTP/1.1; one that is not `is_whole` ends early."""

    scene: Scene = field(repr=False)
    body: bytes = field(repr=False)
    framing: str
    is_whole: bool


@st.composite
def http1_answers(draw: st.DrawFn, most: int) -> Http1Answer:
    random_bytes = random.Random(draw(st.integers(0, 1 << 32)))
    sizes = draw(st.lists(st.integers(1, most // 5) | st.integers(1, 20), max_size=5))
    pieces = [(0.0, random_bytes.randbytes(size)) for size in sizes]
    body = b"".join(data for _, data in pieces)
    framing = draw(st.sampled_from(("chunked", "length", "close")))
    end = "end" if framing != "chunked" else draw(st.sampled_from(("end", "end", "fin")))
    scene = http1_answer(
        pieces, framing=framing, end=end, headers=draw(FIELDS), content_type="application/octet-stream"
    )
    return Http1Answer(scene, body, framing, end == "end")


@st.composite
def mixed_plays(draw: st.DrawFn) -> tuple[Limits, list[tuple[Side, Http1Answer]]]:
    """Draw the limits of a client, and its requests with the responses of an upstream of HTTP/1.1."""
    client = draw(limits())
    most = min(MOST, client.window * FRAMES_PER_BODY)
    plain = sides(MOST).filter(lambda side: side.is_plain)
    return client, draw(st.lists(st.tuples(plain, http1_answers(most)), min_size=1, max_size=8))


class Rig:
    """A scripted upstream, and a recorder in front of it."""

    def __init__(self, authority: Path | None = None) -> None:
        self.runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.known = Scripts(serving(authority, "good") if authority else None)
        self.ca = authority / "ca.pem" if authority else None
        self.relay: Relay
        self.exchanges = 0

    async def start(self, directory: Path) -> None:
        await self.known.upstream.__aenter__()
        self.relay = Relay(directory, others=[f"h={self.known.upstream.url}"], ca_file=self.ca)
        await self.relay.start()

    async def stop(self) -> None:
        await self.relay.stop()
        await self.known.upstream.__aexit__()

    async def play(
        self, client: Limits, upstream: Limits, scripts: list[Script]
    ) -> list[tuple[View, View, Kept | None]]:
        """Play scripts directly, and through the recorder."""
        self.exchanges += len(scripts)
        tls = ssl.create_default_context(cafile=self.ca) if self.ca else None
        direct = await self.known.play(self.known.upstream.url, scripts, client, upstream, tls=tls)
        relayed = await self.known.play(self.relay.base, scripts, client, upstream, prefix="/h")
        expected = {view.path for view in relayed if view.upstream}
        await until(lambda: expected <= self._measured())
        tape = [kept(self.relay.tape, view.path) if view.upstream else None for view in relayed]
        return list(zip(direct, relayed, tape, strict=True))

    async def play_leaving(self, scripts: list[Script], leave: Leave) -> tuple[list[View], list[View]]:
        """Play scripts directly, and through the recorder, to an upstream that leaves."""
        limits = Limits()
        direct = await self.known.play(self.known.upstream.url, scripts, limits, limits, leave=leave)
        return direct, await self.known.play(self.relay.base, scripts, limits, limits, prefix="/h", leave=leave)

    async def play_http1(
        self, limits: Limits, scripts: list[tuple[Side, Scene]]
    ) -> list[tuple[Stream, ReceivedRequest | None, Kept]]:
        """Play requests to an upstream of HTTP/1.1, through the recorder."""
        targets = [self.relay.plays(scene) for _, scene in scripts]
        async with connect(self.relay.base, limits) as peer:
            request_stream = (
                request(peer, target, Script(request=side, response=Side()))
                for target, (side, _) in zip(targets, scripts, strict=True)
            )
            streams = await asyncio.gather(*request_stream)
            tape = [await self.relay.kept(target) for target in targets]
        return list(zip(streams, map(self.relay.request, targets), tape, strict=True))

    def _measured(self) -> set[str]:
        """Return the paths of the newest exchanges that are finished on the tape."""
        newest = "SELECT e.path FROM exchanges e JOIN measures m ON m.exchange_no = e.no ORDER BY e.no DESC LIMIT 20"
        return {row["path"] for row in select(self.relay.tape, newest)}


@contextlib.contextmanager
def rig_in(rig: Rig, directory: Path) -> Iterator[Rig]:
    with rig.runner:
        rig.runner.run(rig.start(directory))
        yield rig
        rig.runner.run(rig.stop())
        assert rig.relay.troubles == []


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig_in(Rig(), tmp_path_factory.mktemp("relay")) as rig:
        yield rig
        assert rig.exchanges >= 10_000 or not IS_NIGHTLY


@pytest.fixture(scope="module")
def tls_rig(authority: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig_in(Rig(authority), tmp_path_factory.mktemp("relay")) as rig:
        yield rig


@settings(max_examples=3500 if IS_NIGHTLY else 25)
@given(plays())
def test_a_stream_through_a_recorder_is_the_one_without(rig: Rig, play: tuple[Limits, Limits, list[Script]]) -> None:
    compare(rig, *play)


@settings(max_examples=settings.default.max_examples // 5)
@given(plays())
def test_so_is_one_whose_upstream_speaks_tls(tls_rig: Rig, play: tuple[Limits, Limits, list[Script]]) -> None:
    compare(tls_rig, *play)


@settings(max_examples=settings.default.max_examples // 2)
@given(st.data())
def test_streams_that_a_goaway_lets_end_are_whole(rig: Rig, data: st.DataObject) -> None:
    staying = scripts(Limits(), Limits()).filter(lambda script: script.cancel is None and script.request.reset is None)
    told = data.draw(st.lists(staying, min_size=1, max_size=8))
    leave = Leave(data.draw(st.integers(1, len(told))), data.draw(CODES), data.draw(st.booleans()))
    direct, relayed = rig.runner.run(rig.play_leaving(told, leave))
    for number, script in enumerate(told):
        if leave.is_graceful or number < leave.requests:
            check(script, direct[number])
            check(script, relayed[number])
        elif relayed[number].client.is_ended:  # on a connection of its own
            check(script, relayed[number])
        else:
            assert relayed[number].client.body == b""


def compare(rig: Rig, client: Limits, upstream: Limits, scripts: list[Script]) -> None:
    """Play scripts directly and through a recorder, and check the views of both, and the tape."""
    seen = rig.runner.run(rig.play(client, upstream, scripts))
    for script, (direct, relayed, tape) in zip(scripts, seen, strict=True):
        check(script, direct)
        check(script, relayed)
        if tape is not None:
            check_tape(script, relayed, tape)


def check(script: Script, view: View) -> None:
    """Check the parts of both views that are the same in every order of crossing frames."""
    cancelled = view.client.own_reset is not None
    check_side(script.response, view.client, is_whole=not cancelled)
    if view.upstream is None:
        assert cancelled
        return
    is_whole = script.response.reset is None and not cancelled
    check_side(script.request, view.upstream, is_whole=is_whole)
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
        assert seen.is_ended == (sent.reset is None)
        assert seen.is_ended or seen.reset == sent.reset


def fields(headers: Headers) -> list[tuple[str, str]]:
    """Return headers without those of the protocol."""
    return [(name, value) for name, value in headers if not name.startswith(":")]


def check_tape(script: Script, view: View, tape: Kept) -> None:
    """Check that the tape has the bytes of the upstream, at least those that the client got."""
    assert script.response.body.startswith(tape.body)
    assert tape.body.startswith(view.client.body)
    if view.client.own_reset is None:
        assert tape.body == script.response.body
        assert tape.row["response_trailers"] == encoded(script.response.trailers)
        assert tape.row["reset_code"] == code_name(script.response.reset)
        if script.response.reset is None:
            assert tape.row["request_sha256"] == hashlib.sha256(script.request.body).hexdigest()


def code_name(code: int | None) -> str | None:
    """Return the code of a reset as a tape has it."""
    names = {code.value: code.name.lower() for code in ErrorCodes}
    return None if code is None else f"rst_{names.get(code, hex(code))}"


def encoded(trailers: Headers | None) -> str | None:
    """Return trailers as a tape has them."""
    return None if trailers is None else json.dumps(list(map(list, trailers)), separators=(",", ":"))


@settings(max_examples=settings.default.max_examples // 2)
@given(mixed_plays())
def test_a_stream_to_an_http1_upstream_keeps_its_bytes(
    rig: Rig, play: tuple[Limits, list[tuple[Side, Http1Answer]]]
) -> None:
    client, scripts = play
    seen = rig.runner.run(rig.play_http1(client, [(side, answer.scene) for side, answer in scripts]))
    for (side, answer), (stream, received, tape) in zip(scripts, seen, strict=True):
        assert received is not None
        assert (received.body, bytes(stream.body), tape.body) == (side.body, answer.body, answer.body)
        assert (stream.is_ended, stream.reset_code is None) == (answer.is_whole, answer.is_whole)
        assert tape.row["protocol"] == "http/1.1"
