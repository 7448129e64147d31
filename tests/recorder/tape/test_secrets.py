"""Credentials in every place of an exchange but its bodies, and each byte that a recorder leaves behind."""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.relay import chunk, dial, finish, on_loop, post, raw, recording, select, until
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, ScriptedUpstream, answer

HEADERS = (
    ("authorization", "Bearer sk-{}"), ("x-api-key", "{}"), ("api-key", "{}"), ("x-goog-api-key", "{}"),
    ("x-acme-key", "{}"), ("x-acme-token", "{}"), ("x-acme-access", "{}"), ("x-acme-secret", "{}"),
    ("x-acme-session-token", "{}"), ("proxy-authorization", "Basic {}"), ("cookie", "a={}; b=1"),
    ("referer", "https://u:{}@host/a?api%5Fkey={}"), ("x-config", '{"api_key": "{}"}'), ("x-note", "hf_{}"),
    ("x-jwt-assertion", "{}"), ("x-original-url", "/sk-{}/v1?token={}"), ("x-callback", "a=1, token={}"),
    ("x-wiretape-label", "team=sk-{}, api_key={}, run=1"), ("x-sk-{}", "1"),
)  # fmt: skip
ANSWERED = (
    ("set-cookie", "session={}; Path=/"), ("location", "https://u:{}@host/a?code={}#access_token={}"),
    ("link", "<https://host/a?sig={}>; rel=next"), ("x-acme-token", "{}"), ("x-note", "Bearer {}"),
)  # fmt: skip
TARGETS = (
    "/sk-{}/v1/chat", "/%73k%2D{}/v1", "/gsk_{}", "/AIza{}", "/eyJhbGciOiJIUzI1NiJ9.{}.x", "/api_key={}/v1",
    "/token/{}0123456789", "/v1?key={}", "/v1?%6bey={}", "/v1?api%5Fkey={}", "/v1?q=%73k-{}", "/v1?a=1;token={}",
    "/v1?next=https%3A%2F%2Fu%3A{}%40host%2F", "/v1?q=a%26api_key%3D{}", "/v1?API_KEY={}&Signature={}",
)  # fmt: skip
REFUSED = (
    [("host", "u:{}@evil.test")], [("host", "localhost"), ("x-wiretape-label", "api_key {}: sk-{}")],
    [("host", "sk-{}.test")], [("host", "localhost"), ("origin", "https://u:{}@evil.test")],
)  # fmt: skip


class Canaries:
    """Fills secrets into texts, each unlike any other, and knows all that it made."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def fill(self, text: str) -> str:
        return re.sub(r"\{\}", lambda _: self._new(), text)

    def _new(self) -> str:
        self.made.append(f"c4naryOf{len(self.made):03}x7Qz")
        return self.made[-1]

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        return [(self.fill(name), self.fill(value)) for name, value in pairs]

    def left_in(self, directory: Path) -> list[tuple[str, str]]:
        """Return each secret that stands in a file, with the file's name."""
        files = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
        return [(path.name, secret) for path, data in files.items() for secret in self.made if secret.encode() in data]


def head(target: str, headers: Sequence[tuple[str, str]]) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "\r\n"]).encode()


async def ask(base: str, target: str, headers: Sequence[tuple[str, str]], release: asyncio.Event) -> None:
    async with dial(base) as (reader, writer):
        writer.write(post(target, headers=headers))
        await reader.readuntil(b'"stop"')
        await release.wait()


def child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


@pytest.mark.parametrize("ends", ["in order", "the relay is killed", "relay and writer are killed"])
@on_loop
async def test_no_file_holds_a_byte_of_a_credential(tmp_path: Path, ends: str) -> None:
    canaries, tape, release = Canaries(), tmp_path / "tape.db", asyncio.Event()
    headers, answered = canaries.pairs(HEADERS), canaries.pairs(ANSWERED)
    targets = [canaries.fill(target) for target in TARGETS]

    def choose(asked: ReceivedRequest) -> Scene:
        return answer([(0, chunk("a", finish="stop"))], headers=answered, end="end" if ends == "in order" else "stall")

    with (tmp_path / "stderr").open("wb") as stderr:
        more = {"stderr": stderr, "env": {"TMPDIR": str(tmp_path)}}
        async with ScriptedUpstream(choose) as upstream:
            url = upstream.url.replace("//", canaries.fill("//user:{}@")) + canaries.fill("/sk-{}")
            async with recording(tape, url, "--label", canaries.fill("a=sk-{}"), **more) as (process, base):
                for refused in REFUSED:
                    assert (await raw(base, head("/x", canaries.pairs(refused)))).startswith(b"HTTP/1.1 4")
                clients = [asyncio.create_task(ask(base, target, headers, release)) for target in targets]
                answers = "SELECT count(*) FROM reads"
                await until(lambda: tape.exists() and select(tape, answers)[0][0] == len(targets))
                assert canaries.left_in(tmp_path) == []
                writer = child_of(process.pid)
                if ends == "relay and writer are killed":
                    os.kill(writer, signal.SIGKILL)
                release.set()
                if ends == "in order":
                    await asyncio.gather(*clients)
                _, out, _ = await finish(process, signal.SIGTERM if ends == "in order" else signal.SIGKILL)
                (tmp_path / "stdout").write_text(out)
                await until(lambda: not is_alive(writer))
                await asyncio.gather(*clients, return_exceptions=True)
    assert all((b"x-api-key", dict(headers)["x-api-key"].encode()) in asked.headers for asked in upstream.requests)
    assert len(canaries.made) > 50
    assert canaries.left_in(tmp_path) == []
