"""TCP and TLS sockets on the running event loop: each read is stamped, and each write goes to the kernel at once.

The transports of asyncio report neither the time at which the kernel received a read nor that at which it took a
write, and they were the largest cost of a relayed read. Here a read carries the kernel's receive time where the
platform has one (Linux), else the time at which the event loop came to it. The `Handler` interprets the bytes.
`tls_context` holds the certificates that TLS trusts.
"""

import asyncio
import contextlib
import errno
import fcntl
import functools
import ipaddress
import itertools
import os
import select
import socket
import ssl
import struct
import sys
import termios
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from wiretape.recorder.clock import Clock, KernelTime
from wiretape.recorder.errors import WiretapeError

READ_BYTES = 64 << 10
_SO_TIMESTAMPNS: int | None = 35 if sys.platform == "linux" and struct.calcsize("l") == 8 else None
"""Ask the kernel for receive times as a `struct timespec` (socket(7)); not a constant of Python's `socket`."""
HAS_KERNEL_TIME = _SO_TIMESTAMPNS is not None
_TIMESPEC = struct.Struct("@ll")
_unpack_time = _TIMESPEC.unpack
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
# All sockets of a process read into the same memory: a read is handled before the next one.
_READ = memoryview(bytearray(READ_BYTES))
_INTO = [_READ]
_PLAIN = memoryview(bytearray(2 * READ_BYTES))
_NOT_NOW = (BlockingIOError, InterruptedError)
RESET_SECONDS = 60.0
"""Time that a reset waits for a slow peer."""
ATTEMPT_SECONDS = 0.25
"""Time after which a host's next address is tried, too."""
Address = tuple[int, int, int, str, tuple[str | int, ...]]
"""An address as `getaddrinfo` returns it."""


def tls_context(
    ca_file: Path | None, client_cert: Path | None = None, authorities: Iterable[bytes] = ()
) -> ssl.SSLContext:
    """Trust the system's store (or `SSL_CERT_FILE`), `ca_file` and `authorities`; show `client_cert` to who asks."""
    context = ssl.create_default_context()
    # Companies' authorities often break RFC 5280: Python 3.13 refuses them, and other programs do not.
    context.verify_flags = context.verify_flags & ~ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    for certificate in authorities:
        with contextlib.suppress(ssl.SSLError):  # it is of no use to other programs, either
            context.load_verify_locations(cadata=certificate)
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ssl.SSLError) as error:
            raise WiretapeError(f"--ca-file {ca_file} cannot be used ({error}): give certificates in PEM") from error
    if client_cert is not None:
        try:
            context.load_cert_chain(client_cert, password="")  # else OpenSSL would ask for it on the terminal
        except (OSError, ssl.SSLError) as error:
            raise WiretapeError(
                f"--client-cert {client_cert} cannot be used ({error}): give a certificate and its key, which is not"
                " encrypted, in PEM"
            ) from error
    return context


def ask_for_times(sock: socket.socket) -> None:
    """Ask the kernel for the receive times of reads, where it has them.

    It begins to record them a moment after the first socket of all asks, and ends with the last one.
    """
    if _SO_TIMESTAMPNS is not None:
        try:
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        except OSError:  # a system without them: the event loop's time is taken
            return


