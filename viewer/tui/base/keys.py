"""The keys that all screens name first and last, the key map of the configuration, and keys that come fast.

A key is not passed on before the one before it has done all that it does: else one that is typed ahead would go to the
screen that was there, not to the one that is coming.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from textual.app import App, ScreenStackError
from textual.binding import Binding
from textual.events import Key
from textual.keys import Keys, key_to_character
from textual.message_pump import MessagePump

from recorder.sanitize import safe

HELP: Final = (
    Binding("question_mark", "app.help", "help", key_display="?", id="app.help"),
    Binding("f1", "app.help", "help", id="app.help_too"),
)
"""A footer shows a screen's own keys before the app's: so each screen begins with these. f1 works in a line, too."""

BACK: Final = Binding("q", "app.leave", "back", id="app.leave")
"""On every screen but the first, the key that leaves goes back."""

AT_ONCE: Final = "ctrl+c"
"""The key that waits for none."""

_ROUNDS: Final = 4
"""So often a message may be answered by another one before a key has done all that it does."""

_MOST_ROUNDS: Final = 12
_GONE_SECONDS: Final = 0.25
_HELD_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.004


def existing(mapped: Mapping[str, str]) -> dict[str, str]:
    """Give what a key map says of keys that there are; where there is no such key, the action keeps its own."""
    return {name: given for name, given in mapped.items() if all(_exists(key) for key in given.split(","))}


def missing(mapped: Mapping[str, str]) -> str | None:
    """Say which actions of a key map are given keys that there are not; None if there are all."""
    wrong = sorted(mapped.items() - existing(mapped).items())
    told = ", ".join(f"{safe(name)} = {safe(given)}" for name, given in wrong)
    return f"[keys] names keys that there are not: {told}; such as x, X, f5, ctrl+x, space, pageup" if told else None


def _exists(key: str) -> bool:
    base = key.strip() if len(key.strip()) == 1 else key.strip().rpartition("+")[2]
    return key_to_character(base) is not None or base in set(Keys)


class TypedAhead:
    """Keys that wait for the one before them, in their order.

    A screen that has `holds_keys` keeps them waiting while that is true, as where a list is being loaded; not for long.
    """

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._waiting: deque[Key] = deque()
        self._next: Key | None = None
        self._settling: asyncio.Task[None] | None = None

    def takes(self, event: Key) -> bool:
        """Say whether a key has to wait, and keep it then; it is posted to the application again when it need not.

        Where there is no screen any more, as the application ends, nobody waits for it.
        """
        if not self._app.screen_stack:
            return True
        is_free = self._settling is None and not _holds(self._app)
        if event is self._next or event.key == AT_ONCE or is_free:
            self._next = None
            if self._settling is None:
                self._settling = asyncio.create_task(self._go_on())
            return False
        self._waiting.append(event)
        if self._settling is None:
            self._settling = asyncio.create_task(self._go_on())
        return True

    def stop(self) -> None:
        """Pass on no more keys."""
        self._waiting.clear()
        if self._settling is not None:
            self._settling.cancel()

    async def _go_on(self) -> None:
        while True:
            with contextlib.suppress(ScreenStackError):  # the application ends
                await self._settled()
            if not self._waiting:
                self._settling = None
                return
            self._next = self._waiting.popleft()
            self._app.post_message(self._next)

    async def _settled(self) -> None:
        for turn in range(_MOST_ROUNDS):
            before = _standing(self._app)
            for node in (self._app, *_chain(self._app)):
                await _drained(node)
            if turn >= _ROUNDS - 1 and _standing(self._app) == before:
                break
        with contextlib.suppress(TimeoutError):  # held for long enough
            async with asyncio.timeout(_HELD_SECONDS):
                while _holds(self._app):  # noqa: ASYNC110 - no event tells of all that a screen may wait for
                    await asyncio.sleep(_LOOK_SECONDS)


def _standing(app: App[Any]) -> tuple[object, object]:
    return app.screen, app.focused


def _chain(app: App[Any]) -> list[MessagePump]:
    """Give all that a key passes through, up to the application."""
    return list((app.focused or app.screen).ancestors_with_self)


async def _drained(node: MessagePump) -> None:
    """Wait until a node has seen to all that it has been told so far; one that goes away is not waited for."""
    done = asyncio.Event()
    if node.call_later(done.set):
        with contextlib.suppress(TimeoutError):  # it has gone away
            async with asyncio.timeout(_GONE_SECONDS):
                await done.wait()


def _holds(app: App[Any]) -> bool:
    return len(app.screen_stack) < 2 or bool(getattr(app.screen, "holds_keys", False))


class Clashes:
    """Tells of each clash once, however often it is met with."""

    def __init__(self) -> None:
        self._told: set[frozenset[str]] = set()

    def told(self, clashed: Iterable[Binding]) -> str | None:
        """Say which actions have lost their keys to others; None if that has been said."""
        named = {binding.id or binding.action: binding.key for binding in clashed}
        if not named or frozenset(named) in self._told:
            return None
        self._told.add(frozenset(named))
        lost = ", ".join(f"{safe(name)} ({safe(key)})" for name, key in sorted(named.items()))
        return f"[keys] puts another action on the key of {lost}: give one of them another key"
