"""One exchange: the facts that need no decoding, and all of it with its body decoded.

The first is quick however large the exchange is, the second takes as long as decoding does: that of a large one is left
to a process of its own (`decoder`). As in `queries`, each query is short. Timestamps are ns since T0.
"""

import contextlib
import os
import pickle
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.conversation import RecordedRequest
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.derive import with_message
from wiretape.recorder.decode.elements import Elements, elements, unpack
from wiretape.recorder.decode.exchange import Read
from wiretape.recorder.decode.prompt import Prompt
from wiretape.recorder.decode.turns import TurnMeasures
from wiretape.recorder.decode.uncoding import Body
from wiretape.recorder.errors import NoResultFound, NotFound, WiretapeError
from wiretape.recorder.process import RecorderRun
from wiretape.recorder.tape import reading
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.selects import Integer, func, select
from wiretape.recorder.tape.tables import exchanges, measures
from wiretape.viewer.exchange import changes, opened
from wiretape.viewer.exchange import turn as turns
from wiretape.viewer.exchange.changes import RequestDifference
from wiretape.viewer.exchange.opened import FullExchange, Known, StoredAnswer
from wiretape.viewer.exchange.turn import Turn, TurnContent
from wiretape.viewer.record import rows
from wiretape.viewer.record.fields import PAID
from wiretape.viewer.record.rows import RequestRow
from wiretape.viewer.sessions import context as content
from wiretape.viewer.sessions.content import BroughtBy, SentContext
from wiretape.viewer.source.tape import live, queries
from wiretape.viewer.source.tape.columns import JOINED, PREDECESSOR, column
from wiretape.viewer.source.tape.functions import ONLY

if TYPE_CHECKING:
    from wiretape.recorder.tape.masking import Masker

RESULTS: Final = 5
"""Number of the largest results of tools whose turns are looked for."""
_MOST_TURNS: Final = 2_000
_TURNS: Final = select(measures.c.turns)


def full(connection: Connection, no: int, mask: "Masker | None" = None) -> FullExchange:
    """Read and decode all of an exchange; `body` is as it came, all else is masked. Raises `WiretapeError`."""
    with connection.begin():
        row, request = queries.detail_of(connection, no), queries.request_of(connection, no)
        exchange, its_reads, body = reading.answer(connection, no)
        stored_turns = connection.execute(_TURNS.where(measures.c.exchange_no == no)).scalar()
    if mask is None:
        decoded = decode(exchange, its_reads, body)
    else:
        from wiretape.recorder.tape import masked  # it loads the framings of all wires, which few commands need

        try:
            decoded = masked.decoded(exchange, Body(exchange.headers.response, its_reads, body), mask)
            request = masked_request(request, mask)
        except masked.Unmaskable as error:
            raise error.of(row.id) from error
        row, stored_turns = rows.masked(row, mask), mask.value(stored_turns)
    if decoded.is_session and stored_turns is not None:
        decoded.turn_measures = [TurnMeasures(**turn) for turn in stored_turns]
    return FullExchange(row, request, exchange, its_reads, body, decoded)


def masked_request(request: RequestRow, mask: "Masker") -> RequestRow:
    """Return a request masked. Raises `Unmaskable`."""
    from wiretape.recorder.tape import masked

    exchange = replace(request.exchange, path=mask.value(request.exchange.path))
    texts = replace(request, exchange=exchange, labels=mask.value(request.labels))
    if request.body is None:
        return texts
    body = masked.request(request.headers, request.body, mask)
    if body.data == request.body:
        return texts
    headers = exchange.headers._replace(request=tuple((name, value) for name, value in body.headers))
    return replace(texts, exchange=replace(exchange, headers=headers), body=body.data)


