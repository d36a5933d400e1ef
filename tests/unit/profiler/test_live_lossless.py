"""A text that a server scores itself: sound sampling passes, a damaged one does not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from capplan.profiles.losslessness import Outcome, compare, difference_nats
from capplan.schema.verdict import Stability
from profiler.backends.live_check import judged_reports
from profiler.backends.live_lossless import LISTED_TOKENS, ScoredText, losslessness_cell, rated

VOCAB = 200


def texts(drawn_at, temperature, requests=24, tokens=40, seed=0):
    """Draw texts at one temperature from made-up distributions and rate them at another."""
    random = np.random.default_rng(seed)
    scored = []
    for _ in range(requests):
        places = []
        for _ in range(tokens):
            logits = random.normal(0, 2.5, VOCAB)
            log_probs = logits - np.logaddexp.reduce(logits)
            if drawn_at == 0:
                token = int(np.argmax(log_probs))
            else:
                tempered = np.exp(log_probs / drawn_at)
                token = int(random.choice(VOCAB, p=tempered / tempered.sum()))
            top = np.argsort(log_probs)[::-1][:LISTED_TOKENS]
            listed = {int(i): float(log_probs[i]) for i in {*top.tolist(), token}}
            places.append(rated(token, listed, temperature, VOCAB))
        scored.append(ScoredText(tuple(places), ()))
    return scored


def outcome(drawn_at, temperature, seed=0):
    cell = losslessness_cell(texts(drawn_at, temperature, seed=seed), temperature, 3)
    return compare(cell, "bfloat16", 1).outcome


@pytest.mark.parametrize("temperature", [0.5, 0.8, 1.0])
def test_text_drawn_as_it_should_be_passes(temperature):
    passed = [outcome(temperature, temperature, seed) is Outcome.PASS for seed in range(10)]
    assert sum(passed) >= 9


@pytest.mark.parametrize(("drawn_at", "temperature"), [(1.3, 0.8), (0.4, 0.8), (3.0, 1.0)])
def test_text_drawn_at_another_temperature_fails(drawn_at, temperature):
    assert outcome(drawn_at, temperature) is Outcome.FAIL


def test_the_likeliest_tokens_pass_at_temperature_0_and_drawn_ones_fail():
    assert outcome(0, 0.0) is Outcome.PASS
    assert outcome(0.8, 0.0) is Outcome.FAIL


def test_what_is_expected_is_exact_at_temperature_1():
    values = np.log([0.5, 0.3, 0.2])
    place = rated(1, dict(enumerate(values)), 1.0, 3)
    assert place.least == pytest.approx(float(np.exp(values) @ values))
    assert place.most == pytest.approx(place.least)
    assert place.behind == pytest.approx(math.log(0.5 / 0.3))


@pytest.mark.parametrize("temperature", [0.3, 0.8, 1.0, 1.5])
def test_the_true_expectation_lies_within_its_bounds(temperature):
    random = np.random.default_rng(1)
    for _ in range(50):
        logits = random.normal(0, 2, VOCAB)
        log_probs = np.sort(logits - np.logaddexp.reduce(logits))[::-1]
        tempered = np.exp(log_probs / temperature)
        floored = np.maximum(log_probs, log_probs[LISTED_TOKENS - 1])
        truth = float(tempered @ floored / tempered.sum())
        listed = {i: float(log_probs[i]) for i in range(LISTED_TOKENS)}
        place = rated(0, listed, temperature, VOCAB)
        assert place.least - 1e-9 <= truth <= place.most + 1e-9


def test_an_unlisted_token_counts_as_the_last_one_listed():
    listed = {i: math.log(0.04) for i in range(LISTED_TOKENS)} | {99: math.log(1e-6)}
    assert rated(99, listed, 1.0, VOCAB).log_prob == pytest.approx(math.log(0.04))


def test_a_place_without_its_token_or_with_an_infinite_value_is_not_rated():
    assert rated(5, {1: -0.1}, 1.0, VOCAB) is None
    assert rated(1, {1: -0.1, 2: -math.inf}, 1.0, VOCAB) is None


def test_the_mean_shift_of_a_cell_is_that_of_its_places():
    cell = losslessness_cell(texts(3.0, 1.0), 1.0, 3)
    shift, error = difference_nats(cell)
    assert shift < -5 * error
    assert cell.tokens == cell.baseline_tokens


def test_reports_that_disagree_with_the_scores_make_a_profile_invalid():
    places = texts(0.8, 0.8, requests=1)[0].places
    same = ScoredText(places, tuple(place.raw for place in places))
    tempered = ScoredText(places, tuple(place.tempered for place in places))
    off = ScoredText(places, tuple(place.raw + 0.5 for place in places))
    assert not judged_reports([same]).reasons
    assert not judged_reports([tempered]).reasons  # a server may be told to report these
    verdict = judged_reports([off, off])
    assert verdict.stability is Stability.INVALID
    assert verdict.reasons[0].value == pytest.approx(0.5, abs=0.2)
