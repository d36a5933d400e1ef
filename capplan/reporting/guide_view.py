"""The guide's formula beside the calibrated estimate, and why the two differ.

The guide divides accepted tokens by the cost of drafting: ``alpha*N / (1 + N*cost_ratio)``.
It counts no bonus token, which makes it too low, and no verification, which makes it too high.
"""

from __future__ import annotations

from dataclasses import dataclass

from capplan.reporting import formatting as fmt
from capplan.schema.plan import PlanOption


@dataclass(frozen=True)
class GuideView:
    """The guide's formula beside the calibrated estimate."""

    guide_speedup: str
    speedup: str
    rows: tuple[tuple[str, str, str], ...]
    """Quantity, by the guide, calibrated."""
    reason: str


def build_guide(best: PlanOption) -> GuideView | None:
    """Return the comparison; None for an option that does not speculate."""
    if best.acceptance is None or best.num_speculative_tokens == 0:
        return None
    return GuideView(
        guide_speedup=fmt.factor(best.guide_speedup),
        speedup=fmt.factor_interval(best.speedup),
        rows=_rows(best),
        reason=_reason(best),
    )


def _rows(best: PlanOption) -> tuple[tuple[str, str, str], ...]:
    length = best.num_speculative_tokens
    rows = []
    if best.acceptance is not None:
        tokens = best.acceptance.tokens_per_round
        accepted = best.acceptance.acceptance_rate.mid * length
        rows.append(
            ("Tokens a round", f"{accepted:.2f} (accepted)", f"{tokens.mid:.2f} (with the bonus)")
        )
    if best.cost_ratio is not None and best.round_ratio is not None:
        draft_only = 1 + length * best.cost_ratio.mid
        rows.append(
            ("Cost of a round, in plain steps", f"{draft_only:.2f}", f"{best.round_ratio.mid:.2f}")
        )
    rows.append(
        ("Speedup", fmt.factor(best.guide_speedup), fmt.factor_interval(best.speedup)),
    )
    return tuple(rows)


def _reason(best: PlanOption) -> str:
    verified = best.num_speculative_tokens + 1
    requests = f"{best.concurrency:,} concurrent request{'s' if best.concurrency > 1 else ''}"
    heavier = (
        "the missing bonus token weighs more here"
        if best.guide_speedup < best.speedup.mid
        else "the missing verification cost weighs more here"
    )
    return (
        "it leaves out the bonus token of every round (too low) and the cost of verifying "
        f"{verified} tokens for {requests} (too high); {heavier}"
    )
