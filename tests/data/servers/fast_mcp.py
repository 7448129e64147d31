"""An MCP server of FastMCP with one tool; its argument is the port."""

import sys

from fastmcp import FastMCP

server = FastMCP("lamps")


@server.tool
def light(room: str) -> str:
    """Light a lamp."""
    return f"Lit in {room}."


server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), stateless_http=True)
