"""Answers of parts added up: by hand, where a part lacks what another has."""

from __future__ import annotations

import pytest

from capplan.planning.fleet_sums import blend_of_all, growth_of_all, spares_of_all, usd_per_million
from capplan.planning.swings import scenarios_of_all, sensitivity_of_all
from capplan.schema.answers import (
    Cell,
    Growth,
    GrowthMonth,
    Scenarios,
    Sensitivity,
    SensitivityEnd,
    SensitivityRow,
    SpareRow,
    Spares,
)


def end(usd: float | None, factor: float = 1.0, tpot_ms: float = 10.0) -> SensitivityEnd:
    return SensitivityEnd(
        factor=factor,
        usd_per_month=usd,
        usd_per_million_output_tokens=None if usd is None else usd / 1e3,
        tpot_ms=None if usd is None else tpot_ms,
        within_budget=True,
        choice="" if usd is None else f"costs {usd:g}",
        choice_changes=usd != 100.0,
    )


def moved(
    left_out: tuple[str, ...] = (), **rows: tuple[float | None, float | None]
) -> Sensitivity:
    return Sensitivity(
        moved_by=0.2,
        base=end(100.0),
        rows=tuple(
            SensitivityRow(
                factor_name=name,
                less=end(less, 0.8),
                more=end(more, 1.2),
                swing_usd_per_month=None,
                swing_usd_per_million_output_tokens=None,
            )
            for name, (less, more) in rows.items()
        ),
        left_out=left_out,
    )


def test_a_part_that_lacks_an_assumption_stays_as_planned_and_is_named() -> None:
    why = "prompt: the lengths are a distribution"
    parts = {
        "chat": moved(price=(80.0, 120.0), prompt=(90.0, 150.0)),
        "a + b": moved((why,), price=(80.0, 120.0)),
    }
    found = sensitivity_of_all(parts, budget_usd=240.0)
    rows = {row.factor_name: row for row in found.rows}
    assert rows["price"].less.usd_per_month == 160.0
    assert rows["prompt"].more.usd_per_month == 250.0
    assert not rows["prompt"].more.within_budget
    assert rows["prompt"].less.within_budget
    assert rows["prompt"].more.factor == 1.2
    assert found.left_out == ("prompt of a + b: the lengths are a distribution",)
    assert [row.factor_name for row in found.rows] == ["price", "prompt"]


def test_what_no_part_has_is_left_out_once() -> None:
    found = sensitivity_of_all({"a": moved(("load: none",)), "b": moved(("load: none",))}, 1e6)
    assert found.left_out == ("load: none",)


def test_one_part_without_an_option_leaves_the_fleet_without_a_bill() -> None:
    found = sensitivity_of_all(
        {"a": moved(price=(80.0, None)), "b": moved(price=(80.0, 90.0))}, 1e6
    )
    (row,) = found.rows
    assert row.more.usd_per_month is None
    assert not row.more.within_budget
    assert row.more.choice == "b: costs 90"
    assert row.swing_usd_per_month is None


def scenario(usd: float | None, **more: Cell) -> dict[str, Cell]:
    return {
        "load_factor": 2.0,
        "feasible": usd is not None,
        "replicas": None if usd is None else 2,
        "usd_per_month": usd,
        "usd_per_million_output_tokens": None if usd is None else 2.0,
        "tpot_ms": None if usd is None else 9.0,
        "choice_changes": False,
        "speculation_changes": False,
        "method": "eagle3",
        "draft": "x/head",
        "num_speculative_tokens": 3,
        "gpu": "l40s",
        "tensor_parallel": 1,
        "provider": "p",
        **more,
    }


@pytest.mark.parametrize(("budget", "feasible"), [(300.0, True), (299.0, False)])
def test_a_scenario_is_feasible_if_the_sum_is_within_the_budget(
    budget: float, feasible: bool
) -> None:
    parts = {
        name: Scenarios(factors={"load": (2.0,)}, rows=(scenario(usd, choice_changes=changes),))
        for name, usd, changes in (("a", 100.0, False), ("b", 200.0, True))
    }
    (row,) = scenarios_of_all(parts, budget).rows
    assert row["feasible"] is feasible
    assert row["usd_per_month"] == (300.0 if feasible else None)
    assert row["usd_per_month of b"] == 200.0
    assert row["changed_services"] == "b"
    assert row["choice of a"] == "head N=3, 2 x TP1 l40s, p"


