"""Two fleets compared: dollars by service and cause that add up exactly to the difference."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Any

import pytest

import capplan
from capplan.api.comparing import DiffWishes, diff_plans
from capplan.api.notebook import Plan
from capplan.planning.plan_difference import bill_usd
from capplan.reporting.diff_text import render_diff
from capplan.schema.difference import PlanDifference
from capplan.schema.paid_parts import paid_parts
from capplan.schema.plan import PlanRequest
from capplan.schema.services import NamedWorkload
from capplan.schema.workload import Slo, Workload

LLAMA, QWEN = "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-32B"
CHAT = Workload(requests_per_s=8.0, prompt_tokens=1200, output_tokens=300)
FEW = Workload(requests_per_s=0.4, prompt_tokens=1000, output_tokens=200)
WRITE = Workload(requests_per_s=1.0, prompt_tokens=300, output_tokens=1500)
_COMMENT_CHARACTERS = 65_536
"""Longest comment that GitHub takes."""


def service(name: str, load: Workload, **fields: Any) -> NamedWorkload:
    return NamedWorkload(name=name, workload=load, **fields)


def request(*services: NamedWorkload, **fields: Any) -> PlanRequest:
    given: dict[str, Any] = {
        "targets": (LLAMA,),
        "budget_usd_per_month": 100_000,
        "gpus": ("h100-sxm-80gb", "l40s-48gb"),
        "max_num_speculative_tokens": 2,
    }
    return PlanRequest(services=services, **{**given, **fields})


CHAT_ONE, FAQ = service("chat", CHAT), service("faq", FEW)
THINK = service("think", WRITE, target=QWEN)
TWICE = service("chat", CHAT.model_copy(update={"requests_per_s": 16.0}), slo=Slo(tpot_ms=15))
FULLER = service("faq", FEW.model_copy(update={"utilisation": 0.8}))
"""On replicas of its own: shared ones have one utilisation."""
MAIL = service("mail", FEW)
FLEETS = {
    "apart": request(CHAT_ONE, THINK),
    "more load": request(TWICE, THINK),
    "another": request(CHAT_ONE, THINK, FAQ),
    "shared": request(FAQ, MAIL),
    "placed apart": request(FULLER, MAIL),
    "one service": request(targets=(LLAMA,), workload=CHAT),
    "of another load": request(targets=(LLAMA,), workload=FEW),
    "of another LLM": request(targets=("Qwen/Qwen3-8B",), workload=CHAT),
}
PAIRS = [
    ("apart", "more load"), ("apart", "another"), ("another", "more load"),
    ("shared", "placed apart"), ("shared", "another"), ("one service", "apart"),
    ("apart", "one service"), ("one service", "shared"), ("of another LLM", "apart"),
    ("of another load", "apart"),
]  # fmt: skip


@cache
def plan(name: str) -> Plan:
    return capplan.recommend(FLEETS[name])


def total(found: Plan) -> Decimal:
    return sum((bill_usd(part.option) for part in paid_parts(found)), Decimal(0))


def compared(before: str, after: str) -> PlanDifference:
    return diff_plans(plan(before), plan(after), (before, after))


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_the_causes_add_up_to_the_difference_of_the_fleets_bills(before: str, after: str) -> None:
    found = compared(before, after)
    assert found.usd_before == total(plan(before))
    assert found.usd_after == total(plan(after))
    assert sum(part.usd for part in found.parts) == found.usd_after - found.usd_before
    assert sum(row.usd_before for row in found.services) == found.usd_before
    assert sum(row.usd_after for row in found.services) == found.usd_after
    assert all(part.services for part in found.parts)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_the_other_way_round_every_dollar_has_the_other_sign(before: str, after: str) -> None:
    there, back = compared(before, after), compared(after, before)
    assert {(p.services, p.cause): p.usd for p in there.parts if p.cause == "placement"} == {
        (p.services, p.cause): -p.usd for p in back.parts if p.cause == "placement"
    }
    mine, theirs = (sum(abs(part.usd) for part in one.parts) for one in (there, back))
    assert mine == pytest.approx(theirs, abs=Decimal("0.2"))


def test_a_fleet_compared_with_itself_changes_nothing() -> None:
    found = compared("another", "another")
    assert found.parts == ()
    assert found.settings == ()
    assert all(row.usd_before == row.usd_after for row in found.services)


def test_more_load_of_one_service_is_told_of_that_service_alone() -> None:
    found = compared("apart", "more load")
    assert {part.services for part in found.parts} == {"chat"}
    load = next(part for part in found.parts if part.cause == "load")
    assert load.usd > 0
    assert (load.before, load.after) == ("2,400 tokens/s", "4,800 tokens/s")
    named = {setting.name for setting in found.settings}
    assert {"chat: requests per s", "chat: tpot ms"} <= named
    assert not any(name.startswith("think") for name in named)


def test_a_service_that_comes_costs_what_its_replicas_cost() -> None:
    found = compared("apart", "another")
    added = [part for part in found.parts if part.cause == "service added"]
    assert [part.services for part in added] == ["faq"]
    assert added[0].before == "not there"
    removed = compared("another", "apart").parts
    gone = next(part for part in removed if part.cause == "service removed")
    assert (gone.services, gone.usd) == ("faq", -added[0].usd)


def test_moving_apart_is_a_cause_of_its_own() -> None:
    found = compared("shared", "placed apart")
    moved = next(part for part in found.parts if part.cause == "placement")
    assert (moved.before, moved.after) == ("faq + mail", "faq, mail")
    # two small services shared one GPU: what that saved is gone
    assert moved.usd > 0
    assert {part.services for part in found.parts} <= {"faq", "mail", "faq + mail"}


def test_a_plan_of_one_service_is_named_by_the_load_that_it_has() -> None:
    found = compared("one service", "apart")
    by_name = {row.services: row for row in found.services}
    assert by_name["chat"].usd_before == found.usd_before
    assert by_name["think"].usd_before == 0
    assert found.notes == ()


def test_a_plan_of_one_service_that_none_has_is_told_as_such() -> None:
    found = compared("of another LLM", "apart")
    assert {part.cause for part in found.parts} == {"service added", "service removed"}
    assert "of one service, whose load is that of none in apart" in found.notes[0]


def test_a_plan_of_another_load_is_taken_for_the_only_service_of_its_llm() -> None:
    found = compared("of another load", "apart")
    assert found.notes[0] == "of another load is of one service: taken for chat, alone of its LLM"
    assert "load" in {part.cause for part in found.parts if part.services == "chat"}


def test_a_fleet_without_an_option_has_no_dollars_and_says_so() -> None:
    nothing = capplan.recommend(FLEETS["apart"].model_copy(update={"budget_usd_per_month": 100}))
    found = diff_plans(plan("apart"), nothing, ("before", "after"), DiffWishes(fail_over=0.1))
    assert found.usd_after is None
    assert found.usd_before == total(plan("apart"))
    assert found.parts == ()
    assert "no option to compare in after" in found.notes
    assert [(one.name, one.before, one.after) for one in found.settings] == [
        ("budget USD a month", "100000", "100")
    ]
    assert found.gate is not None
    assert found.gate.failed


def test_the_gate_is_on_the_bill_of_all_services() -> None:
    found = diff_plans(plan("apart"), plan("more load"), wishes=DiffWishes(fail_over=0.01))
    assert found.gate is not None
    assert found.gate.worsening is not None
    expected = float(total(plan("more load")) / total(plan("apart"))) - 1.0
    assert found.gate.worsening.mid == pytest.approx(expected)


def test_markdown_of_many_services_fits_a_comment_and_its_causes_add_up() -> None:
    names = [f"service-{number:02d}-of-the-assistant" for number in range(12)]
    before, after = (
        capplan.recommend(
            request(
                *(
                    service(name, FEW.model_copy(update={"requests_per_s": rate}), target=target)
                    for name, target in zip(names, [LLAMA, "Qwen/Qwen3-8B"] * 6, strict=True)
                ),
                gpus=("l40s-48gb",),
                tensor_parallel=(1,),
                providers=("runpod",),
            )
        )
        for rate in (0.4, 3.0)
    )
    text = render_diff(diff_plans(before, after, ("a.json", "b.json")), markdown=True)
    assert len(text) < _COMMENT_CHARACTERS / 2
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    start = next(at for at, row in enumerate(rows) if row[1] == "cause") + 2
    end = next(at for at, row in enumerate(rows) if row[1] == "together")
    dollars = [Decimal(row[2].replace(",", "")) for row in rows[start : end + 1]]
    assert sum(dollars[:-1]) == dollars[-1]
