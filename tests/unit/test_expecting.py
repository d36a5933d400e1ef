"""What a profile or a plan lets expect of a server, worked out by hand at the load it serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from capplan.api.expecting import expectation, from_plan, from_profile
from capplan.errors import ProfileInvalidError
from capplan.profiles.store import StoredProfile, save_profile
from capplan.schema.observation import Flag, Load, Observation, SpeculationCounts, Spread
from capplan.schema.verdict import Stability, Verdict
from capplan.schema.watching import ServedFigures

PROBABILITY = 0.7


def served(batch: float | None, length: int | None = None, context: float | None = 128) -> Any:
    return ServedFigures(
        software="vllm",
        model="m",
        engines=1,
        window_s=60,
        batch=batch,
        num_speculative_tokens=length,
        context_tokens=context,
    )


def stored(profile: Any, arrays: Any) -> StoredProfile:
    return StoredProfile(profile, arrays, Path("p.json"))


def seen(batch: float, step_s: float, **changes: Any) -> Observation:
    return Observation(
        source="s",
        format="live",
        load=Load(mean_concurrency=batch),
        step_s=Spread(mean=step_s),
    ).model_copy(update=changes)


@pytest.fixture
def expected(synthetic: Any) -> Any:
    """What a profile with planted step times lets expect."""
    profile, arrays = synthetic.profile(probability=PROBABILITY)
    return from_profile(stored(profile, arrays), 0.0)


# --- a profile that timed its target ---------------------------------------------------------


def test_a_plain_step_is_the_profiles_own_at_that_batch_and_context(
    expected: Any, synthetic: Any
) -> None:
    for batch, context in ((1, 128), (4, 2048), (10, 1000)):
        found = expected(served(batch, context=context))
        planted = synthetic.TARGET_TIMES.seconds(batch, 1, context)
        assert found.baseline_step_s == pytest.approx(planted, rel=0.03)
        assert found.speedup is None
    assert found.source == "profile p-0001"


def test_a_round_is_n_draft_passes_and_a_verification(expected: Any, synthetic: Any) -> None:
    found = expected(served(4, length=2))
    plain_s = synthetic.TARGET_TIMES.seconds(4, 1, 128)
    verify_s = synthetic.TARGET_TIMES.seconds(4, 3, 128)
    passes_s = sum(synthetic.DRAFT_TIMES.seconds(4, q, 128) for q in (2, 1))
    assert found.round_ratio == pytest.approx((verify_s + passes_s) / plain_s, rel=0.05)
    assert found.tokens_per_round == pytest.approx(1 + PROBABILITY + PROBABILITY**2, rel=0.01)
    assert found.speedup == pytest.approx(found.tokens_per_round / found.round_ratio)


def test_a_server_with_less_than_one_request_decodes_one_at_a_time(expected: Any) -> None:
    assert expected(served(0.2)) == expected(served(1))


def test_nothing_is_expected_of_a_server_whose_batch_is_not_known(expected: Any) -> None:
    assert expected(served(None)) is None
    assert expected(served(0)) is None


def test_an_unknown_context_is_the_mean_one_of_the_profile(expected: Any) -> None:
    short, long = expected(served(4, context=128)), expected(served(4, context=2048))
    unknown = expected(served(4, context=None))
    assert short.baseline_step_s < unknown.baseline_step_s < long.baseline_step_s


def test_a_profile_without_a_draft_lets_expect_a_plain_step_alone(synthetic: Any) -> None:
    found = from_profile(stored(*synthetic.profile(draft=None)), 0.0)(served(4, length=2))
    assert found is not None
    assert (found.speedup, found.tokens_per_round, found.round_ratio) == (None, None, None)


def test_tokens_of_a_temperature_that_was_not_traced_are_not_expected(synthetic: Any) -> None:
    profile, arrays = synthetic.profile()
    found = from_profile(stored(profile, arrays), 0.8)(served(4, length=2))
    assert found is not None
    assert found.round_ratio is not None
    traced = from_profile(stored(profile, arrays), 0.0)(served(4, length=2))
    assert traced is not None
    assert found.round_ratio == traced.round_ratio


# --- a profile that observed a server --------------------------------------------------------


def observed(synthetic: Any, *found: Observation, **changes: Any) -> StoredProfile:
    profile, _ = synthetic.profile(draft=None, timing=(), observations=found, **changes)
    return stored(profile, {})


def test_steps_between_two_batches_lie_on_a_line_and_beyond_them_stay_level(
    synthetic: Any,
) -> None:
    expected = from_profile(observed(synthetic, seen(8, 0.03), seen(2, 0.012)), 0.0)
    steps = [expected(served(batch)) for batch in (1, 2, 5, 8, 100)]
    assert [one.baseline_step_s for one in steps if one] == pytest.approx(
        [0.012, 0.012, 0.021, 0.03, 0.03]
    )
    assert expected(served(None)) is None


def test_only_windows_without_speculation_that_show_a_step_count(synthetic: Any) -> None:
    drafted = SpeculationCounts(drafts=10, drafted=30, accepted=20)
    bad = Flag(check="c", text="t", unusable_for=("step_time",))
    useless = [
        seen(4, 9.0, speculation=drafted),
        seen(4, 9.0, flags=(bad,)),
        seen(4, 9.0).model_copy(update={"step_s": None}),
        seen(4, 9.0, load=Load()),
    ]
    found = from_profile(observed(synthetic, *useless, seen(4, 0.02)), 0.0)(served(4))
    assert found is not None
    assert found.baseline_step_s == pytest.approx(0.02)
    with pytest.raises(ProfileInvalidError, match="no step time without speculation"):
        from_profile(observed(synthetic, *useless), 0.0)


def test_an_invalid_profile_lets_expect_nothing(synthetic: Any) -> None:
    broken = Verdict(stability=Stability.INVALID)
    with pytest.raises(ProfileInvalidError, match="p-0001"):
        from_profile(observed(synthetic, seen(4, 0.02), verdict=broken), 0.0)


# --- a plan ----------------------------------------------------------------------------------


def test_a_plan_is_read_at_the_load_that_is_served(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    option = plan.options[0]
    curve = {point.concurrency: point for point in option.load_curve}
    expected = from_plan(plan)
    assert expected is not None
    found = expected(served(6, length=option.num_speculative_tokens))
    assert found is not None
    assert found.baseline_step_s == pytest.approx((14.0 + 0.09 * 6) / 1000)
    halfway = (curve[4].speedup.mid + curve[8].speedup.mid) / 2
    assert found.speedup == pytest.approx(halfway)
    assert found.tokens_per_round == option.acceptance.tokens_per_round.mid
    assert found.round_ratio == pytest.approx(found.tokens_per_round / halfway)
    assert found.source == f"plan of {option.id}"
    assert expected(served(6)) == found
    assert expected(served(None)) is None


def test_a_server_with_another_length_is_compared_with_plain_decoding_only(
    sample_plans: Any,
) -> None:
    plan = sample_plans.make_plan()
    expected = from_plan(plan)
    assert expected is not None
    other = expected(served(6, length=plan.options[0].num_speculative_tokens + 1))
    assert other is not None
    assert other.baseline_step_s == pytest.approx((14.0 + 0.09 * 6) / 1000)
    assert (other.speedup, other.tokens_per_round) == (None, None)


def test_a_plan_without_an_option_or_a_curve_lets_expect_nothing(sample_plans: Any) -> None:
    assert from_plan(sample_plans.infeasible_plan()) is None
    bare = sample_plans.make_option(load_curve=())
    assert from_plan(sample_plans.make_plan(options=(bare,))) is None


# --- files -----------------------------------------------------------------------------------


def test_files_are_read_and_without_one_there_is_nothing_to_go_by(
    tmp_path: Any, synthetic: Any, sample_plans: Any
) -> None:
    save_profile(tmp_path / "p.json", *synthetic.profile())
    (tmp_path / "plan.json").write_text(sample_plans.make_plan().model_dump_json())
    of_profile = expectation(profile=tmp_path / "p.json")
    of_plan = expectation(plan=tmp_path / "plan.json")
    assert of_profile is not None
    assert of_plan is not None
    for one, source in ((of_profile, "profile p-0001"), (of_plan, "plan of ")):
        found = one(served(4))
        assert found is not None
        assert found.source.startswith(source)
    assert expectation() is None
