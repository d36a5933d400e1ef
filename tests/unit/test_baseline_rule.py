"""``capplan watch --baseline``: a live window beside an earlier profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capplan.api.baseline import baseline_rule
from capplan.errors import ProfileInvalidError
from capplan.profiles.store import StoredProfile
from capplan.schema.measured_setup import Backend
from capplan.schema.observation import Load, Observation, SpeculationCounts, Spread
from capplan.schema.verdict import Stability
from capplan.schema.watching import ServedFigures


def figures(tokens: float, **more: Any) -> ServedFigures:
    fields: dict[str, Any] = {
        "software": "vllm",
        "model": "org/target",
        "engines": 1,
        "window_s": 60.0,
        "num_speculative_tokens": 3,
        "drafts": 5000.0,
        "draft_share": 1.0,
        "acceptance_rate": (tokens - 1) / 3,
        "tokens_per_round": tokens,
    }
    return ServedFigures(**(fields | more))


def traced(synthetic: Any, **more: Any) -> StoredProfile:
    """Return a profile of 0.6 acceptance a token: 2.18 tokens a round at N = 3."""
    profile, arrays = synthetic.profile(requests=30, tokens_each=200, **more)
    each = np.clip(0.6 + 0.05 * np.random.default_rng(1).standard_normal(30), 0, 1)
    arrays["acceptance/0/accept_greedy"] = np.repeat(each, 200).astype(np.float32)
    return StoredProfile(profile, arrays, Path("p.json"))


def checks(rule: Any, seen: ServedFigures) -> list[tuple[str, str]]:
    return [(notice.level, notice.check) for notice in rule(seen)]


def test_a_window_like_the_profile_says_nothing(synthetic: Any) -> None:
    assert checks(baseline_rule(traced(synthetic)), figures(2.17)) == []


def test_fewer_accepted_tokens_are_an_alarm_and_more_an_advice(synthetic: Any) -> None:
    rule = baseline_rule(traced(synthetic))
    assert checks(rule, figures(1.6)) == [("alarm", "acceptance_left_baseline")]
    assert checks(rule, figures(2.9)) == [("advice", "acceptance_above_baseline")]
    (notice,) = rule(figures(1.6))
    assert "1.60 tokens a round" in notice.text
    assert "capplan diff" in notice.remedy


def test_few_rounds_are_not_judged(synthetic: Any) -> None:
    assert checks(baseline_rule(traced(synthetic)), figures(1.2, drafts=50.0)) == []


def test_a_slow_step_is_an_alarm_against_an_engine_and_not_against_torch(synthetic: Any) -> None:
    seen = figures(2.17, batch=4.0, step_s=0.5, context_tokens=500.0)
    assert checks(baseline_rule(traced(synthetic)), seen) == []
    engine = traced(synthetic, backend=Backend(name="vllm", version="0.33"))
    assert checks(baseline_rule(engine), seen) == [("alarm", "step_left_baseline")]


def observed(synthetic: Any) -> StoredProfile:
    seen = tuple(
        Observation(
            source="server",
            format="prometheus",
            load=Load(mean_concurrency=4.0 + k / 10),
            step_s=Spread(mean=0.020 + 0.0001 * k),
            speculation=SpeculationCounts(
                num_speculative_tokens=3,
                drafts=2000,
                drafted=6000,
                accepted=2400 + 20 * k,
                rounds=2000,
            ),
        )
        for k in range(6)
    )
    profile, _ = synthetic.profile(timing=(), acceptance=(), observations=seen)
    return StoredProfile(profile, {}, Path("seen.json"))


def test_windows_of_a_server_are_a_baseline_too(synthetic: Any) -> None:
    rule = baseline_rule(observed(synthetic))
    assert checks(rule, figures(2.2, batch=4.2, step_s=0.0201)) == []
    assert checks(rule, figures(1.5, batch=4.2, step_s=0.030)) == [
        ("alarm", "acceptance_left_baseline"),
        ("alarm", "step_left_baseline"),
    ]
    # at a batch that was never seen no step is invented
    assert checks(rule, figures(2.2, batch=40.0, step_s=0.030)) == []


def test_an_invalid_profile_is_no_baseline(synthetic: Any) -> None:
    with pytest.raises(ProfileInvalidError, match="no baseline"):
        baseline_rule(traced(synthetic, stability=Stability.INVALID))
