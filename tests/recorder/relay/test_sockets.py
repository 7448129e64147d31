"""Sockets by themselves: reads with timestamps, unsent bytes, and their end; plain and over TLS."""

import asyncio
import contextlib
import fcntl
import gc
import os
import socket
import ssl
import struct
import termios
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.support.http2 import SETTINGS, frame
from tests.support.relay import LOOPS, on_loop, reset, reset_at_once, run, serving, until
from wiretape.recorder.clock import SYSTEM, Clock, KernelTime
from wiretape.recorder.relay import providers
from wiretape.recorder.relay.http2_upstream import Http2Connection
from wiretape.recorder.relay.sockets import READ_BYTES, Address, Socket, TlsSocket, connect, connect_to_first

Loop = Callable[[], asyncio.AbstractEventLoop]
both_loops = pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])
plain_and_tls = pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])


class Told:
    """Records the events of a socket; `on_received` is called with each read."""

    def __init__(self, on_received: Callable[[], None] = lambda: None) -> None:
        self.reads: list[tuple[int, bytes]] = []
        self.progress = 0
        self.events: list[object] = []
        self._on_received = on_received

    @property
    def data(self) -> bytes:
        return b"".join(data for _, data in self.reads)

    def received(self, at: int, data: memoryview) -> None:
        self.reads.append((at, bytes(data)))
        self._on_received()

    def progressed(self) -> None:
        self.progress += 1

    def write_failed(self, error: OSError) -> None:
        self.events.append(("write_failed", type(error)))

    def lost(self, error: Exception | None) -> None:
        self.events.append(("lost", error and type(error)))

    def failed(self, error: Exception) -> None:
        self.events.append(("failed", type(error)))


Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def dialled(authority: Path, tls: bool, clock: Clock = SYSTEM) -> AsyncIterator[tuple[Socket, Peer]]:
    """Connect a socket to a peer on this loop."""
    peers: asyncio.Queue[Peer] = asyncio.Queue()

    async def arrive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.put_nowait((reader, writer))

    context = serving(authority, "good") if tls else None
    server = await asyncio.start_server(arrive, "127.0.0.1", 0, ssl=context)
    sock = await connect("127.0.0.1", server.sockets[0].getsockname()[1])
    socket_: Socket
    if tls:
        trusting = ssl.create_default_context(cafile=str(authority / "ca.pem"))
        socket_ = secured = TlsSocket(sock, clock, KernelTime(clock), trusting, "127.0.0.1", None)
        await secured.shake_hands()
    else:
        socket_ = Socket(sock, clock, KernelTime(clock))
    peer = await peers.get()
    try:
        yield socket_, peer
    finally:
        socket_.close()
        peer[1].transport.abort()
        server.close()


@both_loops
@plain_and_tls
@on_loop
async def test_the_peers_data_is_received_and_written_data_arrives(loop: Loop, authority: Path, tls: bool) -> None:
    events = Told()
    async with dialled(authority, tls) as (sock, (reader, writer)):
        sock.start(events)
        assert sock.write(b"ping")
        assert await reader.readexactly(4) == b"ping"
        writer.write(b"pong")
        await until(lambda: events.reads)
        await until(lambda: sock.has_kernel_time or writer.write(b"."))  # it begins to stamp with a delay
    assert (events.data.rstrip(b"."), events.events) == (b"pong", [])


@both_loops
@plain_and_tls
@on_loop
async def test_untaken_data_waits_and_reports_progress(loop: Loop, authority: Path, tls: bool) -> None:
    events, data = Told(), bytes(range(256)) * 40_000
    async with dialled(authority, tls) as (sock, (reader, _)):
        sock.start(events)
        assert not sock.write(data)
        assert not sock.write(b"the end")
        assert sock.unsent > 0
        assert await reader.readexactly(len(data)) == data
        assert await reader.readexactly(7) == b"the end"
        await until(lambda: sock.unsent == 0)
        assert (events.progress > 0, sock.written >= len(data) + 7) == (True, True)
        assert sock.write(b"at once")


