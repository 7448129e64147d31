"""How a relay reaches the writer of its tape: it joins the one that there is, else it starts one.

The tape's lock file says where to join (`recorder.tape.lock.meet`). A relay that finds nobody there enters a socket of
its own before it starts a writer, so that of many that look at once one starts a writer and the others wait for that.
So it is at the start, and after a writer's death. A worker never starts a writer.
"""

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from pathlib import Path

from recorder import children
from recorder.errors import TapeBusy, WriterFailed
from recorder.relay import sharing
from recorder.relay.sharing import Link
from recorder.tape import channels, lock


class Meeting:
    """Where a relay meets the writer of a tape; `purpose` says in words who it is."""

    def __init__(self, tape: Path, purpose: str, *, is_worker: bool) -> None:
        self._tape, self._purpose, self._is_worker = tape, purpose, is_worker
        self._listener: socket.socket | None = None

    def close(self, *, goes_on: bool = False) -> None:
        """Let nobody join any more; a writer that `goes_on` for others keeps the socket, and removes it at its end."""
        listener, self._listener = self._listener, None
        if listener is not None:
            if not goes_on:
                channels.remove(Path(listener.getsockname()))
            listener.close()

    async def find(self, dead: Path | None = None) -> Path | None:
        """Return where to join; None if this relay is to start a writer. Raises `TapeBusy` if neither can be.

        `dead` is a socket at which nobody listens any more. Only who starts a writer keeps a socket of its own.
        """
        place = await self._look(dead)
        if place is None and self._listener is None and not self._is_worker:
            with contextlib.suppress(WriterFailed):  # where no socket can be made, nobody can join
                self._listener = sharing.listener()
                place = await self._look(dead)
        if place is not None:
            self.close()
        elif dead is not None and self._listener is not None:  # nobody is sent there any more
            channels.remove(dead)
        return place

    async def _look(self, dead: Path | None) -> Path | None:
        own = None if self._listener is None else Path(self._listener.getsockname())
        return await asyncio.to_thread(lock.meet, self._tape, self._purpose, own, dead)

    async def join(self, place: Path) -> Link:
        """Connect to the writer at a socket. Raises `OSError`."""
        return await sharing.join(place)

    async def start(self, started_before: Sequence[str] = ()) -> Link:
        """Start a writer; `started_before`: the tape's identity and the session. Raises `OSError`, `WriterFailed`."""
        if self._is_worker:
            raise WriterFailed("the recorder has no writer")
        passed = [] if self._listener is None else [self._listener.fileno()]
        command = children.python("-m", "recorder.tape.writer")
        for descriptor in passed:
            command += ["--listen", str(descriptor)]
        return await sharing.start([*command, str(self._tape), self._purpose, *started_before], passed)

    def unreachable(self, cause: str) -> TapeBusy:
        """Return the error for a tape whose writer cannot be joined."""
        holder = lock.holder(self._tape) or "another recorder"
        return TapeBusy(
            f"{self._tape} is being written by {holder}, which cannot be joined ({cause}): stop it, or use another tape"
        )
