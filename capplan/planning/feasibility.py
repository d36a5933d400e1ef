"""Why candidates were left out, counted by reason, each with an example and a remedy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from capplan.estimate.kvcache import uneven_heads
from capplan.planning.candidates import Candidate
from capplan.planning.drafting import Blocked
from capplan.planning.hardware import Evaluated
from capplan.schema.llm import LlmSpec
from capplan.schema.plan import PlanRequest, Rejection
from capplan.units import BYTES_PER_GIB, MS_PER_S

_MORE_MEMORY = "A larger tensor-parallel size, a GPU with more memory, or shorter requests."


@dataclass
class RejectionLog:
    """Counts rejections; of each reason the nearest miss is the example, else the first."""

    _counts: dict[str, int] = field(default_factory=dict)
    _texts: dict[str, tuple[str, str]] = field(default_factory=dict)
    _misses: dict[str, float] = field(default_factory=dict)

    def add(
        self, reason: str, example: str, remedy: str, *, count: int = 1, miss: float = math.inf
    ) -> None:
        """Count rejected candidates of one reason; ``miss`` orders them by how near they came."""
        self._counts[reason] = self._counts.get(reason, 0) + count
        if reason not in self._texts or miss < self._misses[reason]:
            self._texts[reason], self._misses[reason] = (example, remedy), miss

    def add_blocked(self, blocked: Blocked, note: str = "") -> None:
        """Count a way to draft that cannot be planned."""
        self.add(blocked.reason, blocked.text + note, blocked.remedy)

    def rejections(self) -> tuple[Rejection, ...]:
        """Return the reasons, most frequent first."""
        order = sorted(self._counts, key=lambda reason: (-self._counts[reason], reason))
        return tuple(
            Rejection(
                reason=reason,
                count=self._counts[reason],
                example=self._texts[reason][0],
                remedy=self._texts[reason][1],
            )
            for reason in order
        )


def log_infeasible(
    log: RejectionLog, target: LlmSpec, evaluated: Evaluated, request: PlanRequest
) -> None:
    """Record every hardware choice on which no batch and length is feasible."""
    grid = evaluated.grid
    for h in np.flatnonzero(~grid.feasible.any(axis=(1, 2))):
        choice = evaluated.choices[h]
        label = f"{_label(target, evaluated)} on {choice.tensor_parallel} x {choice.gpu_name}"
        if not grid.fits_memory[h].any():
            log.add("memory", f"{label}: {_lacking(evaluated, int(h))}", _MORE_MEMORY)
        elif not (grid.fits_memory & grid.within_tpot)[h].any():
            best = float(grid.tpot_s[h].min()) * MS_PER_S
            log.add(
                "tpot",
                f"{label}: TPOT is {best:.1f} ms at best, limit {request.slo.tpot_ms:g} ms",
                "A larger tensor-parallel size, a faster GPU, or a looser --slo-tpot.",
                miss=best,
            )
        else:
            best = float(grid.ttft_s[h].min()) * MS_PER_S
            log.add(
                "ttft",
                f"{label}: TTFT is {best:.0f} ms at best, limit {request.slo.ttft_ms or 0:g} ms",
                "A faster GPU, shorter prompts, or a looser --slo-ttft.",
                miss=best,
            )


def log_indivisible(log: RejectionLog, llm: LlmSpec, tensor_parallel: int, gpu: str) -> bool:
    """Record a group that cannot split the heads evenly; say whether it is one."""
    odd = uneven_heads(llm, tensor_parallel)
    if not odd:
        return False
    sizes = [size for size in (1, 2, 4, 8, 16) if not uneven_heads(llm, size)]
    log.add(
        "tensor_parallel",
        f"{llm.id} on {tensor_parallel} x {gpu}: {odd} are not divisible by {tensor_parallel}",
        f"A size that divides the heads: {', '.join(map(str, sizes))}.",
    )
    return True


def _lacking(evaluated: Evaluated, h: int) -> str:
    """Say what does not fit on a GPU, and by how much."""
    memory = evaluated.grid.memory
    pool = float(memory.kv_pool_bytes[h, 0, 0])
    weights = float((memory.target_weight_bytes + memory.draft_weight_bytes)[h, 0, 0])
    usable = float(memory.usable_bytes[h, 0, 0])
    if weights > usable:
        return (
            f"weights alone take {weights / BYTES_PER_GIB:.1f} GiB a GPU, "
            f"the engine lacks {(weights - usable) / BYTES_PER_GIB:.1f} GiB for them"
        )
    if pool <= 0:
        return (
            f"weights and run time leave no room for KV, "
            f"it lacks {-pool / BYTES_PER_GIB:.1f} GiB a GPU before the first token"
        )
    need = float(evaluated.grid.request_bytes[h, 0, 0])
    return (
        f"one request of {evaluated.grid.request_tokens[0]:.0f} tokens needs "
        f"{need / BYTES_PER_GIB:.1f} GiB of KV a GPU, it lacks {(need - pool) / BYTES_PER_GIB:.1f}"
    )


def log_over_budget(log: RejectionLog, over: list[Candidate], budget_usd_per_month: float) -> None:
    """Record candidates that cost more than the budget; the cheapest is the example."""
    if not over:
        return
    cheapest = min(over, key=lambda candidate: candidate.usd_month)
    choice = cheapest.evaluated.choices[cheapest.hardware_index]
    replicas = "1 replica" if cheapest.replicas == 1 else f"{cheapest.replicas} replicas"
    log.add(
        "budget",
        f"{replicas} of {choice.tensor_parallel} x {choice.gpu_name} at "
        f"{cheapest.price.provider} cost {cheapest.usd_month:,.0f} USD a month, "
        f"budget {budget_usd_per_month:,.0f}",
        "A larger budget, a smaller load, spot or community prices (--tier), or your own price "
        "(--gpu-price).",
        count=len(over),
    )


def _label(target: LlmSpec, evaluated: Evaluated) -> str:
    drafting = evaluated.drafting
    return target.id if drafting.draft_id is None else f"{target.id} + {drafting.draft_id}"