@both_loops
@plain_and_tls
@on_loop
async def test_a_large_answer_is_received_whole_and_in_order(loop: Loop, authority: Path, tls: bool) -> None:
    events, data = Told(), b"".join(number.to_bytes(4, "big") for number in range(500_000))
    async with dialled(authority, tls) as (sock, (_, writer)):
        sock.start(events)
        writer.write(data)
        await until(lambda: len(events.data) == len(data))
        assert events.data == data
        assert not sock.holds_more
        instants = [at for at, _ in events.reads]
        assert instants == sorted(instants)


@plain_and_tls
@on_loop
async def test_a_paused_socket_tells_nothing(authority: Path, tls: bool) -> None:
    events = Told()
    async with dialled(authority, tls) as (sock, (_, writer)):
        sock.start(events)
        writer.write(b"one")
        await until(lambda: events.data == b"one")
        sock.pause()
        writer.write(b"two")
        await writer.drain()
        await asyncio.sleep(0.02)
        assert events.data == b"one"
        sock.resume()
        await until(lambda: events.data == b"onetwo")


@both_loops
@plain_and_tls
@on_loop
async def test_an_end_and_a_reset_are_distinguished(loop: Loop, authority: Path, tls: bool) -> None:
    for leave, error in ((asyncio.StreamWriter.close, None), (reset, ConnectionResetError)):
        events = Told()
        async with dialled(authority, tls) as (sock, (_, writer)):
            sock.start(events)
            writer.write(b"last")
            await until(lambda handler=events: handler.reads)
            leave(writer)
            await until(lambda handler=events: handler.events)
            assert (events.data, events.events, sock.is_closed) == (b"last", [("lost", error)], True)
            assert (sock.look(), sock.write(b"too late")) == (False, False)


@plain_and_tls
@on_loop
async def test_a_socket_closed_in_a_callback_stays_quiet(authority: Path, tls: bool) -> None:
    async with dialled(authority, tls) as (sock, (_, writer)):
        events = Told(lambda: sock.close())
        sock.start(events)
        writer.write(b"x" * 200_000)
        writer.close()
        await until(lambda: events.reads)
        await asyncio.sleep(0.02)
        assert (len(events.reads), events.events) == (1, [])


@plain_and_tls
@on_loop
async def test_a_failing_handler_is_notified_not_the_loop(authority: Path, tls: bool) -> None:
    unhandled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))

    def fail() -> None:
        raise LookupError

    async with dialled(authority, tls) as (sock, (_, writer)):
        events = Told(fail)
        sock.start(events)
        writer.write(b"x")
        await until(lambda: events.events)
    assert (events.events, unhandled) == ([("failed", LookupError)], [])


@contextlib.asynccontextmanager
async def unwritable(authority: Path) -> AsyncIterator[tuple[Socket, Told]]:
    """A socket whose last write failed, and the handler to be notified."""
    async with dialled(authority, tls=False) as (sock, (_, writer)):
        events = Told()
        sock.start(events)
        sock.pause()
        reset(writer)
        await until(lambda: not sock.write(b"x"))
        yield sock, events


@on_loop
async def test_a_write_to_a_reset_peer_fails_later(authority: Path) -> None:
    async with unwritable(authority) as (_, events):
        assert events.events == []  # not from within `write`
        await until(lambda: events.events)
        assert events.events[0] in [("write_failed", BrokenPipeError), ("write_failed", ConnectionResetError)]


@on_loop
async def test_a_failed_write_on_a_closed_socket_is_silent(authority: Path) -> None:
    async with unwritable(authority) as (sock, events):
        sock.close()
        await asyncio.sleep(0.02)
        assert events.events == []


@on_loop
async def test_the_peer_is_read_after_writing_has_ended(authority: Path) -> None:
    events, data = Told(), bytes(4 << 20)
    async with dialled(authority, tls=False) as (sock, (reader, writer)):
        sock.start(events)
        sock.write(data)
        sock.end()
        assert not sock.write(b"too late")
        assert await reader.read(-1) == data
        writer.write(b"heard")
        await until(lambda: events.reads)
    assert events.data == b"heard"


@plain_and_tls
@on_loop
async def test_a_look_finds_what_came_and_the_end(authority: Path, tls: bool) -> None:
    events = Told()
    async with dialled(authority, tls) as (sock, (_, writer)):
        sock.start(events)
        sock.pause()
        if not tls:  # else tickets may have come
            assert not sock.look()
        writer.write(b"news")
        await until(lambda: sock.look() and events.reads)
        assert events.data == b"news"
        writer.close()
        await until(lambda: sock.look() and sock.is_closed)
        assert events.events == [("lost", None)]


