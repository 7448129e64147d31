"""Pure: which recordings of the same request stay when it has been recorded again.

The answer of a failing upstream never replaces a whole one.
"""

from collections.abc import Sequence

from wiretape.recorder.decode.outcome import FAILURES
from wiretape.recorder.tape.journal import Finished
from wiretape.viewer.source.tape.replayed import Head


class Replacing:
    """Counts recordings; `kept` are the ids of new ones, `gone` those that are to be removed, new or older."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.gone: set[str] = set()

    def add(self, new: Finished, older: Sequence[Head]) -> bool:
        """Add a recording, with the older ones that it may replace; return True if it stays.

        It does not if one of those is better: whole, where this one failed or the client left it, or left, where this
        one failed.
        """
        if any(_rank(one.outcome) > _rank(new.outcome) for one in older):
            self.gone.add(new.id)
            return False
        self.kept.append(new.id)
        self.gone.update(one.id for one in older)
        return True


def _rank(outcome: str) -> int:
    return 0 if outcome in FAILURES else 1 if outcome == "client_closed" else 2
