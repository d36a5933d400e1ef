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
