"""The key map of the configuration, and keys that are typed ahead.

A key is passed on only when the one before it has done all that it does: one that is typed ahead would otherwise go to
the screen that was there, not to the one that is coming.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from textual.app import App, ScreenStackError
from textual.binding import Binding
from textual.events import Key
from textual.keys import Keys, key_to_character

from wiretape.recorder.sanitize import safe
from wiretape.viewer.query import guesses
from wiretape.viewer.tui import bindings


def _exists(key: str) -> bool:
    base = key if len(key) == 1 else key.rpartition("+")[2]
    return key_to_character(base) is not None or base in set(Keys)


def mistakes(key_map: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the errors of a key map: unknown names of actions, and keys that do not exist."""
    actions = bindings.by_name()
    for name, keys in key_map.items():
        if name not in actions:
            asked = guesses.question(guesses.nearest(name, actions, {}))
            yield name, f"{safe(name)} under [keys] is no action{asked and f': {asked}'}"
        elif not all(_exists(key.strip()) for key in keys.split(",")):
            yield name, f"{safe(name)} = {safe(keys)}: there is no such key; write x, X, f5, ctrl+x, space, pageup, …"


def clash_warning(clashed: Iterable[Binding]) -> str | None:
    """Return a warning about the actions that have lost their keys to others by the key map; None if none has."""
    lost = sorted({binding.id or binding.action: binding.key for binding in clashed}.items())
    names = ", ".join(f"{safe(name)} ({safe(key)})" for name, key in lost)
    return f"[keys] puts another action on the key of {names}: give one of them another key" if names else None


class TypedAhead:
    """Keys that wait for the one before them, in their order.

    A screen with `holds_keys` keeps them waiting while that is true, as while a list is loading, for two seconds at
    most.
    """

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._queue: deque[Key] = deque()
        self._next: Key | None = None
        self._settling: asyncio.Task[None] | None = None

    def takes(self, event: Key) -> bool:
        """Return True if a key has to wait; it is posted to the application again after the wait.

        As the application ends, and there is no screen any more, it is dropped.
        """
        if not self._app.screen_stack:
            return True
        is_free = self._settling is None and not _holds(self._app)
        # An interrupt waits for no key before it.
        is_passed_on = event is self._next or event.key == "ctrl+c" or is_free
        if is_passed_on:
            self._next = None
        else:
            self._queue.append(event)
        if self._settling is None:
            self._settling = asyncio.create_task(self._pass_on())
        return not is_passed_on

    def stop(self) -> None:
        self._queue.clear()
        if self._settling is not None:
            self._settling.cancel()

    async def _pass_on(self) -> None:
        while True:
            with contextlib.suppress(ScreenStackError):  # the application ends
                await self._settle()
            if not self._queue:
                self._settling = None
                return
            self._next = self._queue.popleft()
            self._app.post_message(self._next)

    async def _settle(self) -> None:
        app = self._app
        quiet_rounds = 4  # of follow-up messages, until a key has done all its work
        # A screen whose focus moves on and on must not hold keys for ever.
        for turn in range(12):
            focus = app.screen, app.focused
            for node in (app, *list((app.focused or app.screen).ancestors_with_self)):
                done = asyncio.Event()
                if node.call_later(done.set):
                    with contextlib.suppress(TimeoutError):
                        # A widget that is removed meanwhile never answers.
                        async with asyncio.timeout(0.25):
                            await done.wait()
            if turn >= quiet_rounds - 1 and (app.screen, app.focused) == focus:
                break
        with contextlib.suppress(TimeoutError):
            # A locked tape may take longer: keys must reach the screen then, if only to leave it.
            async with asyncio.timeout(2.0):
                while _holds(app):  # noqa: ASYNC110 - no event covers all that a screen may wait for
                    await asyncio.sleep(0.004)


def _holds(app: App[Any]) -> bool:
    return len(app.screen_stack) < 2 or bool(getattr(app.screen, "holds_keys", False))
