"""A program beside a recorder, which reads what it records: it is started again when it ends, and harms no stream.

What writes a tape stands alone: a companion is started by the name of its module, and the recorder goes on without it.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recorder.clock import SYSTEM

if TYPE_CHECKING:
    from recorder.commands.status import Screen

_AGAIN_SECONDS = 0.25
_MOST_AGAIN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Program:
    """A module that is run, with its arguments; `does` says what for, as in "serves metrics"."""

    module: str
    does: str
    arguments: tuple[str, ...] = ()
    descriptors: tuple[int, ...] = ()


async def keep_running(
    program: Program, attend: Callable[[asyncio.subprocess.Process], Awaitable[int]], screen: "Screen"
) -> None:
    """Start a program, and again when it ends, until cancelled; `attend` returns its exit code when it has ended."""
    wait = _AGAIN_SECONDS
    while True:
        started = SYSTEM.now()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", program.module, *program.arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                pass_fds=program.descriptors,
                start_new_session=True,
            )
        except OSError as error:
            screen.line(f"wiretape: the process that {program.does} cannot start ({error.strerror}); trying again")
        else:
            code = await attend(process)
            screen.line(f"wiretape: the process that {program.does} ended (exit code {code}); starting another")
        has_lasted = SYSTEM.now() - started > _MOST_AGAIN_SECONDS * 1e9
        wait = _AGAIN_SECONDS if has_lasted else min(2 * wait, _MOST_AGAIN_SECONDS)
        await asyncio.sleep(wait)
