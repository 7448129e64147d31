"""The predecessor of each generation of a session: told from small requests, by hand and by a slow definition."""

import time
from collections import Counter
from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from wiretape.viewer.sessions.predecessors import Generation, Tie, ties, turn_numbers


def digests(text: str) -> bytes:
    """Return the digests of messages, each named by a letter."""
    return b"".join(letter.encode().ljust(8, b".") for letter in text)


def turn(no: int, messages: str | None, **more: object) -> Generation:
    """Return a generation; capital letters are messages of a model."""
    by_model = messages is not None and messages.lower() != messages
    prefix_bytes = None if messages is None else digests(messages)
    return Generation(no, prefix_bytes, **{"by_model": by_model, **more})  # type: ignore[arg-type]


def turns_of(*generations: Generation) -> list[int | None]:
    return [*turn_numbers(generations, ties(generations)).values()]


def test_turns_count_from_the_beginning_of_their_branch() -> None:
    assert turns_of(turn(1, "a"), turn(2, "x"), turn(3, "aBc"), turn(4, "xYz"), turn(5, "aBcDe")) == [1, 1, 2, 2, 3]


def test_another_attempt_is_the_turn_that_it_repeats() -> None:
    failed = turn(2, "aBc", failed=True)
    assert turns_of(turn(1, "a"), failed, turn(3, "aBc"), turn(4, "aBcDe")) == [1, 2, 2, 3]
    assert turns_of(turn(1, "a"), turn(2, "aBc"), turn(3, "aBc"), turn(4, "aBcDe")) == [1, 2, 2, 3]


def test_equal_messages_behind_another_response_are_another_turn() -> None:
    first = turn(1, "a", response_id="r1")
    go_on = [turn(2, "g", response_id="r2", named_response="r1"), turn(3, "g", named_response="r2")]
    assert turns_of(first, *go_on) == [1, 2, 3]


def test_behind_an_unknown_predecessor_a_turn_has_no_number() -> None:
    lost = turn(1, "g", response_id="r2", named_response="r1")
    assert turns_of(lost, turn(2, "h", named_response="r2")) == [None, None]


def predecessors_of(*generations: Generation) -> list[int | None]:
    return [tie.predecessor for tie in ties(generations).values()]


def test_each_turn_follows_the_one_whose_messages_it_has() -> None:
    assert predecessors_of(turn(1, "a"), turn(2, "aBc"), turn(3, "aBcDe")) == [None, 1, 2]


def test_a_request_sharing_no_message_begins_a_branch() -> None:
    assert predecessors_of(turn(1, "a"), turn(2, "x"), turn(3, "aBc"), turn(4, "xYz")) == [None, None, 1, 2]


def test_a_request_with_only_an_answer_follows_the_latest() -> None:
    assert predecessors_of(turn(1, "a"), turn(2, "b"), turn(3, "xYz")) == [None, None, 2]
    assert predecessors_of(turn(1, "xYz")) == [None]


def test_the_most_equal_messages_decide_wherever_they_stand() -> None:
    assert predecessors_of(turn(1, "aBcDe"), turn(2, "a"), turn(3, "xBcDef")) == [None, 1, 1]


def test_ties_go_to_longer_prefixes_then_the_latest() -> None:
    assert predecessors_of(turn(1, "aBc"), turn(2, "xBa"), turn(3, "aBq"))[2] == 1
    assert predecessors_of(turn(1, "aB"), turn(2, "aB"), turn(3, "aBc"))[2] == 2


def test_the_prefix_begins_with_model_and_tools() -> None:
    main, title = {"head": digests("mt")}, {"head": digests("h")}
    assert predecessors_of(turn(1, "a", **main), turn(2, "a", **title), turn(3, "aBc", **main))[2] == 1
    assert predecessors_of(turn(1, "a", **main), turn(2, "a", **title), turn(3, "aBc", head=digests("mu")))[2] == 1
    assert predecessors_of(turn(1, "aBc", **main), turn(2, "xBa", **title), turn(3, "aBq", **title))[2] == 2
    assert predecessors_of(turn(1, "a", **main), turn(2, "b", **title), turn(3, "xYz", **main))[2] == 1


def test_another_models_request_precedes_only_with_its_answer() -> None:
    title, main = {"model": "small", "answer": "a T"}, {"model": "large"}
    assert predecessors_of(turn(1, "a", **title), turn(2, "a", **main)) == [None, None]
    assert predecessors_of(turn(1, "a", **title), turn(2, "aBc", last_answer="a B", **main)) == [None, None]
    assert predecessors_of(turn(1, "a", **title), turn(2, "aTc", last_answer="a T", **main)) == [None, 1]
    assert predecessors_of(turn(1, "a", **title), turn(2, "xYz", **main)) == [None, None], (
        "a lone answer follows no other model"
    )
    assert predecessors_of(turn(1, "a"), turn(2, "aBc", **main)) == [None, 1], "an unknown model is not another one"


def test_the_nearest_same_model_request_precedes_nearer_others() -> None:
    small, large = {"model": "small"}, {"model": "large"}
    assert predecessors_of(turn(1, "a", **large), turn(2, "aBc", **small), turn(3, "aBcDe", **large)) == [None, None, 1]
    assert predecessors_of(turn(1, "aB", **large), turn(2, "Bac", **small), turn(3, "cBa", **large)) == [None, None, 1]


def test_a_rewound_dialogue_follows_its_latest_like_beginning() -> None:
    assert predecessors_of(turn(1, "a"), turn(2, "aBc"), turn(3, "aBcDe"), turn(4, "aBx"))[3] == 3


