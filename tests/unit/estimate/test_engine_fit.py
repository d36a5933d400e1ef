"""Engine constants from timed passes: recovered where the passes tell, refused where not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from capplan.errors import CalibrationError
from capplan.estimate.engine_fit import Bench, fit_prefill, fit_step
from capplan.estimate.pass_timings import PassTimings
from capplan.estimate.shrunken_fit import Prior, fit_shrunken


@pytest.fixture
def bench(planted_engine: Any) -> Bench:
    return Bench(planted_engine.GPU, planted_engine.ENGINE)


def three(planted_engine: Any, seed: int, noise: float = 0.02) -> list[PassTimings]:
    llms = (planted_engine.SMALL, planted_engine.MIDDLE, planted_engine.LARGE)
    return [planted_engine.timings(llm, noise, 10 * seed + i) for i, llm in enumerate(llms)]


def prompts(planted_engine: Any, llm: Any, factor: float = 1.0) -> PassTimings:
    lengths = np.array([128.0, 512.0, 2048.0, 4096.0, 8192.0, 16384.0])
    took = [factor * planted_engine.prompt_seconds(llm, int(n)) for n in lengths]
    return PassTimings(llm, 1, np.ones(6), lengths, np.zeros(6), np.array(took))


def test_planted_constants_lie_within_their_intervals(planted_engine: Any, bench: Bench) -> None:
    inside = []
    for seed in range(8):
        fit = fit_step(three(planted_engine, seed), bench, by_llm=True)
        inside += [
            c.value.low <= planted_engine.PLANTED[c.name] <= c.value.high for c in fit.constants
        ]
    assert np.mean(inside) > 0.85  # nominal 0.95, 48 of them


def test_llms_of_several_sizes_tell_bandwidth_from_launches(
    planted_engine: Any, bench: Bench
) -> None:
    def widths(timings: list[PassTimings], by_llm: bool) -> dict[str, float]:
        fit = fit_step(timings, bench, by_llm)
        return {c.name: c.value.high / c.value.low for c in fit.constants}

    one = widths([planted_engine.timings(planted_engine.MIDDLE)], by_llm=False)
    several = widths(three(planted_engine, 0), by_llm=True)
    assert one["layer_s"] > 3
    assert several["layer_s"] < 1.2
    assert several["weight_bandwidth_efficiency"] < 1.1


def test_the_stated_error_is_what_another_llm_then_errs_by(
    planted_engine: Any, bench: Bench
) -> None:
    ratios = []
    for seed in range(6):
        fit = fit_step(three(planted_engine, seed, noise=0.05), bench, by_llm=True)
        unseen = planted_engine.timings(planted_engine.UNSEEN, 0.05, 1000 + seed)
        passes = zip(unseen.batch, unseen.tokens, unseen.context, strict=True)
        predicted = [
            planted_engine.seconds(planted_engine.UNSEEN, int(b), int(q), int(s), fit.values)
            for b, q, s in passes
        ]
        error = np.sqrt(np.mean(np.log(np.array(predicted) / unseen.seconds) ** 2))
        assert fit.held_out_error < fit.datasheet_error
        ratios.append(float(error) / fit.held_out_error)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.12)


def test_one_llm_is_checked_by_batches_contexts_and_lengths(
    planted_engine: Any, bench: Bench
) -> None:
    fit = fit_step([planted_engine.timings(planted_engine.MIDDLE)], bench, by_llm=False)
    assert [group.group for group in fit.groups] == [
        *("batch 1", "batch 4", "batch 16", "batch 64"),
        *("context 256", "context 2,048", "context 8,192"),
        *("tokens a pass 1", "tokens a pass 4", "tokens a pass 8"),
    ]
    assert sum(group.points for group in fit.groups) == 3 * fit.points


def test_a_fit_no_better_than_the_shipped_constants_is_refused_with_both_errors(
    planted_engine: Any, bench: Bench
) -> None:
    exactly_shipped = planted_engine.timings(planted_engine.MIDDLE, 0.02, constants={})
    with pytest.raises(CalibrationError, match=r"1.9% off .* 1.6% off by the shipped"):
        fit_step([exactly_shipped], bench, by_llm=False)


@pytest.mark.parametrize("kind", ["shuffled", "constant", "reversed", "random"])
@pytest.mark.parametrize("size", ["SMALL", "LARGE"])
def test_times_that_follow_no_model_are_refused(
    planted_engine: Any, bench: Bench, kind: str, size: str
) -> None:
    """They may be nearer to some fit than to the data sheet, which is not yet a reason to plan."""
    timed = planted_engine.timings(getattr(planted_engine, size))
    rng = np.random.default_rng(0)
    times = {
        "shuffled": rng.permutation(timed.seconds),
        "constant": np.full(len(timed), float(np.median(timed.seconds))),
        "reversed": timed.seconds[::-1],
        "random": np.exp(rng.uniform(np.log(0.03), np.log(3.0), len(timed))),
    }
    absurd = replace(timed, seconds=times[kind])
    with pytest.raises(CalibrationError):
        fit_step([absurd], bench, by_llm=False)


@pytest.mark.parametrize(("factor", "why"), [(0.2, "needs"), (30.0, "usually differ")])
def test_impossible_times_are_refused(
    planted_engine: Any, bench: Bench, factor: float, why: str
) -> None:
    timed = planted_engine.timings(planted_engine.MIDDLE)
    wrong = replace(timed, seconds=timed.seconds * factor)
    with pytest.raises(CalibrationError, match=why):
        fit_step([wrong], bench, by_llm=False)


def test_too_few_passes_are_refused(planted_engine: Any, bench: Bench) -> None:
    timed = planted_engine.timings(planted_engine.MIDDLE)
    few = timed.where(np.arange(len(timed)) < 5)
    with pytest.raises(CalibrationError, match="5 usable timed passes"):
        fit_step([few], bench, by_llm=False)


def test_passes_all_alike_cannot_be_checked(planted_engine: Any, bench: Bench) -> None:
    timed = planted_engine.timings(planted_engine.MIDDLE)
    alike = timed.where(np.zeros(len(timed), dtype=int))
    with pytest.raises(CalibrationError, match="nothing can be left out"):
        fit_step([alike], bench, by_llm=False)


def test_prompts_bound_by_memory_are_left_out(planted_engine: Any, bench: Bench) -> None:
    """128 tokens take less arithmetic than their weights take to read on an H100."""
    llms = (planted_engine.SMALL, planted_engine.LARGE)
    fit = fit_prefill([prompts(planted_engine, llm) for llm in llms], bench, by_llm=True)
    assert fit.points == 10
    for constant in fit.constants:
        assert constant.value.mid == pytest.approx(planted_engine.PLANTED[constant.name], rel=0.02)


def test_a_constant_that_nothing_depends_on_keeps_its_prior() -> None:
    measured = np.array([2.0, 4.0, 6.0])
    fit = fit_shrunken(
        lambda values: values[0] * np.array([1.0, 2.0, 3.0]),
        measured,
        [Prior("used", 1.0, 1.0), Prior("unused", 5.0, 0.3)],
    )
    assert fit.values == pytest.approx([2.0, 5.0], rel=1e-3)
    assert fit.log_se[1] == pytest.approx(0.3)


def test_a_bound_is_kept_and_the_rest_fitted_beside_it() -> None:
    x = np.linspace(1.0, 2.0, 20)
    fit = fit_shrunken(
        lambda values: x / values[0] + values[1],
        x / 1.25 + 0.5,
        [Prior("efficiency", 0.9, 0.5, most=1.0), Prior("fixed", 0.1, 2.0)],
    )
    assert fit.values[0] == pytest.approx(1.0)
    assert fit.values[1] == pytest.approx(0.2, abs=0.1)
