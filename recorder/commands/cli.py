"""The group of commands `wiretape`, with those that write a tape.

`wiretape.viewer.cli` adds those that read one."""

from collections import UserDict
from importlib import import_module
from typing import Any

import click

from wiretape.recorder import __version__


class _Commands(UserDict[str, Any]):
    """Commands by name; a `module:attribute` is imported at its first use."""

    def __getitem__(self, name: str) -> click.Command:
        """Return a command."""
        if isinstance(self.data[name], str):
            module, _, attribute = self.data[name].partition(":")
            self.data[name] = getattr(import_module(module), attribute)
        command: click.Command = self.data[name]
        return command


COMMANDS = _Commands({name: f"wiretape.recorder.commands.{name}:{name}" for name in ("record", "run", "env", "db")})


@click.group(commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="wiretape", message="%(prog)s %(version)s")
def main() -> None:
    """Record streamed LLM responses: every socket read, byte for byte, with its timestamp.

    Exit codes: 0 done, 1 failed, 2 wrong usage or an output file that must not be replaced, 3 a check failed or the
    tape is damaged, 4 not found or nothing to judge, 5 other schema, 6 tape locked or not writable, 7 cannot listen,
    8 not a tape, 130 interrupted, 141 output closed; `run` exits with its command's code.
    """
