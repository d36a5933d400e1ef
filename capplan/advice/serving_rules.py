"""Rules for a server that is running: from a window's figures to a sentence and a remedy.

Two sources meet here. The guide's troubleshooting table and checklist name symptoms, causes and
cures; where its cure no longer exists (a removed option) the rule says what replaces it. Known
problems of engines come from their public issue threads, each with the load and the figures at
which it was reported. A rule reads one window and says at most one thing.
"""

from __future__ import annotations

from collections.abc import Callable

from capplan.advice.engine_rules import (
    memory_is_short,
    outside_cuda_graphs,
    prefix_cache_drops,
    slow_first_token,
    speculation_is_off,
)
from capplan.advice.speculation_rules import (
    acceptance_drifts,
    below_break_even,
    broken_acceptance,
    few_rounds_drafted,
    greedy_when_sampling,
    later_positions_idle,
    low_acceptance,
    slower_than_plain,
    small_speedup,
)
from capplan.schema.watching import Notice, ServedFigures

Rule = Callable[[ServedFigures], Notice | None]

RULES: tuple[Rule, ...] = (
    broken_acceptance,
    low_acceptance,
    slower_than_plain,
    below_break_even,
    acceptance_drifts,
    small_speedup,
    memory_is_short,
    slow_first_token,
    later_positions_idle,
    few_rounds_drafted,
    greedy_when_sampling,
    outside_cuda_graphs,
    prefix_cache_drops,
    speculation_is_off,
)


def notices_for(figures: ServedFigures) -> tuple[Notice, ...]:
    """Return alarms first, then advice, for one window of one model."""
    found = [notice for rule in RULES if (notice := rule(figures)) is not None]
    return tuple(sorted(found, key=lambda notice: notice.level != "alarm"))
