"""Pure: the first message of a TLS client: the requested name, and the offered protocols.

Python's `ssl` reports the protocol that was agreed on, not the client's preferences.
"""

from dataclasses import dataclass

BYTES = 64 << 10
"""Limit of a ClientHello, in bytes."""
HANDSHAKE = 0x16
"""The first byte of a TLS connection: the type of the record that holds the ClientHello."""
_CLIENT_HELLO = 1
_RECORD_HEAD, _MESSAGE_HEAD = 5, 4
_VERSION_AND_RANDOM = 2 + 32
_SERVER_NAME, _ALPN = 0, 16
_HOST_NAME = 0
_NAME_BYTES = 255


@dataclass(frozen=True, slots=True)
class Hello:
    """A ClientHello: the server's name, if any, and the protocols of ALPN, the preferred one first."""

    server_name: str | None = None
    protocols: tuple[str, ...] = ()


class _Vectors:
    """Reads the length-prefixed vectors of a message."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, size: int) -> bytes:
        data = self._data[self._at : self._at + size]
        if len(data) < size:
            raise ValueError("the ClientHello is shorter than it says")
        self._at += size
        return data

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def vector(self, size: int) -> bytes:
        """Read a vector whose length prefix has `size` bytes."""
        return self.take(self.number(size))


def parse(data: bytes) -> Hello | None:
    """Parse the first bytes of a client; None: they are incomplete. Raise ValueError if they are no ClientHello."""
    message = _message(data)
    return None if message is None else _parse(_Vectors(message))


def _message(data: bytes) -> bytes | None:
    """Return the first handshake message, put together from its records; None if it is not complete."""
    message, at = b"", 0
    while len(data) >= at + _RECORD_HEAD:
        if data[at] != HANDSHAKE:
            raise ValueError("not a TLS handshake")
        size = int.from_bytes(data[at + 3 : at + _RECORD_HEAD])
        message += data[at + _RECORD_HEAD : at + _RECORD_HEAD + size]
        at += _RECORD_HEAD + size
        if len(message) >= _MESSAGE_HEAD and message[0] != _CLIENT_HELLO:
            raise ValueError("not a ClientHello")
        end = _MESSAGE_HEAD + int.from_bytes(message[1:_MESSAGE_HEAD])
        if len(message) >= max(end, _MESSAGE_HEAD):
            return message[_MESSAGE_HEAD:end]
    if len(data) > BYTES:
        raise ValueError(f"the ClientHello is larger than {BYTES} bytes")
    return None


def _parse(message: _Vectors) -> Hello:
    message.take(_VERSION_AND_RANDOM)
    for size in (1, 2, 1):  # session, ciphers, compressions
        message.vector(size)
    name: str | None = None
    protocols: tuple[str, ...] = ()
    extensions = _Vectors(message.vector(2) if message else b"")
    while extensions:
        kind, body = extensions.number(2), _Vectors(extensions.vector(2))
        if kind == _SERVER_NAME:
            name = _server_name(_Vectors(body.vector(2)))
        elif kind == _ALPN:
            protocols = _protocols(_Vectors(body.vector(2)))
    return Hello(name, protocols)


def _server_name(names: _Vectors) -> str | None:
    while names:
        kind, name = names.number(1), names.vector(2)
        if kind == _HOST_NAME:
            if len(name) > _NAME_BYTES:
                raise ValueError("the server's name is longer than a host name can be")
            return name.decode("ascii").lower()
    return None


def _protocols(offered: _Vectors) -> tuple[str, ...]:
    protocols: list[str] = []
    while offered:
        protocols.append(offered.vector(1).decode("latin-1"))
    return tuple(protocols)
