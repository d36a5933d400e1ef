"""What counters of a served load tell of acceptance, and when they tell nothing."""

from __future__ import annotations

import math
from typing import Any

import pytest

from capplan.errors import ProfileInvalidError
from capplan.estimate.curves import SINGLE_SOURCE_RELATIVE_SE
from capplan.estimate.observed import (
    CLUSTER_FACTOR,
    observed_acceptance,
    only_observed,
    tokens_per_round,
    why_not,
)
from capplan.schema.measured_setup import EngineDraft
from capplan.schema.observation import Flag, Load, Observation, SpeculationCounts
from capplan.schema.pairing import Method
from capplan.schema.provenance import Kind


def counts(**changes: Any) -> SpeculationCounts:
    """A hundred rounds of three drafts, half of which were accepted."""
    values: dict[str, Any] = {
        "num_speculative_tokens": 3, "drafts": 100, "drafted": 300, "accepted": 150,
    }  # fmt: skip
    return SpeculationCounts(**(values | changes))


def seen(speculation: SpeculationCounts | None = None, **changes: Any) -> Observation:
    return Observation(
        source="metrics.txt", format="prometheus",
        speculation=counts() if speculation is None else speculation, **changes,
    )  # fmt: skip


def observed(synthetic: Any, *observations: Observation, **more: Any) -> Any:
    return synthetic.profile(observations=observations, timing=(), acceptance=(), **more)[0]


# ---- the error of a window


def test_without_counts_by_request_the_binomial_error_is_widened() -> None:
    found = tokens_per_round(counts())
    assert found.mid == 2.5
    # half of 300 accepted: sqrt(300 / 4) tokens, over 100 rounds of 2.5
    assert found.log_sd == pytest.approx(CLUSTER_FACTOR * math.sqrt(75) / 100 / 2.5)
    assert found.degrees == math.inf


def test_rounds_without_a_draft_lower_the_mean() -> None:
    assert tokens_per_round(counts(rounds=200)).mid == 1.75
    assert tokens_per_round(counts(rounds=200)).log_sd == pytest.approx(
        CLUSTER_FACTOR * math.sqrt(75) / 200 / 1.75
    )


def test_requests_that_were_counted_apart_tell_their_own_spread() -> None:
    by_request = ((50.0, 50.0), (50.0, 100.0))
    found = tokens_per_round(counts(by_request=by_request))
    assert (found.mid, found.degrees) == (2.5, 1.0)
    # residuals of 25 tokens each way: sqrt(2 * 2 * 25^2) over 100 rounds and 2.5
    assert found.log_sd == pytest.approx(math.sqrt(2 * 2 * 25.0**2) / 100 / 2.5)
    alone = tokens_per_round(counts(by_request=((100.0, 150.0),)))
    assert alone.degrees == math.inf  # one request tells no spread


def test_nothing_drafted_is_one_token_a_round() -> None:
    found = tokens_per_round(counts(drafts=0, drafted=0, accepted=0, rounds=10))
    assert (found.mid, found.log_sd) == (1.0, 0.0)


# ---- facts


def test_positions_give_every_length_up_to_the_one_that_ran(synthetic: Any) -> None:
    by_position = counts(accepted_per_position=(80, 50, 20))
    load = Load(dataset="code", temperature=0.7)
    one = seen(by_position, load=load, engine="vllm", engine_version="0.33", gpu="H100",
               draft_sampling="greedy")  # fmt: skip
    facts = observed_acceptance(observed(synthetic, one))
    assert [(f.num_speculative_tokens, f.tokens_per_round) for f in facts] == [
        (1, 1.8), (2, 2.3), (3, 2.5),
    ]  # fmt: skip
    first = facts[0]
    assert (first.target, first.draft) == ("org/target", "org/draft")
    assert first.method is Method.DRAFT_MODEL
    assert (first.task, first.temperature) == ("code", 0.7)
    assert first.setting == "vllm 0.33, H100, greedy drafts"
    assert first.source.kind is Kind.MEASURED
    assert first.source.reference == "profile p-0001, metrics.txt"
    assert first.source.date == "2026-01-02"
    assert first.relative_se == pytest.approx(tokens_per_round(by_position).log_sd)


def test_no_more_is_emitted_than_a_round_can_give(synthetic: Any) -> None:
    # a window that began between a draft and its verification
    everything = counts(accepted=300, rounds=90)
    (fact,) = observed_acceptance(observed(synthetic, seen(everything)))
    assert fact.tokens_per_round == 4.0


