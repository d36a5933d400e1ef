"""Parts of an engine's calibration: priors, bounds, what is left out and what is refused.

One constant is enough to follow a whole fit by hand: passes that take so many layers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from capplan.errors import CalibrationError
from capplan.estimate import engine_fit
from capplan.estimate.engine_fit import Bench, fit_prefill, fit_step, with_constants
from capplan.estimate.pass_timings import PassTimings, chosen, splits
from capplan.estimate.shrunken_fit import Prior


@pytest.fixture
def bench(planted_engine: Any) -> Bench:
    return Bench(planted_engine.GPU, planted_engine.ENGINE.model_copy(update={"layer_s": 1e-5}))


def layers(timings: PassTimings, gpu: Any, engine: Any) -> np.ndarray:
    """Predict a pass of nothing but layers, one a sequence."""
    return np.asarray(timings.batch * engine.layer_s)


def one_constant(bench: Bench) -> engine_fit._Fit:
    return engine_fit._Fit(layers, {"layer_s": "layer"}, bench)


def passes(llm: Any, batch: list[float], seconds: list[float]) -> PassTimings:
    ones = np.ones(len(batch))
    return PassTimings(llm, 1, np.array(batch), ones, ones * 100, np.array(seconds))


# ---- priors and bounds


def test_priors_are_the_shipped_constants_with_the_spread_of_published_engines(
    bench: Bench,
) -> None:
    fit = engine_fit._Fit(layers, engine_fit._STEP_TERMS | engine_fit._EXCHANGE_TERMS, bench)
    found = {prior.name: prior for prior in fit._priors()}
    spreads = {
        "layer_s": 1.0, "weight_bandwidth_efficiency": 0.25, "kv_bandwidth_efficiency": 0.3,
        "verify_flops_efficiency": 0.7, "decoded_token_cost": 0.7, "request_s": 1.5,
        "exchange_efficiency": 1.0,
    }  # fmt: skip
    assert {name: prior.log_sd for name, prior in found.items()} == spreads
    for name, prior in found.items():
        assert prior.most == (1.0 if name.endswith("efficiency") else math.inf)
        assert prior.least == (1.0 if name == "decoded_token_cost" else 1e-12)
    engine = bench.engine
    assert found["layer_s"].value == 1e-5
    assert found["verify_flops_efficiency"].value == engine.verify_flops_efficiency["hopper"]
    prompts = engine_fit._Fit(layers, engine_fit._PREFILL_TERMS, bench)._priors()
    assert [(prior.name, prior.log_sd) for prior in prompts] == [
        ("prompt_flops_efficiency", 0.7), ("prompt_attention_efficiency", 0.7),
    ]  # fmt: skip


def test_a_measured_verification_voids_the_factor_of_other_machines(bench: Bench) -> None:
    fitted = with_constants(bench.engine, {"verify_flops_efficiency": 0.5, "layer_s": 7e-5})
    assert fitted.verify_flops_efficiency == {"default": 0.5}
    assert fitted.layer_s == 7e-5
    assert (fitted.rounds.values["arithmetic"], fitted.rounds.log_sd["arithmetic"]) == (1.0, 0.0)
    other = with_constants(bench.engine, {"layer_s": 7e-5})
    assert other.verify_flops_efficiency == bench.engine.verify_flops_efficiency
    assert other.rounds == bench.engine.rounds


@pytest.mark.parametrize(
    ("prior", "value", "low", "high"),
    [
        (Prior("kv_bandwidth_efficiency", 0.9, 0.3, most=1.0), 0.95, 0.95 * math.exp(-0.196), 1.0),
        (Prior("decoded_token_cost", 1.5, 0.7, least=1.0), 1.05, 1.0, 1.05 * math.exp(0.196)),
        (Prior("kv_bandwidth_efficiency", 0.9, 0.3, most=1.0), 1.0, math.exp(-0.196), 1.0),
        (Prior("layer_s", 1e-5, 1.0), 2e-5, 2e-5 * math.exp(-0.196), 2e-5 * math.exp(0.196)),
    ],
)
def test_an_interval_ends_where_its_constant_may_end(
    bench: Bench, prior: Prior, value: float, low: float, high: float
) -> None:
    found = one_constant(bench)._constant(prior, value, 0.1)
    assert (found.value.low, found.value.mid, found.value.high) == pytest.approx(
        (low, value, high)
    )
    assert (found.name, found.shipped) == (prior.name, prior.value)


# ---- what is left out


def test_passes_are_left_out_by_value_or_by_llm(planted_engine: Any) -> None:
    small, large = planted_engine.SMALL, planted_engine.LARGE
    first = PassTimings(small, 1, np.array([1.0, 2.0]), np.ones(2), np.array([500.0, 2000.0]),
                        np.ones(2))  # fmt: skip
    second = PassTimings(large, 1, np.array([2.0]), np.ones(1), np.array([500.0]), np.ones(1))
    found = {name: [mask.tolist() for mask in masks] for name, masks in
             splits([first, second], by_llm=False)}  # fmt: skip
    assert found == {
        "batch 1": [[True, False], [False]],
        "batch 2": [[False, True], [True]],
        "context 500": [[True, False], [True]],
        "context 2,000": [[False, True], [False]],
    }
    by_llm = dict(splits([first, second], by_llm=True))
    assert list(by_llm) == [small.id, large.id]
    assert [mask.tolist() for mask in by_llm[large.id]] == [[False, False], [True]]
    kept = chosen([first, second], by_llm[large.id])
    assert [(one.llm.id, len(one), one.context.tolist()) for one in kept] == [
        (large.id, 1, [500.0])
    ]


def test_what_never_varies_is_not_left_out_and_hides_nothing(planted_engine: Any) -> None:
    ones = np.ones(2)
    timings = PassTimings(planted_engine.SMALL, 1, ones, ones * [1, 4], ones * 100, ones)
    found = [name for name, _ in splits([timings], by_llm=False)]
    assert found == ["tokens a pass 1", "tokens a pass 4"]


def test_a_fit_and_its_check_by_hand(planted_engine: Any, bench: Bench) -> None:
    # three times the shipped constant, off by +1, -1 and 0 % at one batch each
    factors = np.array([1.01, 1 / 1.01, 1.0])
    batch = [1.0, 2.0, 4.0]
    timings = passes(planted_engine.SMALL, batch, list(3e-5 * np.array(batch) * factors))
    found = one_constant(bench).checked([timings], by_llm=False)
    assert (found.points, [group.group for group in found.groups]) == (
        3, ["batch 1", "batch 2", "batch 4"],
    )  # fmt: skip
    off = math.log(1.01)
    # what the two others say on average, beside what was left out; the prior draws a little
    errors = [1.5 * off, 1.5 * off, 0.0]
    assert [group.held_out_error for group in found.groups] == pytest.approx(errors, abs=3e-4)
    assert [group.points for group in found.groups] == [1, 1, 1]
    shipped = [math.log(3) + off, math.log(3) - off, math.log(3)]
    assert [group.datasheet_error for group in found.groups] == pytest.approx(shipped)
    assert found.held_out_error == pytest.approx(math.sqrt(2 / 3) * 1.5 * off, rel=1e-2)
    assert found.datasheet_error == pytest.approx(math.sqrt(float(np.mean(np.square(shipped)))))
    assert found.fit_error == pytest.approx(math.sqrt(2 / 3) * off, rel=1e-3)
    (constant,) = found.constants
    assert constant.value.mid == pytest.approx(3e-5, rel=1e-3)
    # the scatter with one degree taken, over three passes
    se = off / math.sqrt(3)
    assert constant.value.high == pytest.approx(3e-5 * math.exp(1.96 * se), rel=1e-3)


def test_groups_count_by_their_passes() -> None:
    assert engine_fit._rms(np.array([0.3, -0.4])) == pytest.approx(math.sqrt(0.125))
    assert engine_fit._pooled([0.1, 0.2], [1, 3]) == pytest.approx(math.sqrt(0.13 / 4))


# ---- what is refused


@pytest.mark.parametrize(
    ("held_out", "datasheet", "refused"),
    [(0.1, 0.1001, ""), (0.1, 0.1, "no better"), (0.2, 0.5, ""), (0.2001, 0.5, "no efficiencies")],
)
def test_a_check_must_be_better_than_what_is_shipped_and_good_enough(
    bench: Bench, held_out: float, datasheet: float, refused: str
) -> None:
    assert bench.engine.decode_relative_se["default"] == 0.2
    fit = one_constant(bench)
    if not refused:
        fit._check_worth(held_out, datasheet)
        return
    with pytest.raises(CalibrationError, match=refused):
        fit._check_worth(held_out, datasheet)


def test_a_pass_more_than_constants_is_the_least(planted_engine: Any, bench: Bench) -> None:
    one = passes(planted_engine.SMALL, [1.0], [3e-5])
    with pytest.raises(
        CalibrationError, match="1 usable timed passes; a calibration needs at lea"
    ):
        one_constant(bench).checked([one], by_llm=False)
    two = passes(planted_engine.SMALL, [1.0, 2.0], [3e-5, 6e-5])
    assert one_constant(bench).checked([two], by_llm=False).points == 2
    alike = passes(planted_engine.SMALL, [2.0, 2.0], [3e-5, 6e-5])
    with pytest.raises(CalibrationError, match="nothing can be"):
        one_constant(bench).checked([alike], by_llm=False)


@pytest.mark.parametrize(("tp", "least"), [(1, 7), (2, 8)])
def test_a_group_of_gpus_has_a_constant_more(
    planted_engine: Any, bench: Bench, tp: int, least: int
) -> None:
    few = replace(passes(planted_engine.SMALL, [1.0], [1.0]), tensor_parallel=tp)
    with pytest.raises(CalibrationError, match=f"needs at least {least}"):
        fit_step([few], bench, by_llm=False)
    with pytest.raises(CalibrationError, match="needs at least 3"):
        fit_prefill([few], bench, by_llm=False)
