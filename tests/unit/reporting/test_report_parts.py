"""What the page says beyond the terminal: crossing, confidence, checks, memory, origins."""

from __future__ import annotations

import re
from typing import Any

import pytest

from capplan.reporting.checks_view import build_checks
from capplan.reporting.confidence_view import Grade, build_confidence
from capplan.reporting.crossing_view import build_crossing
from capplan.reporting.memory_view import build_memory_bar, memory_rows
from capplan.reporting.money_view import build_money
from capplan.reporting.origins_view import build_origins
from capplan.reporting.page import visible
from capplan.reporting.report_view import build_parts
from capplan.reporting.sensitivity_view import build_sensitivity
from capplan.reporting.what_if_controls import build_controls
from capplan.schema.answers import PlanAnswers, Sensitivity, SensitivityEnd, SensitivityRow
from capplan.schema.plan import LoadPoint, Tier
from capplan.schema.price import Purchase
from capplan.schema.provenance import Kind, Source
from capplan.schema.quantity import Quantity
from capplan.schema.workload import Slo, Workload


def _curve(sample_plans: Any, *speedups: tuple[int, float]) -> tuple[LoadPoint, ...]:
    template = sample_plans.load_curve()[0]
    return tuple(
        template.model_copy(
            update={"concurrency": load, "speedup": Quantity(low=s - 0.2, mid=s, high=s + 0.2)}
        )
        for load, s in speedups
    )


def test_the_crossing_lies_where_the_straight_line_meets_one(sample_plans: Any) -> None:
    curve = _curve(sample_plans, (1, 1.6), (10, 1.4), (20, 0.9))
    found = build_crossing(sample_plans.make_option(load_curve=curve))
    assert found is not None
    assert found.mid == pytest.approx(18.0)
    assert found.early == pytest.approx(14.0)
    assert found.late is None
    assert "loses from 18 requests at once on" in found.sentence
    assert "from 14 to beyond 20" in found.sentence


def test_a_speedup_that_recovers_crosses_at_the_last_place(sample_plans: Any) -> None:
    curve = _curve(sample_plans, (1, 0.9), (10, 1.3), (20, 0.8))
    found = build_crossing(sample_plans.make_option(load_curve=curve))
    assert found is not None
    assert found.mid == pytest.approx(16.0)


def test_speculation_that_always_or_never_pays_is_said_so(sample_plans: Any) -> None:
    pays = build_crossing(
        sample_plans.make_option(load_curve=_curve(sample_plans, (1, 1.9), (8, 1.5)))
    )
    loses = build_crossing(
        sample_plans.make_option(load_curve=_curve(sample_plans, (1, 0.7), (8, 0.5)))
    )
    assert pays is not None
    assert loses is not None
    assert "pays at every load" in pays.sentence
    assert "over the whole interval" in pays.sentence
    assert "loses at every load" in loses.sentence
    assert build_crossing(sample_plans.make_baseline()) is None


def _confidence(sample_plans: Any, **overrides: Any) -> Any:
    read = Source(kind=Kind.CITED, reference="a price list", date="2026-11-20")
    option = sample_plans.make_option(**{"price_source": read, **overrides})
    return build_confidence(sample_plans.make_plan(options=(option,)), option)


def test_confidence_is_that_of_the_weakest_part(sample_plans: Any) -> None:
    assert _confidence(sample_plans).grade is Grade.HIGH
    assert _confidence(sample_plans, tier=Tier.DATASHEET).grade is Grade.LOW
    acceptance = sample_plans.make_option().acceptance
    cited = acceptance.model_copy(update={"source": Source(kind=Kind.CITED, reference="a paper")})
    found = _confidence(sample_plans, acceptance=cited)
    assert found.grade is Grade.FAIR
    assert found.reason == "As sure as its weakest part: the acceptance."
    stated = Source(kind=Kind.ASSUMED, reference="stated with the request")
    assert _confidence(sample_plans, price_source=stated).grade is Grade.FAIR
    assert _confidence(sample_plans, price_tier="marketplace").grade is Grade.LOW


@pytest.mark.parametrize(
    ("day", "grade", "says"),
    [
        ("2026-10-01", Grade.HIGH, "published, read 2026-10-01"),
        ("2026-09-29", Grade.FAIR, "published, read 2026-09-29, 61 days before this plan"),
        ("soon", Grade.HIGH, "published, read soon"),
        (None, Grade.FAIR, "published, without a day"),
    ],
)
def test_a_price_read_long_before_the_plan_is_no_more_than_fair(
    sample_plans: Any, day: str | None, grade: Grade, says: str
) -> None:
    read = Source(kind=Kind.CITED, reference="a price list", date=day)
    price = _confidence(sample_plans, price_source=read).parts[-1]
    assert (price.grade, price.says) == (grade, says)