def test_a_prefix_request_precedes_despite_an_earlier_longer_one() -> None:
    assert predecessors_of(turn(1, "aBcDe"), turn(2, "aBc"), turn(3, "aBcDeFg"), turn(4, "aBcX"))[3] == 3


def test_a_failed_attempt_is_succeeded_by_its_repetition() -> None:
    links = ties([turn(1, "a"), turn(2, "aBc", failed=True), turn(3, "aBc"), turn(4, "aBcDe")])
    assert links == {1: Tie(), 2: Tie(1, 1), 3: Tie(1, 2), 4: Tie(3, 3)}


def test_a_client_repetition_has_its_originals_predecessor() -> None:
    assert ties([turn(1, "a"), turn(2, "aBc"), turn(3, "aBc", retries=1)])[3] == Tie(1, 1)
    assert ties([turn(1, "a"), turn(2, "aBc"), turn(3, "aBc")])[3] == Tie(2, 2)


def test_the_response_that_a_request_names_is_its_predecessor() -> None:
    links = ties([turn(1, "a", response_id="r1"), turn(2, "a", response_id="r2"), turn(3, "b", named_response="r1")])
    assert links[3] == Tie(1, 1)


def test_an_unknown_request_or_response_leaves_predecessors_unknown() -> None:
    links = ties([turn(1, "a"), turn(2, None), turn(3, "b", named_response="gone")])
    assert (links[2], links[3]) == (Tie(is_known=False), Tie(is_known=False))


def test_a_second_equal_message_is_another_one() -> None:
    assert predecessors_of(turn(1, "aa"), turn(2, "a"), turn(3, "aab")) == [None, 1, 1]


def slowly(generations: list[Generation]) -> list[int | None]:
    """Return the predecessors by comparing each request with each one before it."""
    expected: dict[int, int | None] = {}
    for place, generation in enumerate(generations):
        earlier = [earlier_one for earlier_one in generations[:place] if earlier_one.messages is not None]
        equal = [earlier_one for earlier_one in earlier if earlier_one.messages == generation.messages]
        if generation.messages is None:
            expected[generation.no] = None
        elif equal and (equal[-1].failed or generation.retries):
            expected[generation.no] = expected[equal[-1].no]
        else:
            ranked = [
                (
                    len(list((letters(generation) & letters(earlier_one)).elements())),
                    prefix(generation, earlier_one),
                    at,
                    earlier_one.no,
                )
                for at, earlier_one in enumerate(earlier)
                if not earlier_one.failed and is_candidate(earlier_one, generation, earlier)
            ]
            best = max(ranked, default=(0, 0, 0, None))
            expected[generation.no] = best[3] if best[0] or generation.by_model else None
    return list(expected.values())


def is_candidate(candidate: Generation, generation: Generation, earlier: list[Generation]) -> bool:
    """Return True if a request has the model of another one, or gave its last answer."""
    if None in (candidate.model, generation.model) or candidate.model == generation.model:
        return True
    answered = [it for it in earlier if it.answer is not None and it.answer == generation.last_answer and not it.failed]
    return answered[-1:] == [candidate]


def letters(generation: Generation) -> Counter[int]:
    return Counter((generation.messages or b"")[::8])


def prefix(generation: Generation, candidate: Generation) -> int:
    first, second = ((turn.head + (turn.messages or b""))[::8] for turn in (generation, candidate))
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


heads = st.sampled_from(["", "12", "13", "42"]).map(digests)
models = st.sampled_from([None, "small", "large"])
answers = st.sampled_from([None, "1", "2", "3"])
requests = st.none() | st.text("abCdEf", max_size=7)
growing = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 7), st.text("abCdEfgH", max_size=3), heads, models, answers, answers),
    max_size=12,
)


any_turns = st.tuples(requests, st.booleans(), st.integers(0, 1), heads, models, answers, answers)


@given(st.lists(any_turns, max_size=12))
def test_any_session_has_the_predecessors_of_the_slow_definition(
    found: list[tuple[str | None, bool, int | None, bytes, str | None, str | None, str | None]],
) -> None:
    names = ("failed", "retries", "head", "model", "answer", "last_answer")
    session = [turn(no, text, **dict(zip(names, more, strict=True))) for no, (text, *more) in enumerate(found)]
    assert predecessors_of(*session) == slowly(session)


@given(growing)
def test_dialogues_that_grow_branch_and_rewind_have_them_too(
    steps: list[tuple[int, int, str, bytes, str | None, str | None, str | None]],
) -> None:
    texts = [""]
    for start, kept_count, added, *_ in steps:
        texts.append(texts[start % len(texts)][: kept_count or None] + added)
    names = ("head", "model", "answer", "last_answer")
    session = [
        turn(no, text, **dict(zip(names, step[3:], strict=True)))
        for no, (text, step) in enumerate(zip(texts[1:], steps, strict=True))
    ]
    assert predecessors_of(*session) == slowly(session)


def test_long_sessions_take_no_more_than_their_messages() -> None:
    letters = [no.to_bytes(8, "big") for no in range(6000)]
    main = [Generation(no, b"".join(letters[: 2 * no + 1]), True) for no in range(1500)]
    agents = [Generation(2000 + no, b"".join(letters[4000 : 4001 + no]), True) for no in range(500)]
    began = time.process_time()
    links = ties([part for pair in zip(main[:500], agents, strict=True) for part in pair] + main[500:])
    assert time.process_time() - began < 2
    assert all(links[no].predecessor == no - 1 for no in range(1, 1500))
    assert all(links[2000 + no].predecessor == 1999 + no for no in range(1, 500))
