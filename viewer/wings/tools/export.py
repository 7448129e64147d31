"""The export of HTTP archives, and of traces with their option."""

from collections import Counter
from typing import BinaryIO

import click

from wiretape.recorder import __version__
from wiretape.recorder.commands.options import gathered
from wiretape.recorder.plurals import counted
from wiretape.viewer.commands import options
from wiretape.viewer.export.task import ExportTask

trace = gathered(
    "trace",
    lambda with_messages: with_messages or None,
    click.option("--with-messages", is_flag=True, help="With --format trace: the prompts themselves."),
)
"""The option, as the argument `trace`."""


def write_har(task: ExportTask, file: BinaryIO) -> int:
    """Write an archive and return the number of its exchanges."""
    from wiretape.viewer.wings.tools import har

    rows = task.over(task.source.rows(("no",), task.selection, limit=task.limit))
    return har.write(file, (task.source.exchange(row["no"]).full(task.mask) for row in rows), __version__)


def write_trace(task: ExportTask, file: BinaryIO) -> int:
    """Write a row for each exchange in the order of arrival, and return their number; note those left out."""
    from wiretape.viewer.export import text
    from wiretape.viewer.wings.tools import trace as traces

    left_out = Counter[str]()
    selection = options.covered(task.source, task.selection, task.every_operation)
    rows = task.source.rows(traces.EXCHANGE_FIELDS, selection, order=("started_at", False), limit=task.limit)
    requests = ((row, task.source.exchange(row["no"]).request()) for row in task.over(rows))
    entries = traces.entries(requests, left_out, with_messages=bool(task.options))
    count = text.write(file, "jsonl", (), entries, terminal=task.is_shown)
    if left_out:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in left_out.most_common())
        task.notes.append(f"wiretape: {counted(left_out.total(), 'exchange')} left out: {reasons}")
    return count
