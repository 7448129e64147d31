"""The group of commands `wiretape`, with those that write a tape.

`wiretape.viewer.cli` adds those that read one."""

from collections import UserDict
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from wiretape.recorder import __version__


class UnknownCommand(click.UsageError):
    """A word in the place of a command that is none."""

    def __init__(self, name: str, context: click.Context) -> None:
        super().__init__(f"no command {name!r}", context)
        self.name = name


class CommandGroup(click.Group):
    """A group of commands; `sections` are their names and summaries by title, for the list of its help."""

    sections: Mapping[str, Mapping[str, str]] = {}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names. Raises `UnknownCommand`."""
        if not (ctx.resilient_parsing or args[0] in self.commands or args[0].startswith("-")):
            raise UnknownCommand(args[0], ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section, each with its whole summary."""
        for title, commands in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([*commands.items()], col_max=10)
        if not self.sections:
            with formatter.section("Commands"):
                names = self.list_commands(ctx)
                formatter.write_dl([(name, self.commands[name].get_short_help_str(100)) for name in names])


class _Commands(UserDict[str, Any]):
    """Commands by name; a `module:attribute` is imported at its first use, and then passed to `describe`."""

    describe: Callable[[str, click.Command], click.Command] | None = None

    def __getitem__(self, name: str) -> click.Command:
        if isinstance(self.data[name], str):
            module, _, attribute = self.data[name].partition(":")
            loaded: click.Command = getattr(import_module(module), attribute)
            self.data[name] = self.describe(name, loaded) if self.describe else loaded
        command: click.Command = self.data[name]
        return command


COMMANDS = _Commands({name: f"wiretape.recorder.commands.{name}:{name}" for name in ("record", "run", "env", "db")})

StallOwners = Callable[[Path, Sequence[str]], Mapping[str, int]]
"""Counts the exchanges of a tape with these ids by the party that caused their stall."""

_stall_owners: StallOwners | None = None


def judge_stalls(by: StallOwners) -> None:
    """Register the viewer's function that names the owners of stalls in closing lines."""
    global _stall_owners
    _stall_owners = by


def stall_owners(tape: Path, ids: Sequence[str]) -> Mapping[str, int]:
    """Count exchanges by the party that caused their stall; empty without a viewer."""
    return {} if _stall_owners is None else _stall_owners(tape, ids)


@click.group(
    cls=CommandGroup,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", prog_name="wiretape", message="%(prog)s %(version)s")
def main() -> None:
    """Record streamed LLM responses: every socket read, byte for byte, with its timestamp.

    To begin: wiretape demo, then wiretape view. Topics: wiretape help.

    Exit codes: 0 done, 1 failed, 2 wrong usage or an output file that must not be replaced, 3 a check failed or the
    tape is damaged, 4 not found or nothing to judge, 5 other schema, 6 tape locked or not writable, 7 cannot listen,
    8 not a tape, 130 interrupted, 141 output closed; `run` exits with its command's code.
    """
