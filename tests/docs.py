"""The generated parts of the README: each function returns one, from the code that it documents."""

import click

import viewer.cli
from recorder.decode.outcome import DETAILS, OUTCOMES


def outcomes() -> str:
    """Return the outcomes as a table: when each is given, and its details."""
    rows = ["| outcome | when | detail |", "|---|---|---|"]
    for name, meaning in OUTCOMES.items():
        rows.append(f"| `{name}` | {meaning} | {' '.join(f'`{detail}`' for detail in DETAILS.get(name, ()))} |")
    return "\n".join(rows) + "\n"


def commands() -> str:
    """Return the names of all commands, in one line."""
    names = [
        f"`{name} {'|'.join(command.commands)}`" if isinstance(command, click.Group) else f"`{name}`"
        for name, command in sorted(viewer.cli.group.commands.items())
    ]
    return " · ".join(names) + "\n"
