"""Why candidates were left out, counted by reason, each with an example and a remedy."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from capplan.planning.candidates import Candidate
from capplan.planning.drafting import Blocked
from capplan.planning.hardware import Evaluated
from capplan.schema.llm import LlmSpec
from capplan.schema.plan import PlanRequest, Rejection
from capplan.units import BYTES_PER_GIB, MS_PER_S


@dataclass
class RejectionLog:
    """Counts rejections; the first example of a reason is kept."""

    _counts: dict[str, int] = field(default_factory=dict)
    _texts: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, reason: str, example: str, remedy: str, count: int = 1) -> None:
        """Count rejected candidates of one reason."""
        self._counts[reason] = self._counts.get(reason, 0) + count
        self._texts.setdefault(reason, (example, remedy))

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
            memory = grid.memory
            need = request.workload.prompt_tokens + request.workload.output_tokens + 1
            kv = float(memory.kv_bytes_per_token[h, 0, 0])
            short = (need - float(memory.kv_tokens[h, 0, 0])) * kv / BYTES_PER_GIB
            log.add(
                "memory",
                f"{label}: one request of {need} tokens lacks {short:.1f} GiB a GPU",
                "A larger tensor-parallel size, a GPU with more memory, or shorter requests.",
            )
        elif not (grid.fits_memory & grid.within_tpot)[h].any():
            best = float(grid.tpot_s[h].min()) * MS_PER_S
            log.add(
                "tpot",
                f"{label}: TPOT is {best:.1f} ms at best, limit {request.slo.tpot_ms:g} ms",
                "A larger tensor-parallel size, a faster GPU, or a looser --slo-tpot.",
            )
        else:
            best = float(grid.ttft_s[h].min()) * MS_PER_S
            log.add(
                "ttft",
                f"{label}: TTFT is {best:.0f} ms at best, limit {request.slo.ttft_ms or 0:g} ms",
                "A faster GPU, shorter prompts, or a looser --slo-ttft.",
            )


def log_over_budget(log: RejectionLog, over: list[Candidate], budget_usd_per_month: float) -> None:
    """Record candidates that cost more than the budget; the cheapest is the example."""
    if not over:
        return
    cheapest = min(over, key=lambda candidate: candidate.usd_month)
    choice = cheapest.evaluated.choices[cheapest.hardware_index]
    log.add(
        "budget",
        f"{cheapest.replicas} replica(s) of {choice.tensor_parallel} x {choice.gpu_name} at "
        f"{cheapest.price.provider} cost {cheapest.usd_month:,.0f} USD a month, "
        f"budget {budget_usd_per_month:,.0f}",
        "A larger budget, a smaller load, spot or community prices (--tier), or your own price "
        "(--gpu-price).",
        count=len(over),
    )


def _label(target: LlmSpec, evaluated: Evaluated) -> str:
    drafting = evaluated.drafting
    return target.id if drafting.draft_id is None else f"{target.id} + {drafting.draft_id}"
