"""Pure: a recorded WebSocket in turns: each is upstream's data after a message of the client.

Upstream's data after a message is its answer to that message, and a client may be slower or faster than the recorded
one. So the times of a turn count from the message that began it. Messages with nothing but the user's voice begin none:
there are many, and no two clients cut it alike. A turn is sent as the recorded bytes, if the client accepts the
recorded extension; else the messages, uncompressed, each as a frame.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from wsproto.frame_protocol import FrameProtocol

from wiretape.recorder.decode import websocket
from wiretape.recorder.decode.exchange import RecordedExchange
from wiretape.recorder.decode.framings.websocket import frame_ends
from wiretape.recorder.decode.operation import api_asked
from wiretape.recorder.decode.websocket import TimedMessage
from wiretape.viewer.wings.replay import faults, schedule
from wiretape.viewer.wings.replay.faults import Fault
from wiretape.viewer.wings.replay.schedule import Schedule

_BEGIN = ("text", "binary", "close")
"""Kinds of client messages that begin a turn."""


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of a conversation: number *i* follows `asked[i - 1]`, a message, or None for a close frame.

    The times of number 0 count from the request. `starts` are the turns' offsets in all data sent, `between` the
    offsets between frames; `spans` are the spans of the items of `show --part events`; a client's item has an empty
    span.
    """

    asked: Sequence[bytes | None]
    schedules: Sequence[Schedule]
    starts: Sequence[int]
    between: frozenset[int]
    spans: Sequence[tuple[int, int]]

    @property
    def message_ends(self) -> list[int]:
        return sorted({end for _, end in self.spans})


def first(answer: RecordedExchange) -> bytes | None:
    found, api = websocket.messages(*answer), api_asked(answer.exchange)
    asks = (one.message for one in found if one.is_client and one.message.kind in ("text", "binary"))
    return next((message.data for message in asks if not websocket.is_microphone(api, message)), None)


def of(answer: RecordedExchange, *, as_recorded: bool) -> Turns:
    """Return the turns of a recorded WebSocket, with its bytes as they were, or its messages in new frames."""
    came = list(websocket.messages(*answer))
    whole = schedule.recorded(answer)
    spans = list(_spans(came))
    if not as_recorded:
        whole, spans = _framed(came, whole)
    api = api_asked(answer.exchange)
    asks = [one for one in came if one.is_client and one.message.kind in _BEGIN]
    asks = [one for one in asks if not websocket.is_microphone(api, one.message)]
    origins = [0, *(one.order for one in asks)]
    places = [0, *(bisect_left(whole.at_ns, origin) for origin in origins[1:]), len(whole.at_ns)]
    made = [_cut(whole, place, end, origin) for (place, end), origin in zip(pairwise(places), origins, strict=True)]
    made[-1] = replace(made[-1], end_ns=max(whole.end_ns - origins[-1], made[-1].end_ns), end=whole.end)
    return Turns(
        [None if one.message.kind == "close" else one.message.data for one in asks],
        made,
        [whole.ends[place - 1] if place else 0 for place in places[:-1]],
        frozenset((0, *frame_ends(whole.body))),
        spans,
    )


def _cut(whole: Schedule, place: int, end: int, origin: int) -> Schedule:
    """Return some writes as a schedule of their own, with times since `origin`."""
    start = whole.ends[place - 1] if place else 0
    ends = [offset - start for offset in whole.ends[place:end]]
    at_ns = [at - origin for at in whole.at_ns[place:end]]
    body = whole.body[start : start + (ends[-1] if ends else 0)]
    return Schedule(body, 0, at_ns, ends, at_ns[-1] if at_ns else 0, "end")


def _spans(came: Sequence[TimedMessage]) -> Iterator[tuple[int, int]]:
    end = 0
    for one in came:
        if one.is_client:
            yield end, end
        else:
            yield one.message.start, one.message.end
            end = max(end, one.message.end)


def _framed(came: Sequence[TimedMessage], whole: Schedule) -> tuple[Schedule, list[tuple[int, int]]]:
    """Return a schedule with a write for each message, and where each item is in it."""
    frames = [b"" if one.is_client else _frame(one) for one in came]
    ends = [*accumulate(map(len, frames))]
    spans = [(end - len(frame), end) for frame, end in zip(frames, ends, strict=True)]
    at_ns = accumulate((one.order for one in came), max)
    writes = [(at, end) for frame, at, end in zip(frames, at_ns, ends, strict=True) if frame]
    made = replace(whole, body=b"".join(frames), at_ns=[at for at, _ in writes], ends=[end for _, end in writes])
    return replace(made, end_ns=max([made.end_ns, *made.at_ns])), spans


