"""Pure: the predecessor of each generation of a session, by the messages of their requests.

A request may name the response of its predecessor (`previous_response_id`). Otherwise, among the earlier generations
that did not fail, it is the one with the most equal messages (those of the system do not count), then with the longest
common prefix of the prompt, its model, tools and system included, then the latest. A request with no message of another
one, and no answer of a model, begins a branch. A retry has the predecessor of the request that it repeats. No cache of
one model holds a prompt of another: a generation by another model, such as a request for a title, is a predecessor only
if the last answer in this request is its answer.

Nearly every request holds all messages of an earlier one, and only new ones behind them: one look-up finds its
predecessor. For any other request, the messages that each earlier one added to its own beginning are counted once.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_WIDTH = 8
"""Bytes of a digest."""


class Generation(NamedTuple):
    """A generation of a session, in the order of the requests.

    `messages` are the digests of its messages, 8 bytes each, without those of the system; None if the request is not on
    the tape, or not readable. `by_model`: one of the messages is a model's. `named_response` is the response that the
    request says it continues. `retries` counts earlier attempts, if the client says so. `head` are the digests of the
    model, the tools, the system prompt and the parameters. `answer` identifies the messages with the answer to them,
    `last_answer` the last answer in the request with the messages before it.
    """

    no: int
    messages: bytes | None
    by_model: bool = False
    failed: bool = False
    response_id: str | None = None
    named_response: str | None = None
    retries: int | None = None
    head: bytes = b""
    model: str | None = None
    answer: str | None = None
    last_answer: str | None = None


class Tie(NamedTuple):
    """The `predecessor` of a generation, and the exchange that it `continues` in the account of time.

    That is the predecessor, or the failed attempt at the same request before it. `is_known` is False where nobody can
    know the predecessor, as the request, or the response that it names, is not on the tape.
    """

    predecessor: int | None = None
    continues: int | None = None
    is_known: bool = True


_Token = bytes | tuple[bytes, int]
"""A message; the second of equal ones in a request is another."""
_Latest = dict[tuple[str | None, bytes], tuple[int, int]]
"""The newest request to each model with each head: its position and number."""


class _Node:
    """All requests with the same messages: those of `above`, and `added` ones behind them."""

    __slots__ = ("above", "added", "count", "latest", "latest_below", "messages")

    def __init__(self, above: "_Node | None", added: list[_Token], messages: bytes) -> None:
        self.above, self.added, self.messages = above, added, messages
        self.count = len(messages) // _WIDTH
        self.latest, self.latest_below = _Latest(), _Latest()
        """The newest requests, and the newest that begin so."""


@dataclass(slots=True)
class _Session:
    nodes: dict[bytes, _Node] = field(default_factory=dict)
    """Requests by their messages, in the order in which they were first sent."""
    counts: list[int] = field(default_factory=list)
    """The numbers of messages that they have, ascending."""
    known_tokens: set[_Token] = field(default_factory=set)
    latest: _Latest = field(default_factory=dict)
    is_mixed: bool = False
    """Messages that were known came behind others than before: beginnings do not find every request any more."""
    by_response: dict[str, int] = field(default_factory=dict)
    by_answer: dict[str, tuple[int, Generation]] = field(default_factory=dict)
    """The newest generation that gave each answer, behind its position."""
    attempts: dict[tuple[str | None, bytes], tuple[int, bool]] = field(default_factory=dict)
    """The newest attempt at each request, and True if it failed."""
    last_split: tuple[bytes, _Node | None, list[_Token]] = (b"", None, [])

    def tie(self, generation: Generation, ties: dict[int, Tie]) -> Tie:
        if generation.messages is None:
            return Tie(is_known=False)
        repeated, failed = self.attempts.get((generation.named_response, generation.messages), (None, False))
        if repeated is not None and (failed or generation.retries):
            attempt_tie = ties[repeated]
            return Tie(attempt_tie.predecessor, repeated if failed else attempt_tie.predecessor, attempt_tie.is_known)
        if generation.named_response is not None:
            answered_no = self.by_response.get(generation.named_response)
            return Tie(answered_no, answered_no, answered_no is not None)
        nearest = self._nearest(generation)
        return Tie(nearest, nearest)

    def add(self, generation: Generation, order: int) -> None:
        if generation.response_id is not None:
            self.by_response[generation.response_id] = generation.no
        if generation.messages is None:
            return
        self.attempts[generation.named_response, generation.messages] = generation.no, generation.failed
        if not generation.failed:
            self._enter(generation.messages, (generation.model, generation.head), (order, generation.no))
            if generation.answer is not None:
                self.by_answer[generation.answer] = order, generation

    def _enter(
        self, messages: bytes, model_and_head: tuple[str | None, bytes], position_and_number: tuple[int, int]
    ) -> None:
        self.latest[model_and_head] = position_and_number
        if (node := self.nodes.get(messages)) is None:
            above, added = self._split(messages)
            self.is_mixed |= not self.known_tokens.isdisjoint(added)
            self.known_tokens.update(added)
            node = self.nodes[messages] = _Node(above, added, messages)
            if (at := bisect_right(self.counts, node.count)) == 0 or self.counts[at - 1] != node.count:
                self.counts.insert(at, node.count)
        node.latest[model_and_head] = position_and_number
        ancestor: _Node | None = node
        while ancestor is not None:
            ancestor.latest_below[model_and_head] = position_and_number
            ancestor = ancestor.above

    def _split(self, messages: bytes) -> tuple[_Node | None, list[_Token]]:
        """Return the requests that messages begin with, and those behind them; the last result is kept."""
        if messages is not self.last_split[0]:
            # The requests with most messages that these begin with, or have all of.
            shorter = range(bisect_right(self.counts, len(messages) // _WIDTH) - 1, -1, -1)
            nodes = (self.nodes.get(messages[: _WIDTH * self.counts[at]]) for at in shorter)
            beginning = next((node for node in nodes if node is not None), None)
            tokens = _tokens(messages, beginning.count if beginning else 0)
            self.last_split = messages, beginning, tokens
        return self.last_split[1:]

    def _nearest(self, generation: Generation) -> int | None:
        messages = generation.messages or b""
        beginning, added = self._split(messages)
        candidates: list[_Rank] = []
        if not self.is_mixed and self.known_tokens.isdisjoint(added):
            while beginning is not None and beginning.count and not candidates:
                candidates = [*_ranks(generation, beginning.count, beginning.count, beginning.latest_below)]
                beginning = beginning.above
        else:
            candidates = self._most_equal(generation, messages)
        if not candidates and generation.by_model:
            candidates = [*_ranks(generation, 0, 0, self.latest)]
        order, answered = self.by_answer.get(generation.last_answer or "", (0, generation))
        if answered.model != generation.model and answered.messages is not None:
            equal = len({*_tokens(messages, 0)}.intersection(_tokens(answered.messages, 0)))
            prefix = common(answered.head + answered.messages, generation.head + messages)
            candidates += [(equal, prefix, order, answered.no)] * (equal > 0 or generation.by_model)
        *_, nearest = max(candidates, default=(0, 0, 0, None))
        return nearest

    def _most_equal(self, generation: Generation, messages: bytes) -> "list[_Rank]":
        """Return the requests with most equal messages, from all; without an equal one, none."""
        tokens = {*_tokens(messages, 0)}
        equal: dict[int, int] = {}
        most, ranks = 1, list[_Rank]()
        for node in self.nodes.values():
            above = equal[id(node.above)] if node.above else 0
            count = equal[id(node)] = above + len(tokens.intersection(node.added))
            equal_prefix = common(node.messages, messages) if count >= most else 0
            if count >= most and (closest := [*_ranks(generation, count, equal_prefix, node.latest)]):
                most, ranks = count, [*closest, *(ranks if count == most else ())]
        return ranks


def ties(generations: Iterable[Generation]) -> dict[int, Tie]:
    session, ties_by_no = _Session(), dict[int, Tie]()
    for order, generation in enumerate(generations):
        ties_by_no[generation.no] = session.tie(generation, ties_by_no)
        session.add(generation, order)
    return ties_by_no


def turn_numbers(generations: Iterable[Generation], ties: Mapping[int, Tie]) -> dict[int, int | None]:
    """Return the number of each generation in its branch, from 1; None if nobody can know its predecessor.

    Another attempt at a request has the number of the first one, also if that succeeded.
    """
    numbers: dict[int, int | None] = {}
    requests: dict[int, tuple[str | None, bytes | None]] = {}
    for generation in generations:
        no, tie = generation.no, ties[generation.no]
        requests[no] = generation.named_response, generation.messages
        numbers[no] = 1 if tie.is_known else None
        if tie.predecessor is not None:
            previous = numbers.get(tie.predecessor)
            is_repeated = requests.get(tie.predecessor) == requests[no]
            numbers[no] = None if previous is None else previous + (not is_repeated)
    return numbers


_Rank = tuple[int, int, int, int | None]
"""The number of equal messages, the length of the common prefix, the position, and the number of a candidate.

