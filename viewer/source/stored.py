"""An exchange in the tables of a tape, of which more can be asked than of one of any source."""

from typing import TYPE_CHECKING

from wiretape.recorder.decode.decoder import Decoded
from wiretape.recorder.decode.exchange import Exchange, Read, Reads
from wiretape.recorder.decode.prompt import Prompt
from wiretape.recorder.process import RecorderRun
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange.changes import RequestDifference
from wiretape.viewer.exchange.opened import FullExchange, Known, StoredAnswer
from wiretape.viewer.exchange.turn import Turn
from wiretape.viewer.record.fields import PAID, WORKED_OUT
from wiretape.viewer.record.rows import DetailRow, HeadersRow, RequestRow, TableRow
from wiretape.viewer.sessions.content import SentContext
from wiretape.viewer.sessions.retries import RequestAttempts
from wiretape.viewer.source import base
from wiretape.viewer.source.tape import attempts, exchange, queries, texts

if TYPE_CHECKING:
    from wiretape.recorder.tape.masking import Masker
    from wiretape.viewer.stats.tools.summary import Observed


class StoredExchange(base.Recorded):
    """An exchange in the tables of a tape."""

    def __init__(self, place: base.Place, connection: Connection, number: int) -> None:
        self._place, self._connection, self._number = place, connection, number

    @property
    def _tape(self) -> Connection:
        self._place.require("bodies")
        return self._connection

    def detail(self) -> DetailRow:
        return queries.detail(self._connection, self._number)

    def worked_out(self) -> DetailRow:
        return self.detail().completed(queries.worked_out(self._tape, self._number))

    def headers(self) -> HeadersRow:
        return queries.headers(self._tape, self._number)

    def request(self) -> RequestRow:
        return queries.request(self._tape, self._number)

    def reads(self) -> list[TableRow]:
        return queries.reads(self._tape, self._number)

    def body(self) -> bytes:
        return queries.body(self._tape, self._number)

    def sent(self) -> bytes:
        return queries.sent(self._tape, self._number)

    def observed(self) -> tuple[Exchange, Reads, Decoded]:
        return queries.observed(self._tape, self._number)

    def full(self, mask: "Masker | None" = None) -> FullExchange:
        return exchange.full(self._tape, self._number, mask)

    def prompt(self) -> Prompt:
        return exchange.prompt(self._tape, self._number)

    def stored(self) -> StoredAnswer:
        """Return its answer, decoded if that is quick and it runs."""
        return exchange.stored(self._tape, self._number)

    def weight(self) -> int:
        """Return the number of bytes of its answer to decode until now; of a compressed one, an estimate."""
        return exchange.weight(self._tape, self._number)

    def recorder(self) -> RecorderRun:
        """Return the run that records it, as it stands."""
        return exchange.recorder(self._tape, self._number)

    def reads_between(self, first: int, last: int) -> dict[int, Read]:
        """Return its reads from seq `first` to `last` by their seq, those that are on the tape."""
        return exchange.reads_between(self._tape, self._number, first, last)

    def text(self, id: str, part: str) -> str:
        """Return a part for the clipboard, if it has that id; see `texts.text_of`."""
        return texts.text_of(self._tape, self._number, id, part)

    def attempts(self) -> RequestAttempts:
        return attempts.recording(self._tape, self._number)

    def turn(self) -> Turn:
        return exchange.turn(self._tape, self._number)

    def changed(self) -> list[RequestDifference]:
        return exchange.changed(self._tape, self._number)

    def context(self) -> SentContext:
        return exchange.context(self._tape, self._number)

    def known(self, *, worked_out: bool = False) -> Known:
        return exchange.known(self._tape, self._number, WORKED_OUT if worked_out else PAID)

    def as_observed(self) -> "Observed":
        from wiretape.viewer.source.tape import observed  # it needs numpy, which no single exchange's facts do

        return observed.one(self._tape, self._number)

    def is_final(self, answer: StoredAnswer) -> bool:
        """Return True if an answer read before had ended and been measured, and still is its own.

        Raises `NoResultFound`.
        """
        return exchange.is_final(self._tape, self._number, answer)
