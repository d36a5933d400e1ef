"""What a round of a plan costs in decode steps, how far that may be off, and because of what.

    round / decode = step + (round + experts + arithmetic + exchange + N draft passes) / decode

each term a data-sheet time with a factor learnt from published rounds (``RoundConstants``). The
error of the ratio splits by term, so that a plan can say what would have to be measured.
docs/method/steptime.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.steptime import VerificationExtra
from capplan.estimate.uncertainty import Z_95
from capplan.schema.engine import ROUND_TERMS, RoundConstants
from capplan.schema.plan import SpreadCause
from capplan.schema.quantity import Quantity

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

CAUSES: Mapping[str, SpreadCause] = {
    "step": SpreadCause.ROUND,
    "round_s": SpreadCause.ROUND,
    "experts": SpreadCause.EXPERTS,
    "arithmetic": SpreadCause.VERIFICATION,
    "exchange": SpreadCause.EXCHANGE,
    "head": SpreadCause.DRAFT_PASSES,
    "draft": SpreadCause.DRAFT_PASSES,
    "draft_pass_s": SpreadCause.DRAFT_PASSES,
}
"""What a reader would call the terms."""


@dataclass(frozen=True)
class RoundParts:
    """Times of one round at the data sheet's rates; every array broadcasts.

    Attributes
    ----------
    decode_s
        A plain step at the same batch and context.
    extra
        What verification adds to it.
    drafting_s
        All draft passes of the round, without the fixed cost of each.
    passes
        Draft passes of the round.
    is_head
        Whether a head drafts; another LLM does otherwise.
    """

    decode_s: Floats
    extra: VerificationExtra
    drafting_s: Floats
    passes: Floats
    is_head: bool

    def amounts(self) -> dict[str, Floats]:
        """Return the work of each term in decode steps, at a factor of 1."""
        drafting, none = self.drafting_s / self.decode_s, np.zeros_like(self.decode_s)
        return {
            "step": np.ones_like(self.decode_s),
            "round_s": 1.0 / self.decode_s,
            "experts": self.extra.experts / self.decode_s,
            "arithmetic": self.extra.arithmetic / self.decode_s,
            "exchange": self.extra.exchange / self.decode_s,
            "head": drafting if self.is_head else none,
            "draft": none if self.is_head else drafting,
            "draft_pass_s": self.passes / self.decode_s,
        }

    def at(self, hardware: Indices, length: Indices, shape: tuple[int, ...]) -> RoundParts:
        """Return some (hardware, N) of arrays that broadcast to ``shape``, a row each."""

        def rows(values: Floats) -> Floats:
            return np.broadcast_to(values, shape)[hardware, length]

        return RoundParts(
            decode_s=rows(self.decode_s),
            extra=VerificationExtra(
                rows(self.extra.experts), rows(self.extra.arithmetic), rows(self.extra.exchange)
            ),
            drafting_s=rows(self.drafting_s),
            passes=rows(self.passes),
            is_head=self.is_head,
        )


@dataclass(frozen=True)
class RoundFactors:
    """Factors of the terms, and the standard deviations of their logarithms."""

    values: Mapping[str, float]
    log_sd: Mapping[str, float]
    scatter: float
    """Relative, about the factors."""

    def expected(self, name: str) -> float:
        """Return the mean of a factor: what it costs on average, above the likeliest value."""
        return float(self.values[name] * np.exp(self.log_sd[name] ** 2 / 2.0))

    def ends(self, name: str) -> tuple[float, float]:
        """Return the 95 % interval of a factor."""
        reach = float(np.exp(Z_95 * self.log_sd[name]))
        return self.values[name] / reach, self.values[name] * reach

    @classmethod
    def of(cls, constants: RoundConstants, *, moe: bool) -> RoundFactors:
        """Take an engine's constants for a dense LLM or a mixture of experts."""
        scatter = constants.scatter_moe if moe else constants.scatter_dense
        return cls(constants.values, constants.log_sd, scatter)

    @classmethod
    def measured(cls, round_s: float, relative_se: float) -> RoundFactors:
        """Take passes as measured, a round's own work beside them, and one error for it all."""
        values = dict.fromkeys(ROUND_TERMS, 1.0) | {"round_s": round_s, "draft_pass_s": 0.0}
        return cls(values, dict.fromkeys(ROUND_TERMS, 0.0), relative_se)


