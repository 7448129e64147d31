"""The Model Context Protocol's own client: a call with progress over streamable HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.relay import Relay, on_loop, select, until
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, answer

SERVER = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
          "serverInfo": {"name": "lamps", "version": "1"}}  # fmt: skip
LAMP = {"name": "lamp", "inputSchema": {"type": "object"}}
LIT = {"content": [{"type": "text", "text": "Lamp "}, {"type": "text", "text": "is lit."}], "isError": False}


def events(*messages: dict[str, Any]) -> Scene:
    pieces = (f"event: message\r\ndata: {json.dumps({'jsonrpc': '2.0', **one})}\r\n\r\n" for one in messages)
    return answer([(0.02, one.encode()) for one in pieces])


def server(asked: ReceivedRequest) -> Scene:
    """Answer as a server without sessions does."""
    if asked.method != "POST":
        return answer([(0.0, b"")], status=405, content_type="text/plain", framing="length")
    message = json.loads(asked.body)
    id, method = message.get("id"), message["method"]
    if id is None:
        return answer([(0.0, b"")], status=202, content_type="application/json", framing="length")
    if method == "tools/call":
        token = message["params"]["_meta"]["progressToken"]
        steps = [{"progressToken": token, "progress": no, "total": 2, "message": f"step {no}"} for no in (1, 2)]
        told = [{"method": "notifications/progress", "params": one} for one in steps]
        return events(*told, {"id": id, "result": LIT})
    return events({"id": id, "result": {"tools": [LAMP]} if method == "tools/list" else SERVER})


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    with pytest.MonkeyPatch.context() as patch, Relay(tmp_path_factory.mktemp("mcp"), choose=server) as relay:
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield relay


@on_loop
async def test_the_mcp_client_gets_the_tapes_result_and_progress(relay: Relay) -> None:
    from mcp.client.client import Client

    steps: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total, message))

    async with Client(f"{relay.base}/mcp", mode="legacy") as client:
        result: Any = await client.call_tool("lamp", {"on": True}, progress_callback=note)
    statement = "SELECT * FROM measures WHERE json_extract(attributes, '$.\"mcp.method.name\"') = 'tools/call'"
    (row,) = await until(lambda: select(relay.tape, statement))
    assert (row["api"], row["operation"], row["outcome"]) == ("mcp", "mcp", "complete")
    assert row["content"] == "".join(one.text for one in result.content) == "Lamp is lit."
    named = json.loads(row["attributes"])
    assert (named["mcp.progress"], named["mcp.progress.total"], named["mcp.progress.message"]) == steps[-1]
    assert (named["gen_ai.tool.name"], len(steps)) == ("lamp", 2)
    assert row["ttft_ns"] > 40_000_000  # the time to the result: progress is no output
