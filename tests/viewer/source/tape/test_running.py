"""The measures of an exchange that still runs."""

import hashlib
from dataclasses import replace

import pytest

from tests.support.compressors import COMPRESS
from tests.support.exchanges import listed
from tests.support.sample_tape import COMPLETE, LIVE
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.errors import NoResultFound
from wiretape.recorder.tape.reader import Connection
from wiretape.viewer.record.rows import DetailRow
from wiretape.viewer.source.tape import exchange, live, queries


def measured(connection: Connection, id: str) -> DetailRow:
    no = queries.find(connection, id)
    return live.filled(queries.detail(connection, no), live.figures(connection, no))


def test_a_running_exchange_is_measured_without_an_ending(connection: Connection) -> None:
    row = measured(connection, LIVE)
    assert (row.ttft_ms, row.events, row.output_chunks, row.model) == (110.0, 2, 1, "gpt-x")
    assert (row.outcome, row.duration_ms, row.tps_user, row.icl_p50_ms) == ("open", None, None, None)


def test_measured_again_one_that_has_ended_is_the_same(connection: Connection) -> None:
    row_before = queries.detail(connection, queries.find(connection, COMPLETE))
    assert measured(connection, COMPLETE) == replace(row_before, flags=[])


def test_only_what_runs_and_is_not_large_is_measured() -> None:
    assert live.is_measurable(listed(outcome="open", bytes=live.LARGEST))
    assert not live.is_measurable(listed(outcome="open", bytes=live.LARGEST + 1))
    assert not live.is_measurable(listed(outcome="complete", bytes=live.LARGEST))


@pytest.mark.parametrize("coding", COMPRESS)
def test_a_running_compressed_stream_has_its_decoded_size(coding: str) -> None:
    facts = Exchange(
        status=200, content_type="text/event-stream", content_encoding=coding, connected_ns=0, headers_ns=0
    )
    digits = hashlib.shake_128(b"").hexdigest(live.LARGEST // 2 - 1).encode()
    is_short = [live.is_short(facts, b"".join(COMPRESS[coding]([digits + end], True))) for end in (b"", b"more")]
    assert is_short == [True, False]
    bomb = b"".join(COMPRESS[coding]([bytes(64 << 20)], True))
    assert not live.is_short(facts, bomb)


def test_an_exchange_that_is_gone_is_not_found(connection: Connection) -> None:
    with pytest.raises(NoResultFound):
        live.figures(connection, 999)


def test_what_runs_is_decoded_and_measured_once_per_change(connection: Connection) -> None:
    no = queries.find(connection, LIVE)
    assert live.figures(connection, no) is live.figures(connection, no)
    first, second = exchange.stored(connection, no).decoded, exchange.stored(connection, no).decoded
    assert first is not None
    assert first is second
    assert exchange.stored(connection, queries.find(connection, COMPLETE)).decoded is None
