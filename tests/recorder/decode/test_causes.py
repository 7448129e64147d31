"""Causes: how exchanges ended, in a few words."""

from tests.support.cases import each_case
from wiretape.recorder.decode import causes
from wiretape.recorder.decode.causes import Ending
from wiretape.recorder.decode.exchange import DETAILS, OUTCOMES


def test_a_count_names_frequent_failures_first() -> None:
    endings = {
        Ending("complete"): 9, Ending("complete", stalled=True): 2, Ending("truncated", "eof"): 1,
        Ending("truncated", "reset"): 1, Ending("http_error", "rate_limited", None, 429): 1, Ending("client_closed"): 1,
    }  # fmt: skip
    summary = "11 complete · 3 failed: 2 cut by upstream, 1 × 429 · 1 cancelled by the client"
    assert causes.counts(endings) == summary
    assert causes.counts({Ending("truncated"): 3, Ending("malformed"): 2, Ending("timeout"): 1}, 1) == (
        "6 failed: 3 cut by upstream and 2 other causes"
    )


@each_case(
    "ending, cause",
    [
        (Ending("http_error", "client_error", None, 404), "404"),
        (Ending("error_event", "mid_stream", "overloaded_error"), "overloaded"),
        (Ending("error_event", "mid_stream", "boom"), "error in mid-stream"),
        (Ending("connect_error", "refused"), "connection refused"),
        (Ending("truncated", "close_1011"), "cut by upstream"),
        (Ending("truncated", "rst_cancel"), "cut by upstream"),
        (Ending("connect_error", "rst_refused_stream"), "stream reset"),
        (Ending("connect_error", "goaway_0x42"), "connection closed"),
        (Ending("new\x1b[2J"), "new␛[2J"),
    ],
)
def test_a_cause_says_what_happened(ending: Ending, cause: str) -> None:
    assert ending.cause == cause


def test_the_words_of_every_outcome_fit_a_column() -> None:
    endings = [Ending(outcome, detail) for outcome in OUTCOMES for detail in (None, *DETAILS.get(outcome, ()))]
    assert all("_" not in cause.cause and len(cause.cause) <= 23 for cause in endings if cause.outcome != "http_error")


def test_stalls_are_counted_by_their_known_party() -> None:
    endings = {Ending("complete", stalled=True): 2, Ending("truncated", "eof", stalled=True, buffered=True): 1}
    assert causes.stalls(endings) == "3 stalls"
    assert causes.stalls(endings, {"by upstream": 2, "by client": 1}) == "2 stalls by upstream, 1 stall by client"
    assert (causes.buffered(endings), causes.buffered({}), causes.stalls({})) == ("1 buffered", "", "")
