"""Trees, batches between two measured ones, evidence, two drafting levels and decays, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from capplan.estimate.acceptance import (
    decaying_rates,
    fit_decay,
    tokens_per_round_from_conditional,
    tokens_per_round_iid,
)
from capplan.estimate.batch_curve import BatchPoint, scatter_of, speedup_between
from capplan.estimate.lengths import falling_rates
from capplan.estimate.multilevel import InnerPair, acceptance_needed, pays, proposal_s
from capplan.estimate.replay import replay_per_start
from capplan.estimate.similarity import NoisePrior, Prediction, average, predict_from_similar
from capplan.estimate.student import two_sided_p
from capplan.estimate.temperature import KEPT, drafter_of
from capplan.estimate.trees import best_tree_tokens, equal_budget_tree_tokens, tree_speedup
from capplan.estimate.uncertainty import LogEstimate
from capplan.schema.pairing import Method

# ---- trees


@pytest.mark.parametrize("fall", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("nodes", [0, 1, 2, 5])
def test_a_chain_falls_with_the_level_as_lengths_do(fall: float, nodes: int) -> None:
    rates = falling_rates(0.8, fall, nodes)
    expected = 1 + float(np.cumsum(np.cumprod(rates))[-1]) if nodes else 1.0
    assert best_tree_tokens([0.8], nodes, fall=fall) == pytest.approx(expected)


def test_a_tree_takes_the_best_open_node_each_time() -> None:
    # 0.6, 0.36, then 0.3 of the second choice before 0.216 of the third level
    assert best_tree_tokens([0.6, 0.3], 1) == pytest.approx(1.6)
    assert best_tree_tokens([0.6, 0.3], 3) == pytest.approx(1 + 0.6 + 0.36 + 0.3)
    assert best_tree_tokens([0.6, 0.3], 4) == pytest.approx(1 + 0.6 + 0.36 + 0.3 + 0.216)
    # on one level there is nothing beyond the two choices
    assert best_tree_tokens([0.6, 0.3], 9, depth=1) == pytest.approx(1.9)
    # on two: 0.9 + 0.9 x 0.9
    assert best_tree_tokens([0.6, 0.3], 6, depth=2) == pytest.approx(1 + 0.9 + 0.81)
    # a choice that is never right is no node
    assert best_tree_tokens([1.0, 0.0], 4) == pytest.approx(5.0)
    # the second level's rates eased by 2^-1
    assert best_tree_tokens([0.6, 0.3], 3, fall=1.0) == pytest.approx(1 + 0.6 + 0.3 + 0.18)


def test_choices_may_add_up_to_certainty() -> None:
    assert best_tree_tokens([0.5, 0.5], 2) == pytest.approx(2.0)
    # a billionth too much is rounding
    assert best_tree_tokens([1.0 + 1e-9], 1) == pytest.approx(2.0)
    for rates in ([1.0 + 2e-9], [0.5, 0.51], [0.4, 0.5], [0.7, 0.4], [0.5, -0.1]):
        with pytest.raises(ValueError, match="rank_rates"):
            best_tree_tokens(rates, 2)


@pytest.mark.parametrize(
    ("branches", "verified", "intercept", "slope", "scatter"),
    [(3, 6, 0.034, -0.300, 0.083), (4, 8, 0.086, -0.650, 0.129)],
)
def test_trees_of_an_equal_budget_as_the_method_page_states_them(
    branches: int, verified: int, intercept: float, slope: float, scatter: float
) -> None:
    found = equal_budget_tree_tokens(3.0, verified, branches)
    share = 2.0 / (verified - 1)
    assert found.mid == pytest.approx(3.0 * math.exp(intercept + slope * share))
    assert (found.log_sd, found.degrees) == (scatter, 72.0)


def test_tokens_of_a_tree_stay_between_one_and_what_it_verifies() -> None:
    # far beyond any chain: the line would give 4.2 of 4 and 0.5
    assert equal_budget_tree_tokens(10.0, 4, 3).mid == 4.0
    assert equal_budget_tree_tokens(60.0, 9, 4).mid == 1.0


def test_a_trees_speedup_by_hand() -> None:
    # three tokens for 1.5 plain steps of verification and four passes of 0.125
    assert float(tree_speedup(3.0, 1.5, 4, 0.125)) == pytest.approx(1.5)


# ---- between two batches


def test_a_batch_between_two_by_hand() -> None:
    low, high = BatchPoint(1.0, 2.0), BatchPoint(16.0, 1.25)
    found = speedup_between(low, high, 4.0)
    assert found.mid == pytest.approx(1 / (0.5 / 2.0 + 0.5 / 1.25))
    # a walk of 0.1 an e-fold, held at both ends of log 16, and 2 % of the measurements
    assert found.log_sd == pytest.approx(math.sqrt(0.1**2 * math.log(16) * 0.25 + 0.02**2))
    assert found.degrees == 8.0
    quarter = speedup_between(low, high, 2.0, scatter=0.3)
    assert quarter.mid == pytest.approx(1 / (0.75 / 2.0 + 0.25 / 1.25))
    walked = 0.3**2 * math.log(16) * 0.25 * 0.75
    assert quarter.log_sd == pytest.approx(math.sqrt(walked + 0.02**2))


@pytest.mark.parametrize(("batch", "speedup", "beyond"), [(64.0, 1.25, 0.5), (0.5, 2.0, 0.25)])
def test_beyond_the_ends_the_curve_is_level_and_the_walk_is_free(
    batch: float, speedup: float, beyond: float
) -> None:
    found = speedup_between(BatchPoint(1.0, 2.0), BatchPoint(16.0, 1.25), batch)
    assert found.mid == pytest.approx(speedup)
    assert found.log_sd == pytest.approx(math.sqrt(0.01 * math.log(16) * beyond + 0.02**2))


def test_the_scatter_of_curves_by_hand() -> None:
    assert scatter_of([]) == pytest.approx(0.1)
    # at batches 4 and 2 of 1 to 16 the line gives 1.6 and 1.8: 20 % and 10 % are missed
    curve = [
        BatchPoint(1.0, 2.0),
        BatchPoint(2.0, 1.8),
        BatchPoint(4.0, 2.0),
        BatchPoint(16.0, 1.25),
    ]
    misses = [
        (math.log((1 / (0.75 / 2 + 0.25 / 1.25)) / 1.8), 0.25 * 0.75),
        (math.log((1 / (0.5 / 2 + 0.5 / 1.25)) / 2.0), 0.25),
    ]
    squares = [miss**2 / (math.log(16) * bridge) for miss, bridge in misses]
    expected = math.sqrt((10 * 0.1**2 + sum(squares)) / (10 + 2))
    assert scatter_of([curve]) == pytest.approx(expected)
    more = math.sqrt((10 * 0.1**2 + 2 * sum(squares)) / (10 + 4))
    assert scatter_of([curve, curve]) == pytest.approx(more)


# ---- evidence


@pytest.mark.parametrize("level", [0.0, 900.0, -900.0])
def test_covariances_count_by_the_ratio_of_their_evidence_whatever_its_level(level: float) -> None:
    one = Prediction(1.0, 0.2, 5.0, level)
    two = Prediction(2.0, 0.5, 3.0, level - math.log(3.0))
    found = average([one, two])
    assert found.mean == pytest.approx(0.75 * 1 + 0.25 * 2)
    variance = 0.75 * (0.2**2 + 0.25**2) + 0.25 * (0.5**2 + 0.75**2)
    assert found.sd == pytest.approx(math.sqrt(variance))
    assert (found.degrees, found.log_evidence) == (3.0, level)


def test_a_value_that_is_known_but_for_its_noise_errs_by_the_noise() -> None:
    # what is wanted shares everything with the one value that was measured 10,000 times
    found = predict_from_similar(
        np.array([2.0]), np.array([[1e12]]), np.array([1e12]), 1e12, NoisePrior(0.1, 3.0)
    )
    assert found.mean == 2.0
    assert found.sd >= 0.1


# ---- two levels


def test_a_second_level_that_is_no_faster_does_not_pay() -> None:
    assert not pays(InnerPair(2.0, 10e-3), 5e-3)
    assert pays(InnerPair(2.0, 10e-3), 5.001e-3)
    assert not pays(InnerPair(2.0, 10e-3), 4.999e-3)


def test_a_drafter_that_just_breaks_even_when_never_refused_is_no_help() -> None:
    # two positions: 1 + 2 (1 - c / t) = V / t at c / t = 0.5 and V = 2 t
    assert acceptance_needed(0.5, 2.0, 1.0, positions=2) is None
    assert acceptance_needed(0.49, 2.0, 1.0, positions=2) == pytest.approx(0.99, abs=0.01)
    # at an acceptance of a half nothing is gained yet: what is needed lies just above
    just = acceptance_needed(0.0, 1.5, 1.0, positions=1)
    assert just == pytest.approx(0.5)
    assert just is not None
    assert just > 0.5
    # 64 positions are tried: a, a^2 ... each worth its time down to a rate of 0.001
    free = acceptance_needed(0.0, 3.0, 1.0)
    assert free is not None
    assert sum(free**k for k in range(1, 65)) == pytest.approx(2.0)


def test_a_proposal_is_drafted_in_full_rounds_and_a_rest() -> None:
    # one draft a round, always right: two tokens in 3 s; the last of five alone takes 1 s
    assert proposal_s(5, [1.0], [1.0, 3.0]) == pytest.approx(3 + 3 + 1)
    # never right: five rounds, the last without a draft
    assert proposal_s(5, [0.0], [1.0, 3.0]) == pytest.approx(4 * 3 + 1)


# ---- rates


def test_chains_of_rates_along_the_last_of_many_axes() -> None:
    rates = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.2, 1.0], [0.0, 0.9]]])
    found = tokens_per_round_from_conditional(rates)
    assert found[:, :, 0].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert found[:, :, 2] == pytest.approx(np.array([[1.75, 2.0], [1.4, 1.0]]))


def test_two_lengths_tell_a_decay_and_one_length_none() -> None:
    curve = tokens_per_round_from_conditional(decaying_rates(0.8, 0.9, 5))
    assert fit_decay([1, 4], curve[[1, 4]]) == pytest.approx((0.8, 0.9), abs=1e-4)
    # runs of one length: their mean, 1.75 tokens at N = 2, is that of 0.5 a token
    assert fit_decay([2, 2], [1.5, 2.0]) == pytest.approx((0.5, 1.0))
    assert fit_decay([2], [1.0])[0] == pytest.approx(0.0, abs=1e-12)
    assert fit_decay([2, 2], [3.2, 3.4]) == pytest.approx((1.0, 1.0))
    assert float(tokens_per_round_iid(0.5, 2)) == 1.75


@pytest.mark.parametrize(("planted", "fitted"), [(1.6, 1.3), (0.3, 0.5)])
def test_a_decay_beyond_its_range_ends_at_the_range(planted: float, fitted: float) -> None:
    curve = tokens_per_round_from_conditional(decaying_rates(0.35, planted, 4))
    assert fit_decay([1, 2, 4], curve[[1, 2, 4]])[1] == pytest.approx(fitted, abs=1e-9)


def test_requests_that_have_ended_draft_no_more() -> None:
    # two of two proposed and one kept at 1, one proposed in vain at 3, nothing at 4; a text of two
    # tokens beside it, and one of a single token that has no round
    proposed = np.array([0, 2, 0, 1, 0, 3, 3, 9])
    accepted = np.array([0, 1, 0, 0, 0, 0, 0, 9])
    counts = replay_per_start(proposed, accepted, np.array([0, 5, 7, 8]), 2)
    assert counts.rounds.tolist() == [3, 1, 0]
    assert counts.drafted.tolist() == [3, 2, 0]
    assert counts.rounds_with_draft.tolist() == [2, 1, 0]
    assert counts.accepted.tolist() == [1, 0, 0]
    assert counts.accepted_per_position.tolist() == [[1, 0], [0, 0], [0, 0]]
    assert counts.emitted.tolist() == [4, 1, 0]


@pytest.mark.parametrize("size", [1e-4, 1e-3, 0.02, 0.3])
def test_hardly_any_departure_happens_nearly_always(size: float) -> None:
    # three degrees: 1 - 2/pi (atan u + u / (1 + u^2)) with u = t / sqrt(3)
    u = size / math.sqrt(3)
    exact = 1 - 2 / math.pi * (math.atan(u) + u / (1 + u * u))
    assert two_sided_p(size, 3) == pytest.approx(exact, rel=1e-9)


LOOKUPS = (Method.NGRAM, Method.SUFFIX)


def test_shares_kept_at_temperature_one_as_the_method_page_states_them() -> None:
    # 82 published shares and three of the prior, less the mean
    for method in Method:
        share = 0.72 if method in (Method.DRAFT_MODEL, *LOOKUPS, Method.NONE) else 0.85
        assert KEPT[drafter_of(method)] == LogEstimate(share, 0.17, 82 + 3 - 1)
