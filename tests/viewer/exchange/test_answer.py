"""An answer laid out, and how much of it has been said."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sample_tape import COMPLETE, MS, TOOLS, event
from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.exchange import Exchange, Read
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.exchange.answer import AnswerLayout, AnswerPart, AnswerRun
from wiretape.viewer.exchange.transcript import Track, Transcript, Voice
from wiretape.viewer.source.tape import queries

FACTS = Exchange(
    status=200, content_type="text/event-stream", ended_by="end", connected_ns=0, headers_ns=0, end_ns=10**12
)


def spoken(*chunks: tuple[int, dict[str, object]]) -> Transcript:
    """Make a transcript of deltas, each in a read at the given time, in ms."""
    reads, body = [], b""
    for seq, (at_ms, delta) in enumerate(chunks):
        data = event(delta)
        reads.append(Read(seq, at_ms * MS, None, len(body), len(data)))
        body += data
    return Transcript(decode(FACTS, reads, body))


def words(*texts: str) -> Transcript:
    return spoken(*((10 * at, {"content": text}) for at, text in enumerate(texts)))


def shown_rows(part: AnswerPart, position: int) -> list[list[tuple[str, str]]]:
    return [[(run.text, run.state) for run in part.runs(line, position)] for line in range(part.rows)]


def test_playhead_divides_said_text_from_ghost() -> None:
    (part,) = AnswerLayout(words("the ", "quick ", "brown"), 10).parts
    assert shown_rows(part, 0) == [[("the ", "ghost"), ("quick ", "ghost")], [("brown", "ghost")]]
    assert shown_rows(part, 2) == [[("the ", "said"), ("quick ", "said")], [("brown", "ghost")]]
    assert [run.event for run in part.runs(0, 3)] == [0, 1]


def test_layout_does_not_move_while_playing() -> None:
    transcript = words("the qui", "ck bro", "wn fox")
    answer = AnswerLayout(transcript, 9)
    assert {position: answer.row_of(position) for position in range(4)} == {0: 0, 1: 0, 2: 1, 3: 1}
    texts = {"".join(run.text for run in answer.parts[0].runs(0, position)) for position in range(4)}
    assert texts == {"the quick "}


def test_only_the_rows_between_two_places_change() -> None:
    answer = AnswerLayout(words(*(f"word{at} " for at in range(50))), 12)
    for from_position, to_position in ((0, 1), (10, 11), (11, 10), (0, 50)):
        changed = {
            row for first, last in answer.changed_rows(from_position, to_position) for row in range(first, last + 1)
        }
        for row in range(len(answer)):
            line = answer.row(row).line
            assert line is not None
            looks = [list(answer.parts[0].runs(line, position)) for position in (from_position, to_position)]
            assert looks[0] == looks[1] or row in changed
    assert sum(last - first + 1 for first, last in answer.changed_rows(10, 11)) <= 4


def test_texts_stand_in_the_order_in_which_they_began(connection: Connection) -> None:
    answer = AnswerLayout(Transcript(queries.observed(connection, queries.find(connection, TOOLS))[2]), 40)
    assert [(part.kind, part.title, part.folded) for part in answer.parts] == [
        ("reasoning", "reasoning", True), ("tool", "tool call 0", False),
    ]  # fmt: skip
    assert [(answer.row(row).part is not None, answer.row(row).line) for row in range(len(answer))] == [
        (True, None), (False, None), (True, None), (True, 0),
    ]  # fmt: skip
    answer.fold()
    assert answer.row(1).line == 0
    assert answer.row_of(2) == 4


def test_several_choices_have_headings() -> None:
    body = {"choices": [{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}]}
    data = event(**body)
    transcript = Transcript(decode(FACTS, [Read(0, 0, None, 0, len(data))], data))
    assert [part.title for part in AnswerLayout(transcript, 20).parts] == ["choice 0 · content", "choice 1 · content"]


def test_a_long_silence_is_shown_before_what_ended_it() -> None:
    transcript = spoken((0, {"content": "for "}), (10, {"content": "decode"}), (2924, {"content": " waits"}))
    (part,) = AnswerLayout(transcript, 60, 500 * MS).parts
    assert shown_rows(part, 3) == [
        [("for ", "said"), ("decode", "said"), ("┊+2.914 s┊", "silence"), (" waits", "said")]
    ]
    assert [state for _, state in shown_rows(part, 2)[0]] == ["said", "said", "ghost", "ghost"]


def test_silence_before_the_first_words_is_of_no_event() -> None:
    (part,) = AnswerLayout(spoken((5000, {"content": "late"})), 60, 500 * MS).parts
    assert shown_rows(part, 1) == [[("late", "said")]]


def test_tabs_take_the_width_that_is_shown() -> None:
    (part,) = AnswerLayout(words("a\tb", "\tc"), 40).parts
    assert shown_rows(part, 1) == [[("a    b", "said"), ("    c", "ghost")]]


def test_control_characters_become_pictures() -> None:
    (part,) = AnswerLayout(words("a\x1b[2J"), 40).parts
    assert shown_rows(part, 1) == [[("a␛[2J", "said")]]


@given(
    st.lists(st.text("ab \t\n日", min_size=1, max_size=8), min_size=1, max_size=12),
    st.integers(4, 20), st.booleans(), st.data(),
)  # fmt: skip
def test_said_pieces_are_the_text_so_far(texts: list[str], width: int, silences: bool, data: st.DataObject) -> None:
    transcript = words(*texts)
    part = next(iter(AnswerLayout(transcript, width, 5 * MS if silences else None).parts))
    position = data.draw(st.integers(0, len(texts)))
    runs: list[AnswerRun] = [run for line in range(part.rows) for run in part.runs(line, position)]
    spoken_text = "".join(run.text for run in runs if run.state == "said")
    expected = "".join(texts[:position]).replace("\t", "    ").replace("\n", "")
    assert spoken_text == expected
    everything = "".join(run.text for run in runs if run.state != "silence" and not run.text.startswith("┊"))
    assert everything.replace("┊", "").startswith(expected)


def test_a_very_long_text_is_laid_out_gradually() -> None:
    answer = AnswerLayout(words("x" * 1_000_000), 50)
    assert (len(answer), answer.done) == (201, False)
    answer.more(500)
    assert len(answer) == 701


def test_texts_without_events_are_reported_at_once(connection: Connection) -> None:
    row = queries.detail(connection, queries.find(connection, COMPLETE))
    transcript = Transcript.of_texts({"content": row.content or ""}, [("call", "{}")])
    answer = AnswerLayout(transcript, 40)
    assert shown_rows(answer.parts[0], 1) == [[("Hello, world", "said")]]
    assert [part.kind for part in answer.parts] == ["content", "tool"]


@pytest.mark.parametrize("position", [0, 1])
def test_an_answer_without_words_has_no_rows(position: int) -> None:
    answer = AnswerLayout(Transcript.of_texts({}), 40)
    assert (len(answer), answer.row_of(position), answer.row(0).part) == (0, 0, None)


def by_turns(*choices: int) -> Transcript:
    """Make a transcript of choices that each say a line when it is their turn."""
    reads, body = [], b""
    for seq, choice in enumerate(choices):
        spoken_text = {"index": choice, "delta": {"content": f"{seq:>2}\n"}, "finish_reason": None}
        data = f"data: {json.dumps({'object': 'chat.completion.chunk', 'choices': [spoken_text]})}\n\n".encode()
        reads.append(Read(seq, seq * MS, None, len(body), len(data)))
        body += data
    return Transcript(decode(FACTS, reads, body))


def test_single_choice_can_be_shown_alone() -> None:
    transcript = by_turns(0, 1, 2, 0, 1, 2)
    answer = AnswerLayout(transcript, 20, choice=1)
    assert [part.track.text for part in answer.parts] == [" 1\n 4\n"]
    assert answer.row(0).line == 0
    assert [part.title for part in AnswerLayout(transcript, 20).parts] == [
        f"choice {index} · content" for index in range(3)
    ]


def test_first_of_growing_choices_stays_in_sight() -> None:
    answer = AnswerLayout(by_turns(0, 1, 0, 1, 0, 1, *[1] * 9), 20)
    rows = [answer.row_of(position, steady=True) for position in range(1, 16)]
    assert [answer.row(row).part is answer.parts[0] for row in rows] == [True] * 13 + [False] * 2
    assert [answer.row(answer.row_of(position)).part is answer.parts[0] for position in (5, 6)] == [True, False]


def test_nul_is_replaced_as_on_the_tape() -> None:
    (part,) = AnswerLayout(words("a\0b"), 10).parts
    assert shown_rows(part, 1) == [[("a\ufffdb", "said")]]


@pytest.mark.parametrize(
    ("partial", "standing"), [('{"a": 1}', "complete"), ('{"a": "Par', "no whole JSON"), ("", "complete")]
)
def test_truncated_arguments_are_not_complete(partial: str, standing: str) -> None:
    track, name = Track(), Track()
    if partial:
        track.add(0, partial[:4])
        track.add(1, partial[4:])
    part = AnswerPart("tool", track, Voice(0), "tool call 1", name)
    assert part.standing(9) == standing
    assert not partial or part.standing(1) == "incomplete"
