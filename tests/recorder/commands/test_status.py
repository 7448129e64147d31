"""Output of the recording commands."""

import io
import os
import sys
from collections.abc import Sequence

import msgspec
import pytest

from wiretape.recorder.commands.status import Screen, Tally, TimedTally, finished_line, summary
from wiretape.recorder.decode.exchange import FLAGS, NOTABLE
from wiretape.recorder.tape.journal import Finished
from wiretape.recorder.tape.losses import Totals

ONE = Finished(
    id="7f3a81d0c0ffee00",
    method="POST",
    path="/v1/chat/completions",
    model="gpt-x",
    status=200,
    outcome="complete",
    outcome_detail=None,
    ttft_ns=388_400_000,
    icl_p50_ns=11_000_000.0,
    max_gap_ns=2_914_000_000,
    duration_ns=7_200_000_000,
    output_tokens=42,
    flags=["no_usage", "stall"],
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Closed(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


def test_off_a_terminal_there_are_lines_only() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.line("one")
    screen.status("busy")
    screen.line("two")
    screen.close()
    assert stream.getvalue() == "one\ntwo\n"


def test_on_a_terminal_the_status_stays_below_the_lines() -> None:
    stream = Terminal()
    screen = Screen(stream)
    screen.status("busy")
    screen.line("one")
    screen.status("done")
    screen.close()
    assert stream.getvalue() == "busy\r\x1b[Kone\nbusy\r\x1b[Kdone\n"


def test_lines_that_come_together_are_written_together() -> None:
    class Counting(io.StringIO):
        writes = 0

        def write(self, text: str) -> int:
            self.writes += 1
            return super().write(text)

    stream = Counting()
    screen = Screen(stream)
    for number in range(500):
        screen.line(str(number))
    screen.close()
    assert stream.getvalue().split() == [str(number) for number in range(500)]
    assert stream.writes < 100


def test_a_status_is_never_wider_than_the_terminal() -> None:
    stream = Terminal()
    screen = Screen(stream)
    screen.status("x" * 1000)
    screen.close()
    assert 20 < len(stream.getvalue()) < 1000


def test_recorded_text_cannot_steer_the_terminal() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.line("a\x1b]0;title\x07\nb\u202e")
    screen.close()
    assert stream.getvalue() == "a␛]0;title␇␊b◆\n"


@pytest.mark.parametrize("model", [None, "m\x1b[2J sk-proj-0123456789abcdefghijklmnop"])
def test_an_exchanges_line_is_safe_to_show(model: str | None) -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    screen.finished(
        msgspec.structs.replace(ONE, model=model, path="/v1/\x1b[2J?key=AIzaSyq9Zk3LmN8vXw2RtY7uKpQs1"), "14:01"
    )
    screen.close()
    assert "\x1b" not in stream.getvalue()
    assert "0123456789abc" not in stream.getvalue()
    assert "q9Zk3" not in stream.getvalue()


def test_no_line_shows_a_key() -> None:
    stream = Terminal()
    screen = Screen(stream)
    screen.line("1 exchange shipped to otlp at host/archive?key=AIzaSyq9Zk3LmN8vXw2RtY7uKpQs1")
    screen.status("upstream https://me:secret@host")
    screen.close()
    assert (
        stream.getvalue() == "1 exchange shipped to otlp at host/archive?key=REDACTED\nupstream https://REDACTED@host\n"
    )


def test_a_pipe_that_nobody_reads_holds_nothing_up() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        screen = Screen(stream)
        for _ in range(5000):
            screen.line("x" * 100)
        screen.close()
        os.close(reading)


def test_nobody_reading_is_no_reason_to_stop() -> None:
    screen = Screen(Closed())
    screen.line("one")
    screen.status("two")
    screen.close()


def test_a_finished_exchange_is_one_line() -> None:
    assert finished_line(ONE, "14:01:57") == (
        "14:01:57  7f3a81d0  complete  200  gpt-x  ttft 388 ms  icl p50 11 max gap 2914 ms  42 tok  7.20 s  stall"
    )


def test_flags_come_gravest_first_without_repeating_the_outcome() -> None:
    flags = [*sorted(FLAGS, reverse=True), "malformed"]
    exchange = Finished(**{name: getattr(ONE, name) for name in ONE.__struct_fields__} | {"flags": flags})
    assert finished_line(exchange, "14:01:57").split("  ")[-len(NOTABLE) :] == list(NOTABLE)
    exchange = Finished(
        **{name: getattr(exchange, name) for name in exchange.__struct_fields__} | {"outcome": "malformed"}
    )
    assert finished_line(exchange, "14:01:57").count("malformed") == 1


def test_unknown_values_are_omitted_and_details_printed() -> None:
    unknown = dict.fromkeys(("status", "model", "ttft_ns", "icl_p50_ns", "max_gap_ns", "duration_ns"))
    fields = {name: getattr(ONE, name) for name in ONE.__struct_fields__} | unknown
    exchange = Finished(
        **fields | {"outcome": "connect_error", "outcome_detail": "tls", "output_tokens": None, "flags": []}
    )
    assert finished_line(exchange, "14:01:57") == "14:01:57  7f3a81d0  connect_error/tls  –  POST /v1/chat/completions"


def test_a_long_name_is_clipped() -> None:
    exchange = Finished(**{name: getattr(ONE, name) for name in ONE.__struct_fields__} | {"model": "m" * 10_000})
    assert "m" * 79 + "…  ttft" in finished_line(exchange, "14:01:57Z")


def test_latencies_are_those_of_complete_generations() -> None:
    slow = msgspec.structs.replace(ONE, ttft_ns=588_400_000, max_gap_ns=None, operation="chat")
    image = msgspec.structs.replace(ONE, ttft_ns=9_000_000_000, max_gap_ns=9_000_000_000, operation="image")
    failed = msgspec.structs.replace(slow, outcome="truncated", ttft_ns=1, max_gap_ns=9_000_000_000)
    model_list = msgspec.structs.replace(ONE, ttft_ns=None, max_gap_ns=None, operation="models")
    assert tallied(ONE, slow, failed, image, model_list, tally=TimedTally()).latencies() == [
        "ttft p50 488 ms",
        "max gap 2914 ms",
    ]
    assert tallied(image, model_list, tally=TimedTally()).latencies() == []


def test_a_tally_keeps_no_exchange() -> None:
    exchange = msgspec.structs.replace(ONE)
    references = sys.getrefcount(exchange)
    tallied(exchange, tally=TimedTally())
    assert sys.getrefcount(exchange) == references


def tallied(*finished: Finished, tally: Tally | None = None) -> Tally:
    tally = Tally() if tally is None else tally
    for exchange in finished:
        tally.add(exchange)
    return tally


def test_a_summary_counts_generations_before_other_requests() -> None:
    limited = msgspec.structs.replace(ONE, outcome="http_error", outcome_detail="rate_limited", status=429, flags=[])
    models = msgspec.structs.replace(ONE, operation="models")
    assert summary(
        Totals(4, 1, 0, 0, non_generations=2), tallied(ONE, limited, models, models, tally=TimedTally())
    ) == ("2 generations: 1 complete, 1 × 429 · 1 stall · ttft p50 388 ms, max gap 2914 ms · 2 other requests")


def test_a_summary_counts_the_streams_that_no_dialect_knows() -> None:
    foreign = msgspec.structs.replace(ONE, operation="other", flags=["unknown_payload"])
    assert summary(Totals(2, 0, 0, 0, non_generations=2), tallied(foreign, foreign)) == (
        "0 generations, 0 failed · 2 other requests · 2 streams not decoded: wiretape help dialects"
    )


def test_a_summary_names_the_owners_of_a_few_stalls() -> None:
    calls: list[Sequence[str]] = []

    def owners(ids: Sequence[str]) -> dict[str, int]:
        calls.append(ids)
        return {"by upstream": len(ids)}

    pair, many = tallied(ONE, ONE), tallied(*[ONE] * 60)
    assert summary(Totals(2, 0, 0, 0), pair, owners=owners) == "2 generations: 2 complete · 2 stalls by upstream"
    assert summary(Totals(60, 0, 0, 0), many, owners=owners) == "60 generations: 60 complete · 60 stalls"
    assert calls == [[ONE.id] * 2]


def test_a_summary_with_unknown_endings_has_no_causes() -> None:
    assert summary(Totals(1, 1, 0, 0), tallied()) == "1 generation, 1 failed"
    assert summary(Totals(3, 1, 0, 0), tallied(ONE)) == "3 generations, 1 failed"