def _frame(one: TimedMessage) -> bytes:
    protocol, data = FrameProtocol(client=False, extensions=[]), one.message.data
    match one.message.kind:
        case "text":
            return bytes(protocol.send_data(data.decode(), fin=True))
        case "binary":
            return bytes(protocol.send_data(data, fin=True))
        case "ping":
            return bytes(protocol.ping(data))
        case "pong":
            return bytes(protocol.pong(data))
        case "close":
            return close_frame(data)
    return data  # what could not be read


def close_frame(said: bytes) -> bytes:
    """Return a close frame of a code and a reason, as the decoder writes them."""
    code, _, reason = said.decode().partition(" ")
    return bytes(FrameProtocol(client=False, extensions=[]).close(int(code), reason))


def rechunked(turns: Turns, rechunk: str | int) -> Turns:
    """Split the data of each turn into other writes, as `schedule.rechunked` does."""
    if rechunk == "recorded":
        return turns
    made = []
    for start, one in zip(turns.starts, turns.schedules, strict=True):
        size = len(one.body)
        ends: Sequence[int] = [*(end - start for end in turns.message_ends if start < end < start + size), size]
        made.append(
            schedule.rechunked(one, ends if isinstance(rechunk, str) else schedule.in_pieces(one.body, rechunk))
        )
    return replace(turns, schedules=made)


def paced(turns: Turns, speed: float, cap_ns: int | None) -> Turns:
    """Play faster and wait no longer, as `schedule.paced` does, in each turn."""
    return replace(turns, schedules=[schedule.paced(one, speed, cap_ns) for one in turns.schedules])


def with_faults(turns: Turns, struck: Sequence[Fault]) -> tuple[Turns, tuple[str, ...]]:
    """Apply faults, and return those that found their place.

    A stall ends with its turn, as the next turn waits for the client; a fault that cuts the connection ends the turns.
    """
    made, done = list(turns.schedules), list[str]()
    for fault in struck:
        if fault.kind == "slow":
            made = [faults.applied(one, [fault], list)[0] for one in made]
            done.append(fault.text)
        elif (place := _place(turns, fault)) is not None and (at := _turn_at(turns, place[0])) < len(made):
            start, size = turns.starts[at], len(made[at].body)
            local = (min(place[0] - start, size), min(place[1] - start, size))
            made[at], found = faults.applied(made[at], [replace(fault, event=0)], [local].copy)
            done += [fault.text for _ in found]
            made = made[: at + 1] if fault.kind in ("cut", "reset") else made
    return replace(turns, schedules=made), tuple(done)


def _place(turns: Turns, fault: Fault) -> tuple[int, int] | None:
    if fault.event is not None:
        return turns.spans[fault.event] if fault.event < len(turns.spans) else None
    size = turns.starts[-1] + len(turns.schedules[-1].body)
    return int(size * fault.share), size


def _turn_at(turns: Turns, offset: int) -> int:
    """Return the turn that sends the byte at an offset."""
    return bisect_right(turns.starts, offset) - 1


# The handshake


def agrees(recorded: str | None, offered: str) -> bool:
    """Return True if a client takes the extension that was agreed on when it was recorded (RFC 7692, 5.1 and 7.1)."""
    if not recorded:
        return True
    name, had = _parameters(recorded)
    for offer in offered.split(","):
        its_name, given = _parameters(offer)
        if its_name != name:
            continue
        bits = given.get("server_max_window_bits")
        is_small = bits is None or int(had.get("server_max_window_bits") or 15) <= int(bits or 15)
        has_asked = "client_max_window_bits" in given or "client_max_window_bits" not in had
        if is_small and has_asked and "server_no_context_takeover" not in given.keys() - had.keys():
            return True
    return False


def _parameters(extension: str) -> tuple[str, dict[str, str]]:
    name, *parts = (part.strip().lower() for part in extension.split(";"))
    pairs = (part.partition("=") for part in parts)
    return name, {key.strip(): value.strip().strip('"') for key, _, value in pairs}
