"""Sessions of a tape: their time account from stored facts, and the references that name them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import agent_tape
from tests.support.commands import run
from tests.support.frames import STREAM, begin, body, damage, end, head, opened, record
from tests.support.session_tape import FIRST, KEY, OTHER, SECOND, session_tape
from wiretape.recorder.clock import Clock
from wiretape.recorder.decode.stalls import DEFAULT
from wiretape.recorder.errors import NotFound
from wiretape.viewer.sessions.account import OWN_PARTS, Account
from wiretape.viewer.source.base import Source
from wiretape.viewer.source.place import TapePlace
from wiretape.viewer.source.tape import queries, session, sessions
from wiretape.viewer.stats.parameters import NO_PARAMETERS, RequestParameters

MS = 1_000_000
STILL = Clock(lambda: 0, lambda: 0, boot_ns=lambda: 0)


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    return session_tape(tmp_path / "sessions.db")


def answer_of(tape: Path, question: Callable[[Source], object]) -> object:
    with TapePlace(tape).opened() as source:
        return question(source)


def accounts(tape: Path) -> dict[str, Account]:
    with TapePlace(tape).opened() as source:
        from wiretape.viewer.source.base import ALL

        return dict(source.accounts(ALL, DEFAULT, STILL))


def test_own_times_add_up_to_a_sessions_parts(tape: Path) -> None:
    with queries.opened(tape) as connection:
        own_times = [traced.counted.own_time for traced in session.traced(connection, [1, 2, 3])]
    parts = accounts(tape)[KEY].parts
    assert {part: sum(times[part] for times in own_times) for part in OWN_PARTS} == {
        part: parts[part] for part in OWN_PARTS
    }


def test_the_time_before_exchanges_matches_their_sessions_account(tape: Path) -> None:
    with queries.opened(tape) as connection:
        waits = sessions.before(connection, [4, 3, 2, 1])
    assert waits == {2: ("tools", 2000 * MS), 3: ("backoff", 1000 * MS)}


def test_the_time_before_needs_only_earlier_exchanges(tape: Path) -> None:
    with queries.opened(tape) as connection:
        assert sessions.before(connection, [2]) == {2: ("tools", 2000 * MS)}
        assert sessions.before(connection, []) == {}


def test_only_spans_have_the_parameters_of_requests(tmp_path: Path) -> None:
    request = json.dumps({"model": "m", "messages": [], "max_tokens": 9, "stop": "a"}).encode()
    with opened(tmp_path / "a.db") as store:
        record(store, [begin("1" * 16, body=request), head("1" * 16), *body("1" * 16, STREAM), end("1" * 16, STREAM)])
    with queries.opened(tmp_path / "a.db") as connection:
        (counted,) = session.traced(connection, [1])
        (traced,) = session.traced(connection, [1], of_spans=True)
    assert counted.parameters == NO_PARAMETERS
    assert traced.parameters == RequestParameters(max_tokens=9, stop_sequences=("a",))


@pytest.mark.damages
def test_waits_are_unknown_beside_unmeasured_exchanges_or_large_tapes(
    tape: Path,
) -> None:
    with queries.opened(tape) as connection:
        assert sessions.before(connection, [3], most=3) == {}
        assert sessions.before(connection, [3], most=4) == {3: ("backoff", 1000 * MS)}
    damage(tape, f"DELETE FROM measures WHERE exchange_no = (SELECT no FROM exchanges WHERE id = '{FIRST}')")
    with queries.opened(tape) as connection:
        assert sessions.numbers(connection, KEY) == [1, 2, 3]
        assert sessions.before(connection, [2, 3]) == {}


def test_a_recorded_session_is_accounted_to_the_nanosecond(tape: Path) -> None:
    times = accounts(tape)
    assert [*times] == [KEY, OTHER]
    assert {name: ns / MS for name, ns in times[KEY].parts.items()} == {
        "streaming": 1400, "stalled": 3000, "waiting": 900, "closing": 50, "failed": 50, "backoff": 1000, "tools": 2000,
        "idle": 0,
    }  # fmt: skip
    assert (times[KEY].wall_ns, times[KEY].turns, times[KEY].failed, times[KEY].exchanges) == (
        8400 * MS,
        2,
        1,
        3,
    )
    assert not times[KEY].clock_step


def turns_taped(tape: Path, turns: dict[str, int], calls: str) -> Path:
    """Record requests, a letter for each message, capitals for the model's, at T0s in ms; one answer is a call."""
    call = b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f"}}]}}]}\n\n'
    with opened(tape) as store:
        for text, at_ms in turns.items():
            messages = [{"role": ("user", "assistant")[letter.isupper()], "content": letter} for letter in text.strip()]
            asked_for = json.dumps({"metadata": {"session_id": "k"}, "messages": messages}).encode()
            stream = [*STREAM[:1], call if text == calls else b": \n\n", *STREAM[1:]]
            id = f"a{at_ms:03}"
            opening = begin(id, body=asked_for, boot_ns=at_ms * MS)
            record(store, [opening, head(id), *body(id, stream), end(id, stream)])
    return tape


@pytest.mark.parametrize(
    ("turns", "calls"),
    [
        ({"a": 0, "aBc": 100, "aBd": 200}, "aBc"),
        ({"a": 0, "aBc": 100, "aBc ": 200}, "aBc"),
        ({"a": 0, "s": 100, "st": 200}, "a"),
        ({"a": 0, "aBcDe": 200, "aBc": 100}, "aBc"),
    ],
)
def test_predecessors_explain_pauses_in_any_order_and_in_branches(
    tmp_path: Path, turns: dict[str, int], calls: str
) -> None:
    parts = accounts(turns_taped(tmp_path / "turns.db", turns, calls))["k"].parts
    assert parts["tools"] == parts["idle"] > 0


