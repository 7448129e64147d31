"""The command `wiretape`: its group, and the commands that write a tape. Those that read are added by
`wiretape.viewer.cli`."""

import click

from wiretape.recorder import __version__
from wiretape.recorder.commands.db import db
from wiretape.recorder.commands.env import env
from wiretape.recorder.commands.record import record
from wiretape.recorder.commands.run import run


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="wiretape", message="%(prog)s %(version)s")
def main() -> None:
    """Record streamed LLM responses: every socket read, byte for byte, with the instant it came.

    Exit codes: 0 done, 1 failed, 2 wrong usage or an output file that must not be replaced, 3 a check failed or the
    tape is damaged, 4 not found or nothing to judge, 5 other schema, 6 tape locked or not writable, 7 cannot listen,
    8 not a tape, 130 interrupted, 141 read by nobody; `run` exits with its command's code.
    """


for _command in (record, run, env, db):
    main.add_command(_command)
