"""Two plans or two profiles side by side as one HTML page: what ``capplan diff`` finds, drawn."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.reporting import formatting as fmt, labels
from capplan.reporting.diff_page import SectionPage
from capplan.reporting.diff_text import write_diff
from capplan.reporting.option_view import build_option
from capplan.reporting.page import render_page, source
from capplan.reporting.plan_diff_text import dollars
from capplan.reporting.request_view import moment
from capplan.reporting.tables import Section, Table
from capplan.schema.difference import CostPart, PlanDifference, ProfileDifference
from capplan.schema.plan import Plan, PlanOption


@dataclass(frozen=True)
class CauseView:
    """What one cause adds to the bill, and its bar about no change."""

    cause: str
    usd: str
    percent: float
    dearer: bool
    before: str
    after: str


def render_comparison(
    found: ProfileDifference | PlanDifference,
    plans: tuple[Plan, Plan] | None = None,
    version: str = "",
) -> str:
    """Return the page.

    Parameters
    ----------
    found
        What changed.
    plans
        Of two plans: themselves, for their recommended options side by side.
    version
        Of the capplan that writes it.
    """
    page = SectionPage()
    write_diff(found, page)
    first, *rest = page.sections
    causes = _causes(found.parts) if isinstance(found, PlanDifference) else ()
    # the options of several services differ in number and in what they serve
    services = isinstance(found, PlanDifference) and bool(found.services)
    sections = [_side_by_side(plans)] if plans is not None and not services else []
    return render_page(
        "compare.html.j2",
        scripts=(source("copy.js"),),
        data={"difference": found.model_dump_json()},
        kind=found.kind,
        before=found.before,
        after=found.after,
        says=first.says,
        gate=found.gate,
        causes=causes,
        # the causes are drawn above; a second table of them would say nothing new
        sections=[*sections, *(one for one in rest if not (causes and one.id == "part-2"))],
        version=version,
    )


def _causes(parts: tuple[CostPart, ...]) -> tuple[CauseView, ...]:
    widest = max((abs(part.usd) for part in parts), default=0)
    return tuple(
        CauseView(
            f"{part.services}: {part.cause}" if part.services else part.cause,
            dollars(part.usd),
            round(float(100 * abs(part.usd) / widest), 1) if widest else 0.0,
            part.usd > 0,
            part.before,
            part.after,
        )
        for part in parts
    )


def _side_by_side(plans: tuple[Plan, Plan]) -> Section:
    """Return the recommended options in two columns."""
    columns = [_column(plan) for plan in plans]
    rows = tuple(
        (name, *(column.get(name, "none") for column in columns))
        for name in columns[0] | columns[1]
    )
    table = Table("Recommended options side by side", ("", "Before", "After"), rows, words=3)
    return Section("options", "The recommended options", (), (), (table,))


def _column(plan: Plan) -> dict[str, str]:
    if not plan.options:
        return {"Answer": plan.verdict.sentence}
    option = plan.options[0]
    view = build_option(option, plan.request.slo, 1)
    return {
        "Answer": plan.verdict.sentence,
        "Made": moment(plan.created_at),
        "Runs": labels.option_title(option),
        "Hardware": f"{view.hardware}, {view.offer}",
        "A month": view.usd_per_month,
        "A million output tokens": view.usd_per_million,
        "Time per output token": view.tpot,
        "Time to first token": view.ttft,
        "Decode speedup": view.speedup if view.speculates else "plain decoding",
        "Tokens a round": view.tokens_per_round or "1",
        "Step time": view.tier,
        "Utilisation": view.utilisation,
        **_budget(plan, option),
    }


def _budget(plan: Plan, option: PlanOption) -> dict[str, str]:
    used = option.usd_per_month.mid / plan.request.budget_usd_per_month
    return {"Of the budget": fmt.percent(used)}
