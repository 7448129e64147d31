"""The journal: the frames that a relay sends to its writer, and the writer's answers.

A log format. Each frame is a little-endian `uint32` length, then a `uint64` sequence number, then a MessagePack array
whose first element is the frame's tag. Frames of one exchange come in the order `begin`, `head`, `reads`…, `end`;
a request body that comes in pieces is between `begin` and `end`, as `upload`…, `uploaded`. Frames of different
exchanges interleave.

Who keeps what, until when:

- A relay keeps each frame until the writer has acknowledged its number (`relay.frame_queue`), up to a limit of bytes:
  reads beyond it are relayed and not stored, and counted as a gap.
- The writer keeps a batch until its commit has returned, also while a full disk is waited out. Then it acknowledges, to
  each relay, the last number in it, with the exchanges of which something has no place on the tape (`lost`).
- If the writer dies, a relay starts or joins the next one, and sends it all frames without an acknowledgement, in their
  order. Some may be on the tape: appending passes them over.
- If a relay dies, the writer commits what the socket still holds, and ends its open exchanges. If both die, each open
  stream lacks at most its last 0.2 s: a relay's `GATHER_SECONDS` and a batch's `WINDOW_NS`.
- An exchange is over for its relay when an acknowledgement reports it as `finished`, measured. A relay that returns
  names those of which it has not heard that (`Relay.running`): the next writer leaves them open
  until it has their ends.

A relay sends many of them as one frame, `entries`; `decode` takes that apart.

A relay that joins a writer sends `relay` before its session. Each session ends by `close`; a relay that is only one of
several of its recorder ends by `left`.

The facts in frames are declared in `wiretape.recorder.facts`. All `_ns` are nanoseconds since the exchange's T0.
Nothing here is redacted: a socket's data stays in memory, and only the disk needs redaction.
"""

import dataclasses
import struct
import zlib
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, TypeVar, cast, get_args

import msgspec

from wiretape.recorder import __version__
from wiretape.recorder.decode.causes import Ending
from wiretape.recorder.decode.exchange import Operation, Standing
from wiretape.recorder.facts import Answered, Begun, Connected, Ended
from wiretape.recorder.sanitize import clipped

ANSWER_BYTES = 1 << 20
"""Limit of an answer's line, in bytes: a relay's reader refuses a longer one, so recorded text in it is clipped."""
_HEAD = struct.Struct("<IQ")
_SHOWN_CHARACTERS = 256
"""Limit of a text that a terminal shows in one line."""
_Pairs = list[tuple[bytes, bytes]]


# Frames refer to nothing that refers to them: without `gc`, garbage collection need not look at thousands of them.
class _Frame(msgspec.Struct, array_like=True, frozen=True, gc=False, tag_field="tag"):
    pass


class _ExchangeFrame(msgspec.Struct, array_like=True, gc=False, tag_field="tag"):
    pass


_Record = TypeVar("_Record", bound=msgspec.Struct)


def with_facts(record: type[_Record]) -> type[_Record]:
    """Add the fields of inherited facts to a struct: msgspec takes those of one base only."""
    facts = [
        (entry.name, entry.type, entry.default)
        for part in record.__bases__
        if dataclasses.is_dataclass(part)
        for entry in dataclasses.fields(part)
    ]
    namespace = {"__doc__": record.__doc__, "__qualname__": record.__qualname__}
    struct = msgspec.defstruct(
        record.__name__,
        facts,
        bases=(record,),
        module=record.__module__,
        namespace=namespace,
        tag=record.__struct_config__.tag,
        frozen=True,
        kw_only=True,
    )
    return cast("type[_Record]", struct)


class Relay(_Frame, tag="relay", frozen=True):
    """The identity of a relay, sent before its session; without it, it is the only one of a new recorder.

    `purpose` describes this recorder as the holder of the tape; `is_worker`: another relay ends the session;
    `newest_no` is that of an earlier `Ready`, if there was one. `running_ids` are the ids of its exchanges that earlier
    writers have not reported as finished, `workers` the processes of its recorder's workers, which may have others.
    """

    purpose: str
    is_worker: bool = False
    newest_no: int | None = None
    running_ids: list[str] = []
    workers: list[int] = []


class Session(_Frame, tag="session", frozen=True):
    """One run of a recorder; sent first, and again to each writer that is started.

    `imported_from` is the format and the name of a file where nothing ran, `dialects` are the declarations for it.
    """

    uuid: str
    version: str
    pid: int
    boot_id: str | None
    listen: str
    upstreams: list[tuple[str, str]]
    started_at: str
    imported_from: str | None = None
    dialects: list[dict[str, Any]] | None = None


