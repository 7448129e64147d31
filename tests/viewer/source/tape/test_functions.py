"""The conversations of a tape, as filters, columns and groups see them, while it is recorded."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.frames import SESSION, record, upload
from tests.support.turns import ANSWERED, ASKED, MORE, turn
from wiretape.recorder.tape import file
from wiretape.recorder.tape.reader import Connection
from wiretape.recorder.tape.rederive import rederive
from wiretape.recorder.tape.store import Store
from wiretape.viewer.query.parser import parse
from wiretape.viewer.source.tape import conditions, conversations, overview, queries

# No id below is hexadecimal: a filter matches parts of a key, and this one becomes a random hash.
KEY = {"x-session-id": "s1"}


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[tuple[Store, Connection]]:
    """A tape that is being written, and a reader of it."""
    tape = tmp_path / "tape.db"
    with file.writing(tape, "a test") as connection:
        store = Store(connection)
        store.begin_session(SESSION)
        record(store, [*turn("a1", ASKED), *turn("u1", ASKED), *turn("keyed1", MORE, headers=KEY)])
        with queries.opened(tape) as reader:
            yield store, reader


def names_of(reader: Connection, filter_: str = "") -> dict[str, tuple[str | None, str | None]]:
    condition = conditions.condition(parse(filter_)) if filter_ else None
    rows = queries.exchanges(reader, ("id", "conversation", "continues"), where=condition)
    return {row["id"]: (row["conversation"], row["continues"]) for row in rows}


def test_what_is_recorded_while_somebody_looks_finds_its_conversation(recording: tuple[Store, Connection]) -> None:
    store, reader = recording
    key = names_of(reader)["keyed1"][0]
    assert names_of(reader) == {"a1": ("a1", None), "u1": ("u1", None), "keyed1": (key, None)}
    assert len(key or "") == 8, "the hash that stands for the key of a redacted header"
    store.append(turn("u2", ASKED, ANSWERED, MORE)[:-1])
    assert names_of(reader, "conversation:u1") == {"u1": ("u1", None), "u2": ("u1", "u1")}, "it still runs"
    record(store, turn("u2", ASKED, ANSWERED, MORE)[-1:])
    record(
        store, [*turn("keyed2", ASKED, ANSWERED, MORE, headers=KEY), *turn("c1", ASKED, metadata={"thread_id": "T/1"})]
    )
    assert names_of(reader, "conversation:t/") == {"c1": ("T/1", None)}
    assert names_of(reader, f"conversation:{key} has:conversation") == {"keyed1": (key, None), "keyed2": (key, "a1")}
    counts = {sample.key: sample.size for sample in overview.samples(reader, ("conversation",))}
    assert counts == {("a1",): 1, ("u1",): 2, (key,): 2, ("T/1",): 1}


def test_an_incomplete_request_is_reread_when_whole(recording: tuple[Store, Connection]) -> None:
    store, reader = recording
    body = json.dumps({"messages": [ASKED, ANSWERED, MORE]}).encode()
    *opening, ending = upload("late", [body[:20], body[20:]])
    store.append(opening)
    assert names_of(reader)["late"] == ("late", None)
    store.append([ending])
    assert names_of(reader)["late"] == ("u1", "u1")


def test_deleting_the_first_exchange_renames_a_conversation(recording: tuple[Store, Connection]) -> None:
    store, reader = recording
    record(store, [*turn("u2", ASKED, ANSWERED, MORE)])
    assert names_of(reader)["u2"] == ("u1", "u1")
    with store.connection.begin():
        for table in ("measures", "bodies", "settlements"):
            store.connection.exec_driver_sql(f"DELETE FROM {table} WHERE exchange_no < 3")
        store.connection.exec_driver_sql("DELETE FROM exchanges WHERE no < 3")
    assert names_of(reader)["u2"] == ("u2", None)


def test_a_conversation_list_has_the_totals_of_matches(recording: tuple[Store, Connection]) -> None:
    store, reader = recording
    record(store, turn("u2", ASKED, ANSWERED, MORE))
    store.append([*turn("c1", MORE)[:-1], *turn("d1", path="/v1/embeddings")[:-1]])
    key = names_of(reader)["keyed1"][0]
    totals = [(row.conversation, row.exchanges, row.open, row.asked) for row in conversations.listed(reader)]
    assert totals == [("c1", 1, 1, None), ("u1", 2, 0, "Hi"), (key, 1, 0, "More"), ("a1", 1, 0, "Hi")]
    assert [row.models for row in conversations.listed(reader, limit=2)] == [["m"], ["m"]]
    only_u2 = conversations.listed(reader, conditions.condition(parse("id:u2")))
    assert [(row.conversation, row.id, row.exchanges) for row in only_u2] == [("u1", "u2", 1)]
    assert conversations.left_out(reader) == 1


def test_rebuilding_changes_no_conversation(recording: tuple[Store, Connection]) -> None:
    store, reader = recording
    record(store, turn("u2", ASKED, ANSWERED, MORE))
    names_before = names_of(reader)
    assert not any(rederive(store))
    assert names_of(reader) == names_before


def test_a_single_exchange_has_the_lists_conversation(recording: tuple[Store, Connection]) -> None:
    store, reader = recording
    record(store, [*turn("u2", ASKED, ANSWERED, MORE), *turn("e1", path="/v1/embeddings")])
    store.append([*turn("c1", ASKED, ANSWERED, MORE)[:-1]])
    fields = ("conversation", "continues")
    alone = [queries.worked_out(reader, no, fields) for no in queries.numbers(reader)]
    one_by_one = {id: tuple(row.values()) for id, row in zip(names_of(reader), alone, strict=True)}
    assert one_by_one == names_of(reader)
    assert (one_by_one["u1"], one_by_one["u2"], one_by_one["e1"]) == (("u1", None), ("u1", "u1"), (None, None))


def test_a_first_exchange_is_shown_without_reading_others(
    recording: tuple[Store, Connection],
) -> None:
    _, reader = recording
    statements: list[str] = []
    reader.prepare.append(lambda _, statement, __: statements.append(statement))
    assert queries.worked_out(reader, 1)["conversation"] == "a1"
    assert statements
    assert not [statement for statement in statements if "conversation_of(" in statement]
