"""Tokens a round at other lengths: the distribution of docs/method/acceptance.md, worked anew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from capplan.estimate.acceptance_mix import curve_of_mix
from capplan.estimate.curves import AcceptanceCurve, curve_from_alpha, curve_from_facts
from capplan.estimate.length_distributions import sample_tokens, spread_tokens
from capplan.estimate.lengths import (
    FallPrior,
    LengthSeries,
    extrapolate_length,
    length_curve,
    pooled_fall,
)
from capplan.estimate.task_transfer import transfer_task
from capplan.estimate.temperature import KEPT, Drafter, transfer_temperature
from capplan.schema.lengths import FixedLength, LognormalLength
from capplan.schema.provenance import Kind, Source
from capplan.schema.workload import TrafficPart, Workload

FIRSTS = [0.02 + 0.01 * k for k in range(99)]
FALLS = [-0.4 + 0.02 * k for k in range(71)]
"""The grid: acceptance of the first position in hundredths, its fall in fiftieths."""


@cache
def log_tokens() -> np.ndarray:
    """Return the logarithm of 1 + C_1 + ... + C_N of every pair, by N = 1 .. 64."""
    first, fall = np.array(FIRSTS)[None, :], np.array(FALLS)[:, None]
    kept, total, rows = np.ones((71, 99)), np.ones((71, 99)), []
    for position in range(1, 65):
        kept = kept * np.minimum(1.0, first / position**fall)
        total = total + kept
        rows.append(np.log(total))
    return np.stack(rows)


def weights(series: LengthSeries, mean: float, sd: float) -> tuple[np.ndarray, float, float]:
    misses = [
        log_tokens()[n - 1] - math.log(tokens)
        for n, tokens in zip(series.lengths, series.tokens_per_round, strict=True)
    ]
    squares = sum(miss**2 for miss in misses)
    degrees = 4 + max(len(misses) - 2, 0)
    noise2 = (4 * 0.005**2 + float(np.min(squares))) / degrees
    prior = (np.array(FALLS)[:, None] - mean) / sd
    weight = np.exp(-squares / noise2 / 2 - prior**2 / 2)
    return weight / weight.sum(), noise2, degrees


SERIES = [
    LengthSeries((3,), (2.6,)),
    LengthSeries((2, 5), (2.2, 3.1)),
    LengthSeries((1, 3, 6, 7), (1.72, 2.6, 3.3, 3.35)),
]


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("prior", [None, FallPrior(0.3, 0.1)])
@pytest.mark.parametrize("wanted", [1, 7, 64])
def test_a_length_is_the_mean_over_all_laws_by_their_weight(
    series: LengthSeries, prior: FallPrior | None, wanted: int
) -> None:
    weight, noise2, degrees = weights(series, *((0.15, 0.2) if prior is None else (0.3, 0.1)))
    at = log_tokens()[wanted - 1]
    mean = float((weight * at).sum())
    variance = float((weight * (at - mean) ** 2).sum()) + noise2
    found = extrapolate_length(series, wanted, prior)
    assert found.mid == pytest.approx(math.exp(mean), rel=1e-9)
    assert found.log_sd == pytest.approx(math.sqrt(variance), rel=1e-7)
    assert found.degrees == degrees


@pytest.mark.parametrize("series", SERIES)
def test_a_curve_is_the_law_moved_onto_what_was_measured(series: LengthSeries) -> None:
    weight, _, _ = weights(series, 0.15, 0.2)
    curve, errors = length_curve(series, 9)
    mean = np.array([(weight * log_tokens()[n - 1]).sum() for n in range(1, 10)])
    variance = [(weight * (log_tokens()[n] - mean[n]) ** 2).sum() for n in range(9)]
    assert errors == pytest.approx([0.0, *np.sqrt(variance)], rel=1e-7)
    miss = np.log(series.tokens_per_round) - mean[np.array(series.lengths) - 1]
    moved = np.exp(mean + np.interp(range(1, 10), series.lengths, miss))
    assert curve == pytest.approx([1.0, *moved])
    for n, tokens in zip(series.lengths, series.tokens_per_round, strict=True):
        assert curve[n] == pytest.approx(tokens)


def test_longer_than_64_is_not_answered() -> None:
    with pytest.raises(IndexError):
        extrapolate_length(SERIES[0], 65)


def own_fall(series: LengthSeries) -> float:
    return float((weights(series, 0.15, 0.5)[0].sum(axis=1) * FALLS).sum())


STEEP = LengthSeries((1, 4), (1.9, 2.5))


@pytest.mark.parametrize("others", [[SERIES[1], STEEP], [*SERIES[1:], STEEP]])
def test_other_texts_fall_as_they_do_by_themselves(others: Sequence[LengthSeries]) -> None:
    falls = [own_fall(series) for series in others]
    found = pooled_fall([*others, SERIES[0]])
    assert found.mean == pytest.approx(np.mean(falls), rel=1e-9)
    spread = math.sqrt(sum((fall - np.mean(falls)) ** 2 for fall in falls) / (len(falls) - 1))
    assert spread > 0.05
    assert found.sd == pytest.approx(spread, rel=1e-9)


def test_few_texts_or_texts_that_are_alike_keep_a_least_spread() -> None:
    assert pooled_fall([]) == pooled_fall([SERIES[0]]) == FallPrior(0.15, 0.2)
    one = pooled_fall([SERIES[1]])
    assert (one.mean, one.sd) == pytest.approx((own_fall(SERIES[1]), 0.1))
    assert pooled_fall([SERIES[1]] * 3).sd == pytest.approx(0.05)


def test_parts_of_a_series() -> None:
    assert SERIES[2].up_to(6) == LengthSeries((1, 3), (1.72, 2.6))
    assert SERIES[2].only([7, None, 9, 1]) == LengthSeries((1, 7), (1.72, 3.35))


# ---- published curves


def error_at(
    facts: Sequence[Any], task: str | None, n: int = 3, temperature: float = 0.0
) -> float:
    """Return the relative error of a curve less that of the law, in quadrature."""
    curve = curve_from_facts(facts, temperature, task)
    assert curve is not None
    by_length = {one.num_speculative_tokens for one in facts}
    means = {
        k: float(np.mean([f.tokens_per_round for f in facts if f.num_speculative_tokens == k]))
        for k in sorted(by_length)
    }
    _, law = length_curve(LengthSeries(tuple(means), tuple(means.values())), 16)
    assert curve.relative_se[0] == 0.0
    return math.sqrt(curve.relative_se[n] ** 2 - law[n] ** 2)


def test_one_published_value_of_the_very_text_is_five_per_cent_off(synthetic: Any) -> None:
    fact = synthetic.fact
    assert error_at([fact(3, 2.6)], "code") == pytest.approx(0.05)
    assert error_at([fact(3, 2.6)], "CODE", n=7) == pytest.approx(0.05)
    # runs that differ by more say so: 2.4 and 2.8 about 2.6
    runs = [fact(3, 2.4), fact(3, 2.8), fact(5, 3.0), fact(5, 3.01)]
    assert error_at(runs, "code") == pytest.approx(math.sqrt(2 * 0.2**2) / 2.6)
    assert error_at([fact(3, 2.6, relative_se=0.3)], "code") == pytest.approx(0.3)
    measured = Source(kind=Kind.MEASURED, reference="own")
    assert error_at([fact(3, 2.6, source=measured)], None) == pytest.approx(0.05)


def test_of_another_text_the_length_with_most_texts_tells_the_spread(synthetic: Any) -> None:
    tokens = {"chat": 2.0, "maths": 3.0, "news": 2.2}
    facts = [synthetic.fact(3, value, task=task) for task, value in tokens.items()]
    facts += [synthetic.fact(5, 2.9, task="chat")]
    expected = transfer_task([2.0, 3.0, 2.2]).log_sd
    assert error_at(facts, None) == pytest.approx(expected)
    assert error_at(facts, "poems") == pytest.approx(expected)
    # a text that was measured among others is taken by itself
    assert error_at([f for f in facts if f.task == "maths"], "maths") == pytest.approx(0.05)


def test_an_unknown_temperature_is_a_tenth_more_and_another_one_its_move(synthetic: Any) -> None:
    unknown = [synthetic.fact(3, 2.6, temperature=None)]
    assert error_at(unknown, "code") == pytest.approx(math.hypot(0.05, 0.1))
    half = [*unknown, synthetic.fact(3, 2.6)]  # one of two is enough to doubt both
    assert error_at(half, "code") == pytest.approx(math.hypot(0.05, 0.1))
    moved = transfer_temperature(np.array([1.0, 2.6]), 0.0, 1.0, KEPT[Drafter.LLM])
    found = error_at([synthetic.fact(3, 2.6)], "code", temperature=1.0)
    assert found == pytest.approx(math.hypot(0.05, moved.relative_se[1]))
    curve = curve_from_facts([synthetic.fact(3, 2.6)], 1.0, "code")
    assert curve is not None
    assert curve.at(3) == pytest.approx(moved.tokens_per_round[1])
    assert curve.source.kind is Kind.DERIVED


def test_values_of_the_nearest_temperature_alone_are_taken(synthetic: Any) -> None:
    facts = [synthetic.fact(3, 2.6, temperature=0.2), synthetic.fact(3, 2.0, temperature=0.8)]
    near, far = curve_from_facts(facts, 0.2, "code"), curve_from_facts(facts, 0.8, "code")
    assert near is not None
    assert far is not None
    assert (near.at(3), far.at(3)) == (pytest.approx(2.6), pytest.approx(2.0))
    assert near.source.kind is Kind.CITED
    both = curve_from_facts(facts, 0.5, "code")
    assert both is not None  # both are equally near: their mean, measured at 0.5 on average
    assert both.at(3) == pytest.approx(2.3)
    assert both.source.kind is Kind.CITED


def test_a_mix_is_as_recent_as_its_latest_part() -> None:
    dates = {"code": "2026-01-02", "chat": "2026-03-04", "news": None}
    mix = tuple(TrafficPart(share=1, task=task) for task in dates)

    def curve_of(part: TrafficPart) -> AcceptanceCurve:
        source = Source(kind=Kind.CITED, reference=str(part.task), date=dates[str(part.task)])
        return curve_from_alpha(0.5, source)

    found = curve_of_mix(Workload(mix=mix), curve_of)
    assert found is not None
    assert (found.source.date, found.source.reference) == ("2026-03-04", "code; chat; news")


@pytest.mark.parametrize(("lengths", "law"), [((3,), "typical"), ((3, 5), "fitted to these")])
def test_a_curve_says_where_its_fall_comes_from(
    synthetic: Any, lengths: tuple[int, ...], law: str
) -> None:
    curve = curve_from_facts([synthetic.fact(n, 2.0 + n / 5) for n in lengths], 0.0, "code")
    assert curve is not None
    assert law in curve.definition


def test_an_assumed_acceptance_errs_by_a_hundredth_more_for_every_draft() -> None:
    curve = curve_from_alpha(0.5, Source(kind=Kind.ASSUMED, reference="said"))
    assert curve.relative_se == pytest.approx([0.0, *(0.05 + 0.01 * n for n in range(1, 17))])
    assert (curve.at(0), curve.at(1), curve.at(2)) == pytest.approx((1.0, 1.5, 1.75))
    assert curve.draft_share.tolist() == [1.0] * 17
    assert curve.drafted.tolist() == list(range(17))


# ---- lengths of requests


def test_requests_of_one_token_stay_so() -> None:
    rng = np.random.default_rng(0)
    assert set(sample_tokens(FixedLength(tokens=1.0), rng, 20)) == {1}
    short = sample_tokens(LognormalLength(median_tokens=1.0, sigma=0.8), rng, 2000)
    assert (short == 1).mean() == pytest.approx(0.69, abs=0.04)  # all below 1.5 tokens


def test_a_spread_of_33_lengths_has_the_mean() -> None:
    lengths = LognormalLength(median_tokens=500.0, sigma=0.9)
    found = spread_tokens(lengths)
    assert len(found) == 33
    assert np.mean(found) == pytest.approx(lengths.mean_tokens)
    assert len(spread_tokens(lengths, 5)) == 5
