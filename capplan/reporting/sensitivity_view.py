"""What the bill hangs on, as bars about the plan's own bill."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.reporting import formatting as fmt
from capplan.schema.answers import PlanAnswers, SensitivityEnd, SensitivityRow

_CENT = 0.005
_NAMES = {
    "acceptance": "Acceptance",
    "price": "Price of every offer",
    "load": "Load",
    "prompt": "Prompt length",
    "output": "Output length",
    "overhead": "Cost of a round beside its passes",
}


@dataclass(frozen=True)
class EndView:
    """One end of one assumption."""

    usd_per_month: str
    usd_per_million: str
    change: str
    """Of the month's bill, with its sign; empty for none."""
    percent: float
    """Length of the bar, of the half in which it lies."""
    dearer: bool
    choice: str
    """The option that is best then, where it is another one."""
    over_budget: bool


@dataclass(frozen=True)
class RowView:
    """One assumption moved down and up."""

    name: str
    less: EndView
    more: EndView


@dataclass(frozen=True)
class SensitivityView:
    """The tornado, the largest swing first."""

    moved_by: str
    usd_per_month: str
    rows: tuple[RowView, ...]
    still: bool
    """Whether the bill never moves: whole nodes hold the change."""
    over_budget: bool
    left_out: tuple[str, ...]
    notes: tuple[str, ...]
    """What to know of it, above all where the plan made anew is another one."""


def build_sensitivity(answers: PlanAnswers | None) -> SensitivityView | None:
    """Return the tornado in words and lengths; None where none was computed."""
    found = answers.sensitivity if answers is not None else None
    if answers is None or found is None or found.base.usd_per_month is None:
        return None
    base = found.base.usd_per_month
    ends = [end for row in found.rows for end in (row.less, row.more)]
    swings = [abs(end.usd_per_month - base) for end in ends if end.usd_per_month is not None]
    widest = max((swing for swing in swings if swing > _CENT), default=0.0)
    return SensitivityView(
        moved_by=f"{found.moved_by * 100:g} %",
        usd_per_month=fmt.usd_unit(base),
        rows=tuple(_row(row, base, widest) for row in found.rows),
        still=not widest,
        over_budget=any(not end.within_budget for end in ends),
        left_out=found.left_out,
        notes=answers.notes,
    )


def _row(row: SensitivityRow, base: float, widest: float) -> RowView:
    name = _NAMES.get(row.factor_name, row.factor_name)
    return RowView(name, _end(row.less, base, widest), _end(row.more, base, widest))


def _end(end: SensitivityEnd, base: float, widest: float) -> EndView:
    month, million = end.usd_per_month, end.usd_per_million_output_tokens
    change = 0.0 if month is None else month - base
    moved = abs(change) > _CENT
    return EndView(
        usd_per_month="no option" if month is None else fmt.usd(month),
        usd_per_million="" if million is None else fmt.usd(million),
        change=f"{'+' if change > 0 else '-'}{fmt.usd(abs(change))}" if moved else "",
        percent=round(100 * abs(change) / widest, 1) if moved else 0.0,
        dearer=change > 0,
        choice=end.choice if end.choice_changes else "",
        over_budget=not end.within_budget,
    )