class Deleted(msgspec.Struct, tag="deleted", frozen=True):
    """Counts of exchanges deleted by the tape's limits, in all and of this session; `own_bytes` are those of reads.

    `own_failed` counts generations, `own_non_generations` non-generations.
    """

    exchanges: int
    own_exchanges: int
    own_failed: int
    own_bytes: int
    own_non_generations: int = 0


class Deleting(msgspec.Struct, tag="deleting", frozen=True):
    """A transaction that deletes exchanges is about to begin; `first_no` is the number of the first of them."""

    first_no: int
    deleted: Deleted


class Keep(_Frame, tag="keep", frozen=True):
    """The tape's limits while it is recorded: the exchanges' age, and the bytes of pages in use.

    `announced` is a deletion that the previous writer announced, but did not report as done before it died.
    """

    age_seconds: float | None = None
    size: int | None = None
    announced: Deleting | None = None


@with_facts
class Begin(_ExchangeFrame, Begun, tag="begin"):
    """A request is about to be sent upstream: T0. Without `body_size`, its body follows in pieces."""

    id: str
    headers: _Pairs
    body: bytes | None
    body_size: int | None
    body_sha256: str | None
    labels: dict[str, str]


class Upload(_Frame, tag="upload", frozen=True):
    """A piece of the request body."""

    id: str
    start: int
    data: bytes


class Uploaded(_Frame, tag="uploaded", frozen=True):
    """No more of the request body comes; size and hash are of the whole, stored or not, or None if unknown.

    `truncated`: it did not come to its end.
    """

    id: str
    size: int | None
    sha256: str | None
    truncated: bool


@with_facts
class Head(_ExchangeFrame, Connected, Answered, tag="head"):
    """The response's status and headers came."""

    id: str
    headers: _Pairs


class ReadRun(msgspec.Struct, array_like=True, frozen=True, gc=False, omit_defaults=True):
    """Socket reads of one exchange that follow each other, by columns; `seq` is the number of the first.

    `is_client`: the client sent them over a WebSocket; they are not of the body. Without timestamps, their times are
    unknown, and they are the whole body.
    """

    id: str
    seq: int
    at_ns: list[int]
    relayed_ns: list[int | None]
    sizes: list[int]
    is_client: bool = False


class SocketReads(_Frame, tag="reads", frozen=True):
    """Socket reads of exchanges: a run for each body or client's side, and the bytes of all runs in their order."""

    runs: list[ReadRun]
    data: bytes

    def parts(self) -> Iterator[tuple[ReadRun, bytes]]:
        start = 0
        for run in self.runs:
            end = start + sum(run.sizes)
            yield run, self.data[start:end]
            start = end


@with_facts
class End(_ExchangeFrame, Connected, Ended, tag="end"):
    """The exchange is over; `trailers` are those of the response."""

    id: str
    trailers: _Pairs | None = None


class Heartbeat(_Frame, tag="heartbeat", frozen=True):
    """The relay is alive at this wall time."""

    at: str


class Close(_Frame, tag="close", frozen=True):
    """The recorder ended in good order at this wall time."""

    at: str


class Left(_Frame, tag="left", frozen=True):
    """This relay, one of several of its recorder, ended in good order."""


Entry = Begin | Upload | Uploaded | Head | SocketReads | End | Heartbeat | Close | Left


class Entries(_Frame, tag="entries", frozen=True):
    """All that a relay has gathered of its exchanges, in one frame: a short exchange begins and ends in one.

    The reads are before the other entries: an end is the last of its exchange.
    """

    entries: list[Entry]


Frame = Relay | Session | Keep | Entry | Entries


class Finished(msgspec.Struct, frozen=True):
    """The facts and measures that the relay shows of an exchange, once it is stored and measured.

    It holds no `Exchange`: the writer sends one of each exchange, and a line of the relay's needs no more.
    """

    id: str
    method: str
    path: str
    model: str | None
    status: int | None
    outcome: Standing
    outcome_detail: str | None = None
    ttft_ns: int | None = None
    icl_p50_ns: float | None = None
    max_gap_ns: int | None = None
    duration_ns: int | None = None
    output_tokens: int | None = None
    flags: list[str] = []
    operation: Operation | None = None
    error_code: str | None = None

    @property
    def ending(self) -> Ending:
        """The end of the exchange, with the flags of its answer."""
        identity = (self.outcome, self.outcome_detail, self.error_code, self.status)
        return Ending(*identity, *(flag in self.flags for flag in ("stall", "burst", "given_up")))


