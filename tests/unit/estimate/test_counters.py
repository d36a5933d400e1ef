"""Engine counters: definitions that must not be mixed up."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.counters import (
    AcceptanceCounters,
    round_ratio_bounds,
    tokens_per_round_from_cumulative,
)


def test_the_bonus_token_is_counted_in_tokens_a_round_and_not_in_the_rate() -> None:
    counters = AcceptanceCounters(rounds=100, drafted=400, accepted=150)
    assert counters.tokens_per_round == 2.5
    assert counters.acceptance_rate == 0.375
    assert counters.tokens_per_round == 1 + counters.acceptance_rate * 4


def test_output_gives_the_rounds_where_they_were_not_counted() -> None:
    assert AcceptanceCounters.from_output(1000, 900, 600).rounds == 400


def test_cumulative_rates_add_up_to_the_accepted_tokens() -> None:
    assert tokens_per_round_from_cumulative([0.7, 0.5, 0.2]) == pytest.approx(2.4)
    assert tokens_per_round_from_cumulative([]) == 1.0


def test_speeds_alone_bound_the_round_by_nothing_and_everything_accepted() -> None:
    low, high = round_ratio_bounds(0.8, 4)
    assert (low, high) == (1.25, 6.25)
    for tokens in np.linspace(1, 5, 9):
        assert low <= tokens / 0.8 <= high
