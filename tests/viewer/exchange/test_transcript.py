"""The answer of an exchange, event by event, and its texts at each of them."""

import random
from pathlib import Path

from tests.support.cases import each_case
from tests.support.decoding import of_chunks
from tests.support.hosted_sessions import CLAUDE_STREAM, idle, message, running, stream
from tests.support.sample_tape import COMPLETE, DONE, FAILED, MS, TOOLS, event
from wiretape.recorder.decode.assembly import assemble
from wiretape.recorder.decode.decoder import Decoded, decode
from wiretape.recorder.decode.encoding import Cleaner
from wiretape.recorder.decode.exchange import Exchange, Read
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange import events
from wiretape.viewer.exchange.transcript import OUTPUT, Track, Transcript
from wiretape.viewer.source.tape import queries

STREAMS = sorted((Path(__file__).parents[2] / "data" / "streams").iterdir())
FACTS = Exchange(
    status=200, content_type="text/event-stream", ended_by="end", connected_ns=0, headers_ns=0, end_ns=10**9
)


def decoded(body: bytes, sizes: tuple[int, ...] = ()) -> Decoded:
    """Decode a body that came in reads of these sizes, the rest in one more, 10 ns apart."""
    reads, start = [], 0
    for seq, size in enumerate((*sizes, len(body) - sum(sizes))):
        reads.append(Read(seq, 10 * seq, None, start, size))
        start += size
    return decode(FACTS, reads, body)


def kinds(transcript: Transcript) -> list[str]:
    return [transcript.kind(event) for event in range(len(transcript))]


def recorded(connection: Connection, id: str) -> Transcript:
    return Transcript(queries.observed(connection, queries.find(connection, id))[2])


def test_event_has_its_most_telling_kind(connection: Connection) -> None:
    assert kinds(recorded(connection, COMPLETE)) == [
        "role", "content", "comment", "content", "content", "content", "finish", "usage", "done",
    ]  # fmt: skip
    assert kinds(recorded(connection, TOOLS)) == ["reasoning", "tool", "tool", "finish", "done"]
    assert kinds(recorded(connection, FAILED)) == ["content", "error"]
    odd = b'data: {not json\n\ndata: {"type": "ping"}\n\n' + event({"refusal": "No."}) + b"data:\n\n"
    assert kinds(Transcript(decoded(odd))) == ["malformed", "ping", "refusal", "other"]
    item = b'{"type": "reasoning", "summary": [], "encrypted_content": "x"}'
    opaque = b'data: {"type": "response.output_item.done", "output_index": 0, "item": ' + item + b"}\n\n"
    assert kinds(Transcript(decoded(opaque))) == ["reasoning"]


def test_event_has_the_timestamp_and_number_of_its_read(connection: Connection) -> None:
    transcript = recorded(connection, COMPLETE)
    assert list(transcript.at[:5]) == [100_000_000, 110_000_000, 120_000_000, 120_000_000, 120_000_000]
    assert list(transcript.reads[4:7]) == [2, 4, 5]
    assert [transcript.gap_ns(event) for event in range(4)] == [None, 10_000_000, 10_000_000, 0]
    assert [transcript.shares_read(event) for event in range(4)] == [False, False, False, True]
    assert transcript.bytes(2) == b": keep-alive\n"


def test_texts_have_their_length_after_each_event(connection: Connection) -> None:
    transcript = recorded(connection, COMPLETE)
    (voice,) = transcript.voices
    texts = [voice.content.text[: voice.content.length(position)] for position in range(len(transcript) + 1)]
    assert texts == ["", "", "Hel", "Hel", "Hello", "Hello, ", "Hello, world", *["Hello, world"] * 3]
    assert [transcript.text(event) for event in range(4)] == ["", "Hel", "", "lo"]


def test_a_tool_calls_arguments_grow(connection: Connection) -> None:
    (voice,) = recorded(connection, TOOLS).voices
    (call,) = voice.calls
    assert (call.name.text, call.name.length(1), call.name.length(2)) == ("get_weather", 0, 11)
    assert [call.arguments.text[: call.arguments.length(at)] for at in range(4)] == [
        "", "", '{"city":', '{"city":"Oslo"}',
    ]  # fmt: skip


def test_records_outside_of_events_are_in_their_place() -> None:
    loose = b'{"error":{"message":"gone"}}\n\n'
    transcript = Transcript(decoded(event({"content": "a"}) + loose + event({"content": "b"})))
    assert kinds(transcript) == ["content", "error", "content"]
    assert b"gone" in transcript.bytes(1)


def test_a_halved_character_appears_with_its_second_half() -> None:
    halves = [
        b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % half for half in (b"a\\ud83d", b"\\ude00b")
    ]
    (voice,) = Transcript(decoded(halves[0] + halves[1])).voices
    assert (voice.content.text, voice.content.length(1), voice.content.length(2)) == ("a\U0001f600b", 1, 3)