# Hang-ups


LARGE = bytes(range(256)) * 400
"""More than a read, and less than the window that a kernel opens at once."""


@both_loops
@on_loop
async def test_data_before_a_reset_is_received_first(loop: Loop) -> None:
    for data in (b"", b"little", LARGE):
        events = Told()
        with loopback() as (near, far):
            sock = Socket(near, SYSTEM, KernelTime(SYSTEM))
            sock.start(events)
            reset_at_once(far, data)
            await until(lambda handler=events: handler.events)
        assert (events.data, events.events) == (data, [("lost", ConnectionResetError)])


@both_loops
@on_loop
async def test_data_before_a_reset_over_tls_is_received_first(loop: Loop, authority: Path) -> None:
    events, has_left, data = Told(), threading.Event(), LARGE[:60_000]  # several records, in one window

    def take(secured: ssl.SSLSocket) -> None:
        secured.recv(1)
        secured.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else the reset drops what the kernel holds
        secured.sendall(data)
        while any(fcntl.ioctl(secured, termios.TIOCOUTQ, bytes(4))):
            time.sleep(0.001)  # the peer's kernel has not got all of it
        secured.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        socket.socket(fileno=secured.detach()).close()
        has_left.set()

    port, thread = spoken_to(authority, take)
    trusting = ssl.create_default_context(cafile=str(authority / "ca.pem"))
    sock = TlsSocket(await connect("127.0.0.1", port), SYSTEM, None, trusting, "127.0.0.1", None)
    await sock.shake_hands()
    sock.start(events)
    sock.write(b"x")
    assert has_left.wait(60)  # the loop is held up
    await until(lambda: events.events)
    thread.join(60)
    assert (events.data, events.events) == (data, [("lost", ConnectionResetError)])


