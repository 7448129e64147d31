"""Where a tape is shipped to: a centre, or an archive. Pure."""

from dataclasses import dataclass

import click

from recorder.commands import archive, centre, options, otlp
from recorder.commands.archive import Archive
from recorder.commands.centre import Target
from recorder.sanitize import safe

Destination = Target | Archive


@dataclass(frozen=True, slots=True)
class Shipment:
    """What a recorder ships where; `bodies`: what was said, too."""

    destination: Destination
    bodies: bool = False

    @property
    def name(self) -> str:
        """The destination in a few words."""
        where = self.destination
        return where.name if isinstance(where, Target) else safe(where.url)


def read(context: click.Context, option: click.Parameter, url: str | None) -> Destination | None:
    """Read the value of an option. Raises `click.BadParameter`."""
    if url is None or url.startswith(centre.SCHEME):
        return centre.read(context, option, url)
    if archive.is_archive(url):
        return archive.read(url)
    if url.startswith(otlp.SCHEME):
        raise click.BadParameter("a collector is named with --otlp http://HOST:PORT")
    raise click.BadParameter(f"a centre is {centre.FORM}, an archive {archive.FORM}")


def shipment(destination: Destination | None, *, bodies: bool) -> Shipment | None:
    """Return what a recorder is to ship. Raises `click.UsageError`, and `WiretapeError` for what is not installed."""
    if destination is None:
        if bodies:
            raise click.UsageError("--ship-bodies is for --ship: add that")
        return None
    if isinstance(destination, Archive):
        options.check_extra("pyarrow", "parquet", "--ship to an archive")
    return Shipment(destination, bodies)
