"""Live pages over HTTP: access, and events while the tape grows."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.growing_tape import recorder
from tests.support.patched import patched
from tests.support.relay import address, fetch, on_loop, post
from tests.support.sample_tape import COMPLETE_READS
from wiretape.recorder.decode.stalls import Thresholds
from wiretape.recorder.relay import server
from wiretape.viewer.query import parser
from wiretape.viewer.wings.page.site import Site
from wiretape.viewer.wings.page.values import Settings

ID, OTHER = "a" * 16, "b" * 16


@dataclass
class Serving:
    """A server of live pages."""

    base: str
    path: str
    troubles: list[str] = field(default_factory=list)

    async def status(self, target: str, *headers: tuple[str, str], method: str = "GET") -> tuple[int, bytes]:
        answer = await fetch(self.base, post(target, b"", headers, method), method)
        return answer.status, answer.body


@contextlib.asynccontextmanager
async def serving(tape: Path, filter_text: str = "") -> AsyncIterator[Serving]:
    troubles = list[str]()
    site = Site(
        Settings(tape, parser.parse(filter_text) if filter_text else None, Thresholds(), bodies=True), troubles.append
    )
    sock = server.bound("127.0.0.1", 0)
    front = server.Server(site, sock)
    try:
        yield Serving(server.base_url(sock), site.path(), troubles)
    finally:
        site.close()
        front.close()
        await front.wait_closed(0)
    assert troubles == []


class Watching:
    """An event stream as a page reads it: the value shown by now, and the last event."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.shown: dict[str, Any] = {}
        self.kinds = list[str]()
        self.number = 0

    async def next(self) -> str:
        """Apply the next event; return its kind."""
        event = dict[str, str]()
        while True:
            line = (await self._reader.readline()).decode().rstrip("\n")
            assert line or event or not self._reader.at_eof(), "the stream has ended"
            name, _, value = line.partition(": ")
            if name in ("event", "id", "data"):
                event[name] = value
            elif not line and event:
                break
        kind, data = event["event"], json.loads(event["data"])
        self.number = int(event["id"])
        self.kinds.append(kind)
        if kind != "end":
            self.shown = data if kind == "whole" else patched(self.shown, data)
        return kind

    async def until(self, fact: Any) -> dict[str, Any]:
        """Apply events until the shown value fits."""
        async with asyncio.timeout(60):
            while not (self.shown and fact(self.shown)):
                await self.next()
        return self.shown


@contextlib.asynccontextmanager
async def watching(one: Serving, id: str | None = None, *headers: tuple[str, str]) -> AsyncIterator[Watching]:
    path = f"{one.path}{'' if id is None else f'{id}/'}events"
    reader, writer = await asyncio.open_connection(*address(one.base), limit=64 << 20)
    try:
        writer.write(post(path, b"", [("accept", "text/event-stream"), *headers], "GET"))
        assert b"200" in await reader.readline()
        yield Watching(reader)
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def text_of(state: dict[str, Any]) -> str:
    texts = state["value"]["texts"]
    return "".join(texts[0]["pieces"]) if texts else ""


@on_loop
async def test_only_who_knows_the_path_is_told_anything(tape: Path) -> None:
    async with serving(tape) as one:
        assert (await one.status(one.path))[0] == 200
        for target in (
            "/",
            "/events",
            "/favicon.ico",
            one.path[:-1],
            f"/{'x' * 22}/",
            f"{one.path}x/y/",
            "//",
            "/%2e/",
        ):
            status, body = await one.status(target)
            assert (status, body) == (404, b"") or status == 400, target


def link(mode: str, dest: str) -> list[tuple[str, str]]:
    """Return the headers by which browsers describe a request that a page of another site has caused."""
    return [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)]


@on_loop
async def test_other_hosts_origins_sites_and_methods_are_refused(tape: Path) -> None:
    async with serving(tape) as one:
        for status, method, *headers in (
            (400, "GET", ("host", "evil.example")),
            (403, "GET", ("origin", "https://evil.example")),
            (403, "GET", ("sec-fetch-site", "cross-site")),
            (403, "GET", *link("no-cors", "document")),
            (403, "GET", *link("navigate", "iframe")),
            (403, "GET", *link("navigate", "document"), ("origin", "https://evil.example")),
            (405, "POST", *link("navigate", "document")),
            (200, "GET", *link("navigate", "document")),
            (405, "POST",),
            (405, "DELETE",),
            (200, "HEAD",),
            (200, "GET", ("origin", one.base)),
        ):  # fmt: skip
            assert (await one.status(one.path, *headers, method=method))[0] == status, (method, headers)
        foreign_answer = await fetch(one.base, f"GET {one.path} HTTP/1.1\r\nhost: evil.example\r\n\r\n".encode())
        assert foreign_answer.status == 421


