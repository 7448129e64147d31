"""The command `wiretape`, whole: the commands that write, from `recorder.commands.cli`, and those that read a tape."""

import io
import os
import sys

import click

from recorder.commands.cli import main as group
from recorder.errors import WiretapeError
from recorder.sanitize import safe
from viewer.commands import completion, doctor, export, ls, rm, show, stats, view
from viewer.commands import help as helping
from viewer.commands.demo import demo

_SIGINT_EXIT = 128 + 2
_SIGPIPE_EXIT = 128 + 13

for _module in (ls, show, export, rm, stats, doctor, completion, view, helping):
    for _command in _module.COMMANDS:
        group.add_command(_command)
group.add_command(demo)


def main() -> None:
    """Run the command line; a failure that wiretape foresees is one line and its own exit code."""
    if sys.stdout is None:
        print("wiretape: stdout is closed: send it to a file, a pipe or /dev/null", file=sys.stderr)
        sys.exit(1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 is no reason to fail
    sys.exit(_run())


def _run() -> int:
    """Give the exit code: a command's own, an error's, or that of whoever was interrupted or is read no more."""
    stdout = sys.stdout
    try:
        code = group.main(prog_name="wiretape", standalone_mode=False)
        sys.stdout.flush()
    except WiretapeError as error:
        print(f"wiretape: {safe(str(error))}", file=sys.stderr)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        print(f"{_told(error)}", file=sys.stderr)
        return error.exit_code
    except click.Abort as error:
        return _SIGINT_EXIT if isinstance(error.__cause__, KeyboardInterrupt) else 1
    except BrokenPipeError:
        return _unread()
    except SystemExit as ended:
        # Of a broken pipe rich makes an exit of its own, and so does click, which puts another stdout in its place.
        if isinstance(ended.__context__, BrokenPipeError) or sys.stdout is not stdout:
            return _unread()
        raise
    return code if isinstance(code, int) else 0


def _told(error: click.ClickException) -> str:
    """Say in one line what was wrong, and where to look."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    path, help = (
        ("wiretape", "") if context is None else (context.command_path, f" (see {context.command_path} --help)")
    )
    return f"{path}: {safe(' '.join(error.format_message().split()))}{help}"


def _unread() -> int:
    """Nobody reads any more: the interpreter's last flush may not fail either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _SIGPIPE_EXIT


if __name__ == "__main__":
    main()
