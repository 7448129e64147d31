"""Bodies of nothing but events: the same as decoding in full gives, of real streams and of any cut."""

import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.decode.derive import decode
from recorder.decode.outcome import Exchange, Read
from recorder.decode.stalls import Thresholds
from tests.viewer.conftest import DONE, event
from viewer.model.exchange import unrolled
from viewer.model.exchange.transcript import Transcript
from viewer.timing import verdicts
from viewer.timing.timed import Timed

STREAMS = sorted((Path(__file__).parents[3] / "data" / "streams").glob("*.sse"))
FACTS = Exchange(200, "text/event-stream", None, "end", 0, 0, 10**12)
GAP_NS = 700_000_000
_EVENTS = st.one_of(
    st.text(max_size=4).map(lambda text: event({"content": text})),
    st.sampled_from(["a", "b ", "ü", "\\n"]).map(lambda text: event({"reasoning_content": text})),
    st.sampled_from([0, 1]).flatmap(
        lambda index: st.text(max_size=3).map(
            lambda text: event({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
        )
    ),
    st.sampled_from(["f", "g"]).map(
        lambda name: event({"tool_calls": [{"index": 0, "function": {"name": name, "arguments": "{}"}}]})
    ),
    st.sampled_from([b": ping\n\n", DONE, event({}, "stop"), b'data: {"error":{"message":"m"}}\n\n', b"data: {no\n\n"]),
)


def reads(body: bytes, cuts: list[int]) -> list[Read]:
    borders = [0, *sorted({cut % len(body) for cut in cuts} - {0}), len(body)]
    return [
        Read(seq, GAP_NS * seq, GAP_NS * seq + 5, start, end - start)
        for seq, (start, end) in enumerate(pairwise(borders))
    ]


def columns(transcript: Transcript) -> list[object]:
    texts = []
    for voice in transcript.voices:
        calls = [track for call in voice.calls for track in (call.name, call.arguments)]
        for track in (voice.content, voice.reasoning, voice.refusal, *calls):
            texts.append((voice.index, track.text, track.events, track.ends))
    said = [[track.text for track in transcript.tracks(event)] for event in range(len(transcript))]
    names = ("data", "at", "timed", "reads", "starts", "ends", "kinds")
    return [*(getattr(transcript, name) for name in names), texts, said]


def assert_the_same(facts: Exchange, its_reads: list[Read], body: bytes) -> bool:
    """Say whether the body was read as events; if so, all of it is as in decoding in full."""
    whole = decode(facts, its_reads, body)
    found = unrolled.events(facts, its_reads, body)
    if found is None:
        return False
    transcript = Transcript.of_events(found)
    assert columns(transcript) == columns(Transcript(whole))
    outline, spoken = unrolled.decoded(found, transcript), unrolled.spoken(found)
    assert (outline.dialect, outline.stream, outline.done) == (whole.dialect, whole.stream, whole.done)
    assert [one._replace(chunk=spoken(no)) for no, one in enumerate(outline.chunks)] == whole.chunks
    told = []
    for timed in (Timed(facts, its_reads, outline, spoken), Timed(facts, its_reads, whole)):
        told.append((verdicts.verdicts(timed, "error_event", Thresholds()), timed.slowness()))
    assert told[0] == told[1]
    return True


@given(st.lists(_EVENTS, min_size=1, max_size=30), st.lists(st.integers(1, 10**6), max_size=12), st.booleans())
def test_whatever_is_said_and_however_it_is_cut_it_is_what_decoding_gives(
    parts: list[bytes], cuts: list[int], crlf: bool
) -> None:
    body = b"".join(parts)
    body = body.replace(b"\n", b"\r\n") if crlf else body
    assert_the_same(FACTS, reads(body, cuts), body)


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.name)
def test_real_streams_are_what_decoding_gives(path: Path) -> None:
    body = path.read_bytes()
    for size in (3, 100, len(body)):
        assert_the_same(FACTS, reads(body, list(range(size, len(body), size))), body)


def test_an_ordinary_answer_is_read_as_events_also_where_it_came_compressed() -> None:
    body = b"".join(event({"content": f"word {at} "}) for at in range(100)) + DONE
    assert assert_the_same(FACTS, reads(body, list(range(50, len(body), 50))), body)
    packed = zlib.compress(body, wbits=31)
    assert assert_the_same(
        Exchange(200, "text/event-stream", "gzip", "end", 0, 0, 9), reads(packed, [100, 200]), packed
    )


def test_what_is_no_list_of_events_is_left_to_decoding() -> None:
    bodies = (b'{"error": 1}', b"data: {}\n", b"data: {}\ndata: {}\n\n", b"event: x\ndata: {}\n\n")
    assert not any(assert_the_same(FACTS, reads(body, []), body) for body in bodies)


def test_comments_without_known_reads_are_left_to_decoding() -> None:
    body = b": ping\n\n" + event({"content": "a"})
    assert unrolled.events(FACTS, [Read(0, 5, None, 4, len(body) - 4)], body) is None


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("cut", range(1, 12))
def test_a_comment_ends_with_its_own_line_wherever_reads_end(line_end: bytes, cut: int) -> None:
    block = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}'
    body = b": ping" + 2 * line_end + block + 2 * line_end
    reads = [Read(0, 5, 6, 0, cut), Read(1, 9, 10, cut, len(body) - cut)]
    assert assert_the_same(FACTS, reads, body)