def test_a_load_without_a_name_and_a_long_window_keep_a_floor_of_error(synthetic: Any) -> None:
    many = counts(drafts=1e6, drafted=3e6, accepted=1.5e6)
    (fact,) = observed_acceptance(observed(synthetic, seen(many)))
    assert fact.task == "observed traffic"
    assert fact.num_speculative_tokens == 3
    assert fact.relative_se == SINGLE_SOURCE_RELATIVE_SE
    assert fact.setting == ""


def test_a_spread_that_is_not_known_is_a_wide_one(synthetic: Any) -> None:
    nothing = counts(rounds=100, drafts=100, drafted=300, accepted=0,
                     by_request=((0.0, 0.0), (0.0, 0.0)))  # fmt: skip
    (fact,) = observed_acceptance(observed(synthetic, seen(nothing)))
    assert fact.relative_se == 1.0


def test_greedy_drafts_are_preferred_to_probabilistic_ones(synthetic: Any) -> None:
    sampled = seen(counts(accepted=90), draft_sampling="probabilistic")
    greedy = seen(counts(accepted=120))
    (fact,) = observed_acceptance(observed(synthetic, sampled, greedy))
    assert fact.tokens_per_round == 2.2
    (fact,) = observed_acceptance(observed(synthetic, sampled))
    assert fact.tokens_per_round == 1.9
    assert fact.setting == "probabilistic drafts"


@pytest.mark.parametrize(
    ("draft", "name"),
    [
        ("model", "org/draft"),
        ("ngram", "ngram"),
        (EngineDraft(method="eagle3", id="org/head"), "org/head"),
    ],
)
def test_the_draft_is_the_profiles_where_the_window_does_not_say(
    synthetic: Any, draft: Any, name: str
) -> None:
    made = observed(synthetic, seen(counts(rounds=150)),
                    draft=draft if isinstance(draft, str) else "model")  # fmt: skip
    if not isinstance(draft, str):
        made = made.model_copy(update={"draft": draft})
    assert observed_acceptance(made)[0].draft == name


def test_a_window_may_name_its_own_draft(synthetic: Any) -> None:
    one = seen(draft="other/head", method=Method.EAGLE)
    (fact,) = observed_acceptance(observed(synthetic, one, draft=None))
    assert (fact.draft, fact.method) == ("other/head", Method.EAGLE)


# ---- nothing


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (seen(counts(drafts=0, drafted=0, accepted=0)), "no speculation is counted"),
        (
            seen(flags=(Flag(check="resets", text="", unusable_for=("acceptance",)),)),
            "acceptance is flagged (resets)",
        ),
        (seen(flags=(Flag(check="slow", text="", unusable_for=("latency",)),)), ""),
        (seen(counts(num_speculative_tokens=None)), "N is not known"),
        (
            seen(method=Method.NGRAM),
            "rounds without a draft are not counted, and lookup has many",
        ),
        (seen(counts(rounds=300), method=Method.NGRAM), ""),
        (seen(counts(num_speculative_tokens=None, accepted_per_position=(80, 70))), ""),
    ],
)
def test_why_a_window_says_nothing(synthetic: Any, one: Observation, reason: str) -> None:
    assert why_not(one, observed(synthetic, one)) == reason


def test_a_draft_without_a_name_says_nothing(synthetic: Any) -> None:
    assert why_not(seen(), observed(synthetic, seen(), draft=None)) == "the draft is not named"
    method_alone = seen(method=Method.EAGLE)
    assert why_not(method_alone, observed(synthetic, method_alone, draft=None)) == (
        "the draft is not named"
    )


def test_a_profile_of_which_no_window_can_be_used_is_refused_with_all_reasons(
    synthetic: Any,
) -> None:
    empty = Observation(source="a", format="prometheus")
    unknown = seen(counts(num_speculative_tokens=None))
    with pytest.raises(ProfileInvalidError, match="N is not known; no speculation is counted"):
        observed_acceptance(observed(synthetic, empty, unknown))


def test_a_profile_with_timing_is_not_only_observed(synthetic: Any) -> None:
    assert only_observed(observed(synthetic, seen()))
    assert not only_observed(synthetic.profile(observations=(seen(),))[0])
    assert not only_observed(synthetic.profile()[0])
