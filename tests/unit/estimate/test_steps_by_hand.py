"""Step times worked out by hand from a data sheet of round numbers, and fits of a few points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from capplan.estimate.calibration import fit_step_time, prompt_seconds_per_token
from capplan.estimate.cuda_graphs import UNCAPTURED_OVER_EDGE, step_seconds
from capplan.estimate.datasheet_step import PLANNED_OVERLAP, DatasheetStep, HardwareGroup
from capplan.estimate.engine_rounds import fit_engine
from capplan.estimate.fitted_step import FittedStep
from capplan.estimate.served_step import ServedStep
from capplan.estimate.steptime import verify_seconds
from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.schema.cells import Phase, Role, TimingCell
from capplan.schema.lengths import FixedLength, LognormalLength
from capplan.schema.llm import LlmSpec

CATALOG = load_catalog()
LLAMA_8B = CATALOG.llm("meta-llama/Llama-3.1-8B-Instruct")
ENGINE = load_engine("vllm").model_copy(
    update={
        "weight_bandwidth_efficiency": 0.5, "kv_bandwidth_efficiency": 0.25,
        "loop_flops_efficiency": 0.8, "loop_attention_efficiency": 0.1,
        "prompt_flops_efficiency": 0.5, "prompt_attention_efficiency": 0.2,
        "exchange_efficiency": 0.5, "verify_flops_efficiency": {"default": 0.4},
        "decoded_token_cost": 1.5, "layer_s": 1e-5, "request_s": 2e-5,
        "decode_relative_se": {"default": 0.2, "hopper": 0.09},
    }
)  # fmt: skip
GPU = CATALOG.gpu("h100-sxm-80gb").model_copy(
    update={
        "memory_bytes_per_s": 1e12, "bf16_flops_per_s": 1e14, "fp8_flops_per_s": 2e14,
        "interconnect_bytes_per_s": 2e11,
    }
)  # fmt: skip
LLM = LLAMA_8B.model_copy(
    update={
        "params_total": 1e9, "params_active": 1e9, "weight_bytes": 2e9, "weight_bytes_active": 2e9,
        "layers": 10, "hidden": 1000, "cache": (), "kv_bytes_per_token": 1e4, "kv_heads": 8,
        "heads": None,
    }
)  # fmt: skip


def step(llm: LlmSpec = LLM, tp: int = 1, axes: int = 1) -> DatasheetStep:
    return DatasheetStep(llm, HardwareGroup.of([(GPU, tp)], ENGINE, axes=axes), ENGINE)


def exchange_s(tp: int) -> float:
    """Two all-reduces in ten layers of 1,000 elements of two bytes, at half of half the link."""
    return 2 * 10 * 1000 * 2 * 2 * (tp - 1) / tp / 1e11 / 0.5


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize("batch", [1, 30])
def test_a_decode_step(tp: int, batch: int) -> None:
    # 2 GB at half a terabyte a second, 10 kB of KV a token at a quarter of one
    read = 2e9 / (tp * 5e11)
    kv = batch * 1e4 / tp * 700 / 2.5e11
    token = 1.5 / 0.8 * 2e9 / (tp * 1e14) + exchange_s(tp) + 2e-5
    found = step(tp=tp).seconds(batch, 1, 700)
    assert float(found.item()) == pytest.approx(10 * 1e-5 + read + kv + batch * token)


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize(("batch", "tokens"), [(1, 4), (30, 4), (30, 1)])
def test_what_a_verification_adds(tp: int, batch: int, tokens: int) -> None:
    read, row = 2e9 / (tp * 5e11), 2e9 / (tp * 1e14) / 0.4

    def beyond(rows: int) -> float:
        return (read**1.5 + (rows * row) ** 1.5) ** (1 / 1.5) - read

    extra = step(tp=tp).extra(batch, tokens, 700)
    assert PLANNED_OVERLAP == 1.5
    assert float(np.squeeze(extra.experts)) == 0.0
    assert float(np.squeeze(extra.arithmetic)) == pytest.approx(
        beyond(batch * tokens) - beyond(batch), abs=1e-15
    )
    assert float(np.squeeze(extra.exchange)) == pytest.approx(
        batch * (tokens - 1) * exchange_s(tp)
    )


def test_experts_that_more_tokens_touch_are_read_and_arithmetic_begins_after_them() -> None:
    # 4 of 16 experts a token, 0.1 GB each beside 0.4 GB that all share
    moe = LLM.model_copy(
        update={"experts": 16, "experts_per_token": 4, "weight_bytes": 2e9,
                "weight_bytes_active": 0.8e9, "params_total": 1e9, "params_active": 0.4e9}
    )  # fmt: skip
    like = ENGINE.expert_correlation.mid

    def read_s(rows: int) -> float:
        touched = 16 * (1 - (1 - 4 / 16) ** (1 + like * (rows - 1)))
        return (0.4e9 + touched * 0.1e9) / 5e11

    def beyond(rows: int) -> float:
        return (read_s(rows) ** 1.5 + (rows * 0.8e9 / 1e14 / 0.4) ** 1.5) ** (1 / 1.5) - read_s(
            rows
        )

    extra = step(moe).extra(5, 3, 0)
    assert float(np.squeeze(extra.experts)) == pytest.approx(read_s(15) - read_s(5))
    assert float(np.squeeze(extra.arithmetic)) == pytest.approx(beyond(15) - beyond(5))
    assert float(np.squeeze(step(moe).seconds(1, 1, 0))) == pytest.approx(
        1e-4 + 0.8e9 / 5e11 + 1.5 / 0.8 * 0.8e9 / 1e14 + 2e-5
    )


@pytest.mark.parametrize(("bytes_a_param", "peak"), [(1.1, 2e14), (1.0, 2e14), (1.11, 1e14)])
def test_a_prompt_alone_and_among_others(bytes_a_param: float, peak: float) -> None:
    llm = LLM.model_copy(update={"weight_bytes": bytes_a_param * 1e9})
    # attention of a prompt token: 4 x 1,000 x 10 layers x half of 400
    scores = 4 * 1000 * 10 * 200
    alone = 400 * (2e9 / (0.5 * peak) + scores / (0.2 * 1e14)) / 2
    assert float(step(llm, 2).prompt_seconds(400.0).item()) == pytest.approx(alone)
    met = 400 * (2e9 / (0.8 * peak) + scores / (0.1 * 1e14)) / 2 + 400 * exchange_s(2)
    assert float(step(llm, 2).interference_seconds(400.0).item()) == pytest.approx(met)


def test_columns_of_hardware() -> None:
    slow = GPU.model_copy(update={"fp8_flops_per_s": None, "arch": "volta",
                                  "interconnect_bytes_per_s": None})  # fmt: skip
    group = HardwareGroup.of([(GPU, 1), (slow, 4)], ENGINE)
    assert group.tensor_parallel.shape == (2, 1, 1)
    assert group.tensor_parallel.ravel().tolist() == [1, 4]
    assert group.fp8_flops_per_s.ravel().tolist() == [2e14, 1e14]
    assert group.link_bytes_per_s.ravel().tolist() == [2e11, 6.4e10]
    assert group.decode_relative_se.ravel().tolist() == [0.09, 0.2]
    assert (
        DatasheetStep(LLM, group, ENGINE).relative_se.tolist() == group.decode_relative_se.tolist()
    )


# ---- fitted steps

FITTED = FittedStep(1.0, 0.5, 0.25, 0.125, 0.001, 0.01, 0.02)


def test_a_single_row_alone_is_no_matrix_product() -> None:
    assert float(FITTED.seconds(1, 1, 0)) == 1.25
    assert float(FITTED.seconds(2, 1, 0)) == 1.0 + 0.5 + 0.5
    assert float(FITTED.seconds(1, 2, 0)) == 1.0 + 0.5 + 0.25 + 0.125
    assert float(FITTED.seconds(3, 2, 100)) == pytest.approx(1 + 0.5 + 0.75 + 0.375 + 0.3)
    assert float(FITTED.extra(3, 2, 100).total) == pytest.approx(0.375)
    assert float(FITTED.prompt_seconds(50)) == float(FITTED.interference_seconds(50)) == 0.5
    # of four rounds one verifies two drafts
    found = verify_seconds(FITTED, 2, 2.0, 0.25, 0)
    assert float(found) == pytest.approx(0.25 * 2.5 + 0.75 * 2.0)


def test_a_prompt_of_which_a_share_is_cached_takes_the_rest_of_its_work() -> None:
    step_ = step()
    served = ServedStep(step_, 0.0, None, 0.25)
    whole, known = step_.prompt_seconds(400.0).item(), step_.prompt_seconds(100.0).item()
    assert float(served.prompt_seconds(400.0).item()) == pytest.approx(whole - known)
    plain = ServedStep(step_)
    assert float(plain.prompt_seconds(400.0).item()) == pytest.approx(whole)
    assert float(plain.seconds(2, 1, 90).item()) == float(step_.seconds(2, 1, 90).item())
    longer = ServedStep(step_, 60.0)
    assert float(longer.seconds(2, 1, 90).item()) == float(step_.seconds(2, 1, 150).item())
    # lengths about another mean keep their proportion
    spread = ServedStep(step_, prompt_lengths=LognormalLength(median_tokens=100.0, sigma=0.8))
    double = ServedStep(step_, prompt_lengths=LognormalLength(median_tokens=200.0, sigma=0.8))
    mean = 100.0 * math.exp(0.32)
    assert float(spread.prompt_seconds(2 * mean).item()) == pytest.approx(
        float(double.prompt_seconds(2 * mean).item())
    )
    one = ServedStep(step_, prompt_lengths=FixedLength(tokens=70.0))
    assert float(one.prompt_seconds(400.0).item()) == pytest.approx(whole)


def test_without_graphs_a_step_takes_5_steps_at_the_edge_and_at_least_its_own_time() -> None:
    assert UNCAPTURED_OVER_EDGE.low == 1.1
    found = step_seconds([1.0, 40.0], 2.0, [513, 513], 512)
    assert [each.tolist() for each in found] == [[2.2, 40.0], [10.4, 40.0], [30.0, 40.0]]
    assert [float(each) for each in step_seconds(1.0, 2.0, 512, 512)] == [1.0, 1.0, 1.0]


# ---- a few points


def cell(seconds: float, batch: int = 1, tokens: int = 1, context: int = 100,
         phase: Phase = Phase.DECODE) -> TimingCell:  # fmt: skip
    return TimingCell(
        role=Role.TARGET, phase=phase, batch=batch, tokens_per_sequence=tokens, context=context,
        seconds=(seconds,), verdict={"stability": "stable"},
    )  # fmt: skip


def fitted(synthetic: Any, *cells: TimingCell) -> FittedStep:
    found = fit_step_time(synthetic.profile(timing=cells, acceptance=())[0], Role.TARGET)
    assert found is not None
    return found


def test_three_points_tell_a_step_and_its_sequences(synthetic: Any) -> None:
    # more terms would pass through all three and leave none to check
    found = fitted(synthetic, cell(1.2), cell(1.8, 4), cell(2.6, 8))
    assert found.per_token_s == found.several_rows_s == found.per_context_s == 0.0
    assert (found.fixed_s, found.per_sequence_s) == (pytest.approx(1.0), pytest.approx(0.2))
    assert found.relative_se == pytest.approx(0.0, abs=1e-9)
    assert found.prefill_s_per_token == 0.0


def test_tokens_come_before_the_jump_to_several_rows_and_that_before_contexts(
    synthetic: Any,
) -> None:
    cells = [cell(1.2), cell(1.4, 2), cell(1.6, 2, 2, phase=Phase.VERIFY),
             cell(2.2, 4, 3, phase=Phase.VERIFY)]  # fmt: skip
    four = fitted(synthetic, *cells)
    assert four.several_rows_s == four.per_context_s == 0.0
    assert four.per_token_s > 0
    twice = {"tokens": 2, "phase": Phase.VERIFY}
    jump = [cell(1.2), cell(1.9, 2), cell(2.3, 4), cell(2.1, 2, **twice), cell(2.7, 4, **twice),
            cell(2.7, 4, context=900, **twice)]  # fmt: skip
    five = fitted(synthetic, *jump)
    assert five.several_rows_s == pytest.approx(0.5)
    assert (five.per_sequence_s, five.per_token_s) == (pytest.approx(0.2), pytest.approx(0.1))


def test_prompts_cost_what_the_best_of_them_did(synthetic: Any) -> None:
    prompts = (cell(1.0, 1, 100, phase=Phase.PREFILL), cell(1.2, 2, 100, phase=Phase.PREFILL))
    profile = synthetic.profile(timing=(cell(1.2), *prompts), acceptance=())[0]
    assert prompt_seconds_per_token(profile, Role.TARGET, 9.0) == pytest.approx(0.006)
    assert prompt_seconds_per_token(profile, Role.DRAFT, 9.0) == 9.0


def test_an_engines_four_points_tell_four_terms(synthetic: Any) -> None:
    cells = (cell(1.1, 1), cell(1.4, 4), cell(2.3, 1, 3, phase=Phase.ROUND),
             cell(3.2, 4, 3, phase=Phase.ROUND))  # fmt: skip
    fit = fit_engine(synthetic.profile(draft="ngram", timing=cells, acceptance=())[0])
    # 1 + 0.1 B, and with drafts 1 + 0.1 N B more
    assert fit.draft is None
    assert fit.round_s == pytest.approx(1.0)
    assert (fit.target.fixed_s, fit.target.per_sequence_s) == pytest.approx((1.0, 0.1))
    assert (fit.target.per_token_s, fit.target.per_extra_pass_s) == pytest.approx((0.1, 0.0))
    model = fit_engine(synthetic.profile(timing=cells, acceptance=())[0])
    assert model.draft is not None
    assert (model.draft.per_sequence_s, model.draft.fixed_s) == pytest.approx((0.1, 0.0))
    assert (model.target.per_token_s, model.target.per_extra_pass_s) == (0.0, 0.0)
    assert model.draft.per_token_s == model.draft.per_context_s == 0.0
    assert model.draft.several_rows_s == model.draft.prefill_s_per_token == 0.0
