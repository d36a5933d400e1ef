"""Plans for a peak, a cache, varying lengths and a mix: what moves, and which way."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import capplan
from capplan.errors import RequestError
from capplan.estimate.kv_room import resident_tokens
from capplan.facts.catalog import load_catalog
from capplan.schema.plan import Plan, PlanOption, PlanRequest
from capplan.schema.workload import Workload

PLAIN: dict[str, Any] = {"requests_per_s": 6.0, "prompt_tokens": 1500, "output_tokens": 400}
VARYING: dict[str, Any] = {
    "requests_per_s": 6.0,
    "prompt_lengths": {"kind": "lognormal", "mean_tokens": 1500, "p95_tokens": 5000},
    "output_lengths": {"kind": "lognormal", "mean_tokens": 400, "p95_tokens": 1200},
}


def _request(fields: dict[str, Any], **further: Any) -> PlanRequest:
    return PlanRequest(
        targets=("Qwen/Qwen3-32B",),
        budget_usd_per_month=500_000,
        workload=Workload.model_validate(fields),
        gpus=("h100-sxm-80gb",),
        tensor_parallel=(2,),
        assumed_acceptance=0.6,
        **further,
    )


@cache
def _catalog() -> Any:
    return load_catalog()


def _plan(fields: dict[str, Any], **further: Any) -> Plan:
    return capplan.recommend(_request(fields, **further), catalog=_catalog())


def _plain_option(plan: Plan) -> PlanOption:
    assert plan.baseline is not None
    return plan.baseline


def test_replicas_are_for_the_peak_and_tokens_at_the_mean() -> None:
    peak = _plan({**PLAIN, "arrival": {"peak_requests_per_s": 18}})
    steady = _plan({**PLAIN, "requests_per_s": 18.0})
    one, other = peak.options[0], steady.options[0]
    assert (one.id, one.replicas, one.tpot_ms) == (other.id, other.replicas, other.tpot_ms)
    assert one.usd_per_month == other.usd_per_month
    # the same bill buys a third of the tokens
    assert one.planned_output_tokens_per_s == pytest.approx(6 * 400)
    for name in ("usd_per_million_output_tokens", "usd_per_thousand_requests"):
        assert getattr(one, name).mid == pytest.approx(3 * getattr(other, name).mid)
    assert one.utilisation == pytest.approx(other.utilisation / 3)
    assert one.utilisation_at_peak == pytest.approx(other.utilisation)
    assert other.utilisation_at_peak is None
    bill = float(one.bill.total_usd) if one.bill else 0.0
    tokens = one.planned_output_tokens_per_s * 730 * 3600
    assert one.usd_per_million_output_tokens.mid == pytest.approx(bill / tokens * 1e6)


def test_a_day_shape_sizes_for_its_busiest_hour() -> None:
    shape = (0.5,) * 12 + (1.5,) * 12
    shaped = _plan({**PLAIN, "arrival": {"hour_of_day": shape}})
    steady = _plan({**PLAIN, "requests_per_s": 9.0})
    assert shaped.options[0].replicas == steady.options[0].replicas
    assert shaped.options[0].planned_output_tokens_per_s == pytest.approx(2400)
    assert any(item.name == "Peak" and "1.50 times" in item.value for item in shaped.assumptions)


def test_a_shape_and_hours_a_month_are_not_both_heard() -> None:
    with pytest.raises(RequestError, match="hour_of_day"):
        _plan({**PLAIN, "arrival": {"hour_of_day": (1.0,) * 24}}, hours_per_month=180)
    peak = _plan({**PLAIN, "arrival": {"peak_requests_per_s": 12}}, hours_per_month=180)
    assert peak.options[0].planned_output_tokens_per_s == pytest.approx(2400)


def test_a_shape_without_a_rate_lowers_what_a_node_is_used_for() -> None:
    load = {"prompt_tokens": 1500, "output_tokens": 400}
    steady = _plain_option(_plan(load))
    shaped = _plain_option(_plan({**load, "arrival": {"hour_of_day": (0.0,) * 12 + (1.0,) * 12}}))
    assert shaped.utilisation == pytest.approx(steady.utilisation / 2)
    assert shaped.usd_per_million_output_tokens.mid == pytest.approx(
        2 * steady.usd_per_million_output_tokens.mid
    )


def test_a_prefix_cache_shortens_prompts_and_nothing_else() -> None:
    without, cached = _plan(PLAIN), _plan({**PLAIN, "prefix_cache_hit_rate": 0.6})
    one, other = _plain_option(without), _plain_option(cached)
    assert other.output_tokens_per_s.mid / other.replicas > one.output_tokens_per_s.mid / (
        one.replicas
    )
    assert other.memory.request_tokens == one.memory.request_tokens
    assert other.memory.max_concurrency == one.memory.max_concurrency


def test_long_requests_make_steps_longer_and_launch_with_more_room() -> None:
    one, other = _plain_option(_plan(PLAIN)), _plain_option(_plan(VARYING))
    assert other.output_tokens_per_s.mid / other.replicas < one.output_tokens_per_s.mid / (
        one.replicas
    )
    assert "--max-model-len" in other.launch

    def room(option: PlanOption) -> int:
        return int(option.launch.replace("=", " ").split("--max-model-len ")[1].split()[0])

    assert room(other) > room(one)


def test_a_mix_lies_between_its_parts_and_below_the_arithmetic_mean() -> None:
    def tokens(**fields: Any) -> float:
        plan = _plan({**PLAIN, **fields}, max_num_speculative_tokens=1)
        found = next(o for o in plan.options if o.draft == "AngelSlim/Qwen3-32B_eagle3")
        assert found.acceptance is not None
        return found.acceptance.tokens_per_round.mid

    cold, hot = tokens(temperature=0.0), tokens(temperature=1.0)
    mix = tokens(mix=({"share": 1, "temperature": 0.0}, {"share": 1, "temperature": 1.0}))
    assert mix == pytest.approx(2 / (1 / cold + 1 / hot))
    assert hot < mix < (cold + hot) / 2


def test_what_the_workload_says_is_among_the_assumptions() -> None:
    fields = {
        **VARYING,
        "arrival": {"peak_requests_per_s": 9},
        "prefix_cache_hit_rate": 0.3,
        "mix": ({"share": 3, "task": "code", "thinking": False}, {"share": 1}),
    }
    said = {item.name: item.value for item in _plan(fields).assumptions}
    assert "1.50 times the mean (9 requests/s against 6)" in said["Peak"]
    assert "30 %" in said["Prefix cache"]
    assert "75% code at temperature 0, not thinking" in said["Mix"]
    assert "requests of mean length" in said["Lengths"]
    plain = {item.name for item in _plan(PLAIN).assumptions}
    assert not plain & {"Peak", "Prefix cache", "Mix", "Lengths"}


def test_a_plan_with_a_rich_workload_survives_its_file() -> None:
    plan = _plan({**VARYING, "arrival": {"peak_requests_per_s": 9}})
    again = Plan.model_validate_json(plan.model_dump_json())
    assert again.request == plan.request
    assert again.options[0].utilisation_at_peak == plan.options[0].utilisation_at_peak


def test_long_tails_leave_room_in_the_pool_for_fewer_requests_at_once() -> None:
    tails = {
        "requests_per_s": 1.0,
        "prompt_lengths": {"kind": "lognormal", "mean_tokens": 3000, "p95_tokens": 10_000},
        "output_lengths": {"kind": "lognormal", "mean_tokens": 2000, "p95_tokens": 7000},
    }
    means = {"requests_per_s": 1.0, "prompt_tokens": 3000, "output_tokens": 2000}
    one, other = _plain_option(_plan(means)), _plain_option(_plan(tails))
    assert one.memory.kv_pool_bytes == other.memory.kv_pool_bytes
    assert one.memory.max_concurrency is not None
    assert other.memory.max_concurrency is not None
    assert other.memory.max_concurrency < 0.75 * one.memory.max_concurrency
    assert other.max_concurrency <= other.memory.max_concurrency
    # what so many keep at once in 99 % of steps is what the pool holds
    resident = resident_tokens(Workload.model_validate(tails))
    kept = float(resident.of_batch(other.memory.max_concurrency))
    assert kept == pytest.approx(other.memory.kv_tokens, rel=0.02)
