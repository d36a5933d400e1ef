"""Reported results, imported: the figures and verdicts that the reports themselves bear out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import capplan
from capplan.api.imported_profile import profile_of_results
from capplan.api.imports import ImportedResults, usd_per_million_output_tokens
from capplan.errors import ProfileInvalidError, RequestError
from capplan.estimate.acceptance import tokens_per_round_iid
from capplan.estimate.counters import AcceptanceCounters
from capplan.estimate.curves import curve_from_facts
from capplan.estimate.observed import observed_acceptance, tokens_per_round
from capplan.profiles.store import StoredProfile
from capplan.schema.observation import Flag, Load, Observation, SpeculationCounts
from capplan.schema.pairing import AcceptanceFact, Method
from capplan.schema.plan import PlanRequest
from capplan.schema.profile import Profile
from capplan.schema.provenance import Kind, Source
from capplan.schema.workload import Workload

DATA = Path(__file__).parents[1] / "data" / "imports"
TARGET = "Qwen/Qwen3-32B"


def imported(*names: str) -> tuple[Observation, ...]:
    results = capplan.import_results([DATA / name for name in names])
    assert not results.failures
    return results.observations


def checks(one: Observation) -> set[str]:
    return {flag.check for flag in one.flags}


def test_a_run_that_follows_its_arrivals_is_no_capacity() -> None:
    (one,) = imported("vllm_bench_arrival_limited.json")
    assert one.output_tokens_per_s == pytest.approx(475.1, abs=0.01)
    achieved, asked = one.load.achieved_rate_per_s, one.load.requested_rate_per_s
    assert achieved is not None
    assert asked is not None
    assert achieved / asked == pytest.approx(0.95, rel=0.005)
    assert one.load.peak_concurrency == 10
    assert "arrival_limited" in checks(one)
    assert one.usable_for("latency")
    assert not one.usable_for("capacity")
    # at 31.458 USD/h it would have been 18.39 USD a million tokens
    with pytest.raises(RequestError, match="no capacity figure"):
        usd_per_million_output_tokens(one, 31.458)


def test_a_saturated_run_has_a_price() -> None:
    (one,) = imported("inferencex_c64.json")
    assert usd_per_million_output_tokens(one, 10.0) == pytest.approx(10 / 81.0413 / 3600 * 1e6)


def test_seconds_without_a_suffix_are_seconds() -> None:
    (one,) = imported("inferencex_c64.json")
    ttft, tpot, e2e = one.ttft_s, one.tpot_s, one.e2e_s
    assert ttft is not None
    assert tpot is not None
    assert e2e is not None
    assert tpot.p50 == pytest.approx(0.2065, rel=0.001)
    assert ttft.p50 == pytest.approx(74.419, rel=0.001)
    assert ttft.p50 is not None
    assert e2e.p50 is not None
    assert (ttft.p50 + 127 * tpot.p50) / e2e.p50 - 1 == pytest.approx(-0.0014, abs=0.0002)
    assert "mostly_waiting" in checks(one)
    assert one.load.mean_concurrency == pytest.approx(64, rel=0.01)


def test_a_report_of_several_benchmarks_gives_a_row_each_by_its_means() -> None:
    two = imported("guidellm_v2.json")
    assert [one.part for one in two] == ["constant 2/s", "constant 4/s"]
    first = two[0]
    # the median of the rate is 0.4, its maximum 1,913: moments, not the run
    assert first.output_tokens_per_s == pytest.approx(3.195, rel=0.005)
    assert first.tpot_s is not None
    assert first.tpot_s.mean == pytest.approx(1.1508e-3, rel=0.001)
    assert first.step_s == first.tpot_s  # one token an iteration
    for one in two:
        assert "few_requests" in checks(one)
        assert not one.usable_for("latency")


def test_log_lines_of_either_layout_are_added_up_by_counts() -> None:
    three, six, seven = imported("vllm_server.log")
    for one, n in ((three, 3), (six, 6), (seven, 7)):
        assert one.speculation is not None
        assert one.speculation.num_speculative_tokens == n
    counts = six.speculation
    assert counts is not None
    assert counts.tokens_per_draft_round == pytest.approx(2.7913, rel=0.001)
    assert counts.acceptance_rate == pytest.approx(0.29854, rel=0.001)
    assert (six.duration_s, seven.duration_s) == (
        pytest.approx(20.0, abs=0.01),
        pytest.approx(61.1, abs=0.1),
    )
    assert three.duration_s is None
    assert "few_rounds" in checks(seven)


def test_a_histogram_of_one_request_gives_survival_by_position() -> None:
    detailed, summary = imported("request_detailed.json", "request_summary.json")
    assert detailed.speculation is not None
    assert summary.speculation is not None
    assert summary.speculation.tokens_per_draft_round == pytest.approx(1.23256, rel=1e-4)
    assert detailed.speculation.tokens_per_draft_round == pytest.approx(6.0909, rel=1e-4)
    survival = [0.939, 0.848, 0.788, 0.727, 0.606, 0.606, 0.576]
    assert detailed.speculation.cumulative_rates == pytest.approx(survival, abs=0.001)
    assert "cut_at_the_end" in checks(detailed)


GREEDY, SAMPLED = (1393.0, 13548.0), (4062.0, 8226.0)


def mtp(counts: tuple[float, float], sampling: str, temperature: float) -> Observation:
    """Two runs of one MTP head at temperature 1 (vllm-project/vllm#41044), N = 2."""
    accepted, drafted = counts
    return Observation.model_validate(
        {
            "source": f"{sampling}.json",
            "format": "vllm-bench-serve",
            "method": Method.MTP,
            "draft": "(built-in)",
            "draft_sampling": sampling,
            "load": {"temperature": temperature},
            "speculation": {
                "num_speculative_tokens": 2,
                "drafts": drafted / 2,
                "drafted": drafted,
                "accepted": accepted,
            },
        }
    )


def test_how_drafts_are_proposed_decides_acceptance_at_temperature_one() -> None:
    greedy, sampled = mtp(GREEDY, "greedy", 1.0), mtp(SAMPLED, "probabilistic", 1.0)
    for one, expected in ((greedy, 1.2056), (sampled, 1.9876)):
        assert one.speculation is not None
        assert one.speculation.tokens_per_draft_round == pytest.approx(expected, rel=0.005)
    both = observed_acceptance(profile(greedy, sampled))
    # never pooled: the engine's default is greedy
    assert [fact.tokens_per_round for fact in both] == [pytest.approx(1.2056, rel=0.005)]
    assert "greedy drafts" in both[0].setting
    alone = observed_acceptance(profile(sampled))
    assert alone[0].tokens_per_round == pytest.approx(1.9876, rel=0.005)
    assert "probabilistic drafts" in alone[0].setting


def profile(*observations: Observation) -> Profile:
    made = profile_of_results(ImportedResults(tuple(observations)), target=TARGET)
    # draft and method of each stay as given: profile_of_results names one pair a profile
    return made.model_copy(update={"observations": observations, "draft": None})


def observed(temperature: float | None, **more: object) -> Observation:
    counts = SpeculationCounts(
        num_speculative_tokens=3,
        drafts=9000,
        drafted=27_000,
        accepted=13_950,
        accepted_per_position=(6480, 4500, 2970),
    )
    return Observation(
        source="run.json",
        format="vllm-bench-serve",
        model=TARGET,
        draft="Qwen/Qwen3-0.6B",
        method=Method.DRAFT_MODEL,
        load=Load(temperature=temperature),
        speculation=counts,
    ).model_copy(update=more)


def plan_with(made: Profile, temperature: float) -> capplan.Plan:
    request = PlanRequest(
        targets=(TARGET,),
        drafts=("Qwen/Qwen3-0.6B",),
        gpus=("h100-sxm-80gb",),
        budget_usd_per_month=40_000,
        workload=Workload(requests_per_s=1, temperature=temperature),
    )
    return capplan.recommend(request, [StoredProfile(made, {}, Path("p.json"))])


def test_observed_acceptance_replaces_what_is_published() -> None:
    made = profile(observed(0.0))
    plan = plan_with(made, 0.0)
    (option,) = [one for one in plan.options if one.num_speculative_tokens == 3][:1]
    assert option.acceptance is not None
    assert option.acceptance.tokens_per_round.mid == pytest.approx(2.55)
    assert option.acceptance.source.kind is Kind.MEASURED
    assert made.id in option.acceptance.source.reference
    assert made.id in plan.profiles
    assert "Acceptance temperature" not in {one.name for one in plan.assumptions}


def test_greedy_acceptance_is_not_carried_to_temperature_one_in_silence() -> None:
    cold, warm = plan_with(profile(observed(0.0)), 0.0), plan_with(profile(observed(0.0)), 1.0)
    (warning,) = [one for one in warm.assumptions if one.name == "Acceptance temperature"]
    assert "observed at temperature 0, planned at 1" in warning.value
    best = {
        name: next(one for one in plan.options if one.num_speculative_tokens == 3)
        for name, plan in (("cold", cold), ("warm", warm))
    }
    figures = {name: option.acceptance for name, option in best.items()}
    assert figures["warm"] is not None
    assert figures["cold"] is not None
    assert figures["warm"].tokens_per_round.mid < figures["cold"].tokens_per_round.mid
    assert figures["warm"].source.kind is Kind.DERIVED
    unknown = plan_with(profile(observed(None)), 1.0)
    assert any("an unknown one" in one.value for one in unknown.assumptions)


def test_flagged_acceptance_is_not_planned_with() -> None:
    flag = Flag(check="random_prompts", text="random", unusable_for=("acceptance",))
    made = profile(observed(0.0, flags=(flag,)))
    with pytest.raises(ProfileInvalidError, match="random_prompts"):
        plan_with(made, 0.0)
    with pytest.raises(ProfileInvalidError, match="not named"):
        plan_with(profile(observed(0.0, draft="", method=None)), 0.0)


def test_the_bonus_token_the_cut_and_an_interval_that_is_no_binomial() -> None:
    """80 prompts, N = 7, temperature 0 (vllm-project/vllm#26191)."""
    counters = AcceptanceCounters(rounds=4816, drafted=33_712, accepted=12_208)
    assert counters.tokens_per_round == pytest.approx(3.5349, rel=0.0005)
    assert counters.acceptance_rate == pytest.approx(0.36213, rel=0.0005)
    assert counters.cut_at_the_end(16_990) == 34
    totals = SpeculationCounts(
        num_speculative_tokens=7, drafts=4816, drafted=33_712, accepted=12_208
    )
    found = tokens_per_round(totals)
    binomial = counters.binomial_half_width()
    assert binomial == pytest.approx(0.0051, abs=0.0001)
    half_width_of_rate = 1.96 * found.log_sd * found.mid * 4816 / 33_712
    assert half_width_of_rate == pytest.approx(2.1 * binomial, rel=0.01)
    planned = observed_acceptance(profile(observed(0.0, speculation=totals)))
    assert planned[0].relative_se is not None
    assert planned[0].relative_se * 3.5349 * 4816 / 33_712 > binomial / 1.96


def test_requests_counted_apart_give_a_clustered_interval() -> None:
    rng = np.random.default_rng(0)
    means = rng.uniform(0.2, 2.5, size=80)
    rounds = np.full(80, 60.0)
    accepted = rng.poisson(means * rounds).astype(float)
    by_request = tuple(zip(rounds.tolist(), accepted.tolist(), strict=True))
    counts = SpeculationCounts(
        num_speculative_tokens=7,
        drafts=float(rounds.sum()),
        drafted=float(7 * rounds.sum()),
        accepted=float(accepted.sum()),
        by_request=by_request,
    )
    clustered = tokens_per_round(counts)
    pooled = tokens_per_round(counts.model_copy(update={"by_request": ()}))
    assert clustered.mid == pytest.approx(pooled.mid)
    # requests differ: their spread, not that of tokens, is the error
    assert clustered.log_sd == pytest.approx(means.std() / np.sqrt(80) / clustered.mid, rel=0.15)
    assert clustered.log_sd > pooled.log_sd


def test_one_rate_is_not_stretched_over_lengths_where_positions_are_known() -> None:
    """Tokens a round by length of one head on mathematics (vllm-project/speculators#563)."""
    by_length = {1: 1.83, 2: 2.50, 3: 2.95, 4: 3.28, 5: 3.45, 6: 3.61, 7: 3.68}
    constant = float(tokens_per_round_iid(0.83, np.array([7]))[0])
    assert constant == pytest.approx(4.557, rel=0.005)
    assert constant / by_length[7] - 1 == pytest.approx(0.238, rel=0.02)
    # counts by position of the run at N = 7 give every shorter length
    drafts = 100_000.0
    cumulative = np.diff([1.0, *by_length.values()])
    counts = SpeculationCounts(
        num_speculative_tokens=7,
        drafts=drafts,
        drafted=7 * drafts,
        accepted=float(cumulative.sum() * drafts),
        accepted_per_position=tuple((cumulative * drafts).tolist()),
    )
    facts = observed_acceptance(profile(observed(0.0, speculation=counts)))
    assert {fact.num_speculative_tokens: fact.tokens_per_round for fact in facts} == pytest.approx(
        by_length
    )
    curve = curve_from_facts(facts, 0.0, None)
    assert curve is not None
    assert curve.at(7) == pytest.approx(3.68, rel=0.01)
    # of the run at N = 1 alone, seven tokens are a guess with an interval that admits it
    one = [fact for fact in facts if fact.num_speculative_tokens == 1]
    guessed = curve_from_facts(one, 0.0, None)
    assert guessed is not None
    assert guessed.at(7) < constant
    assert guessed.relative_se[7] > 2 * curve.relative_se[7]


def test_random_prompts_are_seen_by_the_name_of_the_data_set(tmp_path: Path) -> None:
    line = json.loads((DATA / "sglang_bench.jsonl").read_text())
    line |= {
        "dataset_name": "random",
        "accept_length": 1.4,
        "server_info": {"speculative_num_draft_tokens": 2, "speculative_algorithm": "NEXTN"},
    }
    path = tmp_path / "random.jsonl"
    path.write_text(json.dumps(line))
    (one,) = capplan.import_results(path).observations
    assert one.speculation is not None
    assert one.speculation.num_speculative_tokens == 1
    assert one.method is Method.MTP
    assert "random_prompts" in checks(one)
    assert not one.usable_for("acceptance")


def test_published_facts_are_still_cited() -> None:
    fact = AcceptanceFact(
        target="t",
        draft="d",
        method=Method.EAGLE3,
        task="chat",
        temperature=0.0,
        num_speculative_tokens=3,
        tokens_per_round=2.0,
        definition="x",
        source=Source(kind=Kind.CITED, reference="paper"),
    )
    curve = curve_from_facts([fact], 0.0, None)
    assert curve is not None
    assert curve.source.kind is Kind.CITED
    assert "relative_se" not in fact.model_dump()
