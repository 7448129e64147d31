"""Pure: conversations, and the exchange that each exchange continues, from the facts derived of each alone.

A conversation is named by the key that its client gave, as its first exchange has it (a redacted header has a hash of
it), or else by the id of its first exchange. An exchange continues
the one that its request names (`previous_response_id`), or else the newest earlier one whose messages its own begin
with, in front of an answer: one that gave this answer, or else one with the same key, or with none as well; of equal
ones, each is continued once before any is twice. A request that is sent again continues the one that failed. A
sub-agent's first exchange continues nothing: its parent is the newest exchange of the conversation that started it. Ten
equal first requests are ten conversations.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple


class ConversationLink(NamedTuple):
    """The ties of an exchange to others; the names are those of `Measures`. `is_turn`: it asked for a generation."""

    no: int
    id: str
    is_turn: bool = True
    failed: bool = False
    key: str | None = None
    parent_key: str | None = None
    response_id: str | None = None
    previous_response_id: str | None = None
    messages: str | None = None
    continues: str | None = None
    answer: str | None = None
    continued_answer: str | None = None
    retries: int | None = None

    @property
    def begins(self) -> bool:
        """True if it has no key and continues nothing: it begins a conversation, or belongs to none."""
        return self.key is None and not any(_looks_for(self))


class ConversationNode(NamedTuple):
    """An exchange in the tree of its conversation; one that continues the exchange above it has the same depth."""

    no: int
    depth: int


class TreeParent(NamedTuple):
    """The exchange above another one, None without any; `is_continued`: the other goes on with its conversation."""

    no: int | None
    is_continued: bool


class _KeySpelling(NamedTuple):
    no: int
    key: str


_OF_ANSWER: Final = ("response_id", "answer", "failed")
"""The fields of a link that are known only when the exchange has ended."""


class Conversations:
    """The exchanges of a tape, each `put` when it is known, and again when more is; nearly always in their order.

    `mark_of_key` returns the same mark for a key and for its redacted form.
    """

    def __init__(self, links: Iterable[ConversationLink] = (), mark_of_key: Callable[[str], str] = str) -> None:
        self._mark_of_key = mark_of_key
        self._spellings: dict[str, _KeySpelling] = {}
        """The oldest exchange with each marked key, and that key as it has it."""
        self._links: dict[int, ConversationLink] = {}
        self._parent_keys: dict[str, str] = {}
        self._last = 0
        self._is_stale = False
        self._forget()
        for link in links:
            self.put(link)

    def __len__(self) -> int:
        return len(self._links)

    def _forget(self) -> None:
        self._newest: dict[str, int] = {}
        """The newest exchange that can be found by something …"""
        self._older: dict[str, list[int]] = {}
        """… and those before it, if there are any: without such as are continued already and were looked at."""
        self._claimed: set[int] = set()
        """The exchanges that are continued."""
        self._sought: set[str] = set()
        """The keys that were searched."""
        self._continued: dict[int, int] = {}
        self._above: dict[int, int] = {}
        self._names: dict[int, str | None] = {}

    def put(self, link: ConversationLink) -> None:
        """Add an exchange, or update it."""
        if link.key is not None or link.parent_key is not None:
            link = link._replace(key=self._marked(link.key, link.no), parent_key=self._marked(link.parent_key, link.no))
        previous = self._links.get(link.no)
        self._links[link.no] = link
        if link.key is not None and link.parent_key is not None and link.key not in self._parent_keys:
            self._parent_keys[link.key] = link.parent_key
            self._is_stale |= f"main {link.key}" in self._newest
        if previous is None and link.no > self._last:
            self._last = link.no
            self._enter(link)
        elif previous is None or previous._replace(**{name: getattr(link, name) for name in _OF_ANSWER}) != link:
            self._is_stale = True
        else:
            # An earlier search at a place of the new ties may have found another exchange: then the links are stale.
            for place in set(_found_by(link)).difference(_found_by(previous)):
                self._is_stale |= place in self._sought or self._newest.setdefault(place, link.no) != link.no

    def _marked(self, key: str | None, no: int) -> str | None:
        """Return the mark of an exchange's key, and note the key's spelling."""
        if key is None:
            return None
        marked = self._mark_of_key(key)
        spelling = self._spellings.get(marked)
        if spelling is None or no <= spelling.no:
            self._spellings[marked] = _KeySpelling(no, key)
        return marked

    def _enter(self, link: ConversationLink) -> None:
        """Resolve the conversation of an exchange from the exchanges before it."""
        no, continued = link.no, self._find(_looks_for(link))
        if continued is not None:
            self._continued[no] = continued
            self._claimed.add(continued)
        above = continued
        if above is None and link.parent_key is not None:
            above = self._find([f"main {link.parent_key}"])
        if above is not None:
            self._above[no] = above
        self._names[no] = self._name_of(link, continued)
        for place in _found_by(link):
            if (older := self._newest.get(place)) is not None:
                self._older.setdefault(place, []).append(older)
            self._newest[place] = no

    def _find(self, places: Iterable[str]) -> int | None:
        for place in places:
            self._sought.add(place)
            if (newest := self._newest.get(place)) is not None:
                older = self._older.get(place, []) if newest in self._claimed else []
                # One that is continued stays so: each is passed over once, however long a conversation is.
                while older and older[-1] in self._claimed:
                    older.pop()
                return older[-1] if older else newest
        return None

    def _name_of(self, link: ConversationLink, continued: int | None) -> str | None:
        if link.key is None:
            own_name = link.id if link.is_turn else None
            return own_name if continued is None else self._names[continued]
        key, seen = link.key, {link.key}
        while (parent := self._parent_keys.get(key)) is not None and parent not in seen:
            key = parent
            seen.add(key)
        return key

    def _settle(self) -> None:
        """Work everything out again, if something became known late that others may belong to."""
        if self._is_stale:
            self._is_stale = False
            self._forget()
            for no in sorted(self._links):
                self._enter(self._links[no])

    def name(self, no: int) -> str | None:
        self._settle()
        name = self._names.get(no)
        spelling = self._spellings.get(name) if name is not None else None
        return name if spelling is None else spelling.key

    def continued(self, no: int) -> int | None:
        """Return the number of the exchange that this one continues; None: it begins something, or is not known."""
        self._settle()
        return self._continued.get(no)

    def above(self, no: int) -> int | None:
        """Return the number of the exchange that this one continues, or hangs on as the first of a sub-agent."""
        self._settle()
        return self._above.get(no)

    def numbers(self) -> list[int]:
        self._settle()
        return [no for no, name in self._names.items() if name is not None]

    def id(self, no: int | None) -> str | None:
        return None if no is None or no not in self._links else self._links[no].id


def tree(parents: Mapping[int, TreeParent]) -> Iterator[ConversationNode]:
    """Yield exchanges of one conversation, each below its parent, if that is among them.

    `parents` has the number of every exchange. Of several that continue one, the longest line goes on at its depth,
    behind the others, which are deeper.
    """
    below: dict[int | None, list[int]] = {}
    size = dict.fromkeys(parents, 1)
    for no in sorted(parents, reverse=True):  # what hangs on an exchange is newer than it
        above = parents[no].no if parents[no].no in size else None
        below.setdefault(above, []).append(no)
        if above is not None:
            size[above] += size[no]
    stack = [ConversationNode(no, 0) for no in below.get(None, ())]  # the newest first: the oldest is the next
    while stack:
        node = stack.pop()
        yield node
        children = below.get(node.no, [])
        main = max((no for no in children if parents[no].is_continued), key=lambda no: (size[no], no), default=None)
        if main is not None:
            stack.append(ConversationNode(main, node.depth))
        stack += [ConversationNode(no, node.depth + 1) for no in children if no != main]


def _found_by(link: ConversationLink) -> Iterator[str]:
    """Yield all by which an exchange that continues this one can find it."""
    if link.response_id is not None:
        yield f"response {link.response_id}"
    if link.messages is not None:
        yield f"{link.messages} {link.key}"
        if link.answer is not None:
            yield f"answer {link.messages} {link.answer}"
        if link.failed:
            yield f"failed {link.messages} {link.key}"
    if link.key is not None and link.parent_key != link.key:
        yield f"main {link.key}"


def _looks_for(link: ConversationLink) -> Iterator[str]:
    """Yield the keys of the exchange that this one continues, the surest first."""
    if link.retries and link.messages is not None:
        yield f"failed {link.messages} {link.key}"
    if link.previous_response_id is not None:
        yield f"response {link.previous_response_id}"
    if link.continues is not None:
        if link.continued_answer is not None:
            yield f"answer {link.continues} {link.continued_answer}"
        yield f"{link.continues} {link.key}"
