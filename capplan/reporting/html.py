"""A plan as one HTML file that works without a network.

The page carries everything: style, scripts, figures and the plan itself. Its content security
policy allows no connection at all, and only the scripts whose hashes it names; styles may be
inline because plotly sets them while it draws.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from capplan.reporting import figures
from capplan.reporting.api_view import CAVEAT
from capplan.reporting.appendix import build_appendix
from capplan.reporting.figure_style import DARK, LIGHT
from capplan.reporting.jsonout import render_json
from capplan.reporting.money_view import build_money
from capplan.reporting.view import build_view, finalists
from capplan.resources import templates_dir
from capplan.schema.audit import AuditedClaim
from capplan.schema.plan import Plan

_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


def render_html(plan: Plan, audit: Sequence[AuditedClaim] = ()) -> str:
    """Return the report as one HTML document."""
    environment = _environment()
    scripts = {"plotly": Markup(figures.plotly_js()), "page": Markup(_source("report.js"))}
    return environment.get_template("report.html.j2").render(
        view=build_view(plan),
        api_caveat=CAVEAT,
        guide=build_appendix(plan, audit),
        policy=_policy(tuple(scripts.values())),
        style=Markup(_source("report.css")),
        scripts=scripts,
        figures=script_json(json.dumps(figure_specs(plan))),
        plan_json=script_json(render_json(plan)),
    )


def figure_specs(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return every figure's data and layout, light and dark, by the id of its place."""
    specs = {
        f"speedup-{rank}": _schemes(
            figures.speedup_figure(option, LIGHT), figures.speedup_figure(option, DARK)
        )
        for rank, option in finalists(plan)
        if option.load_curve and option.num_speculative_tokens
    }
    for rank, option in finalists(plan):
        money = build_money(option)
        if money is not None:
            specs[f"utilisation-{rank}"] = _schemes(
                figures.utilisation_figure(money.utilisation, LIGHT),
                figures.utilisation_figure(money.utilisation, DARK),
            )
    if plan.options:
        specs["cost"] = _schemes(figures.cost_figure(plan, LIGHT), figures.cost_figure(plan, DARK))
    return specs


def script_json(text: str) -> Markup:
    """Return JSON that no HTML parser mistakes for markup inside a script element."""
    for char, escape in _ESCAPES.items():
        text = text.replace(char, escape)
    return Markup(text)


def _schemes(light: Any, dark: Any) -> dict[str, Any]:
    return {"light": json.loads(light.to_json()), "dark": json.loads(dark.to_json())}


def _policy(scripts: tuple[str, ...]) -> str:
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


@cache
def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(templates_dir()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["unbroken"] = _unbroken
    return environment


def _unbroken(sentence: str) -> str:
    """Keep ``N = 4`` and ``50 %`` on one line."""
    return re.sub(r"(?<=\bN) = (?=\d)|(?<=\d) (?=[%x] )", _joined, sentence)


def _joined(gap: re.Match[str]) -> str:
    return gap[0].replace(" ", "\N{NO-BREAK SPACE}")


def _source(name: str) -> str:
    return (templates_dir() / name).read_text(encoding="utf-8")
