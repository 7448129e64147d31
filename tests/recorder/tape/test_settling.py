"""What an ended exchange becomes, without a tape."""

import hashlib
import zlib

import pytest

from recorder.decode.outcome import Exchange, Read
from recorder.tape import settling
from recorder.tape.settling import Facts, decode_facts

BODY = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
EXCHANGE = Exchange(200, "text/event-stream", None, "end", 1, 2, 9)
READS = [Read(0, 5, 6, 0, len(BODY))]


def test_a_body_is_packed_as_it_came_and_measured() -> None:
    decoded = decode_facts(Facts(7, EXCHANGE, READS, BODY))
    assert decoded.packed is not None
    assert decoded.measures is not None
    assert zlib.decompress(decoded.packed["data"]) == BODY
    assert (decoded.packed["size"], decoded.packed["sha256"]) == (len(BODY), hashlib.sha256(BODY).hexdigest())
    assert (decoded.measures.outcome, decoded.measures.content) == ("complete", "a")


def test_what_is_settled_already_is_not_decoded_again() -> None:
    decoded = decode_facts(Facts(7, EXCHANGE, READS, None))
    assert (decoded.no, decoded.packed, decoded.measures) == (7, None, None)


def test_a_bug_in_a_decoder_leaves_the_body(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(settling, "derive", broken)
    decoded = decode_facts(Facts(7, EXCHANGE, READS, BODY))
    assert decoded.measures is None
    assert decoded.packed is not None
    assert "ZeroDivisionError" in capsys.readouterr().err
