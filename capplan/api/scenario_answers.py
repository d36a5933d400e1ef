"""Sensitivity and scenarios of a plan: each searched anew, told beside the plan's own figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capplan.api.what_if import WhatIfRow, whatif
from capplan.economics.bill import LARGEST_BILL_USD
from capplan.errors import RequestError
from capplan.facts.catalog import Catalog
from capplan.planning.pricing import Load
from capplan.planning.scenarios import ScenarioGrid
from capplan.planning.sensitivity import MOVED, combinations, why_not_moved
from capplan.planning.swings import swing, swing_order
from capplan.profiles.calibration_file import StoredCalibration
from capplan.profiles.store import StoredProfile
from capplan.schema.answers import Cell, Scenarios, Sensitivity, SensitivityEnd
from capplan.schema.plan import Plan, PlanRequest

_SAME = 1e-6
_CHOICE = ("target", "method", "draft", "num_speculative_tokens", "gpu", "tensor_parallel")
_OFFER = ("provider", "instance", "region", "purchase")

_Given = tuple[Sequence[StoredProfile], Catalog, Sequence[StoredCalibration]]


def sensitivity(
    plan: Plan,
    profiles: Sequence[StoredProfile],
    catalog: Catalog,
    calibrations: Sequence[StoredCalibration],
    move_by: float,
) -> tuple[Sensitivity, tuple[str, ...]]:
    """Return every assumption moved alone, the largest swing first; and what to know of it.

    Raises
    ------
    RequestError
        If the move is none, or a profile of the plan is missing.
    """
    if not 0 < move_by < 1:
        raise RequestError(
            f"Assumptions were to be moved by {move_by * 100:g} %, expected above 0 and below 100."
        )
    check_profiles(plan, profiles)
    request, given = plan.request, (profiles, catalog, calibrations)
    base = whatif(request, ScenarioGrid(), *given).base
    rows, left_out = [], []
    for name in MOVED:
        why = why_not_moved(request, name)
        if why is not None:
            left_out.append(f"{name}: {why}")
            continue
        less, more = (
            _moved_end(request, name, factor, base, given)
            for factor in (1.0 - move_by, 1.0 + move_by)
        )
        rows.append(swing(name, less, more))
    tornado = Sensitivity(
        moved_by=move_by,
        base=_end(1.0, base, base, within=base.feasible),
        rows=tuple(sorted(rows, key=swing_order)),
        left_out=tuple(left_out),
    )
    return tornado, _differs(plan, base)


def _moved_end(
    request: PlanRequest, name: str, factor: float, base: WhatIfRow, given: _Given
) -> SensitivityEnd:
    """Return the best option with one factor; at any budget where the budget allows nothing."""
    anyhow = request.model_copy(update={"budget_usd_per_month": float(LARGEST_BILL_USD)})
    row = _row(request, name, factor, given)
    within = row.feasible
    if within or Load.of(request).tokens_per_s is None:
        # what fills a budget has no meaning at any budget
        return _end(factor, row, base, within=within)
    return _end(factor, _row(anyhow, name, factor, given), base, within=False)


def _row(request: PlanRequest, name: str, factor: float, given: _Given) -> WhatIfRow:
    ((_, _, changed, grid),) = combinations(request, {name: (factor,)})
    return whatif(changed, grid, *given).rows[0]


def _end(factor: float, row: WhatIfRow, base: WhatIfRow, *, within: bool) -> SensitivityEnd:
    return SensitivityEnd(
        factor=factor,
        usd_per_month=row.usd_per_month,
        usd_per_million_output_tokens=row.usd_per_million_output_tokens,
        tpot_ms=row.tpot_ms,
        within_budget=within,
        choice=_words(row),
        # a row of another request compares with its own base, not with the plan's
        choice_changes=_what(row) != _what(base),
    )


def _what(row: WhatIfRow) -> tuple[Cell, ...]:
    """Return what is run, on what, rented from whom; replicas may be more or fewer."""
    record = vars(row)
    return tuple(record[name] for name in (*_CHOICE, *_OFFER))


def _words(row: WhatIfRow) -> str:
    if not row.feasible:
        return ""
    drafted = "no speculation"
    if row.num_speculative_tokens:
        name = (row.draft or row.method or "").rsplit("/", 1)[-1]
        drafted = f"{name} N={row.num_speculative_tokens}"
    return f"{drafted}, {row.replicas} x TP{row.tensor_parallel} {row.gpu}, {row.provider}"


def _differs(plan: Plan, base: WhatIfRow) -> tuple[str, ...]:
    """Say where the plan made anew is not the plan."""
    planned = plan.options[0].usd_per_month.mid
    if base.usd_per_month is None:
        return (f"made anew, the plan finds nothing within its budget, not {planned:,.2f} USD",)
    if abs(base.usd_per_month - planned) <= _SAME * planned:
        return ()
    return (
        f"made anew from these facts the plan costs {base.usd_per_month:,.2f} USD a month, not "
        f"{planned:,.2f}: sensitivity starts from the former; give what it was made with "
        "(--profile, --calibration, --price-file)",
    )


def vary(
    plan: Plan,
    profiles: Sequence[StoredProfile],
    catalog: Catalog,
    calibrations: Sequence[StoredCalibration],
    factors: Mapping[str, Sequence[float]],
) -> Scenarios:
    """Return the best option of every combination of factors, a row each, in their order.

    Raises
    ------
    RequestError
        If a factor is not known or scales what the plan does not have, the combinations are too
        many, or a profile of the plan is missing.
    """
    check_profiles(plan, profiles)
    rows: list[dict[str, Cell]] = []
    for prompt, output, request, grid in combinations(plan.request, factors):
        found = whatif(request, grid, profiles, catalog, calibrations)
        lengths: dict[str, Cell] = {"prompt_factor": prompt, "output_factor": output}
        rows.extend({**lengths, **record} for record in found.records())
    if {"prompt", "output"} & set(factors):
        base = whatif(plan.request, ScenarioGrid(), profiles, catalog, calibrations).base
        rows = [_against(row, dict(vars(base))) for row in rows]
    rows.sort(key=lambda row: _place(row, factors))
    return Scenarios(
        factors={name: tuple(values) for name, values in factors.items()}, rows=tuple(rows)
    )


def _place(row: Mapping[str, Cell], factors: Mapping[str, Sequence[float]]) -> list[int]:
    return [
        next(at for at, value in enumerate(values) if value == row[f"{name}_factor"])
        for name, values in factors.items()
    ]


def _against(row: dict[str, Cell], base: Mapping[str, Cell]) -> dict[str, Cell]:
    """Compare with the plan itself: a row of other lengths was compared with those lengths."""

    def differs(*names: str) -> bool:
        return any(row[name] != base[name] for name in names)

    return {
        **row,
        "choice_changes": differs(*_CHOICE, *_OFFER),
        "speculation_changes": differs("method", "draft"),
    }


def check_profiles(plan: Plan, profiles: Sequence[StoredProfile]) -> None:
    """Raise a RequestError if a plan rests on profiles that were not given."""
    missing = sorted(set(plan.profiles) - {stored.profile.id for stored in profiles})
    if missing:
        raise RequestError(
            f"The plan rests on profiles that were not given: {', '.join(missing)}.",
            "Add them: --profile FILE, once each.",
        )
