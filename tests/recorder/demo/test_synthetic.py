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
        one = synthetic.template(model, ending, 40, variation)
        for _ in range(3):
            facts, reads, measured = synthetic.timed(one, random)
            assert measured == derive(facts, reads, one.body, request=one.request)
            assert measured.outcome == ending


def test_a_synthetic_stall_is_flagged_like_a_recorded_one() -> None:
    one, random = synthetic.template(MODELS[0], "complete", 300, 0), np.random.default_rng(1)
    flagged = [synthetic.timed(one, random) for _ in range(100)]
    stalled = [measured for _, _, measured in flagged if "stall" in measured.flags]
    assert 0 < len(stalled) < 30
    assert {(one.max_gap_ns or 0) > 2_000_000_000 for one in stalled} == {True}


@each_case("model", MODELS, ids=lambda model: model.name)
def test_a_whole_answer_has_the_chunks_asked_for(model: synthetic.Model) -> None:
    for variation in range(VARIATIONS):
        derived = synthetic.template(model, "complete", 50, variation).derived
        assert derived.output_chunks == 50
        assert (derived.output_tokens is not None) == model.usage
        assert (derived.reasoning is not None) == model.reasoning


def test_reads_cover_the_body_in_order_of_time() -> None:
    one = synthetic.template(BY_NAME["local-8b"], "complete", 200, 1)
    _, reads, measured = synthetic.timed(one, np.random.default_rng(2))
    assert [read.start for read in reads[1:]] == [read.start + read.size for read in reads[:-1]]
    assert (reads[0].start, reads[-1].start + reads[-1].size) == (0, len(one.body))
    assert [read.at_ns for read in reads] == sorted(read.at_ns for read in reads)
    assert 0.05 < (measured.coalesced_fraction or 0) < 0.25


def test_gaps_are_those_of_the_model() -> None:
    random = np.random.default_rng(3)
    for model in MODELS[:2]:
        one = synthetic.template(model, "complete", 100, 0)
        medians = [synthetic.timed(one, random)[2].icl_p50_ns or 0 for _ in range(100)]
        assert np.median(medians) / 1e6 == pytest.approx(model.gap, rel=0.1)


def test_the_same_seed_gives_the_same_exchange() -> None:
    once, again = (
        synthetic.timed(synthetic.template(MODELS[0], "complete", 20, 3), np.random.default_rng(5)) for _ in range(2)
    )
    assert once == again
