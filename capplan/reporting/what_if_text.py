"""Answers about a plan as text: a figure never without its unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from capplan.reporting import formatting as fmt
from capplan.reporting.fleet_answers_text import fleet_blocks
from capplan.reporting.ways_out_text import ways_out_lines
from capplan.schema.answers import (
    Cell,
    PlanAnswers,
    Scenarios,
    Sensitivity,
    SensitivityEnd,
    SensitivityRow,
)

_WIDTH = 100
_HALF = 12
"""Characters of a bar on each side of the plan's own bill."""
_MOST_ROWS = 40
"""Scenarios that a terminal is shown; a file holds all."""


def render_answers(found: PlanAnswers) -> str:
    """Return every answer, what it holds fixed, and where to ask on."""
    blocks = [_head(found)]
    if found.ways_out is not None:
        blocks.append("\n".join(ways_out_lines(found)))
    if found.sensitivity is not None:
        blocks.append("\n".join(_sensitivity(found.sensitivity)))
    if found.scenarios is not None:
        blocks.append("\n".join(_scenarios(found.scenarios)))
    blocks.extend("\n".join(lines) for lines in fleet_blocks(found))
    closing = [f"Held fixed: {one}." for one in found.held_fixed]
    closing += [f"Note: {one}." for one in found.notes]
    if found.option and not found.parts:
        closing.append(
            f"The load at which an API costs the same: capplan breakeven --plan {found.plan}"
        )
    wrapped = (line for text in closing for line in _wrapped(text))
    blocks.append("\n".join(wrapped))
    return fmt.printable("\n\n".join(blocks)) + "\n"


def _head(found: PlanAnswers) -> str:
    budget = f"{fmt.usd(found.budget_usd_per_month)} USD a month"
    usd, million = found.usd_per_month, found.usd_per_million_output_tokens
    if usd is None or million is None:
        return f"{found.plan}: nothing within the limits and {budget}."
    return (
        f"{_of_what(found)}\n"
        f"As planned: {fmt.usd(usd)} USD a month, {fmt.usd(million)} USD per million output "
        f"tokens, budget {budget}."
    )


def _of_what(found: PlanAnswers) -> str:
    """Return what is answered about: an option, or every part of a fleet."""
    if found.parts:
        parts = "".join(f"\n  {part.services}: {part.option}" for part in found.parts)
        return f"{found.plan}, all services, on {len(found.parts)} sets of replicas:{parts}"
    alone = f", {found.services} alone" if found.services else ""
    return f"{found.plan}{alone}, {found.option}"


