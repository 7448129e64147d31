"""Synthetic exchanges: their bodies, and measures equal to those of `derive`."""

import numpy as np
import pytest

from tests.support.cases import each_case
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.demo import synthetic
from wiretape.recorder.demo.synthetic import ENDINGS, MODELS, VARIATIONS

BY_NAME = {model.name: model for model in MODELS}


@each_case("ending", ENDINGS)
@each_case("model", MODELS, ids=lambda model: model.name)
def test_measures_are_what_the_recorder_derives(model: synthetic.Model, ending: str) -> None:
    random = np.random.default_rng(7)
    for variation in range(VARIATIONS):
        exchange = synthetic.template(model, ending, 40, variation)
        for _ in range(3):
            facts, reads, measured = synthetic.timed(exchange, random)
            assert measured == derive(facts, reads, exchange.body, request=exchange.request)
            assert measured.outcome == ending


def test_a_synthetic_stall_is_flagged_like_a_recorded_one() -> None:
    exchange, random = synthetic.template(MODELS[0], "complete", 300, 0), np.random.default_rng(1)
    flagged = [synthetic.timed(exchange, random) for _ in range(100)]
    stalled = [measured for _, _, measured in flagged if "stall" in measured.flags]
    assert 0 < len(stalled) < 30
    assert {(measures.max_gap_ns or 0) > 2_000_000_000 for measures in stalled} == {True}


@each_case("model", MODELS, ids=lambda model: model.name)
def test_a_whole_answer_has_the_chunks_asked_for(model: synthetic.Model) -> None:
    for variation in range(VARIATIONS):
        derived = synthetic.template(model, "complete", 50, variation).derived
        assert derived.output_chunks == 50
        assert (derived.output_tokens is not None) == model.usage
        assert (derived.reasoning is not None) == model.reasoning


def test_reads_cover_the_body_in_order_of_time() -> None:
    exchange = synthetic.template(BY_NAME["local-8b"], "complete", 200, 1)
    _, reads, measured = synthetic.timed(exchange, np.random.default_rng(2))
    assert [piece.start for piece in reads[1:]] == [piece.start + piece.size for piece in reads[:-1]]
    assert (reads[0].start, reads[-1].start + reads[-1].size) == (0, len(exchange.body))
    assert [piece.at_ns for piece in reads] == sorted(piece.at_ns for piece in reads)
    assert 0.05 < (measured.coalesced_fraction or 0) < 0.25


def test_gaps_are_those_of_the_model() -> None:
    random = np.random.default_rng(3)
    for model in MODELS[:2]:
        exchange = synthetic.template(model, "complete", 100, 0)
        medians = [synthetic.timed(exchange, random)[2].icl_p50_ns or 0 for _ in range(100)]
        assert np.median(medians) / 1e6 == pytest.approx(model.gap, rel=0.1)


def test_the_same_seed_gives_the_same_exchange() -> None:
    once, repeated = (
        synthetic.timed(synthetic.template(MODELS[0], "complete", 20, 3), np.random.default_rng(5)) for _ in range(2)
    )
    assert once == repeated