def test_each_choice_is_a_voice() -> None:
    chunk = b'data: {"choices":[{"index":1,"delta":{"content":"B"}},{"index":0,"delta":{"content":"A"}}]}\n\n'
    transcript = Transcript(decoded(chunk + chunk + DONE))
    assert [(voice.index, voice.content.text) for voice in transcript.voices] == [(0, "AA"), (1, "BB")]


def test_missing_timestamps_are_not_invented() -> None:
    body = event({"content": "a"}) + event({"content": "b"})
    first_size = len(event({"content": "a"}))
    transcript = Transcript(decode(FACTS, [Read(0, 70, None, 0, first_size)], body))
    assert list(transcript.at) == [70, 70]
    assert (list(transcript.timed), transcript.gap_ns(1), transcript.reads[1]) == ([1, 0], None, -1)


def test_position_is_how_many_events_had_come(connection: Connection) -> None:
    transcript = recorded(connection, COMPLETE)
    assert [transcript.position(at) for at in (0, 100_000_000, 119_999_999, 120_000_000, 10**12)] == [0, 1, 2, 5, 9]


@each_case("path", STREAMS, ids=lambda path: path.name)
def test_texts_anywhere_equal_those_of_the_chunks(path: Path) -> None:
    body = path.read_bytes()
    draw = random.Random(path.name)
    cuts = sorted(draw.sample(range(1, len(body)), 6))
    sizes = tuple(later - earlier for earlier, later in zip([0, *cuts], cuts, strict=False))
    decoded_answer = decoded(body, sizes)
    transcript = Transcript(decoded_answer)
    for position in [len(transcript), *draw.choices(range(len(transcript) + 1), k=5)]:
        end = transcript.ends[position - 1] if position else 0
        completed = [timed.chunk for timed in decoded_answer.chunks() if timed.end <= end]
        so_far = assemble(of_chunks(completed, [None] * len(completed)).runs, Cleaner())
        voice = transcript.voices[0] if transcript.voices else None
        for name in ("content", "reasoning", "refusal"):
            track: Track | None = getattr(voice, name, None)
            texts = Cleaner().text(track.text[: track.length(position)]) if track else ""
            assert texts.rstrip("\ufffd") == (so_far.values[name] or "").rstrip("\ufffd")


@each_case("path", STREAMS, ids=lambda path: path.name)
def test_only_output_has_text(path: Path) -> None:
    transcript = Transcript(decoded(path.read_bytes()))
    assert {kind for at, kind in enumerate(kinds(transcript)) if transcript.text(at)} <= OUTPUT


def test_deltas_are_found_by_the_characters_that_they_added() -> None:
    track = Track()
    for at, text in ((1, "ab"), (3, "c"), (3, "d"), (7, "ef")):
        track.add(at, text)
    assert [(delta.event, delta.start, delta.end) for delta in track.deltas()] == [(1, 0, 2), (3, 2, 4), (7, 4, 6)]
    assert [delta.event for delta in track.deltas(2, 4)] == [3]
    assert [delta.event for delta in track.deltas(1, 5)] == [1, 3, 7]
    assert list(track.deltas(6)) == []
    assert (track.of(3), track.of(2), track.of(7)) == ("cd", "", "ef")


def test_extending_equals_adding_one_by_one() -> None:
    one_by_one, at_once = Track(), Track()
    for number, text in ((2, "a"), (3, "bc"), (4, "d")):
        one_by_one.add(number, text)
    at_once.add(2, "a")
    at_once.extend(range(3, 5), ["bc", "d"])
    assert (at_once.text, at_once.events, at_once.ends) == (one_by_one.text, one_by_one.events, one_by_one.ends)
    assert [at_once.length(position) for position in range(6)] == [0, 0, 0, 1, 3, 4]


def test_a_halved_character_belongs_to_its_completing_event() -> None:
    track = Track()
    track.add(1, "a\ud83d")
    track.add(2, "\ude00b")
    assert (track.text, list(track.ends), track.of(2)) == ("a\U0001f600b", [1, 3], "\U0001f600b")


def test_time_between_two_hosted_turns_is_idle() -> None:
    told = [(10, running("r1")), (20, message("m1", "a")), (30, idle("i1")), (9000, running("r2")), (9100, idle("i2"))]
    member = stream("a" * 16, 0, told, CLAUDE_STREAM).exchange()
    transcript = Transcript(decode(member.exchange, member.reads, member.body))
    assert [transcript.is_idle(event) for event in range(5)] == [True, False, False, True, False]
    assert [events.gap(transcript, event)[2] for event in (1, 3)] == ["plain", "muted"]
    assert transcript.idle_spans(9500 * MS) == [(0, 10 * MS), (30 * MS, 9000 * MS), (9100 * MS, 9500 * MS)]
    assert [transcript.is_idle_at(at * MS) for at in (5, 25, 5000, 9050, 9400)] == [True, False, True, False, True]
