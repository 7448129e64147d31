"""Silences by layer: of bytes, events and output, with their owners, for whatever limit they are asked."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from tests.support.cases import each_case
from tests.support.sample_tape import event
from tests.support.timed_exchanges import COMMENT, EMPTY, MS, Part, evenly, facts, word
from tests.support.websockets import ASK, response, side, websocket
from wiretape.recorder.decode.conversation import RecordedRequest
from wiretape.recorder.decode.decoder import PING as PING_ITEM
from wiretape.recorder.decode.decoder import Decoded
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.exchange import Exchange, Reads
from wiretape.recorder.decode.layers import ping_gaps
from wiretape.recorder.decode.metrics import Measures
from wiretape.recorder.decode.stalls import ENDINGS, LATER, LAYERS, OWNERS, AwaitedAnswer, Ending

DONE = b"data: [DONE]\n\n"
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
STREAMED = RecordedRequest([], b'{"model": "m", "stream": true}')
WHOLE = RecordedRequest([], b'{"model": "m"}')


def measured(*parts: Part, asked: RecordedRequest = STREAMED, **other: object) -> Measures:
    return derive(*facts(*parts, **other), request=asked)  # type: ignore[arg-type]


def unanswered(by: str, asked: RecordedRequest = STREAMED, **other: object) -> Measures:
    values = {"status": None, "ended_by": by, "end_ns": 5000 * MS, "sent_ns": MS, "path": "/v1/chat/completions"}
    return derive(Exchange(**values | other), Reads.of([]), b"", request=asked)  # type: ignore[arg-type]


Figures = tuple[float | None, float | None, float | None]


def first(one: Measures) -> Figures:
    return _ms(one.first_silence_ns, one.first_event_silence_ns, one.first_output_silence_ns)


def longest(one: Measures) -> Figures:
    return _ms(one.max_silence_ns, one.max_event_silence_ns, one.max_output_silence_ns)


def _ms(*values: int | None) -> Figures:
    of_bytes, of_events, of_output = (None if value is None else value / MS for value in values)
    return of_bytes, of_events, of_output


@dataclass
class Stream:
    """A stream as the tape has it: its ending, and its silences."""

    ending: Ending
    start_ns: int
    waited_ns: int
    silences: list[tuple[int, int, int]]

    def later(self, layer: str) -> list[tuple[float, float, str | None]]:
        bit = 1 << LAYERS.index(layer)  # type: ignore[arg-type]
        return [(at / MS, ns / MS, OWNERS[tag >> 4]) for tag, at, ns in self.silences if tag & bit and tag & LATER]

    def first(self, layer: str) -> float | None:
        bit = 1 << LAYERS.index(layer)  # type: ignore[arg-type]
        return next((ns / MS for tag, _, ns in self.silences if tag & bit and not tag & LATER), None)

    def cut_at(self, layer: str, limit_ns: int) -> float | None:
        """Return when a limit on later silences would have cut it."""
        theirs = ((at, lasted) for at, lasted, who in self.later(layer) if who not in ("client", "relay"))
        return next((at * MS + limit_ns for at, lasted in theirs if lasted * MS > limit_ns), None)


def kept(one: Measures) -> list[Stream]:
    numbers = struct.iter_unpack("<3q", one.silences)
    streams = list[Stream]()
    for tag, from_ns, ns in numbers:
        if tag & 15:
            streams[-1].silences.append((tag, from_ns, ns))
        else:
            streams.append(Stream(ENDINGS[tag >> 4], from_ns, ns, []))
    return streams


def test_each_layer_has_its_own_marks() -> None:
    parts = [(100, COMMENT), (300, PING), (600, word()), (700, COMMENT), (1500, PING), (3000, word())]
    one = measured(*parts, (3100, DONE), end=9000)
    assert first(one) == (100, 300, 600)
    assert longest(one) == (1500, 1500, 2400)
    assert (one.ttf_event_ns, one.ping_gaps) == (300 * MS, struct.pack("<2q", 200 * MS, 800 * MS))
    (stream,) = kept(one)
    assert (stream.ending, stream.start_ns, stream.waited_ns) == ("good", 0, 3100 * MS)
    assert [*map(stream.first, LAYERS)] == [100, 300, 600]
    assert stream.later("bytes") == [
        (100, 200, "upstream"),
        (300, 300, "upstream"),
        (700, 800, "upstream"),
        (1500, 1500, "upstream"),
    ]
    assert stream.later("output") == [(600, 2400, "upstream")]


def test_an_unmarked_first_silence_lasts_until_waiting_ends() -> None:
    one = measured((100, COMMENT), by="client", end=5000)
    assert (first(one), longest(one)) == ((100, 5000, 5000), (4900, None, None))
    assert (one.ttf_event_ns, kept(one)[0].ending) == (None, "dead")


def test_whole_answers_have_no_silences() -> None:
    body = b'{"object": "chat.completion", "choices": [{"index": 0, "message": {"content": "a"}}]}'
    for parts in ([(9000, body)], [(9000, body[:20]), (12_000, body[20:])]):
        one = measured(*parts, content_type="application/json", asked=WHOLE)
        assert (first(one), longest(one), one.silences) == ((None,) * 3, (None,) * 3, b"")


def test_an_error_that_answers_a_streams_request_is_awaited() -> None:
    error = (4000, b'{"error": {"message": "no"}}')
    one = measured(error, status=500, content_type="application/json", end=4001)
    assert (first(one), longest(one)) == ((4000, 4001, 4001), (1, None, None))
    assert kept(one)[0].ending == "dead"
    whole = measured(error, status=500, content_type="application/json", end=4001, asked=WHOLE)
    assert (first(whole), whole.silences) == ((None,) * 3, b"")


@each_case(
    ("by", "figures", "ending"),
    [
        ("client", (5000, 5000, 5000), "dead"),
        ("reset", (5000, 5000, 5000), "dead"),
        ("headers_timeout", (5000, 5000, 5000), "limit"),
        ("shutdown", (5000, 5000, 5000), "dead"),
        ("died", (5000, 5000, 5000), "left"),
        ("refused", (None, None, None), None),
        ("connect_timeout", (None, None, None), None),
    ],
)
def test_what_was_sent_is_waited_for_whatever_its_outcome(by: str, figures: Figures, ending: Ending | None) -> None:
    one = unanswered(by)
    assert (first(one), longest(one)) == (figures, (None,) * 3)
    assert [stream.ending for stream in kept(one)] == ([ending] if ending else [])


def test_undecoded_streams_are_silent_by_bytes_and_events() -> None:
    notifications = [(10, b'data: {"jsonrpc": "2.0", "method": "notifications/x"}\n\n'), (9010, COMMENT)]
    one = measured(*notifications, path="/mcp", end=9020, asked=WHOLE)
    assert (first(one), longest(one)) == ((10, 10, None), (9000, 9010, None))
    assert "stall" not in one.flags


def test_a_running_stream_has_none_yet() -> None:
    one = measured((100, word()), (9000, word()), by=None)
    assert (first(one), longest(one), one.silences) == ((None,) * 3, (None,) * 3, b"")


def test_without_times_all_is_unknown() -> None:
    one = measured((100, word()), (9000, DONE), clock="none")
    assert (first(one), longest(one), one.silences, one.ping_gaps) == ((None,) * 3, (None,) * 3, b"", b"")


@each_case(
    ("last", "by", "ending"),
    [
        (DONE, "end", "good"),
        (b'data: {"error": {"message": "overloaded"}}\n\n', "end", "dead"),
        (COMMENT, "eof", "dead"),
        (COMMENT, "idle_timeout", "limit"),
        (COMMENT, "client", "left"),
        (COMMENT, "shutdown", "left"),
    ],
)
def test_the_ending_of_a_stream_tells_good_from_dead(last: bytes, by: str, ending: Ending) -> None:
    assert kept(measured((100, word()), (200, last), by=by, end=300))[0].ending == ending


def test_waits_for_the_client_hide_none_of_upstreams() -> None:
    large = word("x" * 300_000)
    slow: Sequence[Part] = [(0, large, 6000), (10, large, 6000), (6100, word(), 6100), (9100, word()), (9110, DONE)]
    one = measured(*slow, paused=1)
    assert longest(one)[2] == 6090
    (stream,) = kept(one)
    assert stream.later("output") == [(0, 10, "upstream"), (10, 6090, "client"), (6100, 3000, "upstream")]


def test_a_client_that_leaves_while_reading_was_paused_for_it_gave_up_nothing() -> None:
    large = word("x" * 300_000)
    slow: Sequence[Part] = [(0, large, 1500), (10, large, 5500), (20, large, None), (20, large, None)]
    one = measured(*slow, paused=1, by="client", end=6000)
    assert longest(one)[2] == 5980
    (stream,) = kept(one)
    assert (stream.ending, stream.later("output")[-1]) == ("left", (20, 5980, "client"))
    assert (one.stalled_answers, one.given_up_answers, one.silent_end_by) == (1, 0, "client")
    went_on = measured(*slow[:2], (20, large, 5600), paused=1, by="client", end=13_000)
    assert kept(went_on)[0].later("output")[-1] == (20, 12_980, "upstream")


def test_a_recorder_that_was_late_owns_the_silence() -> None:
    late: Sequence[Part] = [*evenly(3, 100), (3200, word() + word()), (3300, DONE)]
    (stream,) = kept(measured(*late, clock_error_ns=2900 * MS, clock="kernel"))
    assert stream.later("output") == [(0, 100, "upstream"), (200, 3000, "relay")]
    (stream,) = kept(measured(*evenly(3, 100), (3200, word()), (3300, DONE), clock_error_ns=2900 * MS, clock="loop"))
    assert stream.later("bytes") == [(0, 100, "upstream"), (200, 3000, "relay")]


def test_missing_reads_leave_a_silence_unknown() -> None:
    exchange, reads, body = facts((0, word()), (100, word()), (5000, word()), (5100, DONE))
    size = reads[1].size
    lost = replace(exchange, gap_bytes=size)
    one = derive(lost, [read for read in reads if read.seq != 1], body, request=STREAMED)
    assert [lasted for _, lasted, _ in kept(one)[0].later("bytes")] == [100]


def test_pings_count_within_one_silence_of_output_only() -> None:
    parts: list[Part] = [
        (100, COMMENT),
        (350, PING),
        (400, word()),
        (500, PING),
        (520, EMPTY),
        (1000, COMMENT),
        (1100, PING + COMMENT),
        (1200, DONE),
    ]
    one = measured(*parts)
    assert [ns // MS for (ns,) in struct.iter_unpack("<q", one.ping_gaps)] == [250, 500, 100]


def test_each_turn_of_a_websocket_is_a_stream() -> None:
    def sent(messages: Sequence[tuple[int, str]], *, client: bool) -> list[tuple[int, bytes]]:
        encoder = side(client=client)
        return [(at_ms, encoder.send_data(text)) for at_ms, text in messages]

    created, one, two, completed = response(1, "one", "two")
    turn = [(110, created), (200, one), (300, two), (400, completed)]
    left = [(20_110, created), (20_500, one)]
    exchange = websocket(
        sent([*turn, *left], client=False), sent([(100, ASK), (20_100, ASK)], client=True), "client", end_ms=24_000
    )
    found = derive(*exchange)
    assert (first(found), longest(found)) == ((10, 10, 100), (3500, 3500, 3500))
    whole, abandoned = kept(found)
    assert (whole.ending, whole.start_ns, whole.waited_ns) == ("good", 100 * MS, 300 * MS)
    assert (abandoned.ending, abandoned.start_ns, abandoned.waited_ns) == ("dead", 20_100 * MS, 3900 * MS)
    assert abandoned.later("output") == [(400, 3500, "upstream")]


class Mark(NamedTuple):
    """A read of a random stream, and the layers on which it is a mark."""

    at_ms: int
    data: bytes
    layers: tuple[str, ...]


KINDS = (
    (COMMENT, ("bytes",)),
    (PING, ("bytes", "events")),
    (EMPTY, ("bytes", "events")),
    (word(), ("bytes", "events", "output")),
    (event({"reasoning_content": "x"}), ("bytes", "events", "output")),
)


def replayed(marks: Sequence[Mark], layer: str, limit_ms: int, end_ms: int) -> int | None:
    """Replay a stream on a clock of whole ms, and return when a watchdog for later silences fires."""
    armed_ms: int | None = None
    coming = iter([*marks, None])
    following = next(coming)
    for now_ms in range(end_ms + 1):
        if armed_ms is not None and now_ms - armed_ms > limit_ms:
            return armed_ms + limit_ms
        while following is not None and following.at_ms == now_ms:
            if layer in following.layers:
                armed_ms = now_ms
            following = next(coming)
    return None


def test_any_limit_cuts_where_a_clocked_replay_would() -> None:
    random = Random(46)
    for _ in range(30):
        at_ms, marks = 0, list[Mark]()
        for _ in range(random.randrange(12)):
            at_ms += random.choice((0, 1, 3, 20, random.randrange(60)))
            marks.append(Mark(at_ms, *random.choice(KINDS)))
        end_ms = at_ms + random.randrange(1, 60)
        by = random.choice(("client", "eof", "idle_timeout"))
        one = measured(*[(mark.at_ms, mark.data) for mark in marks] or [(0, b"")], by=by, end=end_ms)
        (stream,) = kept(one)
        for layer in LAYERS:
            own = [mark.at_ms for mark in marks if layer in mark.layers]
            assert stream.first(layer) == (own[0] if own else end_ms)
            for limit_ms in range(61):
                fired_ms = replayed(marks, layer, limit_ms, end_ms)
                expected = None if fired_ms is None else fired_ms * MS
                assert stream.cut_at(layer, limit_ms * MS) == expected, (layer, limit_ms, marks, end_ms)


def test_a_ping_within_two_turns_that_overlap_counts_once() -> None:
    answers = [AwaitedAnswer(0, 40, [25]), AwaitedAnswer(5, 50), AwaitedAnswer(100, 200)]
    pings = Decoded(b"", "websocket", kinds=bytearray((PING_ITEM,)) * 5, at_ns=[10, 20, 30, 70, 110])
    assert ping_gaps(pings, answers) == struct.pack("<q", 10)
