"""The command `wiretape`: the commands of `wiretape.recorder.commands.cli`, and those that read a tape."""

import gc
import io
import os
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import TextIO

# Collections visit the objects of imported modules, which stay: by default that takes a fifth of a start. Commands that
# go on set a threshold of their own.
gc.set_threshold(200_000)
if os.getpid() == 1:  # of a container: the kernel drops signals to it without a handler, and libraries take a while
    for _number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(_number, lambda number, _: sys.exit(128 + number))

import click

from wiretape.recorder import destinations, paths, terminals
from wiretape.recorder.commands import dialects
from wiretape.recorder.commands.cli import COMMANDS, judge_stalls
from wiretape.recorder.commands.cli import main as group
from wiretape.recorder.errors import WiretapeError
from wiretape.viewer import contracts
from wiretape.viewer.commands import catalogue
from wiretape.viewer.commands.completion import completion

_SIGINT_EXIT = 128 + 2
_SIGPIPE_EXIT = 128 + 13

for _name in (
    "ls",
    "show",
    "stats",
    "timeouts",
    "compare",
    "check",
    "report",
    "export",
    "pull",
    "rm",
    "doctor",
    "view",
    "demo",
    "ship",
    "dialect",
):
    COMMANDS[_name] = f"wiretape.viewer.commands.{_name}:{_name}"
COMMANDS.update({command.name: command.path for command in catalogue.WINGS_COMMANDS})
COMMANDS["help"] = "wiretape.viewer.commands.help:help_"
COMMANDS["completion"] = catalogue.described("completion", completion)  # its module defines the answers to every shell
COMMANDS["version"] = "wiretape.viewer.commands.help:version"


def _stall_owners(tape: Path, ids: Sequence[str]) -> Mapping[str, int]:
    """Count the exchanges of a tape with these ids by the party that caused their stall; empty if it cannot be read."""
    from wiretape.viewer.source.place import TapePlace
    from wiretape.viewer.timing import wording

    try:
        with TapePlace(tape).opened() as source:
            stalls = source.stalls([source.find(id) for id in ids])
    except WiretapeError:
        return {}
    return Counter(map(wording.by, stalls.values())) if len(stalls) == len(ids) else {}


def _configured_dialects() -> list[dialects.Declaration]:
    directory = paths.of_user("config")
    files = [Path(".wiretape.toml"), *([directory / "config.toml"] if directory else [])]
    if not any(paths.exists(file) for file in files):  # to load its reader takes a tenth of a second
        return []
    from wiretape.viewer import config

    return config.read().dialects


judge_stalls(_stall_owners)
destinations.configure(contracts.destination, [address.prefix for address in contracts.sources()])
dialects.configure(_configured_dialects)
COMMANDS["db"] = "wiretape.viewer.commands.cut:group"  # the recorder's, with `cut`
COMMANDS.describe, group.sections = catalogue.described, catalogue.SECTIONS


def main() -> None:
    """Run the command line; a failure that wiretape foresees is one line and its own exit code."""
    if sys.stdout is None and sys.argv[1:2] == ["run"]:  # the child prints, not wiretape
        sys.stdout = _nowhere()
    if sys.stdout is None:
        print("wiretape: stdout is closed: send it to a file, a pipe or /dev/null", file=sys.stderr)
        sys.exit(1)
    sys.excepthook = _report_fault
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            terminals.adapt(stream)
    try:
        sys.exit(_run())
    finally:
        gc.freeze()  # the interpreter's last collections would visit every module's objects: a tenth of a short command


def _nowhere() -> TextIO:
    """Return a standard output that leads nowhere, in the place of one that is closed: no socket may get its number."""
    descriptor = _sink()
    if descriptor != 1:
        os.dup2(descriptor, 1)
        os.close(descriptor)
    os.set_inheritable(1, True)
    return os.fdopen(1, "w")


def _run() -> int:
    stdout = sys.stdout
    try:
        code = _command()
        sys.stdout.flush()
    except WiretapeError as error:
        print(_redacted(f"wiretape: {error}"), file=sys.stderr)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        print(_message(error), file=sys.stderr)
        return error.exit_code
    except click.Abort as error:
        return _SIGINT_EXIT if isinstance(error.__cause__, KeyboardInterrupt) else 1
    except BrokenPipeError:
        return _unread()
    except OSError as error:
        if error.filename != os.devnull:
            raise
        print(f"wiretape: {os.devnull} cannot be opened ({error.strerror}): recording needs it", file=sys.stderr)
        return 1
    except SystemExit as ended:
        # rich and click turn a broken pipe into an exit; click also replaces stdout.
        if isinstance(ended.__context__, BrokenPipeError) or sys.stdout is not stdout:
            return _unread()
        raise
    return code if isinstance(code, int) else 0


def _command() -> object:
    """Run the command; raise `Abort` also for an interrupt that was lost.

    SQLite reports an exception within a callback (a function, a progress handler) as an error of the query, which
    readers may take for damage, and leave rows out.
    """
    interrupts = list[int]()

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        signal.default_int_handler(number, frame)

    previous = signal.getsignal(signal.SIGINT)
    if previous is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    try:
        code: object = group.main(prog_name="wiretape", standalone_mode=False)
    except Exception as error:
        if interrupts and not isinstance(error, BrokenPipeError):
            raise click.Abort from KeyboardInterrupt()
        raise
    finally:
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, previous)
    if interrupts:
        raise click.Abort from KeyboardInterrupt()
    return code


def _message(error: click.ClickException) -> str:
    """Return an error as one line, with a hint to the command's help."""
    from wiretape.viewer.commands import guesses

    context = error.ctx if isinstance(error, click.UsageError) else None
    path = "wiretape" if context is None else context.command_path
    hint = "" if context is None else f" (see {path} --help)"
    message = (guesses.message(error) if isinstance(error, click.UsageError) else None) or error.format_message()
    return _redacted(f"{path}: {' '.join(message.split())}{hint}")


def _redacted(line: str) -> str:
    """Return a line about an error, which may quote an argument with a key in it, without that."""
    from wiretape.recorder.commands import hints
    from wiretape.recorder.tape.redact import shown

    return shown(hints.complete(line, sys.argv[1:]))


def _report_fault(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    """Print the traceback of a fault of wiretape's own, without credentials."""
    from wiretape.recorder.tape import faults

    faults.report(error)


def _unread() -> int:
    """Send stdout, which nobody reads any more, nowhere: the interpreter's last flush must not fail either."""
    os.dup2(_sink(), sys.stdout.fileno())
    return _SIGPIPE_EXIT


def _sink() -> int:
    """Return a descriptor that can be written to, and leads nowhere; without `/dev/null`, a pipe that nobody reads."""
    try:
        return os.open(os.devnull, os.O_WRONLY)
    except OSError:
        return os.pipe()[1]


if __name__ == "__main__":
    main()
