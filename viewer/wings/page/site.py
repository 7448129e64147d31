"""Serves live pages over HTTP to browsers on the same machine: an app of the recorder's own server.

Every path begins with a random word, without which a request is refused. A page is its frame, the same for all; its
content comes over an event stream: whole at first, then as patches. A slow browser gets no patches in between: once it
has taken the rest, it gets a whole value, so that little waits for it.

The numbers of events are those of the page's values. A patch applies to the value with the number before it: a browser
that has another one gets the whole value, as one that comes back with an older `Last-Event-ID`.

A patch is a list that `patched` in live.js applies: `["=", value]` replaces, `["+", text]` appends to a text, `["{",
patches, removed]` changes the members of an object, and `["[", patches, added]` changes the elements of a list and
appends to it. Tapes grow: columns nearly always only get longer.
"""

import asyncio
import hmac
import itertools
import re
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final

from wiretape.recorder.relay.app import HttpApp
from wiretape.recorder.relay.client import Client
from wiretape.recorder.relay.guard import Policy, Refusal
from wiretape.recorder.relay.request import Request
from wiretape.recorder.relay.responder import Responder
from wiretape.viewer.wings.page import document
from wiretape.viewer.wings.page.values import ExchangeSource, PageSource, RunSource, Settings
from wiretape.viewer.wings.page.watching import Reading, SourceWatch

UNSENT_BYTES: Final = 256 << 10
"""Limit of bytes that a browser has not taken; beyond it, it gets no events."""

HEARTBEAT_SECONDS: Final = 10.0
"""Interval of comments in a stream: only a write detects a browser that is gone."""

LINGER_SECONDS: Final = 5.0
"""Time for which a page without viewers is still read, in seconds: it may be loading anew."""

MOST_VIEWERS: Final = 256
MOST_PAGES: Final = 64
"""Limit of pages that are read, each by a thread of its own."""

