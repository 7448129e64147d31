"""The tables of states: reachable states, and illegal steps."""

from enum import Enum

import pytest

from wiretape.recorder.relay import states
from wiretape.recorder.relay.states import INBOUND, OUTBOUND, OUTPUT, RECEIVING, SENDING, STAGE, IllegalStep

TABLES = {
    "inbound": INBOUND,
    "outbound": OUTBOUND,
    "receiving": RECEIVING,
    "sending": SENDING,
    "output": OUTPUT,
    "stage": STAGE,
}


@pytest.mark.parametrize("name", TABLES)
def test_every_state_is_reached_from_the_first_one(name: str) -> None:
    table = TABLES[name]
    kind = type(next(iter(table))[0])
    reached: set[Enum] = {next(iter(kind))}
    for _ in kind:
        reached |= {target for (state, _), target in table.items() if state in reached}
    assert reached == set(kind)


def test_an_unlisted_step_names_its_state_and_event() -> None:
    with pytest.raises(IllegalStep, match="Outbound CLOSED has no step for 'answer'"):
        OUTBOUND[states.Outbound.CLOSED, "answer"]


@pytest.mark.parametrize("state", [states.Outbound.CLOSED, states.Stage.ENDED, states.Sending.REFUSED])
def test_an_end_is_for_good(state: Enum) -> None:
    steps = [
        (event, target) for table in TABLES.values() for (before, event), target in table.items() if before is state
    ]
    assert all(target is state for _, target in steps)


def test_the_tables_are_printed_one_row_a_step() -> None:
    rows = states.described().splitlines()
    assert len(rows) == 2 + sum(map(len, TABLES.values()))
    assert "| Receiving | WAITING | head | STREAMING |" in rows
