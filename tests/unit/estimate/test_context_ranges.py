"""Where rounds stood, acceptance by context and by hour."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from capplan.estimate.context_ranges import by_context
from capplan.estimate.drift import by_hour
from capplan.estimate.replay import replay_per_start, replay_per_token
from capplan.estimate.round_places import round_places
from capplan.schema.observation import Flag, Observation, SpeculationCounts

REQUESTS, TOKENS, PROMPT = 6, 40, 100


def offsets() -> Any:
    return np.arange(REQUESTS + 1, dtype=np.int64) * TOKENS


@pytest.mark.parametrize("n", [1, 3, 8])
def test_the_places_of_a_drafts_rounds_add_up_to_the_replay(synthetic: Any, n: int) -> None:
    accept = np.random.default_rng(2).random(REQUESTS * TOKENS).astype(np.float32)
    arrays = {"acceptance/0/offsets": offsets(), "acceptance/0/accept_greedy": accept}
    places = round_places(synthetic.acceptance_cell(REQUESTS, TOKENS), 0, arrays, n)
    counts = replay_per_token(accept, offsets(), n)
    by_request = np.bincount(places.request, places.rounds)
    assert by_request == pytest.approx(counts.rounds)
    assert np.bincount(places.request, places.emitted) == pytest.approx(counts.emitted)


@pytest.mark.parametrize("n", [1, 3, 8])
def test_the_places_of_a_lookups_rounds_add_up_to_the_replay(synthetic: Any, n: int) -> None:
    accepted = np.random.default_rng(2).integers(0, 6, REQUESTS * TOKENS).astype(np.uint8)
    arrays = {"acceptance/0/offsets": offsets(), "acceptance/0/accepted": accepted}
    cell = synthetic.acceptance_cell(REQUESTS, TOKENS, trace_kind="per_start")
    places = round_places(cell, 0, arrays, n)
    counts = replay_per_start(accepted, accepted, offsets(), n)
    assert np.bincount(places.request, places.rounds) == pytest.approx(counts.rounds)
    assert np.bincount(places.request, places.emitted) == pytest.approx(counts.emitted)


def engine_profile(synthetic: Any, rounds: int, fall_from: int, *, own_prompts: bool) -> Any:
    """Return an engine's rounds that accept all 3 drafts, and none from a round on."""
    accepted = np.where(np.arange(rounds) < fall_from, 3, 0).astype(np.uint8)
    both = np.concatenate([accepted, accepted])
    arrays = {
        "acceptance/0/offsets": np.array([0, rounds, 2 * rounds]),
        "acceptance/0/drafted": np.full(2 * rounds, 3, dtype=np.uint8),
        "acceptance/0/accepted": both,
    }
    if own_prompts:
        arrays["acceptance/0/prompt_tokens"] = np.array([100, 3000], dtype=np.int32)
    cell = synthetic.acceptance_cell(
        2, int(both[:rounds].sum()) + rounds, trace_kind="per_round",
        max_num_speculative_tokens=3, prompt_tokens=200,
    )  # fmt: skip
    return synthetic.profile(acceptance=(cell,))[0], arrays


def test_acceptance_that_falls_with_the_context_shows_where_it_falls(synthetic: Any) -> None:
    profile, arrays = engine_profile(
        synthetic, 200, 103, own_prompts=False
    )  # at 100 + 1 + 4 * 103
    (table,) = by_context(profile, arrays, 8)
    values = {row.label: row.tokens_per_round.mid for row in table.rows}
    assert values["0-255 tokens"] == 4.0
    assert values["512-1,023 tokens"] == 1.0
    assert all(row.num_speculative_tokens == 3 for row in table.rows)  # the engine ran no more
    assert "mean of each task" in table.notes[0]


def test_each_requests_own_prompt_is_used_where_it_is_known(synthetic: Any) -> None:
    profile, arrays = engine_profile(synthetic, 300, 300, own_prompts=True)
    (table,) = by_context(profile, arrays, 3)
    assert table.notes == ()
    assert {row.label for row in table.rows} == set()  # one request alone gives no interval
    arrays["acceptance/0/prompt_tokens"] = np.array([3000, 3000], dtype=np.int32)
    (table,) = by_context(profile, arrays, 3)
    assert [row.label for row in table.rows] == ["2,048-4,095 tokens", "4,096-8,191 tokens"]


def window(hour: float, accepted: float, **more: Any) -> Observation:
    return Observation(
        source="server",
        format="prometheus",
        started_at=f"2026-01-02T{int(hour):02d}:{int(hour % 1 * 60):02d}:00Z",
        duration_s=60.0,
        completed=10,
        prompt_tokens=10_000,
        output_tokens=1_000,
        speculation=SpeculationCounts(
            num_speculative_tokens=3, drafts=1000, drafted=3000, accepted=accepted, rounds=1000
        ),
        **more,
    )


def test_a_server_that_loses_acceptance_by_the_hour_is_seen(synthetic: Any) -> None:
    rng = np.random.default_rng(5)
    seen = tuple(window(k / 2, 1500 - 40 * k + 10 * rng.standard_normal()) for k in range(16))
    profile, _ = synthetic.profile(acceptance=(), observations=seen)
    table = by_hour(profile)
    assert len(table.rows) == 8
    assert table.trend is not None
    assert table.trend.declines
    assert table.trend.per_hour.low < -0.08 < table.trend.per_hour.high
    assert table.rows[0].tokens_per_round.mid > table.rows[-1].tokens_per_round.mid


def test_one_window_is_no_trend_and_flagged_ones_do_not_count(synthetic: Any) -> None:
    flag = Flag(check="resets", text="restarted", unusable_for=("acceptance",))
    seen = (window(0, 1500), *(window(k, 500, flags=(flag,)) for k in range(1, 9)))
    profile, _ = synthetic.profile(acceptance=(), observations=seen)
    table = by_hour(profile)
    assert table.trend is None
    assert "no trend from 1 windows" in table.notes[0]
    (context,) = by_context(profile, {}, 3)
    assert [row.label for row in context.rows] == ["1,024-2,047 tokens"]
