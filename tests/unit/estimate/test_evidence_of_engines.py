"""What profiles of engines and lookups show, and where rounds of a trace are compared."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from capplan.errors import CalibrationError, ProfileInvalidError
from capplan.estimate.acceptance import (
    decaying_rates,
    fit_decay,
    tokens_per_round_from_conditional,
)
from capplan.estimate.context_ranges import context_contrasts, traced_ranges
from capplan.estimate.counters import AcceptanceCounters
from capplan.estimate.curves import curve_from_facts
from capplan.estimate.drift import ServedWindow, by_hour, hourly_trend, served_windows
from capplan.estimate.engine_fit import Bench, fit_step
from capplan.estimate.evidence import evidence_from_profile
from capplan.estimate.lengths import FallPrior, LengthSeries, pooled_fall
from capplan.estimate.observed import tokens_per_round
from capplan.estimate.pass_timings import PassTimings
from capplan.estimate.replay import ReplayCounts, replay_per_token
from capplan.estimate.round_overhead import trace_of_rounds
from capplan.estimate.student import student_quantile, two_sided_p
from capplan.estimate.tracing import TracedAcceptance, replay_cell
from capplan.estimate.trees import equal_budget_tree_tokens
from capplan.estimate.uncertainty import LogEstimate
from capplan.schema.measured_setup import EngineDraft
from capplan.schema.observation import Observation, SpeculationCounts

# ---- evidence


def test_a_round_is_its_verification_its_drafts_and_the_overhead(synthetic: Any) -> None:
    evidence = evidence_from_profile(*synthetic.profile())
    target, draft = synthetic.TARGET_TIMES, synthetic.DRAFT_TIMES
    expected = target.seconds(4, 4, 500) + 3 * draft.seconds(4, 1, 500)
    assert evidence.round_seconds(4, 3, 500) == pytest.approx(expected, rel=1e-6)
    assert evidence.round_seconds(4, 0, 500) == pytest.approx(target.seconds(4, 1, 500), rel=1e-6)
    assert evidence.mean_context == 100 + 200 / 2
    lookup = evidence_from_profile(*synthetic.profile(draft="ngram"))
    assert lookup.round_seconds(4, 3, 500) == pytest.approx(target.seconds(4, 4, 500), rel=1e-6)
    assert evidence_from_profile(*synthetic.profile(draft=None)).mean_context == 0.0


def test_traces_with_thinking_are_taken_where_asked_for_and_there(synthetic: Any) -> None:
    arrays = synthetic.trace_arrays(0, 4, 50, 0.9) | synthetic.trace_arrays(1, 4, 50, 0.3)
    cells = (
        synthetic.acceptance_cell(4, 50, thinking=True),
        synthetic.acceptance_cell(4, 50, thinking=False),
    )
    evidence = evidence_from_profile(synthetic.profile(acceptance=cells)[0], arrays)
    values = {
        thinking: evidence.curve(0.0, None, thinking=thinking).at(3)  # type: ignore[union-attr]
        for thinking in (True, False, None)
    }
    assert values[False] < values[None] < values[True]
    plain = evidence_from_profile(*synthetic.profile())
    assert plain.curve(0.0, None, thinking=True) is not None  # nobody asked when it was traced


def test_observations_alone_have_no_step_times(synthetic: Any) -> None:
    seen = Observation(source="metrics.txt", format="prometheus")
    profile, _ = synthetic.profile(observations=(seen,), timing=(), acceptance=())
    with pytest.raises(ProfileInvalidError, match="observations of a served load"):
        evidence_from_profile(profile, {})


def test_an_engines_head_is_named_by_its_checkpoint(synthetic: Any) -> None:
    profile, arrays = synthetic.profile()
    head = profile.model_copy(update={"draft": EngineDraft(method="eagle3", id="org/head")})
    assert evidence_from_profile(head, arrays).draft_id == "org/head"
    assert evidence_from_profile(profile, arrays).draft_id == "org/draft"
    assert evidence_from_profile(*synthetic.profile(draft="ngram")).draft_id == "ngram"
    assert evidence_from_profile(*synthetic.profile(draft=None)).draft_id == ""


def test_rounds_of_a_lookup_are_compared_with_what_its_trace_drafted(synthetic: Any) -> None:
    profile, arrays = synthetic.profile(draft="ngram", requests=4)
    step = synthetic.TARGET_TIMES.seconds(1, 5, 200)  # the trace drafts four tokens always
    cell = synthetic.rounds_cell(4, step + 2e-3)
    none = synthetic.rounds_cell(4, 1.0, rounds=0, drafted=0, accepted=0,
                                 accepted_per_position=(0,) * 4)  # fmt: skip
    evidence = evidence_from_profile(profile.model_copy(update={"rounds": (cell, none)}), arrays)
    assert evidence.round_overhead_s == pytest.approx(2e-3, rel=1e-5)
    # a task that was not traced: every round is taken to verify its mean number of drafts
    other = synthetic.rounds_cell(4, step + 3e-3, task="poems", drafted=300, accepted=50)
    mean = synthetic.TARGET_TIMES.seconds(1, 4, 200)
    evidence = evidence_from_profile(profile.model_copy(update={"rounds": (other,)}), arrays)
    assert evidence.round_overhead_s == pytest.approx(step + 3e-3 - mean, rel=1e-5)


def test_a_single_round_is_a_measurement(synthetic: Any) -> None:
    profile, arrays = synthetic.profile()
    passes = synthetic.TARGET_TIMES.seconds(1, 3, 200) + 2 * synthetic.DRAFT_TIMES.seconds(
        1, 1, 200
    )
    once = synthetic.rounds_cell(2, 1.0, rounds=1, drafted=2, accepted=1, seconds=passes + 4e-3,
                                 accepted_per_position=(1, 0))  # fmt: skip
    evidence = evidence_from_profile(profile.model_copy(update={"rounds": (once,)}), arrays)
    assert evidence.round_overhead_s == pytest.approx(4e-3, rel=1e-5)


def test_a_lookups_curve_knows_every_length(synthetic: Any) -> None:
    curve = evidence_from_profile(*synthetic.profile(draft="ngram")).curve(0.0, None)
    assert curve is not None
    assert curve.draft_share.shape == curve.drafted.shape == curve.tokens_per_round.shape == (17,)
    assert curve.drafted[16] == pytest.approx(4.0, rel=0.05)
    assert curve.draft_sampling is None


def test_rounds_on_all_tasks_at_once_are_those_of_all_traces(synthetic: Any) -> None:
    arrays = synthetic.trace_arrays(0, 4, 50, 0.9) | synthetic.trace_arrays(1, 4, 50, 0.3)
    cells = (synthetic.acceptance_cell(4, 50), synthetic.acceptance_cell(4, 50, task="chat"))
    traces = evidence_from_profile(synthetic.profile(acceptance=cells)[0], arrays).traces
    cell = synthetic.rounds_cell(3, 1.0, task="all", draft_sampling="greedy", requests=2)
    together = trace_of_rounds(cell, traces)
    assert together is not None
    assert len(together.counts[0].rounds) == 8
    own = trace_of_rounds(cell.model_copy(update={"task": "chat"}), traces)
    assert own is not None
    assert len(own.counts[0].rounds) == 2  # the first requests, which were run
    hotter = cell.model_copy(update={"temperature": 1.0})
    assert trace_of_rounds(hotter, traces) is None


# ---- traces


def engine_trace(synthetic: Any, accepted: list[int], n: int) -> TracedAcceptance:
    arrays = {
        "acceptance/0/offsets": np.array([0, len(accepted)]),
        "acceptance/0/drafted": np.full(len(accepted), n, dtype=np.uint8),
        "acceptance/0/accepted": np.array(accepted, dtype=np.uint8),
    }
    cell = synthetic.acceptance_cell(
        1, 9, trace_kind="per_round", max_num_speculative_tokens=n, draft_sampling="greedy"
    )
    return replay_cell(cell, 0, arrays)[0]


def test_beyond_the_length_that_ran_the_fall_is_carried_on(synthetic: Any) -> None:
    trace = engine_trace(synthetic, [3, 2, 1, 0, 3, 3], 3)
    values, errors = trace.curve()
    assert values[3] == trace.tokens_per_round(3)[0] == 3.0
    assert (np.diff(values) > 0).all()
    assert values[16] == trace.tokens_per_round(16)[0]
    assert errors[16] == math.inf  # one request: no spread to begin with
    rate, _ = trace.acceptance_rate(8)
    assert rate == pytest.approx((values[8] - 1) / 8)  # a draft LLM or head drafts all N
    assert trace.acceptance_rate(3)[0] == pytest.approx(12 / 18)
    assert trace.drafting(8) == (1.0, 8.0)
    # heads differ by depth: a shorter round is the first part of the one that ran
    assert trace.counts[1].rounds.tolist() == [6.0]
    assert trace.counts[1].accepted.tolist() == [5.0]


def test_an_engine_that_accepted_nothing_accepts_nothing_beyond(synthetic: Any) -> None:
    trace = engine_trace(synthetic, [0, 0, 0], 2)
    assert trace.acceptance_rate(5)[0] == pytest.approx(0.0, abs=0.05)
    empty = engine_trace(synthetic, [], 2)
    values, errors = empty.curve()
    assert np.isnan(values).all()
    assert np.isnan(errors).all()
    assert empty.drafting(2) == (0.0, 0.0)
    assert empty.acceptance_rate(5) == (0.0, 0.0)


def test_counts_of_some_requests_and_of_several_texts() -> None:
    offsets = np.array([0, 10, 30, 45])
    counts = replay_per_token(np.full(45, 0.5), offsets, 3)
    first = counts.of_first(2)
    assert first.rounds.tolist() == counts.rounds[:2].tolist()
    assert first.accepted_per_position.shape == (2, 3)
    joined = ReplayCounts.joined([first, counts])
    assert joined.emitted.tolist() == [9, 19, 9, 19, 14]
    assert joined.accepted_per_position.shape == (5, 3)


@pytest.mark.parametrize(("first", "ratio"), [(0.8, 0.9), (0.6, 1.0), (0.9, 0.7), (0.5, 1.1)])
def test_a_decay_that_was_planted_is_fitted(first: float, ratio: float) -> None:
    curve = tokens_per_round_from_conditional(decaying_rates(first, ratio, 7))
    fitted = fit_decay([1, 3, 5], curve[[1, 3, 5]])
    assert fitted == pytest.approx((first, ratio), abs=2e-3)
    again = tokens_per_round_from_conditional(decaying_rates(*fitted, 7))
    assert again[7] == pytest.approx(curve[7], rel=2e-3)


# ---- contexts and hours


def placed(
    synthetic: Any, accepted: list[int], requests: int = 2, prompt_tokens: int = 100
) -> Any:
    flat = np.array(accepted * requests, dtype=np.uint8)
    arrays = {
        "acceptance/0/offsets": np.arange(requests + 1) * len(accepted),
        "acceptance/0/drafted": np.full(len(flat), 3, dtype=np.uint8),
        "acceptance/0/accepted": flat,
    }
    cell = synthetic.acceptance_cell(
        requests, 10, trace_kind="per_round", max_num_speculative_tokens=3,
        prompt_tokens=prompt_tokens * requests,
    )  # fmt: skip
    return synthetic.profile(acceptance=(cell,))[0], arrays


def test_contexts_of_two_profiles_are_compared_range_by_range(synthetic: Any) -> None:
    before = traced_ranges(*placed(synthetic, [3] * 100), 3)
    after = traced_ranges(*placed(synthetic, [3] * 50 + [0] * 200), 3)
    rows = context_contrasts(before, after)
    assert [row.label for row in rows] == [
        "0-255 tokens, temperature 0", "256-511 tokens, temperature 0",
    ]  # fmt: skip
    assert (rows[0].before, rows[0].after) == (4.0, pytest.approx(4.0, abs=0.2))
    assert rows[1].before == 4.0
    assert rows[1].after < 3
    assert rows[1].difference == pytest.approx(rows[1].after - 4)
    assert rows[1].samples == (2, 2)
    assert not rows[1].paired
    shorter = traced_ranges(*placed(synthetic, [3] * 100), 2)
    assert context_contrasts(before, shorter) == []  # another N: nothing to compare


def test_ranges_in_which_nothing_stood_are_left_out(synthetic: Any) -> None:
    long = traced_ranges(*placed(synthetic, [3] * 50, prompt_tokens=600), 3)
    assert [row.label for row in context_contrasts(long, long)] == [
        "512-1,023 tokens, temperature 0"
    ]


def test_a_range_begins_with_its_lower_end(synthetic: Any) -> None:
    # prompts of 5 tokens on average, rounds of one token each: contexts 6 to 305
    (ranges,) = traced_ranges(*placed(synthetic, [0] * 300), 3)
    assert ranges.edges == [0.0, 256.0, 512.0]
    low, high = ranges.ratio(0, 256)[1], ranges.ratio(256, 512)[1]
    first = 600 - high
    assert low == first
    contexts = ranges.places.context
    assert high == (contexts >= 256).sum()
    assert (contexts == 256).sum() == 2


def test_a_context_at_an_edge_has_a_range_of_its_own(synthetic: Any) -> None:
    (ranges,) = traced_ranges(*placed(synthetic, [0] * 156), 3)
    assert ranges.places.context.max() == 256
    assert ranges.edges == [0.0, 256.0, 512.0]


def window(at: str = "2026-01-02T00:00:00Z", **more: Any) -> Observation:
    values: dict[str, Any] = {
        "source": "server", "format": "prometheus", "started_at": at, "duration_s": 600.0,
        "speculation": SpeculationCounts(
            num_speculative_tokens=3, drafts=100, drafted=300, accepted=150
        ),
    }  # fmt: skip
    return Observation(**(values | more))


def test_windows_know_their_hour_and_their_context() -> None:
    one = window(completed=10, prompt_tokens=1000, output_tokens=100)
    found = served_windows([one, window("2026-01-02T03:30:00Z"), window("")])
    assert [each.hour for each in found] == [0.0, 3.5, None]
    assert [each.context for each in found] == [105.0, None, None]
    assert found[0].rounds == 100
    assert found[0].num_speculative_tokens == 3
    assert served_windows([window(speculation=None)]) == []


def test_the_middle_of_a_window_is_its_hour() -> None:
    long = window("2026-01-02T01:00:00Z", duration_s=7200.0)
    assert served_windows([window(duration_s=None), long])[1].hour == pytest.approx(2.0)


def test_without_windows_there_is_no_clock(synthetic: Any) -> None:
    table = by_hour(synthetic.profile()[0])
    assert table.rows == ()
    assert table.trend is None
    assert "a trace has no clock" in table.notes[0]


def test_a_short_watch_is_told_in_quarters(synthetic: Any) -> None:
    seen = tuple(window(f"2026-01-02T00:{minute:02d}:00Z") for minute in (0, 10, 20, 30, 40))
    table = by_hour(synthetic.profile(acceptance=(), observations=seen)[0])
    assert [row.samples for row in table.rows] == [1, 1, 1, 2]
    assert table.rows[-1].high == pytest.approx(40 / 60)
    assert table.trend is not None
    assert table.trend.per_hour.mid == 0.0
    assert table.trend.p_value == 1.0


def test_hours_without_a_window_are_left_out_and_three_windows_tell_their_spread(
    synthetic: Any,
) -> None:
    def counted(accepted: float) -> SpeculationCounts:
        return SpeculationCounts(
            num_speculative_tokens=3, drafts=100, drafted=300, accepted=accepted
        )

    times = ("00:00", "00:10", "00:20", "03:00")
    seen = tuple(
        window(f"2026-01-02T{at}:00Z", speculation=counted(accepted))
        for at, accepted in zip(times, (140, 150, 160, 150), strict=True)
    )
    table = by_hour(synthetic.profile(acceptance=(), observations=seen)[0])
    assert [(row.low, row.samples) for row in table.rows] == [(0.0, 3), (3.0, 1)]
    first, last = (row.tokens_per_round for row in table.rows)
    assert first.mid == last.mid == 2.5
    # a window alone knows its own error, no other
    own = tokens_per_round(counted(150)).log_sd
    assert math.log(last.high / last.mid) == pytest.approx(1.96 * own, rel=0.01)
    # 2.4, 2.5 and 2.6 in 100 rounds each: sqrt(3 / 2 x 200) tokens over 300 rounds of 2.5;
    # Student's 97.5 % quantile of three windows is 4.303
    reach = 4.303 * math.sqrt(1.5 * 200) / 300 / 2.5
    assert math.log(first.high / first.mid) == pytest.approx(reach, rel=0.01)
    assert table.trend is not None
    assert table.trend.windows == 4


@pytest.mark.parametrize("tokens", [1.1, 1.9, 2.3, 2.7, 3.3])
def test_rounding_is_no_decline(tokens: float) -> None:
    trend = hourly_trend([served(h / 7, tokens) for h in range(13)])
    assert trend is not None
    assert (trend.per_hour.low, trend.per_hour.high) == (0.0, 0.0)
    assert not trend.declines
    falling = hourly_trend([served(h, tokens - 1e-6 * h) for h in range(13)])
    assert falling is not None
    assert falling.declines


def served(hour: float, tokens: float, context: float | None = None) -> ServedWindow:
    return ServedWindow(hour, context, LogEstimate(tokens, 0.01), 100.0, 100 * (tokens - 1), 3)


def test_a_fall_that_the_context_explains_is_no_fall() -> None:
    rng = np.random.default_rng(0)
    hours = np.arange(12.0)
    contexts = 1000 * 1.3 ** rng.permutation(12)
    tokens = 4.0 - 0.3 * np.log(contexts / 1000) + 0.001 * rng.standard_normal(12)
    trend = hourly_trend([served(*row) for row in zip(hours, tokens, contexts, strict=True)])
    assert trend is not None
    assert trend.at_same_context
    assert trend.per_hour.mid == pytest.approx(0.0, abs=1e-3)
    alike = hourly_trend([served(h, 3 - 0.1 * h, 1000.0) for h in hours])
    assert alike is not None
    assert not alike.at_same_context
    assert alike.per_hour.mid == pytest.approx(-0.1)
    assert alike.declines


def test_contexts_that_grow_with_the_hours_cannot_be_told_from_them() -> None:
    trend = hourly_trend([served(h, 3 - 0.1 * h, 1000 * math.exp(h)) for h in range(10)])
    assert trend is not None
    assert not trend.at_same_context
    assert trend.hours == 9.0
    assert trend.windows == 10


def test_a_trend_is_least_squares_weighed_by_the_root_of_the_rounds() -> None:
    hours = np.array([0.0, 1.0, 2.5, 3.0, 5.0, 6.0, 8.0])
    tokens = np.array([3.0, 2.95, 2.8, 2.72, 2.5, 2.52, 2.45])
    rounds = np.array([100.0, 400.0, 25.0, 900.0, 100.0, 1600.0, 49.0])
    windows = [
        # contexts that differ are not enough where there are fewer than eight windows
        ServedWindow(float(h), 1000.0 * (1 + i), LogEstimate(float(t), 0.01), float(r), 1.0, 3)
        for i, (h, t, r) in enumerate(zip(hours, tokens, rounds, strict=True))
    ]
    trend = hourly_trend(windows[::-1])
    weights = np.sqrt(rounds)
    x = hours - np.average(hours, weights=weights)
    y = tokens - np.average(tokens, weights=weights)
    slope = (weights * x) @ y / ((weights * x) @ x)
    left = np.sqrt(weights / weights.mean()) * (y - slope * x)
    # neighbours' correlation, raised by what two coefficients take from seven windows
    seen = left[1:] @ left[:-1] / (left @ left)
    alike = max(seen + (2 + 3 * max(seen, 0.0)) / 7, 0.0)
    assert 0 < alike < 0.9
    variance = (left @ left) / 5 / ((weights / weights.mean() * x) @ x)
    error = math.sqrt(variance * (1 + alike) / (1 - alike))
    degrees = max(7 * (1 - alike) / (1 + alike) - 2, 1.0)
    assert trend is not None
    assert not trend.at_same_context
    assert trend.per_hour.mid == pytest.approx(slope)
    reach = student_quantile(0.05, degrees) * error
    assert trend.per_hour.high - slope == pytest.approx(reach)
    assert slope - trend.per_hour.low == pytest.approx(reach)
    assert trend.p_value == pytest.approx(two_sided_p(slope / error, degrees))
    assert (trend.windows, trend.hours) == (7, 8.0)
    assert trend.label == "7 windows over 8 h"


def test_windows_at_two_times_are_no_trend() -> None:
    assert hourly_trend([served(h, 2.0) for h in (0, 0, 1, 1)]) is None
    assert hourly_trend([served(h, 2.0) for h in (0, 1, 2)]) is None


def test_neighbours_that_are_alike_count_for_fewer() -> None:
    rng = np.random.default_rng(1)
    noise = rng.standard_normal(40)
    waves = np.repeat(rng.standard_normal(10), 4)
    apart, alike = (
        hourly_trend([served(h, 3 + 0.1 * float(e)) for h, e in enumerate(errors)])
        for errors in (noise, waves)
    )
    assert apart is not None
    assert alike is not None
    width_apart = apart.per_hour.high - apart.per_hour.mid
    assert alike.per_hour.high - alike.per_hour.mid > 1.3 * width_apart


# ---- published figures


def test_many_rows_of_one_source_are_named_by_the_source(synthetic: Any) -> None:
    facts = []
    for row in range(5):
        fact = synthetic.fact(3, 2.0 + 0.1 * row)
        source = fact.source.model_copy(update={"reference": f"board @abc, row {row}"})
        facts.append(fact.model_copy(update={"source": source}))
    alone = facts[0].source.model_copy(update={"reference": "a paper"})
    facts.append(facts[0].model_copy(update={"source": alone}))
    curve = curve_from_facts(facts, 0.0, None)
    assert curve is not None
    assert curve.source.reference == "a paper (1 rows); board @abc (5 rows)"
    assert curve.source.date == "2026-01-02"
    undated = facts[0].source.model_copy(update={"date": None})
    bare = curve_from_facts([facts[0].model_copy(update={"source": undated})], 0.0, None)
    assert bare is not None
    assert bare.source.date is None


def test_one_text_with_several_lengths_gives_its_own_fall() -> None:
    tokens = tokens_per_round_from_conditional(decaying_rates(0.8, 1.0, 5))
    level = LengthSeries((1, 3, 5), tuple(float(tokens[n]) for n in (1, 3, 5)))
    found = pooled_fall([level])
    assert found.mean == pytest.approx(0.0, abs=0.02)
    assert found.sd == 0.1
    assert found != FallPrior()
    assert level.up_to(5).lengths == (1, 3)
    assert level.only([5, None, 2]).tokens_per_round == (float(tokens[5]),)


def test_a_small_tree_is_worth_less_than_its_chain() -> None:
    found = equal_budget_tree_tokens(3.0, 6, 3)
    # 0.034 - 0.3 x 2 / 5 in the logarithm
    assert found.mid == pytest.approx(3.0 * math.exp(0.034 - 0.12))
    assert (found.log_sd, found.degrees) == (0.083, 72.0)
    assert equal_budget_tree_tokens(1.0, 6, 4).mid == pytest.approx(math.exp(0.086))
    assert equal_budget_tree_tokens(0.95, 6, 3).mid == 1.0  # a token a round at least
    assert equal_budget_tree_tokens(2.0, 2, 3).mid <= 2.0
    with pytest.raises(ValueError, match=r"branches=2: trees of \[3, 4\]"):
        equal_budget_tree_tokens(3.0, 6, 2)


def test_counters_of_a_whole_run() -> None:
    counters = AcceptanceCounters(rounds=100, drafted=400, accepted=100)
    # 100 rounds gave 200 tokens, of which 190 were kept
    assert counters.cut_at_the_end(190) == 10
    assert counters.binomial_half_width() == pytest.approx(1.96 * math.sqrt(0.25 * 0.75 / 400))


def test_passes_of_one_batch_context_and_length_cannot_be_checked(planted_engine: Any) -> None:
    alike = np.ones(9)
    took = planted_engine.seconds(planted_engine.MIDDLE, 1, 1, 1024, planted_engine.PLANTED)
    timings = PassTimings(planted_engine.MIDDLE, 1, alike, alike, 1024 * alike, took * alike)
    bench = Bench(planted_engine.GPU, planted_engine.ENGINE)
    for by_llm in (False, True):
        with pytest.raises(CalibrationError, match="nothing can be left out"):
            fit_step([timings], bench, by_llm)