class _Poller:
    """The sockets of one event loop that are read, or were and have to be watched for a hang-up.

    An event loop's own reader takes seven system calls for a socket that serves one exchange; an epoll instance, in
    which a socket is registered once and which forgets it when it is closed, takes one. Besides, uvloop calls the
    reader of a socket that has an error once, and drops it with the error and all bytes beyond that read unread; and
    no loop looks at a socket while its reading is paused, where epoll still reports a hang-up: a reset, or an end in
    both directions. A system without epoll has the loop's readers, and reports an error until it is read.
    """

    _by_loop: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Poller]" = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sockets: dict[int, Socket] = {}
        self._new = set[int]()
        if sys.platform == "linux":
            self._epoll = select.epoll()
            loop.add_reader(self._epoll, self._report)

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> "_Poller":
        poller = cls._by_loop.get(loop)
        if poller is None:
            poller = cls._by_loop[loop] = cls(loop)
        return poller

    def watch(self, descriptor: int, sock: "Socket") -> None:
        """Call the socket's `look` whenever it can be read."""
        if sys.platform != "linux":
            asyncio.get_running_loop().add_reader(descriptor, sock.look)
        elif descriptor in self._sockets:
            self._epoll.modify(descriptor, select.EPOLLIN)
        else:
            self._sockets[descriptor] = sock
            self._new.add(descriptor)
            self._epoll.register(descriptor, select.EPOLLIN)

    def pause(self, descriptor: int) -> None:
        """Report nothing but a hang-up."""
        if sys.platform != "linux":
            asyncio.get_running_loop().remove_reader(descriptor)
        elif descriptor in self._sockets:
            self._epoll.modify(descriptor, 0)

    def remove(self, descriptor: int, *, is_closed: bool) -> None:
        """Forget a socket; the system forgets one that is closed by itself."""
        if sys.platform != "linux":
            asyncio.get_running_loop().remove_reader(descriptor)
        elif self._sockets.pop(descriptor, None) is not None and not is_closed:
            self._epoll.unregister(descriptor)

    def _report(self) -> None:
        self._new.clear()
        for descriptor, events in self._epoll.poll(0, 256):
            sock = self._sockets.get(descriptor)
            if sock is None or descriptor in self._new:  # the event may be an earlier socket's of the same number
                continue
            if events & 0x18:  # EPOLLERR or EPOLLHUP, names that other systems lack
                sock.hung_up()
            if sock.is_reading:  # an earlier event may have paused it
                sock.look()


class Handler(Protocol):
    """The receiver of a socket's events."""

    def received(self, at: int, data: memoryview) -> None:
        """Handle a read that returned at `at` (clock's ns); the memory is used again after this call."""

    def progressed(self) -> None:
        """The kernel has taken more of the unsent bytes; `unsent` is the number of those left."""

    def write_failed(self, error: OSError) -> None:
        """Writing has failed for good; received bytes can still be read."""

    def lost(self, error: Exception | None) -> None:
        """The peer closed (None), or the connection broke; the socket is closed."""

    def failed(self, error: Exception) -> None:
        """The handler itself raised."""


class _Nobody:
    """The handler of a closed socket, which gets no events: with its last one, both would wait for a collection."""

    def received(self, at: int, data: memoryview) -> None: ...

    def progressed(self) -> None: ...

    def write_failed(self, error: OSError) -> None: ...

    def lost(self, error: Exception | None) -> None: ...

    def failed(self, error: Exception) -> None:
        raise error


_NOBODY = _Nobody()
Ends = tuple[tuple[str, int], tuple[str, int]]
"""The addresses of a connection over IPv4: one end's, and the other's."""


