"""The cost ratio of a pair from data sheets: an interval, as engines launch drafts unequally."""

from __future__ import annotations

from capplan.estimate.steptime import DatasheetStep, HardwareGroup
from capplan.schema.engine import EngineConstants
from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec
from capplan.schema.pair import CostRatio
from capplan.schema.quantity import Quantity
from capplan.units import MS_PER_S

DEFAULT_CONTEXT = 1024


def estimate_cost_ratio(
    target: LlmSpec,
    draft: LlmSpec,
    gpu: GpuSpec,
    tensor_parallel: int,
    context: int | None,
    engine: EngineConstants,
) -> CostRatio | None:
    """Return one draft pass over one target step, for one request; None if KV is unknown.

    Tier ``datasheet`` (docs/method/steptime.md): 4-8 % off for a target's step, and a factor of
    twenty between engines for the fixed cost of a draft pass, which the interval shows.
    """
    if target.kv_bytes_per_token is None or draft.kv_bytes_per_token is None:
        return None
    group = HardwareGroup.of([(gpu, tensor_parallel)], engine)
    at = DEFAULT_CONTEXT if context is None else context
    step_s = float(DatasheetStep(target, group, engine).seconds(1, 1, at).item())
    # scheduling a request is paid once a round, by the target
    alone = engine.model_copy(update={"request_s": 0.0})
    pass_s = float(DatasheetStep(draft, group, alone).seconds(1, 1, at).item())
    fixed = engine.draft_pass_s
    low_s, mid_s, high_s = pass_s + fixed.low, pass_s + fixed.mid, pass_s + fixed.high
    return CostRatio(
        ratio=Quantity(low=low_s / step_s, mid=mid_s / step_s, high=high_s / step_s),
        gpu=gpu.id,
        tensor_parallel=tensor_parallel,
        context=at,
        draft_pass_ms=Quantity(low=low_s * MS_PER_S, mid=mid_s * MS_PER_S, high=high_s * MS_PER_S),
        target_step_ms=step_s * MS_PER_S,
    )
