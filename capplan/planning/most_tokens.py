"""Plans without a load: the most output tokens that a budget buys, in words."""

from __future__ import annotations

import math

from capplan.planning.pricing import Load
from capplan.schema.plan import PlanOption, PlanRequest
from capplan.schema.quantity import Quantity
from capplan.units import TOKENS_PER_MILLION

_FIGURES = 3
_SAME = 0.005
"""Relative: below this two plans make as many tokens."""


def asks_for_most_tokens(request: PlanRequest) -> bool:
    """Whether no load is given: whole nodes are then rented up to the budget."""
    return Load.of(request).tokens_per_s is None


def bought(best: PlanOption, request: PlanRequest) -> str:
    """Return a sentence with the tokens of a month, their interval and the bill."""
    tokens = best.output_tokens_per_month
    if tokens is None:
        return ""
    budget, usd = _dollars(request.budget_usd_per_month), _dollars(best.usd_per_month.mid)
    return (
        f"Most output tokens for {budget} USD a month: {_millions(tokens)} at "
        f"{best.utilisation * 100:.0f} % utilisation, for {usd} USD. "
    )


def against_plain(best: PlanOption, plain: PlanOption) -> str:
    """Return how many more tokens the same budget buys than without speculation."""
    tokens, others = best.output_tokens_per_month, plain.output_tokens_per_month
    if tokens is None or others is None:
        return ""
    more = tokens.mid / others.mid - 1.0
    if more < _SAME:
        return ", as many tokens as the best plan without"
    return f", {more * 100:.0f} % more tokens than the best plan without"


def _millions(tokens: Quantity) -> str:
    ends = [value / TOKENS_PER_MILLION for value in (tokens.mid, tokens.low, tokens.high)]
    mid, low, high = (_figures(value) for value in ends)
    return f"{mid} M ({low}-{high} M)"


def _dollars(usd: float) -> str:
    """Return whole dollars, halves up as on the bill."""
    return f"{math.floor(usd + 0.5):,}"


def _figures(value: float) -> str:
    """Return three significant figures: thousands in full, small amounts with decimals."""
    if value <= 0:
        return "0"
    digits = _FIGURES - 1 - math.floor(math.log10(value))
    return f"{round(value, digits):,.{max(digits, 0)}f}"