class Socket:
    """A connected socket.

    `stamp` is the timestamp of the last read, or of the end; `has_kernel_time` says whether that was the kernel's.
    Nothing can have come before the time `since`: the kernel's times are checked by it.
    `unsent` counts the bytes that wait to be taken by the kernel, `written` all that were written. `has_ended`: the
    peer closed in good order, with nothing left unread, for which its kernel would have broken the connection.
    It `asks` for receive times, unless its listening socket has: an accepted one inherits that.
    """

    __slots__ = (
        "_clock", "_free_at", "_handler", "_has_hung_up", "_is_ending", "_is_read_to_end", "_is_writing", "_now",
        "_poller", "_receive_into", "_send", "_sock", "_take", "_unsent", "_write_error", "has_ended",
        "has_kernel_time", "is_closed", "is_reading", "kernel_time", "loop", "since", "stamp", "unsent", "written",
    )  # fmt: skip

    def __init__(
        self, sock: socket.socket, clock: Clock, kernel_time: KernelTime | None = None, *, asks: bool = True
    ) -> None:
        self._sock, self._clock, self.kernel_time = sock, clock, kernel_time
        self._now, self._receive_into, self._send = clock.now, sock.recvmsg_into, sock.send
        self.loop = asyncio.get_running_loop()
        self._handler: Handler
        self._take: Callable[[int, memoryview], None]
        """The handler's `received`, or what decrypts for it."""
        self._free_at = 0
        """The last time at which unread bytes may have waited for this socket's reading, not for the event loop."""
        self._unsent = list[memoryview]()
        self.is_reading = self._is_writing = False
        self._is_ending = self._has_hung_up = self._is_read_to_end = False
        self._write_error: OSError | None = None
        """The reset that a write has met; a read then meets only an end."""
        self.is_closed = self.has_ended = False
        self.has_kernel_time = False
        self.unsent = self.written = 0
        self.stamp = self.since = 0
        self._poller = _Poller.of(self.loop)
        if kernel_time is not None and asks:
            ask_for_times(sock)

    def start(self, handler: Handler, *, is_read_to_end: bool = False) -> None:
        """Report to `handler` from now on.

        `is_read_to_end`: after a hang-up reading cannot be paused, as nobody is left to wait for.
        """
        self._handler, self._take, self._is_read_to_end = handler, handler.received, is_read_to_end
        self.resume()

    def expect(self) -> None:
        """Note that a request is about to be sent: its answer comes later."""
        self.since = self._clock.now()

    def stamp_as(self, other: "Socket") -> None:
        """Stamp reads from now on as another socket does."""
        if other.kernel_time is not None:
            self.kernel_time = other.kernel_time
            ask_for_times(self._sock)

    def pause(self) -> None:
        """Read nothing more until `resume`."""
        if self.is_reading and not (self._has_hung_up and self._is_read_to_end):
            self.is_reading = False
            self._poller.pause(self._sock.fileno())

    def resume(self) -> None:
        if not (self.is_reading or self.is_closed):
            self.is_reading, self._free_at = True, self._now()
            self._poller.watch(self._sock.fileno(), self)

    def hung_up(self) -> None:
        """Read to the end from now on; a paused socket that can wait is not watched until it is resumed."""
        self._has_hung_up = True
        if not self.is_reading and self._is_read_to_end:
            self.resume()
        elif not self.is_reading:
            self._poller.remove(self._sock.fileno(), is_closed=False)

    @property
    def ends(self) -> Ends | None:
        """Both ends of the connection, ours first; None where it is closed, or not over IPv4."""
        if self.is_closed or self._sock.family != socket.AF_INET:
            return None
        try:
            return self._sock.getsockname(), self._sock.getpeername()
        except OSError:  # the peer has left
            return None

    @property
    def protocol(self) -> str | None:
        """The protocol that both sides agreed on; None without TLS."""
        return None

    @property
    def holds_more(self) -> bool:
        """True if bytes have been read that the handler has not received yet."""
        return False

    def look(self) -> bool:
        """Read once, if there is anything to read; return True if there was."""
        if self.is_closed:
            return False
        try:
            size, ancillary, _, _ = self._receive_into(_INTO, _ANCILLARY_BYTES)
        except _NOT_NOW:
            return False
        except OSError as error:
            self._lose(error)
            return False
        if not size:
            self._lose(self._write_error)
            return True
        now, at = self._now(), None
        if ancillary and self.kernel_time is not None:
            seconds, nanoseconds = _unpack_time(ancillary[0][2])
            at = self.kernel_time.at(seconds * 1_000_000_000 + nanoseconds, now, self.since, self._free_at)
        if size == READ_BYTES:
            self._free_at = now
        self.has_kernel_time = at is not None
        self.stamp = stamp = now if at is None else max(at, self.stamp)
        handler = self._handler
        try:
            self._take(stamp, _READ[:size])
        except Exception as error:  # noqa: BLE001 - the event loop would only print it
            handler.failed(error)
        return True

    def _tell(self, event: Callable[..., None], *facts: object) -> None:
        handler = self._handler
        try:
            event(*facts)
        except Exception as error:  # noqa: BLE001 - the event loop would only print it
            handler.failed(error)

    def write(self, data: bytes) -> bool:
        """Send; return True if the kernel took all of it at once."""
        if self.is_closed or self._is_ending:
            return False
        self.written += len(data)
        sent = 0
        if not self._unsent:
            try:
                sent = self._send(data)
            except _NOT_NOW:
                pass
            except OSError as error:
                self._stop_writing(error)
                return False
            if sent == len(data):
                return True
        self._unsent.append(memoryview(data)[sent:])
        self.unsent += len(data) - sent
        if not self._is_writing:
            self._is_writing = True
            self.loop.add_writer(self._sock, self._write_on)
        return False

    def _write_on(self) -> None:
        previous, count = self.unsent, 0
        try:
            for piece in self._unsent:
                sent = self._sock.send(piece)
                self.unsent -= sent
                if sent < len(piece):
                    self._unsent[count] = piece[sent:]
                    break
                count += 1
        except _NOT_NOW:
            pass
        except OSError as error:
            self._stop_writing(error)
            return
        del self._unsent[:count]  # at once: of tiny chunks there may be tens of thousands
        if not self._unsent:
            self._drop_unsent()
            if self._is_ending:
                self._end_writing()
        if self.unsent < previous:
            self._tell(self._handler.progressed)

    def _drop_unsent(self) -> None:
        self._unsent.clear()
        self.unsent = 0
        if self._is_writing:
            self._is_writing = False
            self.loop.remove_writer(self._sock)

    def _stop_writing(self, error: OSError) -> None:
        if error.errno != errno.EPIPE:  # which follows an end that is read as one
            self._write_error = error
        self._drop_unsent()
        self._is_ending = True
        if self._is_read_to_end and isinstance(error, ConnectionError):
            self.hung_up()
        else:
            self.loop.call_soon(self._tell_write_failed, error)

    def _tell_write_failed(self, error: OSError) -> None:
        if not self.is_closed:
            self._tell(self._handler.write_failed, error)

    def end(self) -> None:
        """Write nothing more: shut the sending side down when all is sent. The peer's bytes are still read."""
        if not self._is_ending:
            self._is_ending = True
            if not self._unsent:
                self._end_writing()

    def _end_writing(self) -> None:
        with contextlib.suppress(OSError):  # the peer has left: reading tells
            self._sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Close by a TCP reset, and drop unsent bytes. The handler gets no more events."""
        if not self.is_closed:
            self._leave_loop(is_closed=False)
            self._drop_unsent()
            reset_when_taken(self._sock)

    def close(self) -> None:
        """Close at once and drop unsent bytes. The handler gets no more events."""
        if not self.is_closed:
            self._leave_loop(is_closed=True)
            self._drop_unsent()
            self._sock.close()

    def _leave_loop(self, *, is_closed: bool) -> None:
        self._poller.remove(self._sock.fileno(), is_closed=is_closed)
        self.is_reading, self.is_closed = False, True
        self._handler, self._take = _NOBODY, _NOBODY.received

    def detach(self) -> socket.socket:
        """Return the socket, without unsent bytes, to a new owner: for this object it is closed."""
        if not self.is_closed:
            self._leave_loop(is_closed=False)
        return self._sock

    def _lose(self, error: Exception | None) -> None:
        self.stamp = self._clock.now()
        self.has_ended = error is None
        handler = self._handler
        self.close()
        try:
            handler.lost(error)
        except Exception as fault:  # noqa: BLE001 - the event loop would only print it
            handler.failed(fault)


class TlsSocket(Socket):
    """A socket that speaks TLS; to be used after `shake_hands`. The stamp is that of the read that ended a record.

    It is the client's side with a `server_hostname`, and the server's side without one.
    """

    __slots__ = ("_incoming", "_is_over", "_outgoing", "_secured", "_tls")

    def __init__(
        self,
        sock: socket.socket,
        clock: Clock,
        kernel_time: KernelTime | None,
        context: ssl.SSLContext,
        server_hostname: str | None = None,
        session: ssl.SSLSession | None = None,
    ) -> None:
        super().__init__(sock, clock, kernel_time)
        self.since = clock.now()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_hostname is None,
            server_hostname=server_hostname,
            session=session,
        )
        self._secured: asyncio.Future[None] | None = None
        self._is_over = False

    def expect(self) -> None:
        """Expect records from before the request, too: a server sends its tickets after the handshake, unasked."""

    async def shake_hands(self, early: bytes = b"") -> None:
        """Agree on keys with the peer, whose certificate must be good; it has sent `early` already.

        Raises OSError (`ssl.SSLError` is one).
        """
        self._secured = self.loop.create_future()
        self._incoming.write(early)
        self.start(_Shaking(self._secured))
        try:
            self._shake()
            await self._secured
        except BaseException:
            self.close()
            raise
        finally:
            self._secured = None

    def _shake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._flush()  # the peer gets the alert
            self._settle(error)
        else:
            self._flush()
            self._settle(None)

    def _settle(self, error: Exception | None) -> None:
        if self._secured is not None and not self._secured.done():
            if error is None:
                self.pause()  # until the handler comes
                self._secured.set_result(None)
            else:
                self._secured.set_exception(error)

    @property
    def protocol(self) -> str | None:
        """The protocol that both sides agreed on by ALPN, after the handshake."""
        return self._tls.selected_alpn_protocol()

    @property
    def session(self) -> ssl.SSLSession | None:
        """The peer's session for a later resumption; in TLS 1.3 only after a read."""
        return self._tls.session

    def start(self, handler: Handler, *, is_read_to_end: bool = False) -> None:
        """Report to `handler` from now on, beginning with the bytes that came with the end of the handshake."""
        if self._secured is None and self._incoming.pending:
            self.loop.call_soon(self._tell, self._decrypt_on)  # before the next read, which may be the reset
        super().start(handler, is_read_to_end=is_read_to_end)
        self._take = self._decrypt_on

    def _decrypt_on(self, _: int = 0, data: memoryview = _READ[:0]) -> None:
        if self.is_closed:
            return
        self._incoming.write(data)
        if self._secured is not None:
            if not self._secured.done():
                self._shake()
            return
        size, self._is_over, error = self._decrypt()
        self._flush()
        if size:
            self._tell(self._handler.received, self.stamp, _PLAIN[:size])
        if self._is_over and not self.is_closed:
            self._lose(error)
        elif size >= READ_BYTES:
            self.loop.call_soon(self._tell, self._decrypt_on)

    @property
    def holds_more(self) -> bool:
        """True if something has been read that the handler has not received yet: data, or the end."""
        return self._is_over or bool(self._incoming.pending or self._tls.pending())

    def _decrypt(self) -> tuple[int, bool, Exception | None]:
        """Decrypt whole records into `_PLAIN`; return the size, whether it was the last, and the error if it broke."""
        size = 0
        while size < READ_BYTES:
            try:
                count = self._tls.read(READ_BYTES, _PLAIN[size:])
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                return size, True, None
            except ssl.SSLError as error:
                return size, True, error
            if not count:
                return size, True, None
            size += int(count)
            if not (self._incoming.pending or self._tls.pending()):
                break
        return size, False, None

    def write(self, data: bytes) -> bool:
        """Send; return True if the kernel took all of it at once."""
        if self.is_closed:
            return False
        self._tls.write(data)
        return super().write(self._outgoing.read())

    def _flush(self) -> None:
        if self._outgoing.pending:
            super().write(self._outgoing.read())

    def end(self) -> None:
        """Write nothing more, and send TLS's closing alert."""
        self._say_over()
        self._flush()
        super().end()

    def _say_over(self) -> None:
        with contextlib.suppress(ssl.SSLError):  # that the peer has not closed yet, which is not waited for
            self._tls.unwrap()

    def close(self) -> None:
        """Close at once, with TLS's closing alert: servers refuse to resume a session that broke off without it."""
        if not self.is_closed and not self._unsent:
            self._say_over()
            with contextlib.suppress(OSError):  # the peer has left, or takes nothing now
                self._sock.send(self._outgoing.read())
        super().close()


