"""Plans of services on replicas of their own: every command acts on all of them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

import capplan
from capplan.api.answers import Questions, answer_what_if
from capplan.api.notebook import Plan
from capplan.api.part_launching import launch_parts
from capplan.economics.focus import focus_rows
from capplan.errors import RequestError
from capplan.planning.part_plans import part_plans
from capplan.reporting import formatting as fmt
from capplan.reporting.render import render
from capplan.schema.answers import PlanAnswers
from capplan.schema.arrival import Arrival
from capplan.schema.plan import PlanRequest
from capplan.schema.services import NamedWorkload
from capplan.schema.workload import Slo, Workload

Call = Callable[..., tuple[int, str, str]]
LLAMA, QWEN = "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-32B"
DAY = Arrival(hour_of_day=(1.0,) * 12 + (4.0,) * 12)
CHAT = Workload(requests_per_s=8.0, prompt_tokens=1200, output_tokens=300, arrival=DAY)
FEW = Workload(requests_per_s=0.4, prompt_tokens=1000, output_tokens=200)
THINK = Workload(requests_per_s=1.0, prompt_tokens=300, output_tokens=1500, arrival=DAY)
ASKED = PlanRequest(
    targets=(LLAMA,),
    budget_usd_per_month=50_000,
    gpus=("h100-sxm-80gb", "l40s-48gb"),
    max_num_speculative_tokens=2,
    services=(
        NamedWorkload(name="chat", workload=CHAT, slo=Slo(tpot_ms=30)),
        NamedWorkload(name="think", workload=THINK, target=QWEN),
    ),
)


@cache
def plan() -> Plan:
    found = capplan.recommend(ASKED)
    assert [part.label for part in part_plans(found)] == ["chat", "think"]
    return found


@cache
def grouped() -> Plan:
    """Return a plan with a part of two services."""
    small = (NamedWorkload(name=name, workload=FEW) for name in ("faq", "mail"))
    found = capplan.recommend(ASKED.model_copy(update={"services": (*small, ASKED.services[1])}))
    assert [part.label for part in part_plans(found)] == ["faq + mail", "think"]
    return found


def bill(found: Plan) -> float:
    assert found.fleet is not None
    return found.fleet.ways[0].usd_per_month.mid


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(plan().model_dump_json(), encoding="utf-8")
    return path


def asked(**questions: Any) -> PlanAnswers:
    return answer_what_if(plan(), Questions(**questions))


# ---- cost rows


@pytest.mark.parametrize("found", [plan, grouped])
def test_cost_rows_are_of_every_part_and_add_up_to_the_fleets_bill(
    found: Callable[[], Plan],
) -> None:
    made, rows = found(), focus_rows(found())
    parts = part_plans(made)
    assert [row["ResourceName"] for row in rows] == [part.label for part in parts]
    costs = [row["EffectiveCost"] for row in rows]
    assert sum(map(Decimal, map(str, costs))) == Decimal(str(round(bill(made), 2)))
    assert {row["BilledCost"] for row in rows} == {Decimal("0.00")}
    assert made.fleet is not None
    interval = made.fleet.ways[0].usd_per_month
    for name, expected in (("x_CostLow", interval.low), ("x_CostHigh", interval.high)):
        assert float(sum(Decimal(str(row[name])) for row in rows)) == pytest.approx(expected)
    for row, part in zip(rows, parts, strict=True):
        assert row["ResourceId"] == f"capplan-estimate/{part.label}"
        assert json.loads(str(row["Tags"])) == {"service": part.label}
        assert row["x_OptionId"] == part.option.id


def test_another_option_is_one_of_the_largest_part_beside_the_same_others() -> None:
    second = {row["ResourceName"]: row["x_OptionId"] for row in focus_rows(plan(), rank=2)}
    first = {row["ResourceName"]: row["x_OptionId"] for row in focus_rows(plan())}
    changed = {name for name in first if first[name] != second[name]}
    fleet = plan().fleet
    assert fleet is not None
    largest = fleet.largest_part
    assert largest is not None
    assert changed == {largest.label}
    assert second[largest.label] == plan().options[1].id


def test_the_report_command_exports_them(run: Call, file: Path) -> None:
    code, out, _ = run("report", file, "--format", "focus", "--month", "2027-01")
    assert code == 0
    rows = list(csv.DictReader(StringIO(out)))
    assert [row["ResourceName"] for row in rows] == ["chat", "think"]
    assert {row["ResourceType"] for row in rows} == {"Replicas"}


# ---- launch


def test_every_part_has_a_command_that_says_whom_it_serves(run: Call, file: Path) -> None:
    code, out, _ = run("launch", file)
    assert code == 0
    blocks = out.split("\n\n")
    assert len(blocks) == 2
    for block, name, target in zip(blocks, ("chat", "think"), (LLAMA, QWEN), strict=True):
        assert f"# Serves {name}." in block
        assert f"vllm serve {target}" in block
    assert run("launch", file, "--service", "think")[1] == blocks[1]


def test_manifests_of_two_services_of_one_llm_do_not_replace_each_other() -> None:
    named = ("big talk", "big-talk")
    loads = (NamedWorkload(name=name, workload=CHAT) for name in named)
    fuller = CHAT.model_copy(update={"utilisation": 0.8})
    first, second = (one.model_copy() for one in loads)
    apart = (first, second.model_copy(update={"workload": fuller}))
    found = capplan.recommend(ASKED.model_copy(update={"services": apart}))
    with pytest.raises(RequestError, match="would both be called vllm-big-talk"):
        launch_parts(found, form="kubernetes")
    assert [text.services for text in launch_parts(found)] == list(named)


def test_manifests_are_named_by_service(run: Call, file: Path) -> None:
    _, out, _ = run("launch", file, "--as", "kubernetes")
    names = [
        one["metadata"]["name"] for one in yaml.safe_load_all(out) if one["kind"] == "Service"
    ]
    assert names == ["vllm-chat", "vllm-think"]


def test_json_is_a_list_of_launches(run: Call, file: Path) -> None:
    _, out, _ = run("launch", file, "--format", "json")
    found = json.loads(out)
    assert [(one["services"], one["settings"]["target"]) for one in found] == [
        ("chat", LLAMA),
        ("think", QWEN),
    ]


@pytest.mark.parametrize(
    "flags", [("--as", "python"), ("--target-path", "/models/t"), ("--lengths", "[[1,9,1]]")]
)
def test_what_is_of_one_server_asks_for_the_service(
    run: Call, file: Path, flags: tuple[str, str]
) -> None:
    code, _, err = run("launch", file, *flags)
    assert code == 2
    assert "add --service NAME" in err
    assert run("launch", file, *flags, "--service", "chat")[0] == 0


def test_in_python_one_text_of_several_parts_is_refused_with_the_way_to_all() -> None:
    with pytest.raises(RequestError, match=r"2 sets of replicas \(chat, think\)") as caught:
        capplan.launch(plan())
    assert "launch_parts" in caught.value.remedy


def test_what_is_of_one_set_of_replicas_asks_for_the_service(run: Call, file: Path) -> None:
    api = ("--api-price", "in=0.10,out=0.40")
    for command in (("load", file), ("schedule", file), ("breakeven", "--plan", file, *api)):
        code, _, said = run(*map(str, command))
        assert code == 2
        assert "2 sets of replicas (chat, think)" in said
        assert "--service" in said


def test_the_load_that_is_simulated_is_that_of_the_service(run: Call, file: Path) -> None:
    for name, part in zip(("chat", "think"), part_plans(plan()), strict=True):
        wanted = ("--service", name, "--requests", "50", "--share", "0.5", "--format", "json")
        code, out, said = run("load", str(file), *wanted)
        assert code == 0, said
        found, load = json.loads(out), part.plan.request.workload
        assert found["target"] == part.option.target
        assert found["prompt_lengths"]["mean_tokens"] == load.prompt_tokens
        assert found["output_lengths"]["mean_tokens"] == load.output_tokens


def test_services_that_share_replicas_are_simulated_with_the_requests_of_both() -> None:
    small = capplan.ServingWishes(requests=50, shares=(0.5,))
    of_mail = capplan.simulate_serving(grouped(), small, service="mail")
    assert of_mail == capplan.simulate_serving(grouped(), small, service="faq")
    assert of_mail.target == LLAMA


def test_a_service_beside_an_api_is_its_own_tokens(run: Call, file: Path) -> None:
    api = ("--api-price", "in=0.10,out=0.40", "--format", "json")
    for name, part in zip(("chat", "think"), part_plans(plan()), strict=True):
        code, out, said = run("breakeven", "--plan", str(file), "--service", name, *api)
        assert code == 0, said
        (found,) = json.loads(out)["comparisons"]
        assert float(found["gpu_usd_per_month"]) == pytest.approx(part.option.usd_per_month.mid)


def test_a_services_name_cannot_leave_its_comment() -> None:
    evil = ASKED.services[0].model_copy(update={"name": "chat\nrm -rf /"})
    found = capplan.recommend(ASKED.model_copy(update={"services": (evil, ASKED.services[1])}))
    for form in ("command", "kubernetes"):
        for text in launch_parts(found, form=form):
            assert not any(line.startswith("rm") for line in text.text.splitlines())


def test_the_report_has_a_launch_text_of_every_part() -> None:
    text, page = render(plan(), "table"), render(plan(), "html")
    for name in ("chat", "think"):
        assert f"Launch {name}:" in text
        assert f"Launch one replica for {name}" in page


# ---- what if


def test_sensitivity_is_the_sum_over_the_parts() -> None:
    found = asked(move_by=0.3)
    assert found.usd_per_month == pytest.approx(bill(plan()))
    assert found.sensitivity is not None
    assert found.sensitivity.base.usd_per_month == pytest.approx(bill(plan()))
    parts = [part.sensitivity for part in found.parts]
    for row in found.sensitivity.rows:
        for side in ("less", "more"):
            ends = [
                getattr(one, side)
                for part in parts
                if part is not None
                for one in part.rows
                if one.factor_name == row.factor_name
            ]
            assert len(ends) == 2
            end = getattr(row, side)
            assert end.usd_per_month == pytest.approx(sum(one.usd_per_month for one in ends))
            assert end.tpot_ms == max(one.tpot_ms for one in ends)
            assert end.factor == ends[0].factor
    price = next(row for row in found.sensitivity.rows if row.factor_name == "price")
    assert price.more.usd_per_month == pytest.approx(1.3 * bill(plan()))


def test_twice_the_load_is_twice_that_of_every_service() -> None:
    found = asked(factors={"load": (1.0, 2.0)})
    assert found.scenarios is not None
    once, twice = found.scenarios.rows
    assert once["usd_per_month"] == pytest.approx(bill(plan()))
    doubled = [
        one.model_copy(
            update={
                "workload": one.workload.model_copy(
                    update={"requests_per_s": 2 * (one.workload.requests_per_s or 0.0)}
                )
            }
        )
        for one in ASKED.services
    ]
    made = capplan.recommend(ASKED.model_copy(update={"services": tuple(doubled)}))
    assert twice["usd_per_month"] == pytest.approx(bill(made))
    own = [twice["usd_per_month of chat"], twice["usd_per_month of think"]]
    assert sum(float(str(usd)) for usd in own) == pytest.approx(bill(made))
    assert any("load of every service" in said for said in found.held_fixed)


def test_the_budget_is_held_against_the_sum() -> None:
    found = asked(factors={"price": (1.0, 50_000 / bill(plan()) * 1.01)})
    assert found.scenarios is not None
    assert [row["feasible"] for row in found.scenarios.rows] == [True, False]
    largest = max(part.option.usd_per_month.mid for part in part_plans(plan()))
    assert largest * 50_000 / bill(plan()) < 50_000


def test_growth_and_spares_and_hours_are_sums_over_the_parts() -> None:
    found = asked(growth_per_month=0.1, months=6, spares=1, autoscale=True)
    growths = [part.growth for part in found.parts if part.growth is not None]
    assert found.growth is not None
    for at, month in enumerate(found.growth.months):
        assert month.usd_per_month == sum(one.months[at].usd_per_month for one in growths)
        assert month.replicas == sum(one.months[at].replicas for one in growths)
    assert found.growth.outgrown_in_month == min(one.outgrown_in_month or 99 for one in growths)
    assert found.spares is not None
    assert [row.spare_replicas for row in found.spares.rows] == [0, 2]
    assert found.autoscaling is not None
    assert found.autoscaling.fixed_usd_per_month == pytest.approx(bill(plan()))
    assert found.autoscaling.saved_usd_per_month > 0
    for at, hour in enumerate(found.autoscaling.hours):
        replicas = [
            part.autoscaling.hours[at].replicas for part in found.parts if part.autoscaling
        ]
        assert hour.replicas == sum(replicas)


def test_a_part_without_hours_is_named() -> None:
    with pytest.raises(RequestError, match=r"^faq \+ mail: .*in which hours its load arrives"):
        answer_what_if(grouped(), Questions(autoscale=True))


def test_one_service_is_answered_alone_where_that_is_asked(run: Call, file: Path) -> None:
    _, out, _ = run("what-if", file, "--service", "chat", "--spares", "1")
    assert "chat alone" in out
    usd = part_plans(plan())[0].option.usd_per_month.mid
    assert f"As planned: {usd:,.0f} USD" in out


BLENDS = {
    "--spot-share": ("--spot-share", "0.5", "--interruption-overhead", "0.1", "--spot-price", "1"),
    "--commit-share": ("--commit-share", "0.5", "--commit-price", "1"),
}


@pytest.mark.parametrize("question", BLENDS)
def test_blends_are_told_of_every_part_and_of_all(
    run: Call, tmp_path: Path, question: str
) -> None:
    alike = capplan.recommend(ASKED.model_copy(update={"gpus": ("h100-sxm-80gb",)}))
    path = tmp_path / "alike.json"
    path.write_text(alike.model_dump_json(), encoding="utf-8")
    _, out, _ = run("what-if", path, *BLENDS[question])
    lines = out.splitlines()
    assert lines.index("chat:") < lines.index("think:") < lines.index("All services:")
    _, table, _ = run("what-if", path, *BLENDS[question], "--format", "csv")
    rows = list(csv.DictReader(StringIO(table)))
    assert [row["services"] for row in rows] == ["chat", "think"]
    planned = sum(float(row["planned_usd_per_month"]) for row in rows)
    assert planned == pytest.approx(bill(alike))
    total = sum(float(row["usd_per_month"]) for row in rows)
    assert f"together   {fmt.usd(total)} USD a month, planned {fmt.usd(planned)}" in out


@pytest.mark.parametrize("question", BLENDS)
def test_one_stated_price_is_not_taken_for_different_gpus(
    run: Call, file: Path, question: str
) -> None:
    assert len({part.option.gpu_name for part in part_plans(plan())}) > 1
    code, _, err = run("what-if", file, *BLENDS[question])
    assert code == 2
    assert "price of one kind of GPU" in err
    assert run("what-if", file, *BLENDS[question], "--service", "chat")[0] == 0


def test_another_option_in_a_what_if_is_one_of_the_largest_part() -> None:
    found = answer_what_if(plan(), Questions(spares=1), rank=2)
    assert plan().options[1].id in found.option
    assert "option 2 is one of the largest part" in found.notes[0]


def test_a_fleet_above_its_budget_is_told_the_budget_and_the_load_that_it_takes(
    run: Call, tmp_path: Path
) -> None:
    half = ASKED.model_copy(update={"budget_usd_per_month": bill(plan()) * 0.6})
    path = tmp_path / "over.json"
    path.write_text(capplan.recommend(half).model_dump_json(), encoding="utf-8")
    _, text, _ = run("what-if", path, "--format", "json")
    budget, load = json.loads(text)["ways_out"]
    assert (budget["what"], load["what"]) == ("budget", "load")
    assert budget["needed"] == pytest.approx(bill(plan()), abs=0.01)
    assert load["usd_per_month"] <= half.budget_usd_per_month
    _, table, _ = run("what-if", path, "--set", f"load={load['needed']},1", "--format", "json")
    rows = json.loads(table)["scenarios"]["rows"]
    assert [row["feasible"] for row in rows] == [True, False]


def test_a_scenarios_table_says_whose_option_changes(run: Call, file: Path) -> None:
    _, out, _ = run("what-if", file, "--set", "load=0.1,1")
    (line,) = [one for one in out.splitlines() if one.split()[:1] == ["0.1"]]
    assert line.rstrip().endswith(("chat", "think", "chat, think", "no"))
    _, table, _ = run("what-if", file, "--set", "load=0.1,1", "--format", "csv")
    rows = list(csv.DictReader(StringIO(table)))
    assert float(rows[1]["usd_per_month"]) == pytest.approx(bill(plan()))


def test_a_service_that_cannot_be_served_has_its_own_ways_out(run: Call, tmp_path: Path) -> None:
    rush = ASKED.services[0].model_copy(update={"name": "rush", "slo": Slo(tpot_ms=1.0)})
    found = capplan.recommend(ASKED.model_copy(update={"services": (*ASKED.services, rush)}))
    path = tmp_path / "plan.json"
    path.write_text(found.model_dump_json(), encoding="utf-8")
    code, out, _ = run("what-if", path)
    assert code == 0
    assert "What each service needs, one of its lines:" in out
    (line,) = [one for one in out.splitlines() if one.startswith("  rush ")]
    assert "TPOT limit" in line
    _, text, _ = run("what-if", path, "--format", "json")
    (way,) = json.loads(text)["ways_out"]
    assert (way["services"], way["what"], way["asked"]) == ("rush", "tpot", 1.0)
    assert f"a TPOT limit of {way['needed']:,g} ms" in found.verdict.needed


# ---- differences


def test_diff_tells_fleets_service_by_service(run: Call, file: Path, tmp_path: Path) -> None:
    other = tmp_path / "grouped.json"
    other.write_text(grouped().model_dump_json(), encoding="utf-8")
    code, out, _ = run("diff", file, other, "--format", "markdown")
    assert code == 0
    assert "By service, USD a month" in out
    assert "service removed" in out
    assert "service added" in out
    _, text, _ = run("diff", file, other, "--format", "json")
    found = json.loads(text)
    change = Decimal(str(found["usd_after"])) - Decimal(str(found["usd_before"]))
    assert sum(Decimal(str(part["usd"])) for part in found["parts"]) == change


def test_a_profile_checks_the_part_on_its_llm(synthetic: Any) -> None:
    from capplan.api.standing import plan_for
    from capplan.profiles.store import StoredProfile

    profile, arrays = synthetic.profile()
    stored = StoredProfile(profile, arrays, Path("profile.json"))
    made = plan()
    assert plan_for(made, stored).plan is made
    assert made.fleet is not None
    way = made.fleet.ways[0]
    chat, think = way.parts
    assert chat.planned is not None
    assert made.fleet.largest_part is think
    other = chat.planned.model_copy(update={"target": profile.target.spec.id})
    parts = (chat.model_copy(update={"planned": other}), think)
    ways = (way.model_copy(update={"parts": parts}),)
    moved = made.model_copy(update={"fleet": made.fleet.model_copy(update={"ways": ways})})
    assert plan_for(moved, stored).services == ("chat",)
    assert plan_for(moved, stored).option == other