def test_an_undecided_plan_is_not_called_sure(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    open_ = plan.model_copy(
        update={
            "verdict": plan.verdict.model_copy(
                update={"decided": False, "settled_by": "capplan profile X"}
            )
        }
    )
    part = build_parts(open_)[1]
    assert part.verdict == "Not decided"
    assert part.confidence.headline == "Not decided"
    assert part.confidence.settled_by == "capplan profile X"


def test_a_cheaper_token_is_told_in_dollars_with_the_interval_of_its_change(
    sample_plans: Any,
) -> None:
    rows = {row.label: row for row in build_parts(sample_plans.make_plan())[1].compared}
    changed = rows["A million output tokens"].difference
    assert re.fullmatch(r"-[\d.]+ USD \(-\d+ % \([+-]\d+ to [+-]\d+ %\)\)", changed), changed


def test_checks_name_the_tokens_below_which_a_round_loses(sample_plans: Any) -> None:
    option = sample_plans.make_option(purchase=Purchase.SPOT)
    checks = build_checks(option, Slo(tpot_ms=20.0), build_crossing(option))
    by_name = {check.what: check for check in checks}
    assert by_name["Tokens a round"].stop_if.startswith("below 1.92")
    assert "the interval reaches beyond it" in by_name["Time per output token"].stop_if
    assert "high end" in by_name["Time to first token"].stop_if
    assert "Interruptions" in by_name
    assert "text is the target's own" in " ".join(by_name)


def test_without_speculation_nothing_of_it_is_checked(sample_plans: Any) -> None:
    names = {check.what for check in build_checks(sample_plans.make_baseline(), Slo(), None)}
    times = {"Time per output token", "Time to first token"}
    assert names == times | {"KV pool of a replica", "Price"}


def test_the_memory_bar_fills_the_gpu(sample_plans: Any) -> None:
    option = sample_plans.make_option()
    bar = build_memory_bar(option)
    assert bar is not None
    assert sum(part.percent for part in bar.parts) == pytest.approx(100.0, abs=0.1)
    assert [part.label for part in bar.parts][-2:] == ["KV pool", "Not given to the engine"]
    assert bar.pool_used == "19 %"
    assert "KV pool 41.7 GB" in bar.spoken.replace("kv", "KV")
    assert memory_rows(option)[0].label == "GPU"


def test_every_origin_ends_at_a_source_within_two_steps(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    for option in (plan.options[0], plan.baseline):
        found = build_origins(plan, option, build_money(option))
        by_name = {origin.name: origin for origin in found}
        assert len(by_name) == len(found)
        for origin in found:
            assert set(origin.inputs) <= set(by_name)
            assert origin.inputs or origin.how
            # a derived figure names a source among its inputs, or among theirs
            reached = {by_name[name].kind for name in origin.inputs} | {
                by_name[further].kind for name in origin.inputs for further in by_name[name].inputs
            }
            assert not origin.inputs or reached - {"derived"}, origin.name


def test_a_plan_has_the_knobs_that_it_can_turn(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    knobs = build_controls(plan, plan.options[0], plan.baseline)
    assert knobs is not None
    assert [knob.name for knob in knobs.controls] == [
        "price",
        "load",
        "acceptance",
        "utilisation",
    ]
    assert all(knob.low <= float(knob.shown) <= knob.high for knob in knobs.controls)
    plain = build_controls(plan, plan.baseline, plan.baseline)
    assert plain is not None
    assert [knob.name for knob in plain.controls] == ["price", "load", "utilisation"]
    assert not plain.has_baseline
    without_load = plan.model_copy(
        update={"request": plan.request.model_copy(update={"workload": Workload()})}
    )
    free = build_controls(without_load, plan.options[0], None)
    assert free is not None
    assert "load" not in [knob.name for knob in free.controls]
    assert build_controls(plan, plan.options[1], None) is None  # no bill: an older plan


def _end(factor: float, usd: float | None, **more: Any) -> SensitivityEnd:
    fields = {
        "usd_per_million_output_tokens": usd and usd / 1e4,
        "tpot_ms": 10.0,
        "within_budget": True,
        "choice": "another",
        "choice_changes": False,
    }
    return SensitivityEnd(factor=factor, usd_per_month=usd, **(fields | more))


def test_the_longest_bar_is_the_largest_swing(sample_plans: Any) -> None:
    rows = (
        SensitivityRow(
            factor_name="price",
            less=_end(0.8, 8_000.0),
            more=_end(1.2, 12_000.0),
            swing_usd_per_month=4_000.0,
            swing_usd_per_million_output_tokens=0.4,
        ),
        SensitivityRow(
            factor_name="load",
            less=_end(0.8, 10_000.0),
            more=_end(1.2, 11_000.0, choice_changes=True, within_budget=False),
            swing_usd_per_month=1_000.0,
            swing_usd_per_million_output_tokens=0.1,
        ),
    )
    answers = PlanAnswers(
        plan="plan",
        option="x",
        gpu_name="H100",
        unit="GPU",
        usd_per_month=10_000.0,
        usd_per_million_output_tokens=1.0,
        budget_usd_per_month=10_500.0,
        sensitivity=Sensitivity(
            moved_by=0.2, base=_end(1.0, 10_000.0), rows=rows, left_out=("prompt: no",)
        ),
        notes=("made anew the plan costs more",),
    )
    view = build_sensitivity(answers)
    assert view is not None
    assert [end.percent for end in (view.rows[0].less, view.rows[0].more)] == [100.0, 100.0]
    assert [end.percent for end in (view.rows[1].less, view.rows[1].more)] == [0.0, 50.0]
    assert view.rows[1].more.choice == "another"
    assert view.rows[0].more.choice == ""
    assert view.over_budget
    assert view.notes == ("made anew the plan costs more",)
    assert build_sensitivity(None) is None


@pytest.mark.parametrize("hidden", ["\u202e", "\u2066", "\u200b", "\x1b", "\u200f", "\x00"])
def test_characters_that_hide_or_turn_text_are_made_visible(hidden: str) -> None:
    assert visible(f"a{hidden}b") == "a\N{REPLACEMENT CHARACTER}b"
    assert visible("שלום, Qwen\n\tN = 3") == "שלום, Qwen\n\tN = 3"
