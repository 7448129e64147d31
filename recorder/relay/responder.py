"""The bases of an answer to a request, and of another protocol on a client's connection.

Their callbacks do nothing unless they are overridden.
"""

import errno

from wiretape.recorder.facts import EndedBy
from wiretape.recorder.relay.guard import Refusal


class Responder:
    """The base of an answer to a request: its callbacks report the client's actions."""

    def body_came(self) -> None:
        """Read more of the request's body, or its end."""

    def request_failed(self, refusal: Refusal) -> None:
        """End: the rest of the request's body will not come, or cannot be read."""

    def client_left(self) -> None:
        """End: the client closed its connection, or broke it."""

    def dropped(self, ended_by: EndedBy, detail: str) -> None:
        """End: wiretape closed the client's connection."""
        self.client_left()

    def client_progressed(self) -> None:
        """Continue: the kernel has taken more of the answer."""

    def taker_failed(self, error: Exception) -> None:
        """Report that a callback raised, one of these or one of `Client.guarded`.

        If no answer has begun after this call, the client gets one with the status 500.
        """
        raise error


class Takeover:
    """The base of another protocol on a client's connection: its callbacks report the socket's events.

    It ends the connection by `Client.close`; where the client or the server ended it, `lost` tells so. Bytes that came
    before it took over are in no `received`: `Client.switch` returns them.
    """

    @property
    def is_idle(self) -> bool:
        """True if the end of the recorder need not wait for the connection."""
        return True

    def leave(self) -> None:
        """Announce the end to the peer, if the protocol can: nothing new is accepted."""

    def received(self, at: int, data: memoryview) -> None:
        """Handle the bytes of a read at `at`, in the clock's ns."""

    def progressed(self) -> None:
        """Continue: the kernel has taken more of the output."""

    def write_failed(self, error: OSError) -> None:
        """Note that nothing can be written any more."""

    def lost(self, error: Exception | None) -> None:
        """End: the peer closed the connection (None), or it broke."""

    def dropped(self, ended_by: EndedBy, detail: str) -> None:
        """End: wiretape closed the connection."""
        self.lost(ConnectionAbortedError(errno.ECONNABORTED, detail))

    def failed(self, error: Exception) -> None:
        """Report that one of the callbacks raised."""
        raise error
