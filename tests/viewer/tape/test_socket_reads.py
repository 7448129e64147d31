"""A few reads of an exchange."""

from pathlib import Path

from tests.viewer.conftest import COMPLETE, COMPLETE_READS, MS
from viewer.tape import queries, socket_reads


def test_the_reads_asked_for_are_given_by_their_seq(tape: Path) -> None:
    with queries.opened(tape) as connection:
        no = queries.find(connection, COMPLETE)
        found = socket_reads.between(connection, no, 1, 2)
        assert socket_reads.between(connection, no, 900, 999) == {}
    assert [(seq, read.seq, read.at_ns, read.size) for seq, read in found.items()] == [
        (seq, seq, COMPLETE_READS[seq][0] * MS, len(COMPLETE_READS[seq][1])) for seq in (1, 2)
    ]
