"""The exchanges of a program that probes a server and lists its models before its first generation."""

import json
from collections.abc import Iterator

import msgspec

from tests.support.sample_tape import COMPLETE_READS, begin, end, response
from wiretape.recorder.tape import journal

ASKED = b'{"model": "gpt-x-mini", "stream": true}'
NOT_FOUND = [(30, b'{"error": {"message": "no such model", "code": "not_found"}}')]


def frames(*, failed: bool = False) -> Iterator[journal.Frame]:
    """A `HEAD /`, a 404 for the list of models, then two generations: the first complete, the second perhaps failed."""
    looked = msgspec.structs.replace(begin("aaaa000000000001", 1, b"", "/"), method="HEAD")
    model_list = msgspec.structs.replace(begin("aaaa000000000002", 2, b"", "/v1/models"), method="GET")
    yield from (
        looked,
        journal.Head(id=looked.id, status=405, headers=[], framing="none", connected_ns=2, sent_ns=3, headers_ns=4),
        end(looked.id, [(1, b"")]),
    )
    yield from (model_list, *response(model_list.id, NOT_FOUND, 404), end(model_list.id, NOT_FOUND))
    first, second = (begin(f"aaaa00000000000{no}", no, ASKED) for no in (3, 4))
    yield from (first, *response(first.id, COMPLETE_READS), end(first.id, COMPLETE_READS))
    parts = NOT_FOUND if failed else COMPLETE_READS
    yield from (second, *response(second.id, parts, 404 if failed else 200), end(second.id, parts))


def calls_by_mcp() -> Iterator[journal.Frame]:
    """Yield two calls of the tool `search`, the second of which fails, and a list of tools."""
    for no, (method, is_error) in enumerate((("tools/call", False), ("tools/call", True), ("tools/list", False)), 1):
        request = {"jsonrpc": "2.0", "id": no, "method": method, "params": {"name": "search"}}
        result = {"content": [{"type": "text", "text": "no such page"}], "isError": is_error}
        parts = [(40, b"data: " + json.dumps({"jsonrpc": "2.0", "id": no, "result": result}).encode() + b"\n\n")]
        first_frame = begin(f"cccc00000000000{no}", no, json.dumps(request).encode(), "/mcp")
        yield from (first_frame, *response(first_frame.id, parts), end(first_frame.id, parts))
