"""The first message of a TLS client, as OpenSSL writes it and as nobody does."""

import contextlib
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wiretape.recorder.relay import hello
from wiretape.recorder.relay.hello import Hello


def greeting(name: str | None, *protocols: str) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.set_alpn_protocols(list(protocols))
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name).do_handshake()
    return sent.read()


def split(record: bytes, at: int) -> bytes:
    """Divide a record into two."""
    body = record[5:]
    return b"".join(record[:3] + len(part).to_bytes(2) + part for part in (body[:at], body[at:]))


def test_the_name_and_the_protocols_are_read() -> None:
    assert hello.parse(greeting("API.test", "h2", "http/1.1")) == Hello("api.test", ("h2", "http/1.1"))
    assert hello.parse(greeting(None)) == Hello(None, ())


@pytest.mark.parametrize("at", [1, 3, 4, 100])
def test_a_message_in_two_records_is_put_together(at: int) -> None:
    assert hello.parse(split(greeting("api.test"), at)) == Hello("api.test", ())


def test_a_message_that_is_not_complete_is_waited_for() -> None:
    data = greeting("api.test", "h2")
    assert [at for at in range(len(data)) if hello.parse(data[:at]) is not None] == []


def test_a_name_longer_than_a_host_name_is_wrong() -> None:
    name = b"a" * 60_000
    sized = b"\0" + len(name).to_bytes(2) + name
    names = len(sized).to_bytes(2) + sized
    extensions = b"\0\0" + len(names).to_bytes(2) + names
    body = b"\3\3" + bytes(32) + b"\0" + b"\0\2\0\0" + b"\1\0" + len(extensions).to_bytes(2) + extensions
    message = b"\1" + len(body).to_bytes(3) + body
    with pytest.raises(ValueError, match="longer than a host name"):
        hello.parse(b"\x16\3\1" + len(message).to_bytes(2) + message)


@given(st.binary() | st.binary().map(lambda body: b"\x16\x03\x01" + len(body).to_bytes(2) + body))
def test_any_bytes_are_a_hello_incomplete_or_an_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(hello.parse(data), Hello | None)