@on_loop
async def test_a_number_that_no_event_had_is_none(tape: Path) -> None:
    async with serving(tape) as one, watching(one, None, ("last-event-id", "1" * 5000)) as seen:
        assert await seen.next() == "whole"


@on_loop
async def test_every_answer_keeps_out_frames_caches_and_referrers(tape: Path) -> None:
    async with serving(tape) as one:
        for target in (one.path, "/"):
            answer = await fetch(one.base, post(target, b"", method="GET"), "GET")
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["x-frame-options"] == "DENY"
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
            assert "set-cookie" not in answer.headers


@on_loop
async def test_an_open_exchange_grows_and_gets_its_verdict(tmp_path: Path) -> None:
    tape = tmp_path / "t.db"
    with recorder(tape) as tape_recorder:
        tape_recorder.begin(ID, COMPLETE_READS[:2])
        async with serving(tape) as one, watching(one, ID) as page:
            state = await page.until(lambda shown: shown["value"])
            opening = text_of(state)
            assert state["value"]["state"]["text"] != "complete"
            tape_recorder.go_on(ID, COMPLETE_READS, 2, len(COMPLETE_READS))
            state = await page.until(lambda shown: len(text_of(shown)) > len(opening))
            assert text_of(state).startswith(opening)
            tape_recorder.end(ID, COMPLETE_READS)
            state = await page.until(lambda shown: shown["value"]["state"]["text"] == "complete")
            assert page.kinds[0] == "whole"
            assert set(page.kinds[1:]) == {"patch"}
            async with watching(one, ID, ("last-event-id", str(page.number))) as reconnected:
                tape_recorder.store.append([])
                assert reconnected.kinds == []


@on_loop
async def test_the_list_grows_as_far_as_its_filter(tmp_path: Path) -> None:
    tape = tmp_path / "t.db"
    with recorder(tape) as tape_recorder:
        tape_recorder.record(ID)
        async with serving(tape, "path:/v1") as one, watching(one) as page:
            state = await page.until(lambda shown: shown["value"])
            assert state["value"]["rows"]["id"] == [ID]
            tape_recorder.record("c" * 16, path="/v2")
            tape_recorder.record(OTHER)
            state = await page.until(lambda shown: len(shown["value"]["rows"]["id"]) == 2)
            assert state["value"]["rows"]["id"] == [ID, OTHER]
            assert state["value"]["groups"][""][0]["n"] == 2


@on_loop
async def test_a_late_missing_or_replaced_tape_is_reported(tmp_path: Path) -> None:
    tape = tmp_path / "t.db"
    async with serving(tape) as one, watching(one) as page:
        state = await page.until(lambda shown: shown["trouble"])
        assert state["value"] is None
        with recorder(tape) as tape_recorder:
            tape_recorder.record(ID)
        await page.until(lambda shown: shown["value"] and shown["value"]["rows"]["id"] == [ID] and not shown["trouble"])
        tape.rename(tmp_path / "gone.db")
        state = await page.until(lambda shown: "no tape" in shown["trouble"])
        assert state["value"]["rows"]["id"] == [ID]
        with recorder(tape) as tape_recorder:
            tape_recorder.record(OTHER)
        state = await page.until(lambda shown: shown["value"]["rows"]["id"] == [OTHER])
        assert state["value"]["live"]["replaced"]


@on_loop
async def test_a_slow_page_delays_nobody_and_gets_all_later(tmp_path: Path) -> None:
    tape = tmp_path / "t.db"
    parts = [(at, data.replace(b'"content": "', b'"content": "' + b"x" * 1_000_000)) for at, data in COMPLETE_READS]
    with recorder(tape) as tape_recorder:
        tape_recorder.begin(ID, parts[:1])
        async with serving(tape) as one, watching(one, ID) as slow, watching(one, ID) as quick:
            await quick.until(lambda shown: shown["value"])
            tape_recorder.go_on(ID, parts, 1, len(parts))
            tape_recorder.end(ID, parts)
            state = await quick.until(lambda shown: shown["value"]["state"]["text"] == "complete")
            behind = await slow.until(lambda shown: shown["value"]["state"]["text"] == "complete")
            assert behind["value"]["texts"] == state["value"]["texts"]


@on_loop
async def test_the_end_is_reported_and_comes_at_once(tmp_path: Path) -> None:
    tape = tmp_path / "t.db"
    async with contextlib.AsyncExitStack() as stack:
        pages = []
        async with serving(tape) as one:
            pages = [await stack.enter_async_context(watching(one)) for _ in range(12)]
            for page in pages:
                await page.until(lambda state: state["trouble"])
        for page in pages:
            while await page.next() != "end":
                pass