def reads_between(connection: Connection, no: int, first: int, last: int) -> dict[int, Read]:
    """Return the reads of an exchange from seq `first` to `last` by their seq, those that are on the tape.

    All reads of an exchange come with its body (`stored`), which takes longer.
    """
    with connection.begin():
        reads = reading.reads_of(connection, no)
    low, high = bisect_left(reads.seq, first), bisect_right(reads.seq, last)
    return {read.seq: read for read in reads[low:high]}


def known(connection: Connection, no: int, computed: Sequence[str] = PAID) -> Known:
    """Return an exchange without decoding it, with these computed fields. Raises `NoResultFound`, and `ConfigError`."""
    row = queries.detail(connection, no).completed(queries.worked_out(connection, no, computed))
    if live.is_measurable(row):
        row = live.filled(row, live.figures(connection, no))
    request = queries.request(connection, no)
    gaps = select(measures.c.icl).where(measures.c.exchange_no == no)
    with connection.begin():
        packed: bytes | None = connection.execute(gaps).scalar()
    return Known(row, request, recorder(connection, no), packed or b"")


def recorder(connection: Connection, no: int) -> RecorderRun:
    """Return the run that records an exchange, as it stands. Raises `NoResultFound`."""
    with connection.begin():
        return reading.run_of(connection, no)


def stored(connection: Connection, no: int) -> StoredAnswer:
    """Read an exchange's answer. Raises `NoResultFound`."""
    statement = select(exchanges.c.id, measures.c.outcome).select_from(JOINED).where(exchanges.c.no == no)
    with connection.begin():
        recording = reading.answer(connection, no)
        id, outcome = connection.execute(statement).one()
    exchange, _, body = recording
    is_measured = exchange.ended_by is None and live.is_short(exchange, body)  # so it has been decoded by now
    decoded = live.decoded(*recording) if is_measured else None
    return StoredAnswer(id, recording, outcome or "open", decoded)


def is_final(connection: Connection, no: int, answer: StoredAnswer) -> bool:
    """Return True if an answer read before had ended and been measured, and still is the one of this number."""
    statement = select(exchanges.c.id, exchanges.c.ended_by, measures.c.outcome).select_from(JOINED)
    with connection.begin():
        row = connection.execute(statement.where(exchanges.c.no == no)).one()
    return None not in row and tuple(row) == (answer.id, answer.recording.exchange.ended_by, answer.outcome)


def turn(connection: Connection, no: int) -> Turn:
    """Return an exchange as a turn. Raises `NoResultFound`."""
    continued_id = queries.worked_out(connection, no, ("continues",))["continues"]
    previous = None if continued_id is None else _content(connection, queries.find(connection, continued_id))
    return turns.turn(_content(connection, no), previous)


def prompt(connection: Connection, no: int) -> Prompt:
    """Return the prompt of an exchange. Raise `NotFound` if it is unknown."""
    turn = _content(connection, no)
    if turn.prompt is None:
        raise NotFound(f"there is nothing to compare in the request of {turn.row.id}: {turn.problem}")
    return turn.prompt


def _content(connection: Connection, no: int) -> TurnContent:
    row = queries.detail(connection, no)
    if row.framing != "websocket":
        return turns.request_content(row, queries.request(connection, no))
    return turns.websocket_content(row, turns.over_websocket(queries.observed(connection, no)[2]))


def predecessor(connection: Connection, no: int) -> int | None:
    """Return the number of a generation's predecessor; None if it has none, 0 if that is unknown."""
    statement = select(getattr(func, PREDECESSOR)(no, type_=Integer))
    with connection.begin():
        predecessor_no: int | None = connection.execute(statement.execution_options(**{ONLY: (no,)})).scalar_one()
    return predecessor_no


def changed(connection: Connection, no: int) -> list[RequestDifference]:
    """Return the differences between the request of an exchange and its predecessor's; none if one is unknown."""
    predecessor_no = predecessor(connection, no)
    prompts = [_content(connection, number).prompt for number in (predecessor_no, no) if number]
    return changes.changes(prompts[0], prompts[1]) if predecessor_no and prompts[0] and prompts[1] else []


