"""Pure: which exchanges rates and latencies cover: generations, unless a filter names the operation.

A request for a list of models, or one that probes the server, does not attempt to generate anything: it neither fails
nor succeeds at that. An exchange whose operation is unknown is covered: it still runs, or was measured before
operations were.
"""

from collections.abc import Mapping
from typing import Final

from wiretape.recorder.decode.operation import GENERATIONS
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import safe
from wiretape.viewer.query.syntax import Among, Compare, Filter, Labelled, Match, Not, Or, Regex, every, terms

COVERED: Final = Or(
    (Match("operation", tuple((name,) for name in GENERATIONS)), Not(Match("has", (("operation",),)))),
)
"""The filter for exchanges that rates and latencies cover."""


def names_operation(filter: Filter | None) -> bool:
    """Return True if any term of a filter is about the operation: the filter then replaces `COVERED`."""
    return filter is not None and any(map(_is_of_operation, terms(filter)))


def _is_of_operation(term: Filter) -> bool:
    match term:
        case Match("has", patterns):
            return ("operation",) in patterns
        case Match(field) | Regex(field):
            return field == "operation"
    return False


def without_resent(filter: Filter | None) -> Filter | None:
    """Return a filter that leaves out the requests that `resend` repeated, unless it asks for them."""
    if filter is not None and any(map(_is_of_resent, terms(filter))):
        return filter
    is_recorded: Filter = Not(Match("has", (("resent_from",),)))
    return is_recorded if filter is None else every([filter, is_recorded])


def _is_of_resent(term: Filter) -> bool:
    match term:
        case Match("has", patterns):
            return ("resent_from",) in patterns
        case Labelled(labels):
            return any(key == "resent" for key, _ in labels)
        case Match(field) | Regex(field) | Compare(field) | Among(field):
            return field in ("resent_from", "resent_no")
    return False


def described(left_out: Mapping[str, int]) -> str:
    """Return the message for excluded exchanges, with their count by operation."""
    count = sum(left_out.values())
    counts = ", ".join(f"{number:,} {safe(name)}" for name, number in left_out.items())
    return f"{counted(count, 'exchange')} {'is not a generation' if count == 1 else 'are not generations'} ({counts})"