class _Shaking:
    """The handler while the handshake runs."""

    def __init__(self, secured: asyncio.Future[None]) -> None:
        self._secured = secured

    def received(self, at: int, data: memoryview) -> None:
        """Ignore it: no data is passed on before the end of the handshake."""

    def progressed(self) -> None: ...

    def write_failed(self, error: OSError) -> None:
        """Ignore it: the next read reports the cause."""

    def lost(self, error: Exception | None) -> None:
        self.failed(error or ConnectionResetError(errno.ECONNRESET, "closed during the TLS handshake"))

    def failed(self, error: Exception) -> None:
        if not self._secured.done():
            self._secured.set_exception(error)


def reset_when_taken(sock: socket.socket) -> None:
    """Close a socket by a TCP reset as soon as the peer's kernel has all that was sent, which a reset would drop.

    A peer that reads slowly gets an end in good order after a while, and where the system does not tell what the peer's
    kernel has taken.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + RESET_SECONDS

    def look(delay: float = 0.001) -> None:
        with contextlib.suppress(OSError):  # the peer has left
            if sys.platform == "linux" and loop.time() < deadline:
                if any(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4))):
                    loop.call_later(delay, look, min(2 * delay, 0.05))
                    return
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # 0 s: a reset
        sock.close()

    weakref.finalize(look, sock.close)  # the event loop may end before
    look()


def send_at_once(sock: socket.socket) -> None:
    """Make the kernel send small writes at once; connections that a listening socket accepts inherit that."""
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError:  # of a peer that has left already
        return


def connect_at_once(host: str, port: int) -> socket.socket | None:
    """Open a connection to an address of this machine without waiting; None if that takes longer, or fails."""
    family = _loopback_family(host)
    if family is None:
        return None
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return None
    sock.setblocking(False)
    for _ in range(2):  # the first call begins, and the second says whether it is done
        if sock.connect_ex((host, port)) in (0, errno.EISCONN):
            send_at_once(sock)
            return sock
    sock.close()
    return None


async def connect(host: str, port: int) -> socket.socket:
    """Open a connection to a host. Raises OSError, the first address's."""
    addresses = await _addresses(host, port)
    if not addresses:
        raise OSError(errno.EADDRNOTAVAIL, f"{host} has no address")
    return await connect_to_first(addresses)


