"""Keys that were pressed before there was anything for them to act on: they wait, in their order, and are not lost."""

import functools
from collections import deque
from collections.abc import Callable
from typing import Any, Concatenate, Final, ParamSpec

P = ParamSpec("P")

_MOST: Final = 1000


class Waiting:
    """What waits; `is_ready` says whether what needs judging (True) or only decoding (False) can be done by now."""

    def __init__(self, is_ready: Callable[[bool], bool]) -> None:
        self._is_ready = is_ready
        self._held: deque[tuple[bool, Callable[[], object]]] = deque(maxlen=_MOST)

    def do(self, action: Callable[[], object], *, judged: bool = False) -> None:
        """Do it, but not before what was asked for earlier."""
        self._held.append((judged, action))
        self.catch_up()

    def catch_up(self) -> None:
        """Do what can be done by now."""
        while self._held and self._is_ready(self._held[0][0]):
            self._held.popleft()[1]()


def waits(
    judged: bool = False,
) -> Callable[[Callable[Concatenate[Any, P], object]], Callable[Concatenate[Any, P], None]]:
    """Make an action of a screen that is `waiting` wait until its exchange has been decoded, or `judged`, too."""

    def waiting(action: Callable[Concatenate[Any, P], object]) -> Callable[Concatenate[Any, P], None]:
        def patient(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> None:
            self.waiting.do(functools.partial(action, self, *args, **kwargs), judged=judged)

        patient.__doc__ = action.__doc__
        return patient

    return waiting
