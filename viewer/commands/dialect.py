"""The commands `wiretape dialect …`: list, show and try declarations of dialects."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiretape.recorder.commands import dialects
from wiretape.recorder.commands.cli import CommandGroup
from wiretape.recorder.errors import NotFound
from wiretape.recorder.sanitize import safe
from wiretape.recorder.tape.redact import message
from wiretape.viewer.commands import options, output
from wiretape.viewer.commands.output import Output

if TYPE_CHECKING:
    from wiretape.viewer.source.base import Place


@click.group(cls=CommandGroup)
def dialect() -> None:
    """List, show and try declarations of dialects."""


@dialect.command("list")
@output.formatted(default="a table; on a pipe tsv")
def list_(out: Output) -> None:
    """List the declared dialects: wiretape's and those of the configuration."""
    from wiretape.recorder.decode.dialects import registry
    from wiretape.viewer.report import dialects as report

    declared_dialects = dialects.read(())
    builtin = registry.declared(json.dumps(declared_dialects))
    out.put(report.LISTED, report.dialect_rows(builtin, [dialect["name"] for dialect in declared_dialects]))


@dialect.command()
@click.argument("name")
def show(name: str) -> None:
    """Print a declaration of wiretape, to begin another with."""
    from wiretape.recorder.decode.dialects import registry

    texts = registry.shipped_texts()
    if name not in texts:
        raise NotFound(f"wiretape declares no dialect {safe(name)}: there are {', '.join(texts)}")
    click.echo(texts[name], nl=False)


@dialect.command("try")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@options.exchange_id
@options.tape_db
@click.option("-n", "most", type=click.IntRange(min=0), default=40, show_default=True, help="Show N events.")
@output.formatted(default="lines for people")
def try_(file: Path, id: str | None, db: "Place | None", most: int, out: Output) -> None:
    """Decode a recorded stream by the declarations in FILE.

    Nothing is changed on the tape: 'wiretape db rebuild --dialect FILE' does that. ID is a reference as in 'wiretape
    show'. The exit code is 4 if no declared dialect recognises the stream.
    """
    from wiretape.recorder.documents import load
    from wiretape.viewer.report import dialects as report

    declared = dialects.declarations(load(file))
    with options.place(db).opened() as source:
        recorded = source.exchange(source.find(id or "@")).full()
    decoded = report.trial(recorded.exchange, recorded.reads, recorded.body, declared)
    if out.format is None:
        click.echo("\n".join(report.lines(decoded, most)))
    else:
        out.put_one(report.row(decoded))
    for key in decoded.ignored:
        click.echo(message(f"{key} means nothing in a declaration, and is ignored"), err=True)
    if not decoded.is_recognised:
        raise NotFound(
            f"no declaration in {safe(str(file))} recognises this stream, nor does one of wiretape: see match"
        )