async def connect_to_first(addresses: Sequence[Address]) -> socket.socket:
    """Open a connection to the first of the addresses that takes it. Raises OSError, the first address's.

    The next one is tried beside those before it when they have failed, or after `ATTEMPT_SECONDS`; the families of
    addresses alternate, as all of one may lead nowhere (RFC 8305, 4 and 5).
    """
    families = [
        [address for address in addresses if (address[0] == addresses[0][0]) is is_first] for is_first in (True, False)
    ]
    queue = deque(address for pair in itertools.zip_longest(*families) for address in pair if address is not None)
    attempts = list[asyncio.Task[socket.socket]]()
    try:
        while queue or not all(attempt.done() for attempt in attempts):
            if queue:
                attempts.append(asyncio.create_task(_attempt(queue.popleft())))
            unfinished = [attempt for attempt in attempts if not attempt.done()]
            seconds = ATTEMPT_SECONDS if queue else None
            done, _ = await asyncio.wait(unfinished, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                if attempt.exception() is None:
                    attempts.remove(attempt)
                    return attempt.result()
        return attempts[0].result()  # which raises
    finally:
        for attempt in attempts:
            attempt.cancel()
            attempt.add_done_callback(_discard)


def _discard(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


async def _attempt(address: Address) -> socket.socket:
    family, kind, protocol, _, place = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await _connect(sock, place)
    except BaseException:
        sock.close()
        raise
    send_at_once(sock)
    return sock


async def _addresses(host: str, port: int) -> list[Address]:
    family = _family(host)
    if family is not None:
        return [(family, socket.SOCK_STREAM, 0, "", (host, port))]
    loop = asyncio.get_running_loop()
    addresses: list[Address] = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)  # type: ignore[assignment]
    return addresses


@functools.cache
def _loopback_family(host: str) -> int | None:
    return _family(host) if _family(host) is not None and ipaddress.ip_address(host).is_loopback else None


@functools.cache
def _family(host: str) -> int | None:
    """Return the family of an address; None for a name."""
    try:
        return socket.AF_INET if ipaddress.ip_address(host).version == 4 else socket.AF_INET6
    except ValueError:
        return None


async def _connect(sock: socket.socket, address: tuple[str | int, ...]) -> None:
    code = sock.connect_ex(address)
    if code in (errno.EINPROGRESS, errno.EAGAIN, errno.EINTR):
        loop = asyncio.get_running_loop()
        writable = loop.create_future()
        loop.add_writer(sock, _wake, writable)
        try:
            await writable
        finally:
            loop.remove_writer(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))


def _wake(writable: asyncio.Future[None]) -> None:
    if not writable.done():
        writable.set_result(None)
