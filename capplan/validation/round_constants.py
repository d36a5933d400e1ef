"""Factors of a plan's rounds, fitted to published runs with the plan's own step times."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from capplan.estimate.datasheet_step import DatasheetStep, HardwareGroup
from capplan.estimate.decoding import DecodeSetting, decode_work
from capplan.estimate.planned_round import RoundParts
from capplan.estimate.pooling import PooledFit, Work, fit_pooled
from capplan.estimate.round_cost import (
    HEAD_BYTES_PER_PARAM,
    PLANNED_FACTORS,
    ROUND_NOISE,
    MachineRound,
    diluted,
    planned_groups,
)
from capplan.schema.engine import ROUND_TERMS, EngineConstants, RoundConstants
from capplan.schema.llm import LlmSpec
from capplan.validation.decode_rows import decode_steps, fit_decode
from capplan.validation.round_rows import KnownRun, known_runs, timed_rounds
from capplan.validation.rows import PublishedRows
from capplan.validation.specs import Specs

SCATTER_DENSE, SCATTER_MOE = 0.06, 0.10
"""Relative, of a round about the fit: what is left of runs whose own source was fitted."""


@dataclass(frozen=True)
class PlannedRounds:
    """Published runs as a plan of one engine computes them."""

    runs: tuple[KnownRun, ...]
    works: tuple[Work, ...]
    decode: PooledFit

    @classmethod
    def of(cls, rows: PublishedRows, specs: Specs, engine: EngineConstants) -> PlannedRounds:
        """Take the runs whose machine is known.

        The plain step is the engine's by its constants. Where the source timed decode steps of an
        engine of its own (MagicDec), it is the pooled fit of those.
        """
        runs = (*known_runs(rows, specs), *timed_rounds(rows, specs))
        steps = decode_steps(rows, specs)
        timed, own = {step.source for step in steps}, fit_decode(steps)
        works = [_work(run, engine, own if run.source in timed else None) for run in runs]
        return cls(runs, tuple(works), own)

    def constants(self, engine: EngineConstants, left_out: str | None = None) -> RoundConstants:
        """Fit the factors of an engine to all runs but those of one source."""
        kept = [
            i
            for i, run in enumerate(self.runs)
            if run.source != left_out and run.shows_its_round(self.decode)
        ]
        fit = fit_pooled(
            PLANNED_FACTORS,
            [self.works[i] for i in kept],
            [self.runs[i].round_ratio for i in kept],
            ROUND_NOISE,
        )
        return _constants(fit, engine.id)


def _constants(fit: PooledFit, engine: str) -> RoundConstants:
    """Return the engine's factors, and how far those of a deployment never measured may lie."""
    group, unseen = ("engine", engine), planned_groups(engine, "")
    values, log_sd = {}, {}
    for at, name in enumerate(ROUND_TERMS):
        pick = np.zeros(len(fit.deviations))
        pick[[fit.positions[at, one] for one in ((), group) if (at, one) in fit]] = 1.0
        beyond = sum(sd**2 for one, sd in unseen[at] if (at, one) not in fit)
        values[name] = fit.factor(name, group)
        log_sd[name] = float(np.sqrt(pick @ fit.covariance @ pick + beyond))
    return RoundConstants(
        values=values, log_sd=log_sd, scatter_dense=SCATTER_DENSE, scatter_moe=SCATTER_MOE
    )


def _work(run: KnownRun, engine: EngineConstants, own: PooledFit | None) -> Work:
    machine, target = run.machine, run.machine.target
    step = _step(target, engine)
    decode = step.seconds(target.batch, 1.0, target.context)
    if own is not None:
        decode = np.full_like(decode, own.predict(decode_work(target)).value)
    parts = RoundParts(
        decode_s=decode,
        extra=step.extra(target.batch, machine.verified, target.context),
        drafting_s=machine.drafted * np.full_like(decode, _draft_pass_s(machine, engine, own)),
        passes=np.full_like(decode, machine.drafted),
        is_head=machine.draft is None,
    )
    amounts = parts.amounts()
    in_steps = [float(amounts[name].item()) for name in ROUND_TERMS]
    return Work(
        diluted(in_steps, float(decode.item()), machine.prefill_s, machine.tokens_per_round),
        planned_groups(target.engine, machine.deployment),
    )


def _draft_pass_s(machine: MachineRound, engine: EngineConstants, own: PooledFit | None) -> float:
    """Return a draft pass without its fixed cost: scheduling is paid once, by the target."""
    alone = engine.model_copy(update={"request_s": 0.0})
    draft = machine.draft
    if draft is None:
        target = machine.target
        head = _head(target.llm, machine.head_params or 0.0)
        return _seconds(replace(target, llm=head, bytes_per_param=HEAD_BYTES_PER_PARAM), alone)
    return own.predict(decode_work(draft)).value if own is not None else _seconds(draft, alone)


def _seconds(setting: DecodeSetting, engine: EngineConstants) -> float:
    return float(_step(setting, engine).seconds(setting.batch, 1.0, setting.context).item())


def _step(setting: DecodeSetting, engine: EngineConstants) -> DatasheetStep:
    """Return the step in the number format that was served."""
    llm = setting.llm
    scale = setting.bytes_per_param * llm.params_total / llm.weight_bytes
    served = llm.model_copy(
        update={
            "weight_bytes": llm.weight_bytes * scale,
            "weight_bytes_active": llm.weight_bytes_active * scale,
        }
    )
    group = HardwareGroup.of([(setting.gpu, int(setting.tensor_parallel))], engine, axes=0)
    return DatasheetStep(served, group, engine)


def _head(target: LlmSpec, params: float) -> LlmSpec:
    """Return a head of one layer in the target's shape."""
    kept = next((group for group in target.cache if group.grows), None)
    cache = () if kept is None else (kept.model_copy(update={"layers": 1}),)
    kv = target.kv_bytes_per_token
    size = params * HEAD_BYTES_PER_PARAM
    return target.model_copy(
        update={
            "params_total": params,
            "params_active": params,
            "weight_bytes": size,
            "weight_bytes_active": size,
            "layers": 1,
            "experts": None,
            "experts_per_token": None,
            "cache": cache,
            "kv_bytes_per_token": kv / target.layers if kv is not None else None,
        }
    )