A plain tuple, as there are thousands of them where the requests of a session are mixed.
"""


def _ranks(generation: Generation, equal: int, equal_prefix: int, latest: _Latest) -> Iterator[_Rank]:
    """Yield the candidates with the model of a request, each with the same number of `equal` messages.

    `equal_prefix` of them stand in front, and belong to the common prefix only behind an equal head.
    """
    for (model, head), newest in latest.items():
        if model is None or generation.model is None or model == generation.model:
            prefix_length = common(head, generation.head) + (equal_prefix if head == generation.head else 0)
            yield equal, prefix_length, *newest


def _tokens(messages: bytes, start: int) -> list[_Token]:
    added = [*_digests(messages, start)]
    beginning = messages[: _WIDTH * start]
    if len({*added}) == len(added) and not any(digest in beginning for digest in added):
        return [*added]
    counts: dict[bytes, int] = {}
    tokens: list[_Token] = []
    for digest in _digests(messages, 0):
        number = counts[digest] = counts.get(digest, 0) + 1
        tokens.append(digest if number == 1 else (digest, number))
    return tokens[start:]


def _digests(messages: bytes, start: int) -> Iterator[bytes]:
    return (messages[at : at + _WIDTH] for at in range(_WIDTH * start, len(messages), _WIDTH))


def common(a: bytes, b: bytes) -> int:
    """Return the length of the common beginning of two series of digests, in digests."""
    # Bisected, as `startswith` compares in C: a loop over thousands of digests would not.
    low, high = 0, min(len(a), len(b)) // _WIDTH
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a.startswith(b[: _WIDTH * middle]) else (low, middle - 1)
    return low
