"""Pure: requests of a session that were sent twice, and paid twice: the same bytes within five seconds, both complete.

An agent whose window was opened twice, or whose proxy and SDK both repeat, sends them; an evaluation asks the same
question many times on purpose, and has no session.
"""

from collections.abc import Hashable, Iterable
from typing import NamedTuple


class SentRequest(NamedTuple):
    """A generation of a session that is complete; equal `content` are equal bytes to the same path.

    Two upstreams that gave a response of one id were recorded on both sides of a gateway: it was paid once.
    """

    start_ns: int
    no: int
    content: Hashable
    upstream: str = ""
    response_id: str | None = None


def duplicates(session: Iterable[SentRequest]) -> dict[int, int]:
    """Return, by the number of each duplicate, that of the last equal request before it."""
    within_ns = 5_000_000_000
    latest: dict[Hashable, SentRequest] = {}
    upstreams: dict[Hashable, str] = {}
    earlier_by_no: dict[int, int] = {}
    for request in sorted(session, key=lambda request: request[:2]):
        answer = request.content, request.response_id
        if request.response_id is not None and upstreams.setdefault(answer, request.upstream) != request.upstream:
            continue  # what a gateway passed on
        earlier = latest.get(request.content)
        if earlier is not None and request.start_ns - earlier.start_ns <= within_ns:
            earlier_by_no[request.no] = earlier.no
        latest[request.content] = request
    return earlier_by_no
