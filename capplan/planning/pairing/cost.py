"""The cost ratio of a pair from data sheets: an interval, as engines launch drafts unequally."""

from __future__ import annotations

import numpy as np

from capplan.estimate.datasheet_step import DatasheetStep, HardwareGroup
from capplan.estimate.planned_round import RoundFactors, cost_ratio
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
    twenty between engines for the fixed cost of a draft pass, which the interval shows. The very
    figure of a plan at the same point.
    """
    if target.kv_bytes_per_token is None or draft.kv_bytes_per_token is None:
        return None
    group = HardwareGroup.of([(gpu, tensor_parallel)], engine)
    at = DEFAULT_CONTEXT if context is None else context
    step_s = float(DatasheetStep(target, group, engine).seconds(1, 1, at).item())
    # scheduling a request is paid once a round, by the target
    alone = engine.model_copy(update={"request_s": 0.0})
    pass_s = float(DatasheetStep(draft, group, alone).seconds(1, 1, at).item())
    low, mid, high = cost_ratio(
        np.asarray(pass_s),
        np.asarray(step_s),
        engine.draft_pass_s,
        RoundFactors.of(engine.rounds, moe=target.is_moe),
        is_head=draft.head is not None,
    )
    ratio = Quantity(low=float(low), mid=float(mid), high=float(high))
    return CostRatio(
        ratio=ratio,
        gpu=gpu.id,
        tensor_parallel=tensor_parallel,
        context=at,
        draft_pass_ms=ratio.scaled(step_s * MS_PER_S),
        target_step_ms=step_s * MS_PER_S,
    )
