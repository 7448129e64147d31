"""An agent that asks `wiretape mcp` in a process of its own, through the SDK's client."""

import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
from anyio.from_thread import start_blocking_portal
from mcp import Client
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, TextContent, Tool

from tests.support.forked import CLI, Forked


class Agent:
    """A client of one running server."""

    def __init__(self, client: Client, run: Callable[..., Any]) -> None:
        self._client, self._run = client, run

    def tools(self) -> list[Tool]:
        return list(self._run(self._client.list_tools).tools)

    def ask(self, tool: str, **arguments: Any) -> str:
        """Return the text of an answer."""
        text, is_error = self.try_(tool, **arguments)
        assert not is_error, text
        return text

    def page(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return an answer."""
        answer: dict[str, Any] = json.loads(self.ask(tool, **arguments))
        return answer

    def refusal(self, tool: str, **arguments: Any) -> str:
        """Return the text of an error."""
        text, is_error = self.try_(tool, **arguments)
        assert is_error, text
        return text

    def try_(self, tool: str, **arguments: Any) -> tuple[str, bool]:
        """Return the text of an answer or of an error, and whether it is one."""
        result: CallToolResult = self._run(self._client.call_tool, tool, arguments)
        (content,) = result.content
        assert isinstance(content, TextContent)
        assert result.structured_content is None
        return content.text, bool(result.is_error)


@contextlib.asynccontextmanager
async def streams(process: Any) -> AsyncIterator[Any]:
    """Hold a server's standard streams as a client's transport: the library's own would start an interpreter."""
    async with stdio_server(anyio.wrap_file(process.stdout), anyio.wrap_file(process.stdin)) as both:
        yield both
        process.stdin.close()  # with which the server ends, and then its output


@contextlib.contextmanager
def agent(tape: Path, *options: str) -> Iterator[Agent]:
    """Start a server for a tape."""
    command = [*CLI, "mcp", "--db", str(tape), *options]
    with (
        Forked(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(streams(process))) as client,
    ):
        yield Agent(client, portal.call)
