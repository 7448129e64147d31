"""What a screen may count on in the application that shows it."""

from typing import Any, Protocol, cast

from textual.screen import Screen

from recorder.clock import Clock
from recorder.errors import WiretapeError
from viewer.tape.decoder import Decoders
from viewer.timing.thresholds import Thresholds
from viewer.tui.base.reader import TapeReader
from viewer.tui.base.terminal import Lag


class Host(Protocol):
    """The application, as a screen sees it."""

    tape: TapeReader
    clock: Clock
    lag: Lag
    limits: Thresholds
    decoders: Decoders

    def show_streams(self, filter_text: str) -> None:
        """Go back to the list of exchanges, filtered."""

    def give_up(self, error: WiretapeError) -> None:
        """Leave with an error of one line."""


def host(screen: Screen[Any]) -> Host:
    """Give the application of a screen."""
    return cast(Host, screen.app)
