"""Deriving again: measures that another version of a decoder has derived, or other declared dialects.

Facts and derivations are apart, so that this changes nothing on a tape of this version. An exchange whose bytes are
missing, or damaged, keeps its measures: its remains would tell less.
"""

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection, Text, or_, select, type_coerce, update

from wiretape.recorder.decode import hosted
from wiretape.recorder.decode.dialects import registry
from wiretape.recorder.decode.metrics import DECODER_VERSION
from wiretape.recorder.decode.values import JsonObject
from wiretape.recorder.tape.column_types import damage_of
from wiretape.recorder.tape.schema import exchanges, measures, sessions
from wiretape.recorder.tape.settle import Stored, derived, linked_streams
from wiretape.recorder.tape.store import Store


def finished_exchanges(connection: Connection, *, outdated: bool = False) -> Sequence[int]:
    """Return the finished exchanges; if `outdated`, those whose measures another decoder derived.

    A declaration that is no longer known is another decoder, too.
    """
    statement = select(exchanges.c.no).where(exchanges.c.ended_by.is_not(None)).order_by(exchanges.c.no)
    with connection.begin():
        if outdated:
            declared = connection.execute(select(type_coerce(sessions.c.dialects, Text)).distinct()).scalars().all()
            versions = {
                declaration.version
                for declarations in [None, *declared]
                for declaration in registry.declared(declarations)
            }
            version = measures.c.dialect_version
            is_other = version.is_not(None) & version.not_in(versions)
            statement = statement.join(measures).where(or_(measures.c.decoder_version != DECODER_VERSION, is_other))
        return connection.execute(statement).scalars().all()


def declare(connection: Connection, dialects: Sequence[JsonObject]) -> None:
    """Enter declarations for all sessions of the tape, in the place of those with the same names."""
    names = {dialect["name"] for dialect in dialects}
    with connection.begin():
        for no, declared in connection.execute(select(sessions.c.no, sessions.c.dialects)).all():
            other_dialects = [
                dialect for dialect in declared or () if isinstance(dialect, dict) and dialect.get("name") not in names
            ]
            values = [*dialects, *other_dialects] or None
            connection.execute(update(sessions).where(sessions.c.no == no).values(dialects=values))


def rederive(store: Store, numbers: Iterable[int] | None = None) -> Iterator[bool]:
    """Derive finished exchanges again, these or all, one transaction each; yield for each whether anything changed."""
    unsettled = set(store.settling.unsettled())
    for no in finished_exchanges(store.connection) if numbers is None else numbers:
        if no in unsettled:
            store.settle([no])
            yield True
        else:
            yield _rederive(store, no)


def _rederive(store: Store, no: int) -> bool:
    """Derive one exchange again; if its body is missing, or cannot be unpacked, keep its measures."""
    connection = store.connection
    with connection.begin():
        facts = Stored.of(connection, [no]).unsettled(no)
        if hosted.is_stream(facts.exchange):  # the measures of a request are its own
            facts = store.settling.with_session(facts)
        if not facts.exchange.has_bytes or no in damage_of(connection).exchanges:
            return False
        measured = derived(facts, linked_streams(facts).get(facts.id))
        if measured is None or not store.settling.is_changed(no, measured):
            return False
        is_stored = not store.settling.put_measures([(no, measured)])
        if is_stored:
            store.settling.number([no])
        return is_stored
