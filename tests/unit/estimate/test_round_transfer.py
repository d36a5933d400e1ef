"""Round ratios carried to settings that were not run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from capplan.estimate.round_transfer import MeasuredRound, RoundSetting, transfer_round_ratio

BASE = RoundSetting("head", "chain", 3.0, 4.0, "chat", 0.0, 2.5)


def measured(ratio: float, **changes: object) -> MeasuredRound:
    return MeasuredRound(replace(BASE, **changes), ratio)  # type: ignore[arg-type] - test values


def test_another_draft_says_nothing() -> None:
    assert transfer_round_ratio([measured(1.3, draft="other")], BASE) is None
    assert transfer_round_ratio([measured(1.3, method="tree")], BASE) is None
    assert transfer_round_ratio([], BASE) is None


def test_other_tasks_of_the_same_setting_give_their_mean() -> None:
    rounds = [measured(r, task=t) for r, t in ((1.30, "code"), (1.32, "maths"), (1.31, "news"))]
    found = transfer_round_ratio(rounds, BASE)
    assert found is not None
    assert found.mid == pytest.approx(1.31, rel=0.005)
    low, high = found.interval_90()
    assert 0.9 * 1.31 < low < 1.31 < high < 1.1 * 1.31


def test_a_longer_draft_costs_a_longer_round_along_the_measured_line() -> None:
    # vLLM issue 20780, EAGLE-1 on Llama-3.1-8B: rounds of 1.298 and 1.817 steps at N = 2 and 7
    rounds = [
        measured(1.298, num_speculative_tokens=2.0, verified_tokens=3.0, tokens_per_round=2.10),
        measured(1.817, num_speculative_tokens=7.0, verified_tokens=8.0, tokens_per_round=2.47),
    ]
    published = {3: (2.29, 1.390), 4: (2.39, 1.514), 5: (2.43, 1.619), 6: (2.45, 1.712)}
    for n, (tokens, ratio) in published.items():
        wanted = replace(
            BASE,
            num_speculative_tokens=float(n),
            verified_tokens=n + 1.0,
            tokens_per_round=tokens,
        )
        found = transfer_round_ratio(rounds, wanted)
        assert found is not None
        assert found.mid == pytest.approx(ratio, rel=0.05)


def test_one_measured_length_is_enough_to_say_that_longer_is_dearer() -> None:
    found = transfer_round_ratio([measured(1.3)], replace(BASE, num_speculative_tokens=7.0))
    assert found is not None
    assert 1.35 < found.mid < 1.8
    low, high = found.interval_90()
    assert high / low > 1.15  # and it says that it is not sure


def test_a_task_that_costs_more_at_one_length_costs_more_at_another() -> None:
    tasks = {"code": 1.0, "maths": 1.0, "news": 1.0, "slow": 1.3}
    rounds = [
        measured(
            factor * (1.1 + 0.08 * n),
            task=task,
            num_speculative_tokens=n,
            verified_tokens=n + 1,
        )
        for task, factor in tasks.items()
        for n in (3.0, 5.0, 7.0)
        if (task, n) != ("slow", 5.0)
    ]
    wanted = replace(BASE, task="slow", num_speculative_tokens=5.0, verified_tokens=6.0)
    found = transfer_round_ratio(rounds, wanted)
    assert found is not None
    assert found.mid == pytest.approx(1.3 * 1.5, rel=0.03)


def test_end_to_end_rounds_grow_with_what_they_emit() -> None:
    # speedups diluted by a prefill of 10 % of the time: 1/x = 0.1 + 0.9 * 1.3 / tau
    def diluted(tokens: float) -> float:
        return tokens * (0.1 + 0.9 * 1.3 / tokens)

    known = {"a": 1.8, "b": 2.2, "c": 2.6, "d": 3.0, "e": 2.4}
    rounds = [measured(diluted(t), task=name, tokens_per_round=t) for name, t in known.items()]
    found = transfer_round_ratio(rounds, replace(BASE, task="new", tokens_per_round=3.8))
    assert found is not None
    flat = float(np.mean([diluted(t) for t in known.values()]))
    assert abs(found.mid - diluted(3.8)) < 0.4 * abs(flat - diluted(3.8))


def test_lengths_that_were_not_published_are_taken_as_equal() -> None:
    rounds = [
        measured(1.3, task=task, num_speculative_tokens=None, verified_tokens=None)
        for task in ("code", "news")
    ]
    found = transfer_round_ratio(
        rounds, replace(BASE, num_speculative_tokens=None, verified_tokens=None)
    )
    assert found is not None
    assert found.mid == pytest.approx(1.3, rel=0.01)
