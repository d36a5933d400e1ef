"""How far one assumption swings the bill, of one option and of all parts of a fleet."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from capplan.planning.fleet_sums import usd_per_million, within
from capplan.planning.sensitivity import MOVED
from capplan.schema.answers import (
    Cell,
    Scenarios,
    Sensitivity,
    SensitivityEnd,
    SensitivityRow,
)

_FACTOR = "_factor"


def swing(name: str, less: SensitivityEnd, more: SensitivityEnd) -> SensitivityRow:
    """Return one assumption moved down and up."""

    def distance(one: float | None, other: float | None) -> float | None:
        return None if one is None or other is None else abs(other - one)

    million = less.usd_per_million_output_tokens, more.usd_per_million_output_tokens
    return SensitivityRow(
        factor_name=name,
        less=less,
        more=more,
        swing_usd_per_month=distance(less.usd_per_month, more.usd_per_month),
        swing_usd_per_million_output_tokens=distance(*million),
    )


def swing_order(row: SensitivityRow) -> tuple[float, float]:
    """Sort by the month's dollars; what has no figure at one end moves it most of all."""
    swings = row.swing_usd_per_month, row.swing_usd_per_million_output_tokens
    month, million = (-math.inf if one is None else -round(one, 6) for one in swings)
    return month, million


def sensitivity_of_all(parts: Mapping[str, Sensitivity], budget_usd: float) -> Sensitivity:
    """Return the sum over all parts, each moved by the same factor at the same time.

    Parameters
    ----------
    parts
        By the names of their services, each at any budget.
    budget_usd
        Of all of them.
    """
    rows = []
    for name in MOVED:
        found = {label: _row(part, name) for label, part in parts.items()}
        if any(row is not None for row in found.values()):
            less, more = (
                {label: _side(parts[label], row, side) for label, row in found.items()}
                for side in ("less", "more")
            )
            rows.append(swing(name, _end(less, budget_usd), _end(more, budget_usd)))
    bases = {label: part.base for label, part in parts.items()}
    return Sensitivity(
        moved_by=next(iter(parts.values())).moved_by,
        base=_end(bases, budget_usd),
        rows=tuple(sorted(rows, key=swing_order)),
        left_out=tuple(_left_out(parts)),
    )


def _row(part: Sensitivity, name: str) -> SensitivityRow | None:
    return next((row for row in part.rows if row.factor_name == name), None)


def _side(part: Sensitivity, row: SensitivityRow | None, side: str) -> SensitivityEnd:
    """Return an end of a part; as planned where it does not have what is moved."""
    if row is None:
        return part.base
    return row.less if side == "less" else row.more


def _end(ends: Mapping[str, SensitivityEnd], budget_usd: float) -> SensitivityEnd:
    moved = [end.factor for end in ends.values() if end.factor != 1]
    changed = {label: end for label, end in ends.items() if end.choice_changes and end.choice}
    bills = [
        (end.usd_per_month, end.usd_per_million_output_tokens, end.tpot_ms)
        for end in ends.values()
    ]
    known = [
        (usd, million, tpot)
        for usd, million, tpot in bills
        if usd is not None and million is not None and tpot is not None
    ]
    placed = len(known) == len(bills)
    usd = sum(one for one, _, _ in known)
    return SensitivityEnd(
        factor=moved[0] if moved else 1.0,
        usd_per_month=usd if placed else None,
        usd_per_million_output_tokens=(
            usd_per_million((one, million) for one, million, _ in known) if placed else None
        ),
        tpot_ms=max(tpot for _, _, tpot in known) if placed else None,
        within_budget=placed and within(usd, budget_usd),
        choice="; ".join(f"{label}: {end.choice}" for label, end in changed.items()),
        choice_changes=any(end.choice_changes for end in ends.values()),
    )


def _left_out(parts: Mapping[str, Sensitivity]) -> Iterator[str]:
    """Yield what a part does not have, and whose it is where others have it."""
    said = [set(part.left_out) for part in parts.values()]
    for why in dict.fromkeys(why for part in parts.values() for why in part.left_out):
        if all(why in one for one in said):
            yield why
            continue
        name, _, reason = why.partition(": ")
        owners = [label for label, part in parts.items() if why in part.left_out]
        yield f"{name} of {', '.join(owners)}: {reason}"


def scenarios_of_all(parts: Mapping[str, Scenarios], budget_usd: float) -> Scenarios:
    """Return the sum over all parts in every scenario, and each part's bill and choice."""
    labels = list(parts)
    rows = zip(*(part.rows for part in parts.values()), strict=True)
    return Scenarios(
        factors=next(iter(parts.values())).factors,
        rows=tuple(_scenario(dict(zip(labels, row, strict=True)), budget_usd) for row in rows),
    )


def _scenario(parts: Mapping[str, Mapping[str, Cell]], budget_usd: float) -> dict[str, Cell]:
    rows: Sequence[Mapping[str, Cell]] = list(parts.values())
    changed = [label for label, row in parts.items() if row["choice_changes"]]
    placed = all(row["feasible"] for row in rows)
    usd = sum(_number(row["usd_per_month"]) for row in rows) if placed else 0.0
    fits = placed and within(usd, budget_usd)
    factors = {name: cell for name, cell in rows[0].items() if name.endswith(_FACTOR)}
    million = "usd_per_million_output_tokens"
    bills = ((_number(row["usd_per_month"]), _number(row[million])) for row in rows)
    return {
        **factors,
        "feasible": fits,
        "replicas": int(sum(_number(row["replicas"]) for row in rows)) if fits else None,
        "usd_per_month": usd if fits else None,
        million: usd_per_million(bills) if fits else None,
        "tpot_ms": max(_number(row["tpot_ms"]) for row in rows) if fits else None,
        "choice_changes": bool(changed),
        "speculation_changes": any(row["speculation_changes"] for row in rows),
        "changed_services": ", ".join(changed),
        **{f"usd_per_month of {label}": row["usd_per_month"] for label, row in parts.items()},
        **{f"choice of {label}": _choice(row) for label, row in parts.items()},
    }


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, int | float) else math.nan


def _choice(row: Mapping[str, Cell]) -> str:
    if not row["feasible"]:
        return ""
    drafted = "no speculation"
    if row["num_speculative_tokens"]:
        name = str(row["draft"] or row["method"]).rsplit("/", 1)[-1]
        drafted = f"{name} N={row['num_speculative_tokens']}"
    where = f"{row['replicas']} x TP{row['tensor_parallel']} {row['gpu']}"
    return f"{drafted}, {where}, {row['provider']}"