_PATH: Final = re.compile(rb"/([\w-]+)/(?:([\w.-]{4,64})/)?(events)?", re.ASCII)
_SAFE: Final = [
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
_NOTHING: Final = b"default-src 'none'"
_NOT_FOUND: Final = Refusal(404, "")


class Site(HttpApp):
    """Answers requests for live pages; `on_trouble` gets faults of our own."""

    policy = Policy(takes_links=True)  # only who knows the secret path has a link

    def __init__(self, settings: Settings, on_trouble: Callable[[str], None] = lambda _: None) -> None:
        self._settings, self.on_trouble = settings, on_trouble
        self.on_refused = lambda _: None
        self._word = secrets.token_urlsafe(16)
        self._loop = asyncio.get_running_loop()
        self._subjects: dict[str | None, Subject] = {}
        self._numbers = itertools.count(1)
        self._beat = self._loop.call_later(HEARTBEAT_SECONDS, self._keep_alive)

    def path(self, id: str | None = None) -> str:
        return f"/{self._word}/" if id is None else f"/{self._word}/{id}/"

    def close(self) -> None:
        self._beat.cancel()
        for subject in list(self._subjects.values()):
            subject.close()
        self._subjects.clear()

    # app.HttpApp

    def _matched(self, request: Request) -> "re.Match[bytes] | None":
        """Return the page that a request names, if it has the word."""
        match = _PATH.fullmatch(request.target)
        return match if match is not None and hmac.compare_digest(match[1], self._word.encode()) else None

    def respond(self, client: Client, request: Request) -> Responder | None:
        """Answer a request, by an event stream later."""
        match = self._matched(request)
        assert match is not None  # it was admitted
        id = None if match[2] is None else match[2].decode("ascii")
        if match[3]:
            return self._stream(client, request, id)
        markup, policy = document.live("run" if id is None else "stream")
        _answer(client, 200, markup, "text/html; charset=utf-8", policy.encode())
        return None

    def admit(self, client: Client, request: Request) -> Refusal | None:
        """Return why a request that passed the guard is not answered; None if it is."""
        match = self._matched(request)
        if match is None:
            return _NOT_FOUND
        if request.method != "GET" and (request.method != "HEAD" or match[3]):
            return Refusal(405, "pages are read by GET")
        is_full = sum(len(subject.viewers) for subject in self._subjects.values()) >= MOST_VIEWERS
        if match[3] and (is_full or len(self._subjects) >= MOST_PAGES):
            return Refusal(503, "too many pages are open: close some")
        return super().admit(client, request)

    def refuse(self, client: Client, refusal: Refusal) -> None:
        text = f"wiretape: {refusal.message}\n" if refusal.message else ""
        _answer(client, refusal.status, text.encode(), "text/plain; charset=utf-8")

    def _stream(self, client: Client, request: Request, id: str | None) -> "Viewer":
        subject = self._subjects.get(id)
        if subject is None:
            source: PageSource = RunSource(self._settings) if id is None else ExchangeSource(self._settings, id)
            subject = self._subjects[id] = Subject(self._settings, source, self._numbers, lambda: self._stop_unseen(id))
        seen = next((value for name, value in request.headers if name == b"last-event-id"), b"")
        viewer = Viewer(client, subject, self.client_failed)
        client.start(200, b"", [(b"content-type", b"text/event-stream"), *_headers()], chunked=True, closes=True)
        client.add(b"retry: 1000\n\n")  # a browser that lost the connection comes back after a second
        # `int` takes quadratic time for a text of any length.
        subject.join(viewer, int(seen) if seen.isdigit() and len(seen) < 20 else 0)
        return viewer

    def _stop_unseen(self, id: str | None) -> None:
        """Stop reading pages without viewers."""
        subject = self._subjects.get(id)
        if subject is not None and not subject.viewers:
            del self._subjects[id]
            subject.close()

    def _keep_alive(self) -> None:
        """Send a comment over every stream, which detects browsers that are gone."""
        for subject in self._subjects.values():
            for viewer in list(subject.viewers):
                viewer.guarded(viewer.beat)()
        self._beat = self._loop.call_later(HEARTBEAT_SECONDS, self._keep_alive)


class Subject:
    """The content of one page, and its viewers."""

    def __init__(
        self, settings: Settings, source: PageSource, numbers: "itertools.count[int]", on_left: Callable[[], None]
    ) -> None:
        self.viewers = set[Viewer]()
        self._numbers, self._on_left = numbers, on_left
        self._loop = asyncio.get_running_loop()
        self._reading = Reading()
        self.number = 0
        self._whole_event: bytes | None = None
        self._last_value: Any = None
        self._watch = SourceWatch(settings.tape, source, self._publish_reading)

    def join(self, viewer: "Viewer", seen: int) -> None:
        """Add a viewer; `seen` is the number of the last event that it got, or 0."""
        self.viewers.add(viewer)
        if seen and seen == self.number:
            viewer.add(b":\n\n", self.number)  # it has come back, and has missed nothing
        elif self.number:
            viewer.add(self.whole, self.number)
        else:
            viewer.add(b":\n\n", 0)

    def leave(self, viewer: "Viewer") -> None:
        self.viewers.discard(viewer)
        if not self.viewers:
            self._loop.call_later(LINGER_SECONDS, self._on_left)

    def close(self) -> None:
        """Stop reading, and send the end to the viewers."""
        self._watch.end()
        for viewer in list(self.viewers):
            viewer.end()

    @property
    def whole(self) -> bytes:
        if self._whole_event is None:
            value = {"value": self._reading.value, "trouble": self._reading.trouble}
            self._whole_event = event("whole", self.number, value)
        return self._whole_event

    def _publish_reading(self, reading: Reading) -> None:
        """Compute the patch; called in the thread that reads."""
        value = {"value": reading.value, "trouble": reading.trouble}
        patch = None if self._last_value is None else difference(self._last_value, value)
        is_first, self._last_value = self._last_value is None, value
        if patch is None and not is_first:
            return
        number = next(self._numbers)
        sent = b"" if is_first else event("patch", number, patch)
        try:
            self._loop.call_soon_threadsafe(self._publish, reading, number, sent)
        except RuntimeError:  # the loop has ended
            self._watch.end()

    def _publish(self, reading: Reading, number: int, patch: bytes) -> None:
        # Numbers are counted for the site: a page that is closed, and read again later, repeats none.
        base, self._reading, self.number, self._whole_event = self.number, reading, number, None
        for viewer in list(self.viewers):
            viewer.guarded(viewer.show)(base, patch)


class Viewer(Responder):
    """A page in a browser: the event stream that it reads."""

    def __init__(self, client: Client, subject: Subject, on_failed: Callable[[Exception], None]) -> None:
        self._client, self._subject, self._on_failed = client, subject, on_failed
        self.guarded = client.guarded
        self._number = 0
        self._is_behind = False

    def add(self, data: bytes, number: int) -> None:
        self._number = number
        self._client.add(data)
        self._client.flush()

    def show(self, base: int, patch: bytes) -> None:
        """Send the patch since `base`, or the whole value, unless too much waits to be taken."""
        self._is_behind = self._client.unsent > UNSENT_BYTES
        if self._is_behind:
            return
        self.add(patch if patch and self._number == base else self._subject.whole, self._subject.number)

    def beat(self) -> None:
        """Send a comment, unless something waits to be taken anyway."""
        if not self._client.unsent:
            self.add(b":\n\n", self._number)

    def end(self) -> None:
        self.add(event("end", self._number, {}), self._number)
        self._client.add_end()
        self._client.flush()
        self._client.finish()

    # responder.Responder

    def request_failed(self, refusal: Refusal) -> None:
        self._subject.leave(self)
        self._client.cut()

    def client_left(self) -> None:
        self._subject.leave(self)

    def client_progressed(self) -> None:
        """Send the whole value once a slow client has taken the rest."""
        if self._is_behind and not self._client.unsent:
            self._is_behind = False
            self.add(self._subject.whole, self._subject.number)

    def taker_failed(self, error: Exception) -> None:
        self._subject.leave(self)
        self._on_failed(error)


def event(name: str, number: int, data: Any) -> bytes:
    return b"event: %s\nid: %d\ndata: %s\n\n" % (name.encode(), number, document.encoded(data))


def _answer(client: Client, status: int, body: bytes, content_type: str, policy: bytes = _NOTHING) -> None:
    client.answer(status, body, content_type, _headers(policy))


def _headers(policy: bytes = _NOTHING) -> list[tuple[bytes, bytes]]:
    return [*_SAFE, (b"content-security-policy", policy + b"; frame-ancestors 'none'")]


Patch = list[Any]


def difference(old: object, new: object) -> Patch | None:
    """Return the patch that makes `new` of `old`; None if they are the same."""
    if type(old) is type(new) and old == new:
        return None
    if isinstance(old, dict) and isinstance(new, dict):
        return _of_objects(old, new)
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)) and len(old) <= len(new):
        return _of_lists(old, new)
    if isinstance(old, str) and isinstance(new, str) and old and new.startswith(old):
        return ["+", new[len(old) :]]
    return ["=", new]


def _of_objects(old: dict[Any, Any], new: dict[Any, Any]) -> Patch:
    patches = {name: ["=", value] for name, value in new.items() if name not in old}
    for name in new.keys() & old.keys():
        if patch := difference(old[name], new[name]):
            patches[name] = patch
    return ["{", patches, [name for name in old if name not in new]]


def _of_lists(old: Sequence[object], new: Sequence[object]) -> Patch:
    if old == new[: len(old)]:
        return ["[", {}, new[len(old) :]]
    patches = {}
    for place, (old_item, new_item) in enumerate(zip(old, new, strict=False)):
        if patch := difference(old_item, new_item):
            patches[place] = patch
    replaced = sum(kind == "=" for kind, *_ in patches.values())
    # Where most elements differ, as after a sort, the whole list is shorter than its patches.
    return ["=", new] if 2 * replaced > len(old) else ["[", patches, new[len(old) :]]
