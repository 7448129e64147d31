"""The counts of dashboards: OpenTelemetry's figures, by a bounded number of labels."""

from dataclasses import replace
from math import inf

from tests.support.exchanges import FACTS, MS, ONE
from wiretape.viewer.stats.conventions import DURATION, FIRST_CHUNK, PER_CHUNK, SILENCES, TOKENS
from wiretape.viewer.stats.dashboard import LABEL_SETS, OTHER, OTHER_ERROR, DashboardCounts, Histogram
from wiretape.viewer.stats.tools.request import Judged

LABELS = ("chat", "openai", "m", "m-2", "api.example.com", "443", "openai.chat", "main")


def counted(*exchanges):
    figures = DashboardCounts(lambda family: Histogram(family.bounds))
    for exchange in exchanges:
        figures.add(exchange)
    return figures


def sums(figures, family):
    return {labels: (sum(it.counts), round(it.sum, 6)) for labels, it in figures.histograms[family].items()}


def test_a_stream_has_chunk_times_duration_and_known_tokens():
    figures = counted(ONE)
    assert sums(figures, FIRST_CHUNK) == {LABELS: (1, 0.01)}
    assert sums(figures, PER_CHUNK) == {LABELS: (2, 0.04)}
    assert sums(figures, DURATION) == {(*LABELS, ""): (1, 0.5)}
    assert sums(figures, TOKENS) == {(*LABELS, "input"): (1, 7.0)}
    assert figures.outcomes == {(*LABELS, "complete"): 1}
    assert figures.flags == {"stall": 1}


def test_a_value_on_a_buckets_bound_is_inside():
    (histogram,) = counted(ONE).histograms[FIRST_CHUNK].values()
    assert histogram.cumulative[:2] == [(0.01, 1), (0.02, 1)]
    assert histogram.cumulative[-1] == (inf, 1)


def test_a_failure_has_a_duration_and_error_type():
    failed = replace(ONE, judged=Judged("error_event", "overloaded", 500 * MS))
    assert sums(counted(failed), DURATION) == {(*LABELS, "overloaded"): (1, 0.5)}
    abandoned = counted(replace(ONE, judged=Judged("client_closed", None, 500 * MS)))
    assert [sums(abandoned, family) for family in (DURATION, FIRST_CHUNK, PER_CHUNK)] == [{}, {}, {}]
    assert abandoned.outcomes == {(*LABELS, "client_closed"): 1}


def test_websocket_and_incomplete_chunks_have_no_times():
    for facts in (replace(FACTS, framing="websocket"), replace(FACTS, gap_bytes=3)):
        figures = counted(replace(ONE, exchange=facts))
        assert (sums(figures, FIRST_CHUNK), sums(figures, PER_CHUNK)) == ({}, {})
        assert sums(figures, DURATION) == {(*LABELS, ""): (1, 0.5)}


def test_a_model_list_is_an_exchange_without_operation():
    figures = counted(replace(ONE, operation="models", api=None))
    assert not any(figures.histograms.values())
    assert list(figures.outcomes) == [("models", "", *LABELS[2:6], "", "main", "complete")]


def test_texts_of_others_make_a_bounded_number_of_labels():
    names = [f"model {number} \x1b[2J\ud800" for number in range(LABEL_SETS + 5)]
    figures = counted(*(replace(ONE, request_model=name) for name in names))
    late = replace(ONE, request_model="late", judged=Judged("error_event", "late", None), upstream="http://[broken")
    figures.add(late)
    assert len(figures.outcomes) == LABEL_SETS + 2
    assert figures.folded == 6
    folded = ("chat", "openai", OTHER, OTHER, OTHER, "", "openai.chat", OTHER)
    assert figures.outcomes[*folded, "complete"] == 5
    assert figures.histograms[FIRST_CHUNK][folded].counts[0] == 6
    assert (*folded, OTHER_ERROR) not in figures.histograms[DURATION], "its duration is unknown"
    assert all("\x1b" not in label and "\ud800" not in label for labels in figures.outcomes for label in labels)


def test_silences_are_counted_by_layer_whatever_ended_the_stream():
    silences = {"first_silence_ns": 10 * MS, "max_output_silence_ns": 3000 * MS}
    left = replace(ONE, judged=Judged("client_closed", None, 500 * MS), **silences)
    first, longest = (sums(counted(left), family) for family in SILENCES)
    assert first == {(*LABELS, "bytes"): (1, 0.01)}
    assert longest == {(*LABELS, "output"): (1, 3.0)}