def context(connection: Connection, no: int) -> SentContext:
    """Return the content of a request, with the turns that brought the largest results of tools into it.

    Raises `NotFound` if the request is no JSON object, or is not complete.
    """
    row, request = queries.detail(connection, no), _elements(connection, no)
    predecessor_no = predecessor(connection, no)
    if request is None:
        raise NotFound(f"the request of {row.id} is not on the tape as a whole JSON object: it has no known content")
    previous = _elements(connection, predecessor_no) if predecessor_no else None
    sent = content.context(request, previous, is_known=predecessor_no is None or previous is not None)
    return SentContext(row, sent, _brought(connection, no, [result.digest for result in sent.results[:RESULTS]]))


def _elements(connection: Connection, no: int) -> Elements | None:
    row, request = queries.detail(connection, no), queries.request(connection, no)
    sent = RecordedRequest(request.headers, request.body)
    if row.framing == "websocket":
        sent = with_message(sent, queries.observed(connection, no)[2])
    return elements(encoding.uncoded(sent.headers, sent.body or b""), row.api, row.request_model)


def _brought(connection: Connection, no: int, digests: Sequence[bytes]) -> list[BroughtBy]:
    """Return the turn of a dialogue that brought each of some messages in: the first that has it and all after it."""
    dialogue: list[tuple[str, frozenset[bytes]]] = []
    number: int | None = no
    stored = select(exchanges.c.id, measures.c.prompt_elements).select_from(JOINED)
    while number and len(dialogue) < _MOST_TURNS:
        statement = stored.where(exchanges.c.no == number)
        with connection.begin():
            id, packed = connection.execute(statement).one()
        prefix = unpack(packed)
        dialogue.append((id, frozenset() if prefix is None else prefix.digest_set()))
        number = predecessor(connection, number)
    is_whole = number is None
    ages = [max(sum(1 for _ in takewhile(lambda turn: digest in turn[1], dialogue)) - 1, 0) for digest in digests]  # noqa: B023
    return [BroughtBy(dialogue[age][0], len(dialogue) - age if is_whole else None) for age in ages]


def weight(connection: Connection, no: int) -> int:
    """Return the number of bytes of an answer to decode until now; of a compressed one, an estimate.

    Raises `NoResultFound`.
    """
    statement = select(column("bytes"), exchanges.c.response_headers).select_from(JOINED).where(exchanges.c.no == no)
    with connection.begin():
        size, headers = connection.execute(statement).one()
    coding = encoding.coding_of(headers or [])
    return int(size) * (1 if encoding.is_identity(coding) else live.RATIO)


def decode_asked() -> None:
    """Open the exchange that stdin requests, write it to stdout in stages, and end the process.

    An exchange that stdin names before its request is read ahead.
    """
    read_ahead: dict[int, StoredAnswer] = {}
    try:
        while True:
            tape, limits, no, is_asked = pickle.load(sys.stdin.buffer)
            if is_asked:
                break
            read_ahead = _ahead(tape, no)
    except EOFError:
        os._exit(0)  # nobody asks any more
    try:
        with queries.opened(tape) as connection:
            earlier = read_ahead.get(no)
            answer = earlier if earlier is not None and is_final(connection, no, earlier) else stored(connection, no)
    except WiretapeError as error:
        sys.exit(str(error))
    except NoResultFound:
        sys.exit("it is not on the tape any more")
    first_stage, later_stages = opened.begin(answer, limits)
    _tell(first_stage)
    for stage in later_stages:
        _tell(stage())
    os._exit(0)  # objects in memory need not be freed one by one


def _tell(stage: object) -> None:
    pickle.dump(stage, sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
    sys.stdout.buffer.flush()


def _ahead(tape: Path, no: int) -> dict[int, StoredAnswer]:
    # An error is reported in the answer to its request.
    with contextlib.suppress(WiretapeError, NoResultFound), queries.opened(tape) as connection:
        return {no: stored(connection, no)}
    return {}
