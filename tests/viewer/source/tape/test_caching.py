"""The verdicts about the cache of a tape's exchanges, as columns, filters and groups."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.support.agents import DIALOGUE, IDS, body, session, turn
from tests.support.sample_tape import SESSION, recorded
from wiretape.recorder.tape import file, journal
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.store import Store
from wiretape.viewer.query.parser import parse
from wiretape.viewer.record.fields import CACHE
from wiretape.viewer.sessions.cache import UNATTRIBUTED
from wiretape.viewer.source.tape import conditions, overview, queries


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("agent") / "agent.db", list(session()))


@pytest.fixture
def reader(tape: Path) -> Iterator[Connection]:
    with queries.opened(tape) as connection:
        yield connection


def verdicts(reader: Connection, filter_: str = "") -> dict[str, str | None]:
    condition = conditions.condition(parse(filter_)) if filter_ else None
    return {row["id"]: row["cache_verdict"] for row in queries.exchanges(reader, ("id", *CACHE), where=condition)}


def test_every_generation_that_succeeded_has_a_verdict(reader: Connection) -> None:
    verdicts_expected = ["first", "hit", "prefix_changed", None, "provider", "first", None]
    assert verdicts(reader) == dict(zip(IDS, verdicts_expected, strict=True))


def test_the_figures_of_a_changed_prefix(reader: Connection) -> None:
    (row,) = queries.exchanges(reader, CACHE, where=conditions.condition(parse(f"id:{IDS[2]}")))
    assert row["cache_broken_at"] == "tools[1]"
    assert row["cache_expected_tokens"] == 2_100, "all input tokens of the predecessor, those from the cache included"
    assert row["cache_idle_ms"] is None, "no request before had these tools"
    assert 0 < row["cache_common_tokens"] < 2_100
    (hit,) = queries.exchanges(reader, CACHE, where=conditions.condition(parse(f"id:{IDS[1]}")))
    assert [*hit.values()] == ["hit", None, 2_000, 5000.0, 2_000, None]


def test_they_are_filtered_by(reader: Connection) -> None:
    assert [*verdicts(reader, "cache_verdict:hit")] == [IDS[1]]
    assert [*verdicts(reader, "cache_broken_at:tools")] == [IDS[2]]
    assert [*verdicts(reader, "cache_idle>4.5s has:cache_expected_tokens")] == [IDS[1]]


def test_they_are_groups_of_statistics(reader: Connection) -> None:
    samples = overview.samples(reader, ["cache_verdict"], None)
    assert {sample.key for sample in samples} == {("first",), ("hit",), ("prefix_changed",), ("provider",), (None,)}


def test_turns_are_columns_filters_and_groups(reader: Connection) -> None:
    condition = conditions.condition(parse("turn:3"))
    assert [row["id"] for row in queries.exchanges(reader, ("id",), where=condition)] == [*IDS[2:5]]
    samples = overview.samples(reader, ["turn"], None)
    assert {sample.key: sample.size for sample in samples} == {(1,): 2, (2,): 1, (3,): 3, (None,): 1}


def test_buckets_of_tokens_are_sorted_by_number(reader: Connection) -> None:
    samples = overview.samples(reader, ["input_tokens:100"], None)
    sizes = {(0,): 1, (2_000,): 1, (2_100,): 1, (2_200,): 2, (3_700,): 1, (None,): 1}
    assert [*{sample.key: sample.size for sample in samples}.items()] == [*sizes.items()]


def found(reader: Connection, filter_: str) -> list[str]:
    return [row["id"] for row in queries.exchanges(reader, ("id",), where=conditions.condition(parse(filter_)))]


def test_the_later_of_two_equal_requests_is_a_duplicate(reader: Connection) -> None:
    for filter_ in (
        "flag:duplicate",
        "flags~duplicate$",
        "flag:dup*",
        "has:duplicate_of",
        f"duplicate_of:{IDS[2]}",
    ):
        assert found(reader, filter_) == [IDS[4]], filter_
    assert found(reader, "-flag:duplicate") == [id for id in IDS if id != IDS[4]]
    assert queries.worked_out(reader, 5)["duplicate_of"] == IDS[2], "the failed attempt between them is none"


def test_duplicates_are_counted_with_their_tokens(reader: Connection) -> None:
    (sample,) = overview.samples(reader)
    assert sample.duplicates[:2] == (1, 2_201)
    counts = {sample.key: sample.duplicates.requests for sample in overview.samples(reader, ["turn"])}
    assert counts == {(1,): 0, (2,): 0, (3,): 1, (None,): 0}


def test_equal_requests_of_no_session_are_no_duplicates(tmp_path: Path) -> None:
    question = body(1) | {"metadata": {}}
    frames = [*turn(IDS[0], 0, question, 2_000), *turn(IDS[1], 1, question, 2_000)]
    with queries.opened(recorded(tmp_path / "evaluation.db", frames)) as reader:
        assert found(reader, "flag:duplicate") == []
        (sample,) = overview.samples(reader)
        assert sample.duplicates == (0, 0, 0)


def test_a_new_turn_is_judged_while_somebody_looks(tmp_path: Path) -> None:
    tape = tmp_path / "growing.db"
    with file.writing(tape, "a test") as connection:
        store = Store(connection)
        store.begin_session(SESSION)
        frames = list(session())
        at = next(place for place, frame in enumerate(frames) if getattr(frame, "id", "") == IDS[1])
        store.settle(store.append(frames[:at]))
        with queries.opened(tape) as reader:
            assert verdicts(reader) == {IDS[0]: "first"}
            store.settle(store.append(frames[at:]))
            assert verdicts(reader)[IDS[2]] == "prefix_changed"


def test_without_the_request_the_verdict_is_unknown(tmp_path: Path) -> None:
    frames = [*turn(IDS[0], 0, body(1), 2_000), *turn(IDS[1], 5, body(3), 100, 2_000)]
    cut = json.dumps(body(1)).encode()[:-5]
    frames[0] = msgspec.structs.replace(frames[0], body=cut)
    with queries.opened(recorded(tmp_path / "cut.db", frames)) as reader:
        assert verdicts(reader)[IDS[0]] == "unknown"


def attributed(id: str, at: int, count: int, cached: int = 0) -> Iterator[journal.Frame]:
    """Yield an exchange of Claude Code, whose first block differs in each request."""
    text = f"x-anthropic-billing-header: cc_version=2.1.332.782; cc_entrypoint=cli; cch={at:05x};"
    yield from turn(id, at, body(count, system=[{"type": "text", "text": text}, *body(1)["system"]]), 2_000, cached)


@pytest.mark.parametrize(
    ("upstream", "figures"),
    [
        ("https://api.anthropic.com", ("provider", None, None)),
        ("http://127.0.0.1:8000", ("prefix_changed", "system[0]", UNATTRIBUTED)),
    ],
)
def test_attribution_breaks_a_prefix_only_for_upstreams_reading_it(
    tmp_path: Path, upstream: str, figures: tuple[str | None, ...]
) -> None:
    frames = [
        msgspec.structs.replace(frame, upstream=upstream) if isinstance(frame, journal.Begin) else frame
        for id, at, count in ((IDS[0], 0, 1), (IDS[1], 5, 3))
        for frame in attributed(id, at, count)
    ]
    with queries.opened(recorded(tmp_path / "code.db", frames)) as reader:
        (row,) = queries.exchanges(reader, CACHE, where=conditions.condition(parse(f"id:{IDS[1]}")))
        assert (row["cache_verdict"], row["cache_broken_at"], row["cache_remedy"]) == figures
        assert row["cache_idle_ms"] == 5_000.0
        assert [*verdicts(reader, "cache_remedy:claude_code*")] == ([] if figures[2] is None else [IDS[1]])


def test_a_title_by_a_small_model_precedes_nothing(tmp_path: Path) -> None:
    title = body(1, model="claude-haiku-4-5", tools=[], system="Write a title.")
    frames = [*turn(IDS[0], 0, title, 50, text="A title"), *turn(IDS[1], 1, body(1), 2_000)]
    with queries.opened(recorded(tmp_path / "titled.db", frames)) as reader:
        assert [*verdicts(reader).values()] == ["first", "first"]


def test_another_models_turn_precedes_if_its_answer_is_held(tmp_path: Path) -> None:
    more = {"role": "user", "content": "More."}
    answered = [DIALOGUE[0], {"role": "assistant", "content": "ok"}, more]
    frames = [
        *turn(IDS[0], 0, body(1, model="claude-haiku-4-5"), 2_000),
        *turn(IDS[1], 1, body(0, messages=answered), 2_000),
    ]
    with queries.opened(recorded(tmp_path / "switched.db", frames)) as reader:
        (row,) = queries.exchanges(reader, CACHE, where=conditions.condition(parse(f"id:{IDS[1]}")))
        assert (row["cache_verdict"], row["cache_broken_at"]) == ("prefix_changed", "model")
