"""A plan as one HTML file that works without a network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from capplan.reporting import cost_figures, figures
from capplan.reporting.api_view import CAVEAT
from capplan.reporting.appendix import build_appendix
from capplan.reporting.crossing_view import build_crossing
from capplan.reporting.figure_style import DARK, LIGHT, Palette
from capplan.reporting.money_view import build_money
from capplan.reporting.page import render_page, source
from capplan.reporting.report_view import build_parts
from capplan.reporting.sensitivity_view import build_sensitivity
from capplan.reporting.services_text import launches_of_parts
from capplan.reporting.services_view import services_section
from capplan.reporting.view import build_view, finalists
from capplan.reporting.ways_out_text import ways_out_lines
from capplan.schema.answers import PlanAnswers
from capplan.schema.audit import AuditedClaim
from capplan.schema.plan import Plan

_CONTROLS = ("copy.js", "what_if_model.js", "what_if.js")
"""Before plotly, megabytes of which they need nothing: they answer while it loads."""


def render_html(
    plan: Plan, audit: Sequence[AuditedClaim] = (), answers: PlanAnswers | None = None
) -> str:
    """Return the report as one HTML document.

    Parameters
    ----------
    plan
        A plan, feasible or not.
    audit
        The guide's audit for the appendix.
    answers
        What the bill hangs on, searched anew by who has the facts; the page says how to get it
        where there is none.
    """
    return render_page(
        "report.html.j2",
        scripts=(*map(source, _CONTROLS), figures.plotly_js(), source("figures.js")),
        data={"plan": plan.model_dump_json(), "figure-specs": json.dumps(figure_specs(plan))},
        view=build_view(plan),
        parts=build_parts(plan),
        sensitivity=build_sensitivity(answers),
        api_caveat=CAVEAT,
        guide=build_appendix(plan, audit),
        services=services_section(plan.fleet),
        part_launches=launches_of_parts(plan.fleet) if plan.options else [],
        ways_out=_ways_out(answers),
    )


def _ways_out(answers: PlanAnswers | None) -> str:
    """Return what would make a plan feasible; empty for one that is."""
    if answers is None or answers.ways_out is None:
        return ""
    return "\n".join(ways_out_lines(answers))


def figure_specs(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return every figure's data and layout, light and dark, by the id of its place."""
    specs = {}
    for rank, option in finalists(plan):
        if option.load_curve and option.num_speculative_tokens:
            figure = figures.speedup_figure(option, LIGHT, build_crossing(option))
            specs[f"speedup-{rank}"] = _schemes(figure)
        money = build_money(option)
        if money is not None:
            figure = cost_figures.utilisation_figure(money.utilisation, LIGHT)
            specs[f"utilisation-{rank}"] = _schemes(figure)
    if plan.options:
        specs["cost"] = _schemes(cost_figures.cost_figure(plan, LIGHT))
    return specs


_DARK = {getattr(LIGHT, one.name): getattr(DARK, one.name) for one in fields(Palette)}


def _schemes(figure: Any) -> dict[str, Any]:
    """Return a figure in both schemes: built once, since building is what takes the time."""
    light = json.loads(figure.to_json())
    return {"light": light, "dark": _recoloured(light)}


def _recoloured(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: _recoloured(value) for name, value in part.items()}
    if isinstance(part, list):
        return [_recoloured(value) for value in part]
    return _DARK.get(part, part) if isinstance(part, str) else part
