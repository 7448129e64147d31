"""Both directions of a WebSocket are read as sent, in any pieces, and a broken one up to its fault."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.websockets import side
from wiretape.recorder.decode.framings.websocket import WebSocketMessage, messages

EXTENSIONS = [
    None,
    "permessage-deflate",
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
    "permessage-deflate; server_max_window_bits=9; client_max_window_bits=10",
]
PAYLOADS = st.one_of(
    st.text("aZ äß€😀", max_size=300),
    st.binary(max_size=300),
    st.integers(0, 2).map(lambda times: "abcdefg " * 10_000 * times),  # five stay below the limit of inflated bytes
)


def kinds(received: list[WebSocketMessage]) -> list[tuple[str, bytes]]:
    return [(message.kind, message.data) for message in received]


@pytest.mark.parametrize("client", [False, True])
@pytest.mark.parametrize("extensions", EXTENSIONS)
@given(payloads=st.lists(st.tuples(PAYLOADS, st.booleans()), max_size=5))
def test_messages_are_read_as_they_were_sent(
    client: bool, extensions: str | None, payloads: list[tuple[str | bytes, bool]]
) -> None:
    sender, wire, expected, ends = side(extensions, client=client), b"", list[tuple[str, bytes]](), list[int]()
    for payload, is_split in payloads:
        half = len(payload) // 2 if is_split else len(payload)
        wire += sender.send_data(payload[:half], fin=not is_split)
        if is_split:
            wire += sender.ping(b"between")
            expected.append(("ping", b"between"))
            ends.append(len(wire))
            wire += sender.send_data(payload[half:], fin=True)
        kind = "text" if isinstance(payload, str) else "binary"
        expected.append((kind, payload.encode() if isinstance(payload, str) else payload))
        ends.append(len(wire))
    wire += sender.close(1000, "bye")
    received = list(messages(wire, from_client=client, extensions=extensions))
    assert kinds(received) == [*expected, ("close", b"1000 bye")]
    assert [message.end for message in received] == [*ends, len(wire)]


@pytest.mark.parametrize("extensions", EXTENSIONS[:2])
def test_a_message_cut_off_at_the_end_is_ignored(extensions: str | None) -> None:
    sender = side(extensions)
    wire = b"".join([sender.send_data("one " * 100), sender.ping(b""), sender.send_data(b"two" * 70), sender.close()])
    all_messages = list(messages(wire, from_client=False, extensions=extensions))
    assert [message.kind for message in all_messages] == ["text", "ping", "binary", "close"]
    for size in range(len(wire)):
        received = list(messages(wire[:size], from_client=False, extensions=extensions))
        assert received == [message for message in all_messages if message.end <= size]


@given(noise=st.binary(max_size=200), client=st.booleans())
def test_noise_is_no_error(noise: bytes, client: bool) -> None:
    for extensions in EXTENSIONS[:2]:
        received = list(messages(noise, from_client=client, extensions=extensions))
        assert all(message.kind != "broken" for message in received[:-1])


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        bytes(side(client=True).send_data("masked by a server")),
        b"\x83\x00",
        b"\x80\x01a",
        b"\x81\x02\xff\xff",
        b"\x88\x02\x03\xed",
    ],
    ids=["HTTP", "mask", "opcode", "continuation", "UTF-8", "close code"],
)
def test_what_breaks_the_protocol_ends_the_messages(wire: bytes) -> None:
    good_message = bytes(side().send_data("good"))
    received = list(messages(good_message + wire + good_message, from_client=False, extensions=None))
    assert kinds(received) == [("text", b"good"), ("broken", wire + good_message)]


def test_a_message_that_inflates_beyond_measure_is_not_inflated() -> None:
    deflated = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = deflated.compress(bytes(50 << 20)) + deflated.flush(zlib.Z_SYNC_FLUSH)[:-4]
    wire = b"\xc2\x7e" + len(bomb).to_bytes(2, "big") + bomb
    assert len(bomb) < 1 << 16
    assert kinds(list(messages(wire, from_client=False, extensions=EXTENSIONS[1]))) == [("limit", b"")]
