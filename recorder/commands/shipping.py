"""Shipping what a recorder records to a centre or an archive: a companion, `wiretape ship`, which only reads the tape.

It leaves the tape before the recorder closes it, and ships what is left after that, for some seconds; the rest is on
the tape, and shipped by whatever ships it next.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from recorder.commands.centre import TENANT
from recorder.commands.companion import Companion, Program

if TYPE_CHECKING:
    from recorder.commands.destination import Shipment
    from recorder.commands.status import Screen
    from recorder.relay.service import Options


@contextlib.asynccontextmanager
async def shipped(
    shipment: "Shipment | None", settings: "Options", screen: "Screen"
) -> AsyncIterator[Companion | None]:
    """Ship what is recorded, until the context is left when the recorder has stopped; without a shipment, nothing."""
    if shipment is None:
        yield None
        return
    arguments = ["ship", "--beside", "--db", str(settings.tape.absolute()), "--to", shipment.destination.url]
    arguments += ["--bodies"] if shipment.bodies else []
    if settings.ca_file is not None:
        arguments += ["--ca-file", str(settings.ca_file.absolute())]
    if tenant := settings.labels.get(TENANT):
        arguments += ["--label", f"{TENANT}={tenant}"]
    shipping = Companion(Program("viewer.cli", "ships the tape", tuple(arguments)), screen)
    screen.line(f"ship        {shipment.name}{', with what is said' if shipment.bodies else ''}")
    try:
        yield shipping
    finally:
        await shipping.finish()
