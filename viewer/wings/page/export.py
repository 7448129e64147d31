"""The export of pages, with the options for their content."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import click

from wiretape.recorder.commands.options import gathered
from wiretape.viewer.commands import completion, options
from wiretape.viewer.export.task import ExportTask

if TYPE_CHECKING:
    from wiretape.viewer.query.syntax import Filter


@dataclass(frozen=True, slots=True)
class PageOptions:
    """The texts and bodies of a page, and the two groups that it compares."""

    with_text: bool = False
    with_bodies: bool = False
    sides: "tuple[Filter, Filter] | None" = None


def read_page(with_text: bool, base: str | None, new: str | None, with_bodies: bool) -> PageOptions | None:
    """Return the options of a page, None if none is given. Raise a usage error if one of two groups is missing."""
    from wiretape.viewer.query.parser import parse

    sides = None
    if base is not None and new is not None:
        sides = options.parsed("--base", parse, base), options.parsed("--new", parse, new)
    elif base is not None or new is not None:
        raise click.UsageError("--base and --new go together")
    return PageOptions(with_text, with_bodies, sides) if with_text or with_bodies or sides else None


page = gathered(
    "page",
    read_page,
    click.option(
        "--with-text", is_flag=True, help="With --html: include texts of answers and first prompts of sessions."
    ),
    click.option(
        "--base", metavar="EXPR", shell_complete=completion.filters, help="With --html: the group to compare with, …"
    ),
    click.option(
        "--new", metavar="EXPR", shell_complete=completion.filters, help="… and the group compared, as in compare."
    ),
    click.option(
        "--with-bodies", is_flag=True, help="With --html: include texts, and the bytes of request and answer."
    ),
)
"""The options, as the argument `page`."""


def write(task: ExportTask, file: BinaryIO) -> int:
    """Write the page of one exchange, or of a run where several are selected; return its size in bytes."""
    from wiretape.viewer import config
    from wiretape.viewer.wings.page import run, sources, stream

    if task.limit is not None:
        raise click.UsageError("--limit is for rows: limit a page by a filter, such as -f since:2h")
    chosen, limits = task.options or PageOptions(), config.thresholds()
    numbers = task.source.numbers(task.selection, 2)
    if len(numbers) > 1:
        if chosen.with_bodies:
            raise click.UsageError(
                "--with-bodies is of the page of one exchange: name its ID, such as @ for the newest"
            )
        content = sources.PageContent(
            task.selection, chosen.sides, chosen.with_text, task.every_operation, mask=task.mask
        )
        return run.write(file, sources.read_run(task.source, content, limits))
    if chosen.sides is not None:
        raise click.UsageError("--base and --new compare exchanges of a run: only one exchange is selected")
    shared = stream.Shared(chosen.with_text, chosen.with_bodies)
    return stream.write(file, sources.exchange(task.source, numbers[0], limits, task.mask), shared)
