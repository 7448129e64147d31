"""The generated parts of the README: each function returns one, from the code that it documents."""

from itertools import accumulate, groupby

import click

import wiretape.viewer.cli
from tests.support.decoding import derived
from tests.support.wires import COMPLETIONS, WIRES, Wire
from wiretape.recorder.decode.decoder import framing_of
from wiretape.recorder.decode.exchange import OUTCOMES, Exchange
from wiretape.recorder.decode.metrics import Measures

_WIRES = (*WIRES.values(), COMPLETIONS)
_READ = {
    "text": "content",
    "reasoning": "reasoning",
    "tool calls": "tool_calls",
    "usage": "output_tokens",
    "TTFT": "ttft_ns",
    "finish": "finish_reason",
}
"""What is read of a stream, and where the measures have it."""


def outcomes() -> str:
    """Return the outcomes in one line, each with when it is given."""
    return " · ".join(f"`{name}`: {meaning}" for name, meaning in OUTCOMES.items()) + "\n"


def wires() -> str:
    """Return as a table what is read of the streams of each API, as found by decoding one of each."""
    rows = [f"| API | asked for at | framing | {' | '.join(_READ)} | truncation | error |"]
    rows.append("|---" * (len(_READ) + 5) + "|")
    for api, found in groupby(_WIRES, lambda wire: wire.api):
        wires = list(found)
        path = wires[0].path.partition("?")[0]
        framings = " ".join(f"`{_framing(wire)}`" for wire in wires)
        is_read = [all(column) for column in zip(*map(_is_read, wires), strict=True)]
        rows.append(f"| `{api}` | `{path}` | {framings} | {' | '.join('✓' if one else '–' for one in is_read)} |")
    return "\n".join(rows) + "\n"


def _framing(wire: Wire) -> str:
    exchange = Exchange(200, wire.type, None, "end", None, None, None, path=wire.path)
    return framing_of(exchange, b"".join(wire.parts))


def _is_read(wire: Wire) -> list[bool]:
    """Return of a stream what is read of it, whether it is found to be truncated, and to be ended by an error."""
    whole = _derived(wire, wire.parts)
    cut = wire.parts[: len(wire.parts) // 2]
    truncated, failed = _derived(wire, cut), _derived(wire, (*cut, wire.error))
    read = [whole.outcome == "complete" and getattr(whole, name) is not None for name in _READ.values()]
    return [*read, truncated.outcome == "truncated", failed.outcome == "error_event"]


def _derived(wire: Wire, parts: tuple[bytes, ...]) -> Measures:
    cuts = list(accumulate(map(len, parts)))[:-1]
    asked = b'{"parameters":{"incremental_output":true}}'
    return derived(b"".join(parts), *cuts, content_type=wire.type, path=wire.path, request=asked)


def commands() -> str:
    """Return the names of all commands, in one line."""
    names = [
        f"`{name} {'|'.join(command.commands)}`" if isinstance(command, click.Group) else f"`{name}`"
        for name, command in sorted(wiretape.viewer.cli.group.commands.items())
    ]
    return " · ".join(names) + "\n"
