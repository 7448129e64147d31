import itertools
from dataclasses import replace
from typing import get_args

from tests.support.cases import each_case
from wiretape.recorder.decode.exchange import (
    DETAILS,
    FLAGS,
    OUTCOMES,
    RESET_CODE,
    Evidence,
    Exchange,
    Outcome,
    judge,
    reset_code,
    transport_flags,
)
from wiretape.recorder.facts import ENDED_BY, EndedBy

CUT = Evidence(stream=True, understood=True)
WHOLE = Evidence(stream=True, understood=True, done=True)
FINISHED = Evidence(stream=True, understood=True, finished=True)
FOREIGN = Evidence(stream=True, understood=False)
BROKEN = Evidence(stream=True, understood=True, done=True, malformed=True)
FAILED = Evidence(stream=True, understood=True, error="mid_stream")
FAILED_DONE = Evidence(stream=True, understood=True, done=True, error="before_output")
FINISH_ERROR = Evidence(stream=True, understood=True, done=True, finished=True, error="finish")
BODY = Evidence()


def exchange(ended_by, status=200, gap_bytes=0):
    return Exchange(status=status, ended_by=ended_by, gap_bytes=gap_bytes)


@each_case(
    ("ended_by", "status", "evidence", "outcome", "detail"),
    [
        (None, None, BODY, "open", None),
        (None, 500, BODY, "open", None),
        (None, 200, WHOLE, "open", None),
        ("dns", None, BODY, "connect_error", "dns"),
        ("refused", None, BODY, "connect_error", "refused"),
        ("tls", None, BODY, "connect_error", "tls"),
        ("protocol", None, BODY, "connect_error", "protocol"),
        ("framing", None, BODY, "connect_error", "protocol"),
        ("reset", None, BODY, "connect_error", "reset"),
        ("eof", None, BODY, "connect_error", "reset"),
        ("length", None, BODY, "connect_error", "reset"),
        ("connect_timeout", None, BODY, "timeout", "connect"),
        ("headers_timeout", None, BODY, "timeout", "headers"),
        ("idle_timeout", 200, CUT, "timeout", "idle"),
        ("idle_timeout", 200, BODY, "timeout", "idle"),
        ("idle_timeout", 200, WHOLE, "complete", None),
        ("client", None, BODY, "client_closed", None),
        ("shutdown", None, BODY, "interrupted", "shutdown"),
        ("died", None, BODY, "interrupted", None),
        ("end", 429, BODY, "http_error", "rate_limited"),
        ("end", 404, BODY, "http_error", "client_error"),
        ("end", 503, BODY, "http_error", "server_error"),
        ("end", 302, BODY, "http_error", "redirect"),
        ("client", 500, BODY, "http_error", "server_error"),
        ("reset", 500, BODY, "http_error", "server_error"),
        ("end", 200, FAILED, "error_event", "mid_stream"),
        ("reset", 200, FAILED, "error_event", "mid_stream"),
        ("client", 200, FAILED, "error_event", "mid_stream"),
        ("died", 200, FAILED, "error_event", "mid_stream"),
        ("end", 200, FAILED_DONE, "error_event", "before_output"),
        ("end", 200, FINISH_ERROR, "error_event", "finish"),
        ("client", 200, CUT, "client_closed", None),
        ("client_stalled", 200, CUT, "client_closed", "stalled"),
        ("client", 200, WHOLE, "complete", None),
        ("client", 200, FOREIGN, "client_closed", None),
        ("client", 200, BODY, "client_closed", None),
        ("end", 200, CUT, "truncated", "eof"),
        ("eof", 200, CUT, "truncated", "eof"),
        ("reset", 200, CUT, "truncated", "reset"),
        ("length", 200, CUT, "truncated", "length"),
        ("framing", 200, CUT, "truncated", "framing"),
        ("reset", 200, WHOLE, "complete", None),
        ("eof", 200, FINISHED, "complete", None),
        ("end", 200, FOREIGN, "complete", None),
        ("eof", 200, FOREIGN, "truncated", "eof"),
        ("end", 200, BROKEN, "malformed", None),
        ("reset", 200, BROKEN, "malformed", None),
        ("shutdown", 200, CUT, "interrupted", "shutdown"),
        ("shutdown", 200, WHOLE, "complete", None),
        ("died", 200, CUT, "interrupted", None),
        ("died", 200, WHOLE, "interrupted", None),
        ("end", 200, BODY, "complete", None),
        ("end", 204, BODY, "complete", None),
        ("length", 200, BODY, "truncated", "length"),
    ],
)
def test_the_first_rule_that_matches_decides(ended_by, status, evidence, outcome, detail):
    assert judge(exchange(ended_by, status), evidence) == (outcome, detail)


def test_a_loss_of_ours_is_not_blamed_on_upstream():
    assert judge(exchange("end", gap_bytes=1), CUT) == ("complete", None)
    assert judge(exchange("end"), Evidence(stream=True, understood=True, whole=False)) == ("complete", None)
    assert judge(exchange("reset", gap_bytes=1), CUT) == ("truncated", "reset")