def test_predecessors_began_earlier_whatever_the_order_of_writing(tmp_path: Path) -> None:
    tape = turns_taped(tmp_path / "turns.db", {"a": 0, "aBcDe": 200, "aBc": 100}, "")
    rows = json.loads(run(tape, "ls", "--columns", "id,cache_idle_ms,cache_broken_at", "--format", "json").stdout)
    assert {row["id"]: (row["cache_idle_ms"], row["cache_broken_at"]) for row in rows} == {
        "a000": (None, None), "a100": (100, None), "a200": (100, None)
    }  # fmt: skip


def test_an_edited_history_continues_the_most_equal_turn(tmp_path: Path) -> None:
    edited = session_tape(tmp_path / "edited.db", [{"role": "user", "content": "(shortened)"}])
    assert accounts(edited)[KEY].parts == accounts(session_tape(tmp_path / "whole.db"))[KEY].parts


@pytest.mark.damages
def test_unshipped_answers_reveal_tools_by_later_results(
    tape: Path,
) -> None:
    times = accounts(tape)
    damage(tape, "UPDATE measures SET tool_calls = NULL, flags = trim(coalesce(flags, '') || ' bytes_not_shipped')")
    assert accounts(tape) == times


def test_a_clock_step_within_a_boot_changes_nothing(tape: Path) -> None:
    damage(tape, f"UPDATE exchanges SET started_at = '2026-03-01T09:00:00.000000Z' WHERE id = '{SECOND}'")
    assert accounts(tape)[KEY].wall_ns == 8400 * MS


def test_a_clock_set_back_between_boots_is_flagged(tape: Path) -> None:
    damage(
        tape,
        f"UPDATE exchanges SET boot_ns = NULL, started_at = '2026-03-01T09:00:00.000000Z' WHERE id = '{SECOND}'",
    )
    times = accounts(tape)[KEY]
    assert times.clock_step
    assert times.wall_ns == (3450 + 3900) * MS


def test_a_session_is_named_by_its_key_or_prefix(tape: Path) -> None:
    assert [answer_of(tape, lambda source, id=id: source.session(id)) for id in (f"s:{KEY}", "s:agent-o", "@s")] == [
        KEY, KEY, OTHER
    ]  # fmt: skip
    with pytest.raises(NotFound, match="s:agent fits several sessions: agent-two-1b2c, agent-one-7f3a: give more"):
        answer_of(tape, lambda source: source.session("s:agent"))
    with pytest.raises(NotFound, match="no session s:nobody: 'wiretape ls --by conversation' lists them"):
        answer_of(tape, lambda source: source.session("s:nobody"))


def test_keys_in_headers_and_bodies_name_one_session(tmp_path: Path) -> None:
    in_body = b'{"metadata": {"session_id": "my-own-key"}, "messages": [{"role": "user", "content": "b"}]}'
    requests = {"a1": {"headers": [(b"x-session-id", b"my-own-key")]}, "a2": {"body": in_body}}
    counted = {"body": in_body, "path": "/v1/messages/count_tokens"}
    with opened(tape := tmp_path / "keys.db") as store:
        for id, asked_for in (*requests.items(), ("a3", counted)):
            record(store, [begin(id, **asked_for), head(id), *body(id, STREAM), end(id, STREAM)])
    [(name, account)] = accounts(tape).items()
    assert account.exchanges == 3
    assert answer_of(tape, lambda source: source.session("s:my-own-key")) == name != "my-own-key"


def test_counted_tokens_are_not_used_ones(tmp_path: Path) -> None:
    asked_for = b'{"model": "m", "metadata": {"session_id": "k"}, "messages": [{"role": "user", "content": "b"}]}'
    usage = b'"usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}}'
    answer = [
        b'{"object": "chat.completion", "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], ' + usage
    ]
    json_head = [(b"content-type", b"application/json")]
    with opened(tape := tmp_path / "counted.db") as store:
        record(store, [begin("a1", body=asked_for), head("a1", json_head), *body("a1", answer), end("a1", answer)])
        count = [b'{"input_tokens": 40}']
        opening = begin("a2", body=asked_for, path="/v1/messages/count_tokens")
        record(store, [opening, head("a2", json_head), *body("a2", count), end("a2", count)])
    [row] = json.loads(run(tape, "ls", "--by", "conversation", "--format", "json").stdout)
    assert (row["exchanges"], row["input_tokens"], row["output_tokens"]) == (2, 7, 2)


def test_a_whole_key_is_no_beginning_of_another(tape: Path) -> None:
    damage(tape, f"UPDATE measures SET conversation_key = '{KEY}0' WHERE conversation_key = '{OTHER}'")
    assert answer_of(tape, lambda source: source.session(f"s:{KEY}")) == KEY


def test_a_session_stands_for_its_exchanges_and_first(tape: Path) -> None:
    assert answer_of(tape, lambda source: source.referred(f"s:{KEY}")) == [1, 2, 3]
    assert answer_of(tape, lambda source: source.find(f"s:{KEY}")) == 1
    ids = run(tape, "export", "s:agent-one", "--columns", "id").stdout.split()
    assert ids[1:] == [FIRST, "bbbb000000000002", SECOND]


@pytest.mark.damages
def test_sessions_read_together_have_their_separate_accounts(tmp_path: Path) -> None:
    agent_tape.write(tape := tmp_path / "many.db", 230, 8)
    with queries.opened(tape) as connection:
        together = dict(sessions.accounts(connection, DEFAULT, STILL))
        alone = [dict(sessions.accounts(connection, DEFAULT, STILL, names=[name])) for name in [*together][::25]]
    assert len(together) == 230
    assert all(account.items() <= together.items() for account in alone)