@both_loops
@on_loop
async def test_a_paused_reset_socket_is_read_when_resumed(loop: Loop) -> None:
    events = Told(lambda: sock.pause())
    with loopback() as (near, far):
        sock = Socket(near, SYSTEM)
        sock.start(events)
        reset_at_once(far, LARGE)
        reads = -(-len(LARGE) // READ_BYTES)
        for count in range(1, reads + 1):
            await until(lambda count=count: len(events.reads) == count)
            await asyncio.sleep(0.01)
            assert (len(events.reads), events.events) == (count, [])
            sock.resume()
        await until(lambda: events.events)
    assert (events.data, events.events) == (LARGE, [("lost", ConnectionResetError)])


@both_loops
@on_loop
async def test_a_socket_at_its_end_cannot_be_paused(loop: Loop) -> None:
    events = Told(lambda: sock.pause())
    with loopback() as (near, far):
        sock = Socket(near, SYSTEM)
        sock.start(events, is_read_to_end=True)
        sock.pause()
        far.send(b"waits")
        await asyncio.sleep(0.01)
        assert events.reads == []
        reset_at_once(far, LARGE)
        await until(lambda: events.events)
    assert (events.data, events.events) == (b"waits" + LARGE, [("lost", ConnectionResetError)])


@both_loops
@pytest.mark.parametrize("is_read_to_end", [False, True])
@on_loop
async def test_a_reset_during_a_write_is_no_clean_end(loop: Loop, is_read_to_end: bool) -> None:
    events = Told()
    with loopback() as (near, far):
        sock = Socket(near, SYSTEM)
        sock.start(events, is_read_to_end=is_read_to_end)
        reset_at_once(far, LARGE)
        assert not sock.write(b"x")
        await until(lambda: sock.is_closed)
    assert (events.data, events.events[-1]) == (LARGE, ("lost", ConnectionResetError))


@both_loops
@on_loop
async def test_a_hang_up_of_an_earlier_socket_ends_nothing(loop: Loop) -> None:
    events = Told()
    with loopback() as (near, far):
        sock = Socket(near, SYSTEM)
        sock.start(events)
        sock.hung_up()
        for data in (b"one", b"two"):
            events.reads.clear()
            far.send(data)
            await until(lambda: events.reads)
            assert events.data == data
        sock.close()
    assert events.events == []


@both_loops
@on_loop
async def test_a_closed_sockets_event_is_not_its_successors(loop: Loop) -> None:
    with loopback() as (first, first_peer), loopback() as (second, second_peer):
        successors: list[Socket] = []

        def replace_second() -> None:
            number = second.fileno()
            second_socket.close()
            near, far = socket.socketpair()  # the lowest free number: the second one's
            near.setblocking(False)
            assert near.fileno() == number
            successor = Socket(near, SYSTEM)
            successor.start(events, is_read_to_end=True)
            successors.append(successor)
            peers.append(far)

        events, peers = Told(), list[socket.socket]()
        first_socket, second_socket = Socket(first, SYSTEM), Socket(second, SYSTEM)
        first_socket.start(Told(replace_second))
        second_socket.start(Told())
        first_peer.send(b"first")
        reset_at_once(second_peer, b"second")
        await until(lambda: successors)
        (successor,), (peer,) = successors, peers
        successor.pause()  # which a hang-up would forbid
        peer.send(b"waits")
        await asyncio.sleep(0.01)
        assert events.reads == []
        successor.resume()
        await until(lambda: events.data == b"waits")
        for sock in (successor, first_socket, peer):
            sock.close()


# Timestamps


@contextlib.contextmanager
def loopback() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Connect two plain sockets over TCP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    near.setblocking(False)
    with near, far:
        yield near, far


@both_loops
@on_loop
async def test_a_timestamp_is_the_kernels_despite_a_late_loop(loop: Loop) -> None:
    events = Told()
    with loopback() as (near, far):
        sock = Socket(near, SYSTEM, KernelTime(SYSTEM))
        sock.start(events)
        await until(lambda: sock.has_kernel_time or not far.send(b"."))
        for _ in range(3):
            events.reads.clear()
            sent = time.monotonic_ns()
            far.send(b"x")
            time.sleep(0.05)  # noqa: ASYNC251 - the loop is held up
            held_until = time.monotonic_ns()
            await until(lambda: events.reads)
            assert sock.has_kernel_time
            assert sent - 100_000 <= events.reads[0][0] < held_until
        sock.close()


@on_loop
async def test_data_delayed_by_the_loop_show_its_lag() -> None:
    events, times, delays = Told(), KernelTime(SYSTEM), list[tuple[int, int]]()
    with loopback() as (near, far):
        sock = Socket(near, SYSTEM, times)
        sock.start(events)
        await until(lambda: sock.has_kernel_time or not far.send(b"."))
        times.on_late = lambda since, late_ns: delays.append((since, late_ns))
        events.reads.clear()
        far.send(b"x")
        time.sleep(0.03)  # noqa: ASYNC251 - the loop is held up
        await until(lambda: events.reads)
        ((at, _),) = events.reads
        ((since, late_ns),) = delays
        assert since == at
        assert 30_000_000 <= late_ns + 100_000 <= time.monotonic_ns() - at
        sock.close()


@pytest.mark.parametrize("size", [1, READ_BYTES + 1], ids=["paused", "behind a full read"])
@on_loop
async def test_data_delayed_by_their_socket_show_no_late_loop(size: int) -> None:
    events, times, delays = Told(), KernelTime(SYSTEM), list[tuple[int, int]]()
    with loopback() as (near, far):
        sock = Socket(near, SYSTEM, times)
        sock.start(events)
        await until(lambda: sock.has_kernel_time or not far.send(b"."))
        sock.pause()
        times.on_late = lambda since, late_ns: delays.append((since, late_ns))
        events.reads.clear()
        far.send(bytes(size))
        await asyncio.sleep(0.005)
        sock.resume()
        await until(lambda: len(events.data) == size)
        assert sock.has_kernel_time
        assert delays == []
        sock.close()


@on_loop
async def test_without_the_kernels_time_a_timestamp_is_the_loops() -> None:
    events = Told()
    with loopback() as (near, far):
        sock = Socket(near, SYSTEM)
        sock.start(events)
        sent = time.monotonic_ns()
        far.send(b"x")
        time.sleep(0.02)  # noqa: ASYNC251 - the loop is held up
        await until(lambda: events.reads)
        sock.close()
    assert not sock.has_kernel_time
    assert events.reads[0][0] - sent >= 20_000_000


@on_loop
async def test_after_a_wall_clock_change_timestamps_are_the_loops() -> None:
    events, ahead = Told(), 0
    clock = Clock(wall_ns=lambda: time.time_ns() + ahead)
    with loopback() as (near, far):
        sock = Socket(near, clock, KernelTime(clock))
        sock.start(events)
        far.send(b"x")
        await until(lambda: events.reads)
        for step in (3_600_000_000_000, 0, -3_600_000_000_000):
            ahead = step
            events.reads.clear()
            await asyncio.sleep(0.002)  # the wall clock is looked at once a millisecond
            far.send(b"x")
            started = time.monotonic_ns()
            await until(lambda: events.reads)
            assert not sock.has_kernel_time
            assert events.reads[0][0] >= started
        sock.close()


@on_loop
async def test_with_another_kernel_clock_timestamps_are_the_loops() -> None:
    events = Told()
    clock = Clock(wall_ns=lambda: time.time_ns() + 10_000_000_000)
    with loopback() as (near, far):
        times = KernelTime(clock)
        sock = Socket(near, clock, times)
        sock.start(events)
        sock.since = started = time.monotonic_ns() - 2_000_000_000
        await until(lambda: times.error_ns or not far.send(b"."))
        assert not sock.has_kernel_time
        assert 7_000_000_000 < times.error_ns < 9_000_000_000
        assert all(at > started for at, *_ in events.reads)
        sock.close()


@on_loop
async def test_data_before_another_sockets_request_keep_the_clock() -> None:
    events, times = Told(), KernelTime(SYSTEM)
    with loopback() as (near, far), loopback() as (idle, _):
        client, upstream = Socket(near, SYSTEM), Socket(idle, SYSTEM, times)
        client.stamp_as(upstream)
        client.start(events)
        await until(lambda: client.has_kernel_time or not far.send(b"."))
        client.pause()
        events.reads.clear()
        far.send(b"x")
        time.sleep(0.005)  # noqa: ASYNC251 - upstream is connected to
        upstream.since = time.monotonic_ns()
        client.stamp_as(upstream)
        client.resume()
        await until(lambda: events.reads)
        assert (client.has_kernel_time, times.error_ns) == (True, 0)
        client.close()
        upstream.close()


@on_loop
async def test_settings_before_the_first_request_keep_the_clock() -> None:
    times = KernelTime(SYSTEM)
    with loopback() as (near, far), loopback() as (idle, sender):
        stamped = Socket(idle, SYSTEM, KernelTime(SYSTEM))
        stamped.start(Told())
        await until(lambda: stamped.has_kernel_time or not sender.send(b"."))  # from now on, the kernel stamps all
        sock = Socket(near, SYSTEM, times)
        far.send(frame(SETTINGS))
        time.sleep(0.005)  # noqa: ASYNC251 - the server has accepted, and the loop is held up
        connection = Http2Connection(sock, SYSTEM, providers.parse("http://127.0.0.1:1"))
        await connection.settled
        assert (sock.has_kernel_time, times.error_ns) == (True, 0)
        connection.close()
        stamped.close()


@on_loop
async def test_tickets_before_the_request_keep_the_clock(authority: Path) -> None:
    events, idle = Told(), Told()
    with loopback() as (near, far):
        stamped = Socket(near, SYSTEM, KernelTime(SYSTEM))
        stamped.start(idle)
        await until(lambda: stamped.has_kernel_time or not far.send(b"."))  # from now on, the kernel stamps all
        async with dialled(authority, tls=True) as (sock, (_, writer)):
            await asyncio.sleep(0.005)  # the tickets have come, and nobody has read them
            shaken = sock.stamp
            sock.expect()
            sock.start(events)
            await until(lambda: sock.stamp != shaken)
            writer.write(b"x")
            await until(lambda: events.reads)
            assert sock.has_kernel_time
            assert sock.kernel_time is not None
            assert sock.kernel_time.error_ns == 0
        stamped.close()


# TLS


@contextlib.contextmanager
def silent(family: socket.AddressFamily, host: str) -> Iterator[Address]:
    """Give an address that swallows connections: its queue is full."""
    with socket.socket(family) as full, socket.socket(family) as first, socket.socket(family) as second:
        full.bind((host, 0))
        full.listen(0)
        first.connect(full.getsockname())
        second.setblocking(False)
        second.connect_ex(full.getsockname())
        yield family, socket.SOCK_STREAM, 0, "", full.getsockname()


def at(sock: socket.socket) -> Address:
    return sock.family, socket.SOCK_STREAM, 0, "", sock.getsockname()


@both_loops
@on_loop
async def test_a_silent_address_does_not_block_the_next(loop: Loop) -> None:
    with silent(socket.AF_INET, "127.0.0.1") as nowhere, socket.create_server(("127.0.0.1", 0)) as listener:
        async with asyncio.timeout(60):
            connection = await connect_to_first([nowhere, at(listener)])
        with connection:
            assert connection.getpeername() == listener.getsockname()


@on_loop
async def test_the_families_of_a_hosts_addresses_alternate() -> None:
    with silent(socket.AF_INET6, "::1") as nowhere, socket.create_server(("127.0.0.1", 0)) as listener:
        async with asyncio.timeout(60):
            (await connect_to_first([*[nowhere] * 40, at(listener)])).close()


@both_loops
@on_loop
async def test_a_host_that_fails_reports_its_first_address(loop: Loop) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        of_no_family = -9, *at(closed)[1:]
        with pytest.raises(ConnectionRefusedError):
            await connect_to_first([at(closed), of_no_family])


def spoken_to(authority: Path, take: Callable[[ssl.SSLSocket], None]) -> tuple[int, threading.Thread]:
    """Serve one connection over TLS in a thread, with the reads that end without a word raising."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener, listener.accept()[0] as sock:
            sock.settimeout(60)
            context = serving(authority, "good")
            with context.wrap_socket(sock, server_side=True, suppress_ragged_eofs=False) as secured:
                take(secured)

    thread = threading.Thread(target=serve)
    thread.start()
    return listener.getsockname()[1], thread


def test_a_close_is_announced_to_the_peer(authority: Path) -> None:
    ends: list[bytes | type[Exception]] = []

    def take(secured: ssl.SSLSocket) -> None:
        try:
            ends.append(secured.recv(100))
        except OSError as error:
            ends.append(type(error))

    async def main() -> None:
        trusting = ssl.create_default_context(cafile=str(authority / "ca.pem"))
        sock = TlsSocket(await connect("127.0.0.1", port), SYSTEM, None, trusting, "127.0.0.1", None)
        await sock.shake_hands()
        sock.close()

    port, thread = spoken_to(authority, take)
    run(main())
    thread.join(60)
    assert ends == [b""]


@on_loop
async def test_an_end_is_known_with_the_last_data(authority: Path) -> None:
    flags: list[bool] = []
    events = Told(lambda: flags.append(sock.holds_more))
    trusting = ssl.create_default_context(cafile=str(authority / "ca.pem"))
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    peer = serving(authority, "good").wrap_bio(received, to_send, server_side=True)
    with loopback() as (near, far):
        sock = TlsSocket(near, SYSTEM, None, trusting, "127.0.0.1", None)
        shaking = asyncio.create_task(sock.shake_hands())
        for _ in range(2):
            received.write(await asyncio.to_thread(far.recv, 1 << 16))
            with contextlib.suppress(ssl.SSLWantReadError):
                peer.do_handshake()
            far.sendall(to_send.read())
        await shaking
        sock.start(events)
        peer.write(b"last")
        with contextlib.suppress(ssl.SSLWantReadError):
            peer.unwrap()
        far.sendall(to_send.read())
        await until(lambda: events.events)
    assert (events.data, flags, events.events) == (b"last", [True], [("lost", None)])


@both_loops
def test_an_ended_event_loop_leaves_no_descriptor(loop: Loop) -> None:
    async def receive() -> None:
        peer, ours = socket.socketpair()
        ours.setblocking(False)
        with peer:
            Socket(ours, SYSTEM).start(Told())
            peer.send(b".")
            await asyncio.sleep(0)

    counts = []
    for _ in range(4):
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(receive())
        gc.collect()
        counts.append(len(os.listdir("/dev/fd")))
    assert counts[-1] == counts[0]  # the first of a process may open what all share
