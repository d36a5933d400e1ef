"""What people hand to the library in a notebook: paths and texts, one or several."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import capplan

TARGET = "Qwen/Qwen3-32B"
CONFIG = Path(__file__).parents[1] / "data" / "configs" / "Qwen--Qwen3-0.6B.json"


@pytest.fixture(scope="module")
def plan() -> capplan.Plan:
    load = capplan.Workload(requests_per_s=0.5)
    request = capplan.PlanRequest(targets=(TARGET,), budget_usd_per_month=6000, workload=load)
    return capplan.recommend(request)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_configuration_may_be_a_text_or_a_path(kind: type) -> None:
    assert capplan.load_llm(kind(CONFIG)).vocab_size == 151_936
    assert capplan.pair(TARGET, kind(CONFIG)).works


def test_a_relative_path_is_never_taken_for_an_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CONFIG.parent)
    assert capplan.load_llm(Path(CONFIG.name)).hidden == 1024
    with pytest.raises(capplan.CapplanError, match="no file or directory"):
        capplan.load_llm(Path("Qwen/Qwen3-32B"))


def test_one_price_file_is_as_good_as_a_list_of_one(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("gpu,usd_per_gpu_hour\nl40s,0.70\n")
    catalog = capplan.load_catalog()
    expected = capplan.with_price_files(catalog, [own], only=True).prices
    assert [str(price.usd_per_gpu_hour) for price in expected] == ["0.70"]
    for given in (own, str(own), [str(own)]):
        assert capplan.with_price_files(catalog, given, only=True).prices == expected


def test_one_api_is_as_good_as_a_list_of_one(plan: capplan.Plan) -> None:
    name = "groq:qwen/qwen3-32b"
    found = capplan.compare_with_apis(plan, name)
    assert len(found) == 1
    assert found == capplan.compare_with_apis(plan, (name,))


def test_a_frame_names_units_and_holds_the_plans_own_bill(plan: capplan.Plan) -> None:
    frame = capplan.to_frame(plan)
    assert len(frame) == len(plan.options)
    for row, option in zip(frame.to_dict("records"), plan.options, strict=True):
        paid_usd = math.prod((row["usd_per_gpu_hour"], row["gpus_rented"], row["bill_paid_hours"]))
        assert row["bill_total_usd"] == pytest.approx(paid_usd, rel=1e-12)
        assert row["bill_total_usd"] == float(option.bill.total_usd)
