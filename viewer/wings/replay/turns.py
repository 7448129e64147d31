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
from wiretape.viewer.wings.replay import faults, forms, schedule
from wiretape.viewer.wings.replay.faults import Fault
from wiretape.viewer.wings.replay.positions import Places
from wiretape.viewer.wings.replay.schedule import Schedule
from wiretape.viewer.wings.replay.streams import SILENCE_NS


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of a conversation: number *i* follows `asked[i - 1]`, a message, or None for a close frame.

    The times of number 0 count from the request. `starts` are the turns' offsets in all data sent, `between` the
    offsets between frames; `spans` are the spans of the items of `show --part events`; a client's item has an empty
    span.
    """

    client_messages: Sequence[bytes | None]
    schedules: Sequence[Schedule]
    starts: Sequence[int]
    between: frozenset[int]
    spans: Sequence[tuple[int, int]]


def first_message(answer: RecordedExchange) -> bytes | None:
    """Return the message by which a WebSocket is found; None if the client sent none but audio."""
    messages, api = websocket.messages(*answer), api_asked(answer.exchange)
    sent = (item.message for item in messages if item.is_client and item.message.kind in ("text", "binary"))
    return next((message.data for message in sent if not websocket.is_microphone(api, message)), None)


def of(answer: RecordedExchange, *, as_recorded: bool) -> Turns:
    """Return the turns of a recorded WebSocket, with its bytes as they were, or its messages in new frames."""
    items = list(websocket.messages(*answer))
    recorded = schedule.recorded(answer)
    spans = list(_spans(items))
    if not as_recorded:
        recorded, spans = _framed(items, recorded)
    api = api_asked(answer.exchange)
    # Pings and pongs begin no turn.
    sent = [item for item in items if item.is_client and item.message.kind in ("text", "binary", "close")]
    sent = [item for item in sent if not websocket.is_microphone(api, item.message)]
    origins = [0, *(item.order for item in sent)]
    positions = [0, *(bisect_left(recorded.at_ns, origin) for origin in origins[1:]), len(recorded.at_ns)]
    schedules = [
        _cut(recorded, position, end, origin)
        for (position, end), origin in zip(pairwise(positions), origins, strict=True)
    ]
    schedules[-1] = replace(
        schedules[-1], end_ns=max(recorded.end_ns - origins[-1], schedules[-1].end_ns), end=recorded.end
    )
    return Turns(
        [None if item.message.kind == "close" else item.message.data for item in sent],
        schedules,
        [recorded.ends[position - 1] if position else 0 for position in positions[:-1]],
        frozenset((0, *frame_ends(recorded.body))),
        spans,
    )


def _cut(recorded: Schedule, first_write: int, end_write: int, origin: int) -> Schedule:
    """Return some writes as a schedule of their own, with times since `origin`."""
    start = recorded.ends[first_write - 1] if first_write else 0
    ends = [offset - start for offset in recorded.ends[first_write:end_write]]
    at_ns = [at - origin for at in recorded.at_ns[first_write:end_write]]
    body = recorded.body[start : start + (ends[-1] if ends else 0)]
    return Schedule(body, 0, at_ns, ends, at_ns[-1] if at_ns else 0, "end")


def _spans(items: Sequence[TimedMessage]) -> Iterator[tuple[int, int]]:
    end = 0
    for item in items:
        if item.is_client:
            yield end, end
        else:
            yield item.message.start, item.message.end
            end = max(end, item.message.end)


def _framed(items: Sequence[TimedMessage], recorded: Schedule) -> tuple[Schedule, list[tuple[int, int]]]:
    """Return a schedule with a write for each message, and where each item is in it."""
    frames = [b"" if item.is_client else _frame(item) for item in items]
    ends = [*accumulate(map(len, frames))]
    spans = [(end - len(frame), end) for frame, end in zip(frames, ends, strict=True)]
    at_ns = accumulate((item.order for item in items), max)
    writes = [(at, end) for frame, at, end in zip(frames, at_ns, ends, strict=True) if frame]
    framed = replace(recorded, body=b"".join(frames), at_ns=[at for at, _ in writes], ends=[end for _, end in writes])
    return replace(framed, end_ns=max([framed.end_ns, *framed.at_ns])), spans


def _frame(item: TimedMessage) -> bytes:
    protocol, data = FrameProtocol(client=False, extensions=[]), item.message.data
    match item.message.kind:
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


def close_frame(code_and_reason: bytes) -> bytes:
    """Return a close frame of a code and a reason, as the decoder writes them."""
    code, _, reason = code_and_reason.decode().partition(" ")
    return bytes(FrameProtocol(client=False, extensions=[]).close(int(code), reason))


def rechunked(turns: Turns, cut: str) -> Turns:
    """Split the data of each turn into other writes, as a form does that is a cut."""
    schedules = []
    for start, turn in zip(turns.starts, turns.schedules, strict=True):
        spans = [(first - start, last - start) for first, last in turns.spans if start <= first < last]
        splits = forms.split_ends(turn.body, "websocket", spans)
        recut = forms.recut(turn, cut, [last - start for _, last in turns.spans], splits)
        # The beginning whose writes are kept apart is that of all data.
        schedules.append(replace(recut, apart_size=max(recut.apart_size - start, 0)))
    return replace(turns, schedules=schedules)


def paced(turns: Turns, speed: float, cap_ns: int | None) -> Turns:
    """Play faster and wait no longer, as `schedule.paced` does, in each turn."""
    return replace(turns, schedules=[schedule.paced(turn, speed, cap_ns) for turn in turns.schedules])


def places(turns: Turns) -> Places:
    """Return the places in all data of the turns, as recorded; a hold there is between two frames."""
    silence = None
    for start, turn in zip(turns.starts, turns.schedules, strict=True):
        waits = zip(turn.ends, pairwise(turn.at_ns), strict=False)
        offset = next((end for end, (earlier, later) in waits if later - earlier >= SILENCE_NS), None)
        silence = start + offset if silence is None and offset is not None else silence
    size = turns.starts[-1] + len(turns.schedules[-1].body)
    return Places(size, lambda: turns.spans, silence, sorted({*turns.between, size}))


def with_faults(turns: Turns, struck: Sequence[Fault], places: Places) -> tuple[Turns, tuple[str, ...]]:
    """Apply faults, and return those that found their place.

    A stall ends with its turn, as the next turn waits for the client; a fault that cuts the connection ends the turns.
    """
    schedules, names = list(turns.schedules), list[str]()
    for fault in struck:
        if fault.position is None:
            schedules = [faults.changed_by(turn, fault, None) or turn for turn in schedules]
            names += [fault.text] if fault.kind == "slow" else []
            continue
        span = places.span(fault.position)
        number = -1 if span is None else bisect_right(turns.starts, span[0]) - 1
        if span is not None and 0 <= number < len(schedules):  # else an earlier fault has cut before
            start, size = turns.starts[number], len(schedules[number].body)
            changed = faults.changed_by(schedules[number], fault, (min(span[0] - start, size), span[1] - start))
            if changed is not None:
                schedules[number] = changed
                names.append(fault.text)
                schedules = schedules[: number + 1] if fault.kind in ("cut", "reset") else schedules
    return replace(turns, schedules=schedules), tuple(names)


# The handshake


def agrees(recorded: str | None, offered: str) -> bool:
    """Return True if a client takes the extension that was agreed on when it was recorded (RFC 7692, 5.1 and 7.1)."""
    if not recorded:
        return True
    name, agreed = _parameters(recorded)
    for offer in offered.split(","):
        offered_name, offered_parameters = _parameters(offer)
        if offered_name != name:
            continue
        bits = offered_parameters.get("server_max_window_bits")
        is_small = bits is None or int(agreed.get("server_max_window_bits") or 15) <= int(bits or 15)
        has_asked = "client_max_window_bits" in offered_parameters or "client_max_window_bits" not in agreed
        if is_small and has_asked and "server_no_context_takeover" not in offered_parameters.keys() - agreed.keys():
            return True
    return False


def _parameters(extension: str) -> tuple[str, dict[str, str]]:
    name, *parts = (part.strip().lower() for part in extension.split(";"))
    pairs = (part.partition("=") for part in parts)
    return name, {key.strip(): value.strip().strip('"') for key, _, value in pairs}