def test_a_scenario_says_what_serves_each_part_drafts_or_none() -> None:
    plain = scenario(50.0, method="none", draft="", num_speculative_tokens=0)
    parts = {
        name: Scenarios(factors={"load": (2.0,)}, rows=(row,))
        for name, row in (("chat", scenario(50.0)), ("mail", plain))
    }
    (row,) = scenarios_of_all(parts, 1e6).rows
    assert str(row["choice of chat"]).startswith("head N=3, ")
    assert str(row["choice of mail"]).startswith("no speculation, ")


def test_a_scenario_that_one_part_cannot_serve_has_no_sum() -> None:
    rows = {
        name: Scenarios(factors={"load": (2.0,)}, rows=(scenario(usd),))
        for name, usd in (("a", 100.0), ("b", None))
    }
    (row,) = scenarios_of_all(rows, 1e9).rows
    assert (row["feasible"], row["usd_per_month"], row["choice of b"]) == (False, None, "")


def month(number: int, usd: float, utilisation: float) -> GrowthMonth:
    return GrowthMonth(
        month=number,
        load_factor=1.0 + number,
        output_tokens_per_s_at_peak=10.0,
        planned_fleet_utilisation_at_peak=utilisation,
        replicas=1,
        gpus_paid=2,
        usd_per_month=usd,
        usd_per_million_output_tokens=usd / 100.0,
        within_budget=True,
    )


def growth(outgrown: int | None, usd: tuple[float, float]) -> Growth:
    return Growth(
        growth_per_month=0.1,
        utilisation_limit=0.6,
        planned_replicas=1,
        planned_capacity_output_tokens_per_s=50.0,
        outgrown_in_month=outgrown,
        outgrown_in_month_at_low_capacity=outgrown,
        outgrown_in_month_at_high_capacity=None,
        full_in_month=None,
        over_budget_in_month=None,
        months=tuple(month(at, one, 0.4 + at / 10) for at, one in enumerate(usd)),
    )


def test_a_fleet_is_outgrown_with_its_first_part_and_its_budget_is_of_all() -> None:
    found = growth_of_all([growth(None, (100.0, 100.0)), growth(7, (50.0, 90.0))], 180.0)
    assert found.outgrown_in_month == 7
    assert found.outgrown_in_month_at_high_capacity is None
    assert found.over_budget_in_month == 1
    assert [one.usd_per_month for one in found.months] == [150.0, 190.0]
    assert found.months[1].gpus_paid == 4
    # 100 and 50 USD at 1 and 0.5 USD a million are 100 + 100 million tokens
    assert found.months[0].usd_per_million_output_tokens == pytest.approx(0.75)


def test_a_part_of_one_replica_leaves_the_fleet_without_service_when_it_is_down() -> None:
    def row(spares: int, down: float | None) -> SpareRow:
        return SpareRow(
            spare_replicas=spares,
            replicas=1 + spares,
            gpus_paid=1 + spares,
            usd_per_month=10.0 * (1 + spares),
            usd_of_spares_per_month=10.0 * spares,
            utilisation_at_peak=0.5,
            utilisation_at_peak_one_replica_down=down,
        )

    small = Spares(utilisation_limit=0.6, rows=(row(0, None), row(1, 0.5)))
    large = Spares(utilisation_limit=0.6, rows=(row(0, 0.9), row(1, 0.7)))
    none, one = spares_of_all([small, large]).rows
    assert none.utilisation_at_peak_one_replica_down is None
    assert one.utilisation_at_peak_one_replica_down == 0.7
    assert (one.spare_replicas, one.usd_per_month) == (2, 40.0)


def test_dollars_a_million_are_all_dollars_over_all_tokens() -> None:
    assert usd_per_million([(10.0, 1.0), (10.0, 4.0)]) == pytest.approx(20.0 / 12.5)
    assert blend_of_all([]).usd_per_month == 0
