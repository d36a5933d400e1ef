"""Why candidates were left out, counted by reason, each with an example and a remedy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from capplan.economics.decimals import dollars
from capplan.estimate.kvcache import uneven_heads
from capplan.planning.candidates import Candidate
from capplan.planning.drafting import Blocked
from capplan.planning.hardware import Evaluated
from capplan.schema.llm import LlmSpec
from capplan.schema.plan import PlanRequest, Rejection
from capplan.units import BYTES_PER_GIB, MS_PER_S

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MORE_MEMORY = "A larger tensor-parallel size, a GPU with more memory, or shorter requests."
_FASTER = "A larger tensor-parallel size, a faster GPU"
_MORE_HOST_MEMORY = "A host with more memory, or shorter requests."


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
        wanted = self.wants(reason, miss)
        self._counts[reason] = self._counts.get(reason, 0) + count
        if wanted:
            self._texts[reason], self._misses[reason] = (example, remedy), miss

    def wants(self, reason: str, miss: float = math.inf) -> bool:
        """Whether an example would be kept: searches reject thousands and show one a reason."""
        return reason not in self._texts or miss < self._misses[reason]

    def add_blocked(self, blocked: Blocked, note: Callable[[], str]) -> None:
        """Count a way to draft that cannot be planned; the note is made where it is shown."""
        said = note() if self.wants(blocked.reason) else ""
        self.add(blocked.reason, blocked.text + said, blocked.remedy)

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


_NEAREST_FIRST = ("ttft", "tpot", "memory")
"""What candidates fail of that come nearest to a plan: in the order in which they are checked."""
_OF_A_DRAFT = frozenset(
    {"acceptance_unknown", "draft_unknown", "head_mismatch", "vocabulary", "vocabulary_padded"}
)
"""Why a draft is left out; never why the target cannot be served without one."""


def nearest_miss(rejections: Sequence[Rejection]) -> Rejection:
    """Return the rejection of what came nearest to a plan, however few failed so."""

    def distance(one: Rejection) -> tuple[bool, int]:
        known = one.reason in _NEAREST_FIRST
        place = _NEAREST_FIRST.index(one.reason) if known else len(_NEAREST_FIRST)
        return one.reason in _OF_A_DRAFT, place

    return min(rejections, key=distance)


def log_infeasible(
    log: RejectionLog, target: LlmSpec, evaluated: Evaluated, request: PlanRequest
) -> None:
    """Record every hardware choice on which no batch and length is feasible."""
    grid = evaluated.grid
    lacking = np.flatnonzero(~grid.feasible.any(axis=(1, 2)))
    if not lacking.size:
        return
    no_room = ~grid.fits_memory[lacking].any(axis=(1, 2))
    in_time = grid.fits_memory[lacking] & grid.within_tpot[lacking]
    too_slow = ~no_room & ~in_time.any(axis=(1, 2))
    _log_memory(log, target, evaluated, lacking[no_room])
    _log_tpot(log, target, evaluated, lacking[too_slow], request)
    _log_ttft(log, target, evaluated, lacking[~no_room & ~too_slow], request)


def _log_memory(
    log: RejectionLog, target: LlmSpec, evaluated: Evaluated, hardware: Integers
) -> None:
    if not hardware.size:
        return
    more = _MORE_HOST_MEMORY if evaluated.on_cpu else _MORE_MEMORY
    grid = evaluated.grid
    lacking = np.broadcast_to(
        grid.request_bytes[:, 0, 0] - grid.memory.kv_pool_bytes[:, 0, 0], grid.shape[:1]
    )[hardware]
    h, miss = int(hardware[lacking.argmin()]), float(lacking.min())
    example = ""
    if log.wants("memory", miss):
        example = f"{_where(target, evaluated, h)}: {_lacking(evaluated, h)}"
    log.add("memory", example, more, count=len(hardware), miss=miss)


def _log_tpot(
    log: RejectionLog,
    target: LlmSpec,
    evaluated: Evaluated,
    hardware: Integers,
    request: PlanRequest,
) -> None:
    faster = "A faster host" if evaluated.on_cpu else _FASTER
    if not hardware.size:
        return
    h, best = _nearest_ms(evaluated.grid.tpot_s, hardware)
    log.add(
        "tpot",
        f"{_where(target, evaluated, h)}: TPOT is {best:.1f} ms at best, "
        f"limit {request.slo.tpot_ms:g} ms",
        f"{faster}, or a looser --slo-tpot.",
        count=len(hardware),
        miss=best,
    )


def _log_ttft(
    log: RejectionLog,
    target: LlmSpec,
    evaluated: Evaluated,
    hardware: Integers,
    request: PlanRequest,
) -> None:
    if not hardware.size:
        return
    h, best = _nearest_ms(evaluated.grid.ttft_s, hardware)
    log.add(
        "ttft",
        f"{_where(target, evaluated, h)}: TTFT is {best:.0f} ms at best, "
        f"limit {request.slo.ttft_ms or 0:g} ms",
        f"A faster {evaluated.unit}, shorter prompts, or a looser --slo-ttft.",
        count=len(hardware),
        miss=best,
    )


def _nearest_ms(seconds: Floats, hardware: Integers) -> tuple[int, float]:
    """Return the choice that came nearest to its limit, and its best time."""
    best = seconds[hardware].min(axis=(1, 2))
    at = int(best.argmin())
    return int(hardware[at]), float(best[at]) * MS_PER_S


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
    """Say what does not fit on a GPU or a CPU host, and by how much."""
    memory = evaluated.grid.memory
    pool = float(memory.kv_pool_bytes[h, 0, 0])
    weights = float((memory.target_weight_bytes + memory.draft_weight_bytes)[h, 0, 0])
    usable = float(memory.usable_bytes[h, 0, 0])
    if weights > usable:
        return (
            f"weights alone take {weights / BYTES_PER_GIB:.1f} GiB a {evaluated.unit}, "
            f"the engine lacks {(weights - usable) / BYTES_PER_GIB:.1f} GiB for them"
        )
    if pool <= 0:
        return (
            f"weights and run time leave no room for KV, "
            f"it lacks {-pool / BYTES_PER_GIB:.1f} GiB a {evaluated.unit} before the first token"
        )
    need = float(evaluated.grid.request_bytes[h, 0, 0])
    return (
        f"one request of {evaluated.grid.request_tokens[0, 0]:,.0f} tokens needs "
        f"{need / BYTES_PER_GIB:.1f} GiB of KV a {evaluated.unit}, "
        f"it lacks {(need - pool) / BYTES_PER_GIB:.1f}"
    )


def log_over_budget(
    log: RejectionLog, cheapest: Candidate, count: int, budget_usd_per_month: float
) -> None:
    """Record candidates that cost more than the budget; the cheapest is the example."""
    choice = cheapest.evaluated.choices[cheapest.hardware_index]
    replicas = "1 replica" if cheapest.replicas == 1 else f"{cheapest.replicas:,} replicas"
    log.add(
        "budget",
        f"{replicas} of {choice.tensor_parallel} x {choice.gpu_name} at "
        f"{cheapest.price.provider} cost {dollars(cheapest.usd_month)} USD a month, "
        f"budget {dollars(budget_usd_per_month)}",
        "A larger budget, a smaller load, spot or community prices (--tier), or your own price "
        "(--gpu-price).",
        count=count,
    )


def _where(target: LlmSpec, evaluated: Evaluated, h: int) -> str:
    choice = evaluated.choices[h]
    return f"{_label(target, evaluated)} on {choice.tensor_parallel} x {choice.gpu_name}"


def _label(target: LlmSpec, evaluated: Evaluated) -> str:
    drafting = evaluated.drafting
    return target.id if drafting.draft_id is None else f"{target.id} + {drafting.draft_id}"
