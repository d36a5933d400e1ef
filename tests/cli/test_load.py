"""``capplan load``: a served load simulated from a profile or a plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capplan
from capplan.api.serving import simulate_serving
from capplan.api.serving_wishes import ServingWishes
from capplan.errors import ProfileError, RequestError
from capplan.profiles.store import StoredProfile, save_profile
from capplan.reporting.load_text import render_load
from capplan.schema.workload import TrafficPart

Call = Callable[..., tuple[int, str, str]]
QUICK = ("--requests", "150")


@pytest.fixture
def stored(tmp_path: Path, synthetic: Any) -> StoredProfile:
    found, arrays = synthetic.profile()
    rng = np.random.default_rng(0)
    for name, values in arrays.items():
        if "accept_" in name:
            arrays[name] = (rng.random(len(values)) < 0.7).astype(np.float32)
    path = tmp_path / "p.json"
    save_profile(path, found, arrays)
    return capplan.load_profile(path)


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = capplan.recommend(
        capplan.PlanRequest(
            targets=("meta-llama/Llama-3.1-8B-Instruct",),
            budget_usd_per_month=60_000,
            workload=capplan.Workload(requests_per_s=20, prompt_tokens=300, output_tokens=300),
            methods=(capplan.Method.EAGLE3, capplan.Method.NONE),
            gpus=("h100-sxm-80gb",),
        )
    )
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    path.write_text(plan.model_dump_json())
    return path


# ---- profile


def test_latencies_rise_with_the_load_and_throughput_follows_it(stored: StoredProfile) -> None:
    found = simulate_serving(stored, ServingWishes(requests=300))
    assert [round(one.share_of_capacity, 2) for one in found.rates] == [0.3, 0.6, 0.9]
    firsts = [one.ttft.p90_ms for one in found.rates]
    each = [one.tpot.p50_ms for one in found.rates if one.tpot]
    assert firsts == sorted(firsts)
    assert each == sorted(each)
    for one in found.rates:
        offered = one.requests_per_s * found.mean_output_tokens
        assert one.is_stable
        assert one.output_tokens_per_s == pytest.approx(offered, rel=0.15)
        assert one.ttft.p50_ms <= one.ttft.p90_ms <= one.ttft.p99_ms


def test_a_request_alone_takes_what_the_profile_measured(
    stored: StoredProfile, synthetic: Any
) -> None:
    wishes = ServingWishes(
        rates_per_s=(0.01,), requests=50, num_speculative_tokens=0,
        prompt_tokens=200, output_tokens=100,
    )  # fmt: skip
    (one,) = simulate_serving(stored, wishes).rates
    step_s = synthetic.TARGET_TIMES.seconds(1, 1, 250)
    assert one.tpot is not None
    assert one.tpot.p50_ms == pytest.approx(step_s * 1e3, rel=0.02)
    assert one.mean_queue == 0


def test_drafts_that_are_accepted_raise_the_capacity(stored: StoredProfile) -> None:
    def capacity(n: int) -> float:
        wishes = ServingWishes(requests=200, num_speculative_tokens=n)
        return simulate_serving(stored, wishes).capacity_requests_per_s

    assert capacity(3) > 1.2 * capacity(0)


def test_a_small_cache_costs_throughput(stored: StoredProfile) -> None:
    def at(kv_tokens: int) -> tuple[float, int]:
        wishes = ServingWishes(
            requests=150, prompt_tokens=200, output_tokens=200, kv_tokens=kv_tokens
        )
        found = simulate_serving(stored, wishes)
        return found.capacity_requests_per_s, found.rates[-1].preemptions

    assert at(1000)[0] < 0.8 * at(100_000)[0]
    assert at(100_000)[1] == 0


def test_the_same_seed_gives_the_same_figures(stored: StoredProfile) -> None:
    wishes = ServingWishes(requests=100, seed=3)
    assert simulate_serving(stored, wishes) == simulate_serving(stored, wishes)


def test_observed_lengths_are_taken(stored: StoredProfile) -> None:
    wishes = ServingWishes(requests=200, prompt_tokens=[50, 150], output_tokens=[10, 90])
    found = simulate_serving(stored, wishes)
    assert 50 < found.mean_prompt_tokens < 150
    assert 10 < found.mean_output_tokens < 90


def test_a_profile_without_acceptance_says_what_to_do(tmp_path: Path, synthetic: Any) -> None:
    path = tmp_path / "bare.json"
    save_profile(path, *synthetic.profile(draft=None))
    with pytest.raises(ProfileError, match="traced no acceptance"):
        simulate_serving(path, ServingWishes(num_speculative_tokens=2))
    found = simulate_serving(path, ServingWishes(requests=50, prompt_tokens=100, output_tokens=20))
    assert found.lengths[0][2] == 0


@pytest.mark.parametrize("schedule", [((2, 8, 3),), ((1, 4, 3), (6, 16, 0))])
def test_ranges_with_gaps_are_refused(stored: StoredProfile, schedule: Any) -> None:
    with pytest.raises(RequestError, match="should begin at"):
        simulate_serving(stored, ServingWishes(schedule=schedule))


# ---- command line


def test_the_table_fits_a_terminal(run: Call, stored: StoredProfile) -> None:
    code, out, _ = run("load", stored.path, *QUICK)
    assert code == 0
    table = [line for line in out.splitlines() if line.startswith("  ")]
    assert len(table) == 4
    assert max(map(len, table)) <= 108
    assert "Capacity:" in out


def test_json_has_every_latency(run: Call, stored: StoredProfile) -> None:
    code, out, _ = run("load", stored.path, *QUICK, "--rate", 1, "--format", "json")
    assert code == 0
    (one,) = json.loads(out)["rates"]
    assert {"mean_ms", "p50_ms", "p90_ms", "p99_ms"} == set(one["ttft"]) == set(one["e2e"])


def test_more_than_the_capacity_is_said_to_be_too_much(run: Call, stored: StoredProfile) -> None:
    _, out, _ = run("load", stored.path, *QUICK, "--share", 1.5)
    assert "the queue grows" in out


def test_a_schedule_drafts_by_batch(run: Call, stored: StoredProfile) -> None:
    code, out, _ = run("load", stored.path, *QUICK, "--schedule", "1-4:3,5-16:0")
    assert code == 0
    assert "N by batch 1-4: 3, 5-16: 0" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rate", 1, "--share", 0.5), "State the load once"),
        (("--length", 1, "--schedule", "1-4:3"), "State the lengths once"),
        (("--schedule", "1:3"), "is not FIRST-LAST:N"),
        (("--rate", 0), "0"),
    ],
)
def test_misuse_is_explained(
    run: Call, stored: StoredProfile, options: tuple[object, ...], message: str
) -> None:
    code, _, err = run("load", stored.path, *options)
    assert code == 2
    assert message in err


# ---- plan


def test_an_option_is_served_at_the_plans_own_rate(run: Call, plan_file: Path) -> None:
    code, out, _ = run("load", plan_file, "--rate", 20, *QUICK, "--format", "json")
    assert code == 0
    found = json.loads(out)
    plan = json.loads(plan_file.read_text())
    option = plan["options"][0]
    (one,) = found["rates"]
    assert one["is_stable"]
    assert found["replicas"] == option["replicas"]
    # the plan is made for more requests at once than come on average at this rate, so that its
    # own time per token is one that the simulation stays below
    assert one["tpot"]["p50_ms"] <= option["tpot_ms"]["high"]
    assert found["capacity_output_tokens_per_s"] == pytest.approx(
        option["output_tokens_per_s"]["mid"], rel=0.25
    )


def test_a_plan_without_speculation_is_simulated_and_has_no_lengths(plan_file: Path) -> None:
    plan = capplan.load_plan(plan_file)
    plain = next(rank for rank, one in enumerate(plan.options, 1) if not one.draft)
    served = simulate_serving(plan, ServingWishes(requests=60), rank=plain)
    assert served.tokens_per_round == 1
    assert [one.share_of_capacity for one in served.rates] == pytest.approx([0.3, 0.6, 0.9])
    with pytest.raises(RequestError, match="drafts nothing: N = 3"):
        simulate_serving(plan, ServingWishes(requests=60, num_speculative_tokens=3), rank=plain)


# ---- lengths of a plan


def _spread(*, shape: str) -> capplan.Workload:
    """Return 4 requests/s of 800 + 300 tokens on average, all alike or unlike."""
    if shape == "fixed":
        return capplan.Workload(requests_per_s=4, prompt_tokens=800, output_tokens=300)
    return capplan.Workload.model_validate(
        {
            "requests_per_s": 4,
            "prompt_lengths": {"kind": shape, "mean_tokens": 800, "p95_tokens": 2600},
            "output_lengths": {"kind": shape, "mean_tokens": 300, "p95_tokens": 900},
            "length_correlation": 0.3,
        }
    )


def _planned(**asked: Any) -> capplan.Plan:
    return capplan.recommend(
        capplan.PlanRequest(
            targets=("meta-llama/Llama-3.1-8B-Instruct",),
            budget_usd_per_month=60_000,
            methods=(capplan.Method.NONE,),
            gpus=("l40s",),
            tensor_parallel=(1,),
            **asked,
        )
    )


def test_lengths_that_a_plan_knows_are_drawn_and_the_slowest_wait_longer() -> None:
    wishes = ServingWishes(requests=1500, rates_per_s=(2.0,))
    alike, unlike = (
        simulate_serving(_planned(workload=_spread(shape=shape)), wishes)
        for shape in ("fixed", "lognormal")
    )
    assert unlike.mean_prompt_tokens == pytest.approx(800, rel=0.02)
    assert unlike.mean_output_tokens == pytest.approx(300, rel=0.02)
    assert unlike.prompt_lengths.p99_tokens > 4 * 800
    assert unlike.length_correlation == pytest.approx(0.3, abs=0.1)
    assert (alike.prompt_lengths.origin, unlike.prompt_lengths.origin) == ("the mean", "lognormal")
    assert alike.prompt_lengths.longest_tokens == 800
    (even,), (uneven,) = alike.rates, unlike.rates
    assert uneven.ttft.p99_ms > 1.5 * even.ttft.p99_ms
    assert uneven.output_tokens_per_s == pytest.approx(even.output_tokens_per_s, rel=0.1)
    assert simulate_serving(_planned(workload=_spread(shape="lognormal")), wishes) == unlike


def test_a_stated_length_overrides_the_plans_and_the_other_is_still_drawn() -> None:
    plan = _planned(workload=_spread(shape="lognormal"))
    found = simulate_serving(plan, ServingWishes(requests=200, prompt_tokens=500))
    assert found.prompt_lengths.longest_tokens == found.mean_prompt_tokens == 500
    assert found.prompt_lengths.origin == "as stated"
    assert found.output_lengths.origin == "lognormal"
    assert found.output_lengths.p99_tokens > 3 * found.output_lengths.p50_tokens
    shown = render_load(found)
    assert "prompts, as stated" in shown
    assert "answers, lognormal" in shown


def test_requests_longer_than_the_engine_is_launched_for_are_cut_and_it_is_said() -> None:
    plan = _planned(workload=_spread(shape="lognormal"))
    found = simulate_serving(plan, ServingWishes(requests=60, kv_tokens=4000, shares=(0.3,)))
    assert found.prompt_lengths.longest_tokens + 1 <= 4000
    assert any("longer than the 3,999 tokens" in note for note in found.notes)
    with pytest.raises(RequestError, match=r"of 60 drawn requests are longer than the 399 tokens"):
        simulate_serving(plan, ServingWishes(requests=60, kv_tokens=400))


def test_services_on_shared_replicas_send_their_own_requests() -> None:
    services = tuple(
        capplan.NamedWorkload(name=name, workload=capplan.Workload(**lengths))
        for name, lengths in (
            ("chat", {"requests_per_s": 0.3, "prompt_tokens": 400, "output_tokens": 300}),
            ("extract", {"requests_per_s": 0.1, "prompt_tokens": 4000, "output_tokens": 60}),
        )
    )
    plan = _planned(services=services)
    assert plan.fleet is not None
    assert plan.fleet.largest_part is not None
    assert set(plan.fleet.largest_part.services) == {"chat", "extract"}
    found = simulate_serving(plan, ServingWishes(requests=400))
    assert found.mean_prompt_tokens == pytest.approx(0.75 * 400 + 0.25 * 4000, rel=0.01)
    # long prompts have short answers, and no request lies between the two services
    assert found.length_correlation == pytest.approx(-1)
    assert (found.prompt_lengths.p50_tokens, found.prompt_lengths.p90_tokens) == (400, 4000)
    assert found.prompt_lengths.origin == "2 kinds of requests (fixed)"


def test_a_stated_temperature_holds_for_every_part_of_a_mix() -> None:
    mix = tuple(TrafficPart(share=1, temperature=t) for t in (0.0, 1.0))
    load = capplan.Workload(requests_per_s=2, prompt_tokens=300, output_tokens=300, mix=mix)
    request = capplan.PlanRequest(
        targets=("meta-llama/Llama-3.1-8B-Instruct",),
        budget_usd_per_month=60_000,
        workload=load,
        methods=(capplan.Method.EAGLE3,),
        gpus=("h100-sxm-80gb",),
    )
    plan = capplan.recommend(request)
    at = {
        t: simulate_serving(
            plan, ServingWishes(requests=50, shares=(0.3,), temperature=t)
        ).tokens_per_round
        for t in (None, 0.0, 1.0)
    }
    assert at[1.0] < at[None] < at[0.0]
