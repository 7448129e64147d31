"""One of the two exchanges that are compared: it is read, again while it runs, and made a lane of a race.

Reading is `loading`'s, how it stands by now `pulse`'s.
"""

from collections.abc import Callable

from viewer.model.exchange import pages
from viewer.model.exchange.opened import Opened
from viewer.model.exchange.pulse import Pulse
from viewer.model.exchange.race import Lane
from viewer.model.states import ORPHAN
from viewer.rows import Row
from viewer.tape.exchange import Known
from viewer.tui.base.host import Host
from viewer.tui.playing.loader import Loader


class Side:
    """The exchange `no`; `lane` is what was made of it, None before all of it was read.

    `trouble` says in words why it cannot be read, None if it can; whenever that changes, `fails` is called.
    """

    def __init__(self, host: Host, no: int, fails: Callable[[], None]) -> None:
        self.loader = Loader(host, no, self._know, self._open, self._fail)
        self.pulse = Pulse(host.clock)
        self.lane: Lane | None = None
        self.trouble: str | None = None
        self._clock, self._fails = host.clock, fails
        self._known: Row | None = None

    @property
    def row(self) -> Row:
        """Its row when its lane was made; of one that runs with how long it has lasted, of a lost one an orphan's."""
        assert self._known is not None
        if self._known["outcome"] != "open":
            return self._known
        called = {"outcome": ORPHAN.word} if self.pulse.died else {}
        return self._known | {"duration_ms": self.pulse.end_ns / 1e6} | called

    async def read_again(self) -> None:
        """Look whether it has changed, if it still runs."""
        self.trouble = None
        await self.loader.again()

    def take(self) -> bool:
        """Make a lane of what has been read, if it is otherwise than before; say whether it is."""
        known, opened = self.loader.known, self.loader.opened
        if known is None or opened is None:
            return False
        lane, runs = self.lane, self.pulse.runs
        is_same = lane is not None and lane.transcript is opened.transcript and lane.is_live == runs
        if is_same and self._known == known.row:
            return False
        self._known = known.row
        first = known.row["ttf_byte_ms"]
        first_ns = None if first is None else round(first * 1e6)
        self.lane = Lane(opened.transcript, self.pulse.end_ns, first_ns, is_live=runs)
        return True

    def _know(self, known: Known) -> None:
        self.pulse.know(known.row["started_at"], died=pages.is_dead(known, self._clock.wall_ns()))

    def _open(self, opened: Opened) -> None:
        self.pulse.take(opened)

    def _fail(self, trouble: str) -> None:
        self.trouble = trouble
        self._fails()