@each_case(
    ("ended_by", "status", "evidence", "outcome", "detail"),
    [
        ("reset", None, BODY, "connect_error", "rst_cancel"),
        ("reset", 200, CUT, "truncated", "rst_cancel"),
        ("client", 200, CUT, "client_closed", "rst_cancel"),
        ("client_stalled", 200, CUT, "client_closed", "stalled"),
        ("framing", 200, CUT, "truncated", "framing"),
        ("reset", 503, CUT, "http_error", "server_error"),
        ("reset", 200, WHOLE, "complete", None),
    ],
)
def test_an_http2_error_is_the_detail_of_a_reset(ended_by, status, evidence, outcome, detail):
    reset = replace(exchange(ended_by, status), protocol="h2", reset_code="rst_cancel")
    assert judge(reset, evidence) == (outcome, detail)


@each_case(
    ("ended_by", "code", "status", "evidence", "outcome", "detail"),
    [
        ("eof", "goaway_enhance_your_calm", None, BODY, "connect_error", "goaway_enhance_your_calm"),
        ("eof", "goaway_enhance_your_calm", 200, CUT, "truncated", "goaway_enhance_your_calm"),
        ("eof", "goaway_no_error", None, BODY, "connect_error", "reset"),
        ("eof", "goaway_no_error", 200, CUT, "truncated", "eof"),
        ("reset", "goaway_enhance_your_calm", 200, CUT, "truncated", "goaway_enhance_your_calm"),
        ("reset", "goaway_no_error", None, BODY, "connect_error", "goaway_no_error"),
        ("reset", "goaway_no_error", 200, CUT, "truncated", "reset"),
    ],
)
def test_a_goaway_is_a_detail_only_with_an_error(ended_by, code, status, evidence, outcome, detail):
    closed = replace(exchange(ended_by, status), protocol="h2", reset_code=code)
    assert judge(closed, evidence) == (outcome, detail)


@each_case(
    ("frame", "code", "name"),
    [
        ("rst", 0, "rst_no_error"),
        ("rst", 8, "rst_cancel"),
        ("goaway", 11, "goaway_enhance_your_calm"),
        ("rst", 13, "rst_http_1_1_required"),
        ("rst", 14, "rst_0xe"),
        ("goaway", 0xFFFFFFFF, "goaway_0xffffffff"),
    ],
)
def test_http2_errors_have_the_names_of_their_specification(frame, code, name):
    assert reset_code(frame, code) == name
    assert RESET_CODE.fullmatch(name)


def test_http2_is_declined_only_by_another_upstream_protocol():
    offered = replace(exchange("end"), h2_offered=True)
    flags = {
        protocol: transport_flags(replace(offered, protocol=protocol), "complete")
        for protocol in ("h2", "http/1.1", None)
    }
    assert flags == {"h2": set(), "http/1.1": {"h2_offered"}, None: {"h2_offered"}}


@each_case(
    ("ended_by", "outcome", "flags"),
    [
        ("end", "complete", set()),
        ("reset", "complete", {"unclean_end"}),
        ("idle_timeout", "malformed", {"unclean_end"}),
        ("shutdown", "complete", {"unclean_end"}),
        ("length", "http_error", {"unclean_end"}),
        ("eof", "error_event", {"unclean_end"}),
        ("client", "complete", {"client_left"}),
        ("client_stalled", "http_error", {"client_left"}),
        ("reset", "truncated", set()),
        ("reset", "connect_error", set()),
        ("client", "client_closed", set()),
        ("idle_timeout", "timeout", set()),
        ("shutdown", "interrupted", set()),
    ],
)
def test_an_unexplained_transport_failure_is_a_flag(ended_by, outcome, flags):
    assert transport_flags(exchange(ended_by), outcome) == flags


def test_facts_that_harm_the_measurement_are_flags():
    raised = {"storage_gap", "backpressure", "surplus_bytes", "coarse_clock", "h2_offered"}
    told = {"gap_bytes": 1, "paused": 2, "surplus": True, "coarse_clock": True, "h2_offered": True}
    facts = Exchange(status=200, ended_by="end", **told)
    assert transport_flags(replace(facts, clock_error_ns=1_000_000), "complete") == raised
    assert transport_flags(replace(facts, clock_error_ns=1_000_001), "complete") == {*raised, "clock_suspect"}


def test_every_combination_has_an_outcome():
    evidences = [BODY, CUT, WHOLE, FINISHED, FOREIGN, BROKEN, FAILED, FAILED_DONE, FINISH_ERROR]
    details = {outcome: {text.partition(" ")[0] for text in texts} for outcome, texts in DETAILS.items()}
    for ended_by, status, evidence in itertools.product([*ENDED_BY, None], [None, 200, 302, 429, 500], evidences):
        outcome, detail = judge(exchange(ended_by, status), evidence)
        assert outcome in OUTCOMES
        assert detail is None or detail in details[outcome]
        assert transport_flags(exchange(ended_by, status), outcome) <= set(FLAGS)


def test_every_value_is_explained():
    assert set(ENDED_BY) == set(get_args(EndedBy))
    assert set(OUTCOMES) == set(get_args(Outcome))
    assert list(FLAGS) == sorted(FLAGS)
