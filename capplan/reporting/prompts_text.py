"""Prompts side by side as text, and the verdict on them."""

from __future__ import annotations

from capplan.reporting.diff_text import range_lines
from capplan.reporting.diff_words import signed_interval
from capplan.reporting.formatting import factor_interval, number_interval, percent, usd
from capplan.schema.difference import Change, PromptComparison, PromptFigure

MOST_PAIRS = 12
"""Pairs written out; the rest stand in the JSON."""


def render_prompts(found: PromptComparison) -> str:
    """Return the table of prompts, their differences, the dollars and the verdict."""
    sampling = f", {found.draft_sampling} drafts" if found.draft_sampling else ""
    lines = [
        f"{found.target} + {found.draft}, temperature {found.temperature:g}{sampling}, "
        f"N = {found.num_speculative_tokens} (profile {found.profile})",
        "",
        f"  {'prompts':<24}{'requests':>9}  {'tokens a round':<20}{'accepted':>9}"
        f"{_worth_head(found)}",
        *(_row(figure) for figure in found.figures),
        *_pairs(found),
        "",
        f"Verdict: {found.verdict}",
    ]
    for table in found.ranges:
        lines += ["", *range_lines(table)]
    lines += [f"Note: {note}" for note in found.notes]
    return "\n".join(lines) + "\n"


def _worth_head(found: PromptComparison) -> str:
    return f"  {'USD a month':<24}{'saved against all together':<30}" if found.plan_option else ""


def _row(figure: PromptFigure) -> str:
    start = (
        f"  {figure.task[:23]:<24}{figure.requests:>9}  "
        f"{number_interval(figure.tokens_per_round):<20}{percent(figure.acceptance_rate):>9}"
    )
    if figure.worth is None:
        return f"{start}  {figure.worth_missing}".rstrip()
    worth = figure.worth
    saved = worth.saved_usd_per_month
    money = f"{usd(worth.usd_per_month.mid)} ({factor_interval(worth.speedup)})"
    ends = f"{saved.mid:+,.0f} ({saved.low:+,.0f} to {saved.high:+,.0f})"
    return f"{start}  {money:<24}{ends:<30}{figure.worth_missing}".rstrip()


def _pairs(found: PromptComparison) -> list[str]:
    if not found.differences:
        return []
    rows = sorted(found.differences, key=lambda row: -_size(row))
    count = len(rows)
    lines = [
        "",
        "Differences in tokens a round, second less first; 95 % intervals"
        f"{f' that hold for all {count} pairs together' if count > 1 else ''}:",
        *(f"  {row.label:<44}{_difference(row)}" for row in rows[:MOST_PAIRS]),
    ]
    if count > MOST_PAIRS:
        rest = rows[MOST_PAIRS:]
        changed = sum(row.changed for row in rest)
        lines.append(f"  and {len(rest)} smaller ones, {changed} of them beyond chance (JSON)")
    return lines


def _size(row: Change) -> float:
    return abs(row.difference.mid) if row.difference is not None else -1.0


def _difference(row: Change) -> str:
    if row.difference is None:
        return "too few requests to tell"
    said = "differs" if row.changed else "not told apart"
    return f"{signed_interval(row.difference, '.3f')}  {said}"


def prompts_verdict(found: PromptComparison) -> str:
    """Say whether predictable prompts are cheaper here, and by how much."""
    if len(found.figures) < 2:
        return "one set of prompts: give --prompts several times, or a file with categories."
    best, worst = found.figures[0], found.figures[-1]
    ends = next(
        (row for row in found.differences if row.label == f"{best.task} -> {worst.task}"), None
    )
    if ends is None or ends.difference is None:
        return "too few requests to tell these prompts apart: give each file at least two."
    apart = ends.difference.reversed()
    figures = (
        f"{best.task} emits {best.tokens_per_round.mid:.2f} tokens a round, {worst.task} "
        f"{worst.tokens_per_round.mid:.2f}"
    )
    if not ends.changed:
        return (
            f"not shown. {figures}: {signed_interval(apart, '.2f')} apart, which chance explains. "
            "That predictable prompts are cheaper does not follow from these requests; more of "
            "them (--num-requests) narrow it."
        )
    return f"{figures}: {signed_interval(apart, '.2f')} apart.{_dollars(best, worst)}"


def _dollars(best: PromptFigure, worst: PromptFigure) -> str:
    if best.worth is None or worst.worth is None:
        return " What that is worth in dollars needs a plan: --plan PLAN."
    saved = worst.worth.usd_per_month_unrounded - best.worth.usd_per_month_unrounded
    share = saved / worst.worth.usd_per_month_unrounded
    text = (
        f" On this plan the first is {saved:,.0f} USD a month cheaper than the second "
        f"({percent(share)}) for the same tokens"
    )
    bills = best.worth.usd_per_month.mid, worst.worth.usd_per_month.mid
    if bills[0] == bills[1]:
        text += "; the bill itself is the same, as it moves by whole replicas and nodes"
    else:
        text += f"; billed in whole nodes {usd(bills[0])} against {usd(bills[1])} USD"
    if worst.worth.speedup.mid < 1:
        text += f". {worst.task} is slower with speculation than without"
    return f"{text}."
