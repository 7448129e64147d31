"""The command `wiretape`, whole: the commands that write, from `recorder.cli`, and those that read a tape."""

import os
import sys

from recorder.cli import main as group
from recorder.errors import WiretapeError
from recorder.safe import safe
from viewer import analysis, exporting, listing, showing
from viewer.demo import demo

for _command in (*listing.COMMANDS, *showing.COMMANDS, *exporting.COMMANDS, *analysis.COMMANDS, demo):
    group.add_command(_command)


def main() -> None:
    """Run the command line; a failure that wiretape foresees is one line and its own exit code."""
    try:
        group(prog_name="wiretape")
    except WiretapeError as error:
        print(f"wiretape: {safe(str(error))}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:  # nobody reads any more: the interpreter's last flush may not fail either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


if __name__ == "__main__":
    main()
