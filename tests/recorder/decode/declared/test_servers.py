"""The real servers of declared wires, installed from their registries into an environment of their own and recorded.

A server that cannot be installed or started fails its test: its wire would go unwatched.
"""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.relay import fetch, finish, on_loop, post, recording, select, until

pytestmark = pytest.mark.nightly

SERVERS = Path(__file__).parents[3] / "data" / "servers"
INSTALL_SECONDS = 900
START_SECONDS = 120
HEADERS = (
    ("content-type", "application/json"),
    ("accept", "application/json, text/event-stream"),
    ("a2a-version", "1.0"),
)
HUMAN = {"messages": [{"role": "user", "content": "Which birds?"}]}
RUN = {"threadId": "t1", "runId": "r1", "messages": [], "tools": [], "context": [], "state": {}, "forwardedProps": {}}


def parsed(text: str) -> dict[str, Any]:
    """Return a message to an agent."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}


@dataclass(frozen=True)
class Server:
    """A server by its file and its packages; `asked` are the requests, each with the outcome and the text wanted."""

    file: str
    packages: tuple[str, ...]
    api: str
    asked: tuple[tuple[str, dict[str, Any], tuple[str, str | None], str | None], ...]

    @property
    def is_node(self) -> bool:
        return self.file.endswith(".mjs")

    def install(self, directory: Path) -> None:
        """Install the packages, and put the server's file beside them."""
        shutil.copy(SERVERS / self.file, directory)
        if self.is_node:
            command = ["npm", "install", "--silent", "--no-audit", "--no-fund", *self.packages]
            subprocess.run(command, cwd=directory, check=True, timeout=INSTALL_SECONDS)
            return
        subprocess.run([sys.executable, "-m", "venv", directory / "venv"], check=True, timeout=INSTALL_SECONDS)
        pip = [directory / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", *self.packages]
        subprocess.run(pip, check=True, timeout=INSTALL_SECONDS)

    def command(self, directory: Path, port: int) -> Sequence[str | Path]:
        if self.is_node:
            return ["node", self.file, str(port)]
        if self.api != "langgraph":
            return [directory / "venv" / "bin" / "python", self.file, str(port)]
        graphs = {"dependencies": ["."], "graphs": {"agent": f"./{self.file}:graph"}}
        (directory / "langgraph.json").write_text(json.dumps(graphs))
        options = ("--no-browser", "--no-reload", "--host", "127.0.0.1", "--port", str(port))
        return [directory / "venv" / "bin" / "langgraph", "dev", *options]


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "light", "arguments": {"room": "A"}}}
COMPLETE = ("complete", None)
AI_SDK = Server(
    "ai_sdk.mjs", ("ai", "zod"), "ai-sdk-ui",
    (
        ("/api/chat", HUMAN, COMPLETE, "Two swans."),
        ("/api/chat", {"messages": ["stop"]}, ("truncated", "aborted"), "Two "),
    ),
)  # fmt: skip
FAST_MCP = Server(
    "fast_mcp.py", ("fastmcp",), "mcp",
    (
        (
            "/mcp",
            CALL,
            COMPLETE,
            "Lit in A.",
        ),
    ),
)  # fmt: skip
AG_UI = Server(
    "pydantic_agent.py", ("pydantic-ai-slim[ag-ui]", "uvicorn"), "ag-ui",
    (("/", RUN | {"messages": [{"id": "1", "role": "user", "content": "Which birds?"}]}, COMPLETE, "Two swans."),),
)  # fmt: skip
A2A = Server(
    "agent_to_agent.py",
    ("a2a-sdk[http-server]", "uvicorn"),
    "a2a",
    (("/", parsed("artifact"), COMPLETE, "Two swans."), ("/", parsed("Which birds?"), COMPLETE, "Counting.")),
)
LANGGRAPH = Server(
    "lang_graph.py", ("langgraph-cli[inmem]", "langchain-core"), "langgraph",
    (
        ("/runs/stream", {"assistant_id": "agent", "input": HUMAN, "stream_mode": "values"}, COMPLETE, None),
        ("/runs/stream", {"assistant_id": "agent", "input": HUMAN, "stream_mode": "messages"}, COMPLETE, "Two swans."),
    ),
)  # fmt: skip


@asynccontextmanager
async def serving(server: Server, directory: Path) -> AsyncIterator[str]:
    """Start a server; give its URL once it takes connections."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (directory / "log").open("wb") as log:
        streams: dict[str, Any] = {"stdout": log, "stderr": log}
        command = server.command(directory, port)
        process = await asyncio.create_subprocess_exec(*command, cwd=directory, start_new_session=True, **streams)

    def is_up() -> bool:
        assert process.returncode is None, (directory / "log").read_text("utf-8", "replace")[-2000:]
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    try:
        await until(is_up, START_SECONDS)
        yield f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@pytest.mark.parametrize("server", [AI_SDK, FAST_MCP, AG_UI, A2A, LANGGRAPH], ids=lambda server: server.api)
@on_loop
async def test_a_real_servers_streams_end_as_it_ends_them(server: Server, tmp_path: Path) -> None:
    directory, tape = tmp_path / "server", tmp_path / "tape.db"
    directory.mkdir()
    await asyncio.to_thread(server.install, directory)
    async with serving(server, directory) as url, recording(tape, url) as (process, base):
        for path, body, _, _ in server.asked:
            answer = await fetch(base, post(path, json.dumps(body).encode(), HEADERS), seconds=60)
            assert (answer.status, answer.complete) == (200, True), answer.body
        await finish(process, signal.SIGINT)
    joined = "exchanges JOIN measures ON exchange_no = no ORDER BY no"
    rows = select(tape, f"SELECT api, outcome, outcome_detail, content FROM {joined}")
    expected = [(server.api, *outcome, text) for _, _, outcome, text in server.asked]
    assert [(row["api"], row["outcome"], row["outcome_detail"], row["content"]) for row in rows] == expected