class Lost(msgspec.Struct, frozen=True):
    """The loss of frames of an exchange: its `bytes` of bodies; `is_whole`: nothing of the exchange is on the tape."""

    id: str
    bytes: int
    is_whole: bool


class Loading(msgspec.Struct, tag="loading", frozen=True):
    """The writer is alive, and does not hold the tape yet."""


class Ready(msgspec.Struct, tag="ready", frozen=True):
    """The writer holds the tape, has entered the session, and is listening.

    Exchanges of the session have numbers above `newest_no`. `joined` is the process of the recorder that had the tape
    before; None if there is none.
    """

    tape: str
    warnings: list[str]
    newest_no: int = 0
    joined: int | None = None


class Ack(msgspec.Struct, tag="ack", frozen=True):
    """All frames up to and including `seq` are committed, except for those of `lost`."""

    seq: int
    finished: list[Finished]
    lost: list[Lost] = []


class Trouble(msgspec.Struct, tag="trouble", frozen=True):
    """Storing is delayed (a full disk, a lock) and the writer keeps trying; an empty message: it works again."""

    message: str


class Fatal(msgspec.Struct, tag="fatal", frozen=True):
    """The writer cannot continue and ends; `final`: another writer would fail, too."""

    exit_code: int
    message: str
    final: bool = False


class Verified(msgspec.Struct, tag="verified", frozen=True):
    """Counts of this session on the tape, read from the file at the end; None: not read in time.

    `failed` counts generations, `non_generations` non-generations, `unmeasured` those that have ended without measures.
    """

    exchanges: int | None
    failed: int | None
    bytes: int | None
    problems: list[str]
    non_generations: int = 0
    unmeasured: int = 0


Answer = Loading | Ready | Ack | Trouble | Fatal | Deleting | Deleted | Verified

_messages = [(kind.__name__, kind.__struct_fields__) for kind in (*get_args(Frame), ReadRun, *get_args(Answer))]
PROTOCOL = f"{__version__}-{zlib.crc32(repr(_messages).encode()):08x}"
"""Version of the protocol, which relay and writer must share: wiretape's, and a checksum of all messages' fields."""

_encode_frame = msgspec.msgpack.Encoder().encode
_frame_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Frame)
_answer_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Answer)


def encode(seq: int, frame: Frame) -> bytes:
    payload = _encode_frame(frame)
    return _HEAD.pack(len(payload), seq) + payload


def decode(buffer: bytearray) -> Iterator[tuple[int, Frame]]:
    """Yield the whole frames, with the entries of `Entries`, and remove them from `buffer`; a beginning remains."""
    position = 0
    try:
        with memoryview(buffer) as view:  # a frame may hold a large body: not copied twice
            while len(view) - position >= _HEAD.size:
                size, seq = _HEAD.unpack_from(view, position)
                end = position + _HEAD.size + size
                if end > len(view):
                    break
                frame = _frame_decoder.decode(view[position + _HEAD.size : end])
                position = end
                if isinstance(frame, Entries):
                    for entry in frame.entries:
                        yield seq, entry
                else:
                    yield seq, frame
    finally:
        del buffer[:position]


def encode_answer(answer: Answer) -> bytes:
    """Encode an answer as one line of JSON, always shorter than `ANSWER_BYTES`: texts are clipped."""
    match answer:
        case Ack(finished=finished) if finished:
            answer = msgspec.structs.replace(answer, finished=[_clip(exchange) for exchange in finished])
        case Trouble(message=message) | Fatal(message=message):
            answer = msgspec.structs.replace(answer, message=clipped(message, 2000))
        case Verified(problems=problems):
            answer = msgspec.structs.replace(
                answer, problems=[clipped(problem, _SHOWN_CHARACTERS) for problem in problems]
            )
    return msgspec.json.encode(answer) + b"\n"


_TEXTS = [field.name for field in msgspec.structs.fields(Finished) if field.type in (str, str | None)]
_texts_of = attrgetter(*_TEXTS)


def _clip(finished: Finished) -> Finished:
    texts = _texts_of(finished)
    if all([text is None or len(text) <= _SHOWN_CHARACTERS for text in texts]):
        return finished
    clipped_texts = [text and clipped(text, _SHOWN_CHARACTERS) for text in texts]
    return msgspec.structs.replace(finished, **dict(zip(_TEXTS, clipped_texts, strict=True)))


def decode_answer(line: bytes) -> Answer:
    answer: Answer = _answer_decoder.decode(line)
    return answer
