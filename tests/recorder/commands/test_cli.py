"""The group: what belongs to it, before `wiretape.viewer.cli` adds the commands that read."""

import click
from click.testing import CliRunner

from wiretape.recorder.commands.cli import main


def test_the_commands_that_write_are_there() -> None:
    assert {"record", "run", "env", "db"} <= set(main.commands)


def test_the_help_tells_what_each_exit_code_means() -> None:
    output = CliRunner().invoke(main, ["-h"], prog_name="wiretape").output
    for code in ("0 done", "2 wrong usage", "4 not found", "5 other schema", "8 not a tape"):
        assert code in " ".join(output.split())


def test_every_recording_command_takes_the_same_options() -> None:
    options = [
        {option.name for option in main.commands[name].params if isinstance(option, click.Option)}
        for name in ("record", "run")
    ]
    assert options[1] - options[0] == {"replay"}
