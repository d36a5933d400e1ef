"""A machine without a GPU is a CPU host in every renderer, bills included."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest

from capplan.economics.bill import Tariff, monthly_bill
from capplan.reporting import render
from capplan.schema.plan import Assumption, Plan
from capplan.schema.price import BillItem
from capplan.schema.provenance import Kind

_SCRIPT = re.compile(r"<(script|style)[^>]*>.*?</\1>", re.DOTALL)


@pytest.fixture(scope="module")
def plan(sample_plans: Any) -> Plan:
    fields: dict[str, Any] = {
        "on_cpu": True,
        "gpu": "profile:AMD EPYC",
        "gpu_name": "AMD EPYC",
        "tensor_parallel": 1,
        "replicas": 2,
        "gpus_rented": 2,
        "provider": "own",
        "price_tier": "own",
        "instance": "",
        "region": "",
        "usd_per_gpu_hour": 0.1,
        "bill": monthly_bill(2, 1, Tariff(Decimal("0.10"), 1)),
        "launch": "",
    }
    option = sample_plans.make_option(**fields)
    plain = sample_plans.make_baseline(**fields)
    made: Plan = sample_plans.make_plan(
        options=(option, plain), baseline=plain, rejections=(), advice=(),
        assumptions=(Assumption(name="a", value="b", kind=Kind.ASSUMED, source="c"),),
        schedules=(sample_plans.length_schedule(captured_tokens=None, graph_edges=(), notes=()),),
    )  # fmt: skip
    return made


def test_the_table_names_hosts_and_their_price(plan: Plan) -> None:
    text = " ".join(render(plan, "table").split())
    assert "2 replicas of a CPU host (AMD EPYC)" in text
    assert "0.10 USD/host-h" in text
    assert "146.00 for CPU hosts in use (2) = 146.00 USD: 2 nodes of one CPU host" in text
    assert "2 CPU hosts, AMD EPYC" in text
    assert "GPU" not in text.replace("CPU hosts, offer", "")


def test_the_page_names_no_gpu(plan: Plan) -> None:
    shown = re.sub(r"<[^>]+>", " ", _SCRIPT.sub(" ", render(plan, "html")))
    assert "Memory of one CPU host" in shown
    assert "CPU hosts are paid for by the hour" in shown
    assert "2 CPU hosts at 0.10 USD/host-h" in shown
    assert [line for line in shown.splitlines() if "GPU" in line] == []


def test_idle_hosts_are_called_so(plan: Plan) -> None:
    option = plan.options[0]
    bill = monthly_bill(1, 1, Tariff(Decimal("0.10"), 2))
    assert bill.usd(BillItem.IDLE_GPUS) > 0
    idle = option.model_copy(update={"bill": bill, "usd_per_month_idle": 36.5})
    text = " ".join(render(plan.model_copy(update={"options": (idle,)}), "table").split())
    assert "of it for idle CPU hosts" in text
    assert "36.50 for idle CPU hosts" in text


def test_a_mixed_table_is_headed_by_neither(plan: Plan, sample_plans: Any) -> None:
    mixed = plan.model_copy(update={"options": (plan.options[0], sample_plans.make_option())})
    assert "Hosts, offer" in render(mixed, "table")