def _wrapped(text: str) -> list[str]:
    """Wrap a sentence; a file's name or an option is never cut in two."""
    return wrap(
        text, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _sensitivity(found: Sensitivity) -> Iterator[str]:
    by = f"{found.moved_by * 100:g} %"
    yield f"Sensitivity: each moved by {by} alone, the largest swing of the bill first"
    low, high = (f"at {sign}{by}" for sign in "-+")
    yield (
        f"  {'':<11}{'USD a month':^24}  {'USD/M output':^17}  {'bill':^{2 * _HALF + 1}}  option"
    )
    yield (
        f"  {'':<11}{low:>12}{high:>12}  {low:>8.8}{high:>9.9}  "
        f"{'less':>{_HALF}}|{'more':<{_HALF}}  changes"
    )
    widest = _widest(found)
    for row in found.rows:
        month = "".join(f"{_money(end.usd_per_month, end):>12}" for end in (row.less, row.more))
        less, more = (_plain(end.usd_per_million_output_tokens) for end in (row.less, row.more))
        bar = _bar(row, found.base, widest)
        yield (
            f"  {row.factor_name:<11}{month}  {less:>8}{more:>9}  {bar}  {_changes(row)}"
        ).rstrip()
    if not widest:
        yield (
            "  The bill never moves: whole replicas and nodes are rented, and these hold the "
            "change."
        )
    if any(not end.within_budget for row in found.rows for end in (row.less, row.more)):
        yield "  * above the budget: the best at any budget"
    yield from (f"  {why}: not moved" for why in found.left_out)
    yield from _other_choices(found)


def _other_choices(found: Sensitivity) -> Iterator[str]:
    for row in found.rows:
        for end in (row.less, row.more):
            if end.choice_changes and end.choice:
                yield f"  {row.factor_name} x {end.factor:g}: {end.choice}"


def _money(usd: float | None, end: SensitivityEnd) -> str:
    if usd is None:
        return "no option"
    return fmt.usd(usd) + ("" if end.within_budget else "*")


def _plain(usd: float | None) -> str:
    return "-" if usd is None else fmt.usd(usd)


def _changes(row: SensitivityRow) -> str:
    signs = [sign for sign, end in (("-", row.less), ("+", row.more)) if end.choice_changes]
    return f"yes ({' and '.join(signs)})" if signs else "no"


def _widest(found: Sensitivity) -> float:
    base = found.base.usd_per_month
    ends = [end.usd_per_month for row in found.rows for end in (row.less, row.more)]
    known = [abs(usd - base) for usd in ends if usd is not None and base is not None]
    return max((one for one in known if one > _CENT), default=0.0)


_CENT = 0.005


def _bar(row: SensitivityRow, base: SensitivityEnd, widest: float) -> str:
    """Return how far below and above the plan's bill the two ends lie."""
    usd = base.usd_per_month
    if not widest or usd is None:
        return f"{'':>{_HALF}}|{'':<{_HALF}}"
    ends = [end.usd_per_month - usd for end in (row.less, row.more) if end.usd_per_month]
    below, above = (max([0.0, *(sign * end for end in ends)]) for sign in (-1, 1))
    blocks = ["\u2588" * round(_HALF * one / widest) for one in (below, above)]
    return f"{blocks[0]:>{_HALF}}|{blocks[1]:<{_HALF}}"


_COLUMNS = (
    ("replicas", "replicas", 8),
    ("usd_per_month", "USD a month", 12),
    ("usd_per_million_output_tokens", "USD/M output", 13),
    ("tpot_ms", "TPOT ms", 8),
)


def _scenarios(found: Scenarios) -> Iterator[str]:
    count = len(found.rows)
    yield f"Scenarios: {count:,}, each the best within the budget; factors on what is planned"
    names = tuple(found.factors)
    heads = "".join(f"{name:>11}" for name in names)
    columns = "".join(f"{head:>{width + 2}}" for _, head, width in _COLUMNS)
    yield f"{heads}{columns}  option changes"
    for row in found.rows[:_MOST_ROWS]:
        yield _scenario(row, names)
    if count > _MOST_ROWS:
        yield f"  and {count - _MOST_ROWS:,} more: --format csv or json shows all"
    none = sum(not row["feasible"] for row in found.rows)
    if none:
        yield f"  {none:,} of {count:,} have no option within the budget and the limits"


def _scenario(row: dict[str, Cell], names: Sequence[str]) -> str:
    factors = "".join(f"{row[f'{name}_factor']:>11g}" for name in names)
    if not row["feasible"]:
        return f"{factors}  nothing within the budget and the limits"
    cells = "".join(f"{_cell(row[key]):>{width + 2}}" for key, _, width in _COLUMNS)
    return f"{factors}{cells}  {_changed(row) if row['choice_changes'] else 'no'}"


def _changed(row: dict[str, Cell]) -> str:
    """Return another choice in words; of a fleet, whose option is another."""
    if "changed_services" in row:
        return str(row["changed_services"])
    return f"{row['method']} N={row['num_speculative_tokens']} {row['gpu']} {row['provider']}"


def _cell(value: Cell) -> str:
    return fmt.usd(value) if isinstance(value, float) else str(value)
