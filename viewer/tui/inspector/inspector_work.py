"""What the inspector has done beside the loop: content is rendered as Markdown, and events are looked through."""

import asyncio
import functools
from collections.abc import Sequence
from typing import Final

from viewer.model.exchange import events
from viewer.model.exchange.transcript import Transcript
from viewer.tui.base.host import in_thread
from viewer.tui.inspector.replay import ReplayPane

_RENDERED_EVERY_S: Final = 0.25


async def render(replay: ReplayPane) -> None:
    """Render what has been said; while it is played, a few times a second."""
    replay.take(await in_thread(replay.rendering()))
    await asyncio.sleep(_RENDERED_EVERY_S)
    replay.settle()


async def fitting(transcript: Transcript, text: str) -> Sequence[int] | None:
    """Find the events that fit a filter, which can be read; None without any."""
    tests = events.parse_filter(text)
    return await in_thread(functools.partial(events.matching, transcript, tests)) if tests else None
