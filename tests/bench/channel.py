"""A non-blocking connection on loopback, plain or with TLS, for the upstream and the clients of the benchmarks."""

import socket
import ssl


class Channel:
    """Bytes in, bytes out. TLS is done in memory, so that the place of each write in the sent bytes is known."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext | None, *, is_server: bool) -> None:
        self.sock = sock
        self.unsent = bytearray()
        """What the kernel had no room for: `flush` when it has."""
        self.sent = 0
        """Bytes given to the kernel or waiting for it, as they are on the wire."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._tls: ssl.SSLObject | None = None
        self._early = b""
        if context is not None:
            self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
            host = None if is_server else "127.0.0.1"
            self._tls = context.wrap_bio(self._in, self._out, server_side=is_server, server_hostname=host)
            self._is_shaken = False
            self._shake()

    def read(self) -> bytes | None:
        """Read what has come, which with TLS may be nothing; None at the end. Raises `OSError`."""
        data = self.sock.recv(65536)
        if not data:
            return None
        if self._tls is None:
            return data
        self._in.write(data)
        if not self._is_shaken:
            self._shake()
        return self._decrypted()

    def _shake(self) -> None:
        assert self._tls is not None
        try:
            self._tls.do_handshake()
            self._is_shaken = True
        except ssl.SSLWantReadError:
            pass
        finally:
            self._send(self._out.read())
        if self._is_shaken and self._early:
            self.write(self._early)

    def _decrypted(self) -> bytes | None:
        assert self._tls is not None
        came = b""
        try:
            while self._is_shaken and (data := self._tls.read(65536)):
                came += data
        except ssl.SSLWantReadError:
            return came
        except ssl.SSLError:
            return None
        return came or (None if self._is_shaken else b"")

    def write(self, data: bytes) -> None:
        """Send data; with TLS, as soon as the handshake is done."""
        if self._tls is not None:
            if not self._is_shaken:
                self._early += data
                return
            self._tls.write(data)
            data = self._out.read()
        self._send(data)

    def _send(self, data: bytes) -> None:
        self.sent += len(data)
        self.unsent += data
        if len(self.unsent) == len(data):
            self.flush()

    def flush(self) -> None:
        """Send what waits, as far as the kernel has room."""
        try:
            if self.unsent:
                del self.unsent[: self.sock.send(self.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self.unsent.clear()  # reading tells why