@dataclass(frozen=True)
class RoundRatio:
    """A round in decode steps.

    Attributes
    ----------
    value
        The ratio.
    log_down, log_up
        How far the 95 % interval reaches below and above, as logarithms. It reaches further up: a
        cost that may be five times as large can be no smaller than nothing.
    causes
        Share of the squared reach upwards, the side on which speculation loses, by cause.
    """

    value: Floats
    log_down: Floats
    log_up: Floats
    causes: Mapping[SpreadCause, Floats]


def expected_round(parts: RoundParts, factors: RoundFactors) -> Floats:
    """Return the ratio alone: what a search needs of every point."""
    extra, expected = parts.extra, factors.expected
    drafting = expected("head" if parts.is_head else "draft") * parts.drafting_s
    spent: Floats = (
        expected("round_s")
        + expected("experts") * extra.experts
        + expected("arithmetic") * extra.arithmetic
        + expected("exchange") * extra.exchange
        + drafting
        + expected("draft_pass_s") * parts.passes
    )
    result: Floats = expected("step") + spent / parts.decode_s
    return result


def round_in_steps(parts: RoundParts, factors: RoundFactors) -> RoundRatio:
    """Return the round ratio, its interval, and what that interval comes from.

    Notes
    -----
    The value is the expected cost: time and money add up over rounds, so their mean is what is
    paid. Each term is moved to the ends of its own interval with the others held, and the moves
    add up in quadrature. Linear error propagation would miss that the factors are log-normal: a
    draft pass varies by ten between deployments.
    """
    amounts = parts.amounts()
    terms = {name: factors.expected(name) * amount for name, amount in amounts.items()}
    value: Floats = np.sum(np.broadcast_arrays(*terms.values()), axis=0)
    up = (value * np.expm1(Z_95 * factors.scatter)) ** 2
    down = (value * np.expm1(-Z_95 * factors.scatter)) ** 2
    causes = {cause: np.zeros(value.shape) for cause in CAUSES.values()}
    causes[SpreadCause.ROUND] = causes[SpreadCause.ROUND] + up
    for name in ROUND_TERMS:
        (low, high), amount = factors.ends(name), amounts[name]
        further = (amount * high - terms[name]) ** 2
        up = up + further
        down = down + (amount * low - terms[name]) ** 2
        causes[CAUSES[name]] = causes[CAUSES[name]] + further
    return RoundRatio(
        value=value,
        log_down=-np.log(np.maximum(1.0 - np.sqrt(down) / value, _LEAST_SHARE)),
        log_up=np.log1p(np.sqrt(up) / value),
        causes={cause: part / np.maximum(up, _TINY) for cause, part in causes.items()},
    )


def cost_ratio(
    draft_s: Floats,
    decode_s: Floats,
    fixed_s: Quantity,
    factors: RoundFactors,
    *,
    is_head: bool,
    relative_se: float = 0.0,
) -> tuple[Floats, Floats, Floats]:
    """Return one draft pass over a plain step: low, mid, high.

    The pass's factor, its fixed cost and the error of both step times are moved to the ends of
    their own intervals, and the moves add up in quadrature, as in a round.

    Parameters
    ----------
    draft_s, decode_s
        The pass without its fixed cost, and the step.
    fixed_s
        Launching a pass.
    relative_se
        Of the ratio of the two times, where both were measured; of data sheets the factor's own
        spread says it.
    """
    term = "head" if is_head else "draft"
    expected, (low, high) = factors.expected(term), factors.ends(term)
    mid: Floats = (expected * draft_s + fixed_s.mid) / decode_s

    def reach(factor: float, end_s: float, log_error: float) -> Floats:
        scaled, launched = (factor - expected) * draft_s, end_s - fixed_s.mid
        moved: Floats = np.hypot(np.hypot(scaled, launched) / decode_s, mid * np.expm1(log_error))
        return moved

    down = reach(low, fixed_s.low, -Z_95 * relative_se)
    up = reach(high, fixed_s.high, Z_95 * relative_se)
    return np.maximum(mid - down, _LEAST_SHARE * mid), mid, mid + up


_LEAST_SHARE = 0.1
_TINY = 1e-300
