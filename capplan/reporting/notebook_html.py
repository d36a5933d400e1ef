"""A plan as a notebook shows it: the sentence and the best options, one small HTML table.

No script, no style sheet and nothing from elsewhere, so that every viewer shows it; colours are
those of the viewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from capplan.reporting.formatting import printable
from capplan.reporting.option_view import OptionView
from capplan.reporting.view import PlanView, build_view
from capplan.schema.plan import Plan

_MOST_ROWS = 8
_HEADS = (
    ("", "right"),
    ("LLM and draft", "left"),
    ("N", "right"),
    ("Hardware", "left"),
    ("Offer", "left"),
    ("A month", "right"),
    ("A million output tokens", "right"),
    ("Time per output token", "right"),
    ("Speedup", "right"),
)
_MUTED = "opacity:.7"


def plan_html(plan: Plan) -> str:
    """Return the plan as a fragment of HTML; ``capplan.render(plan, "html")`` is the report."""
    view = build_view(plan)
    return printable("\n".join(['<div class="capplan-plan">', *_parts(view), "</div>"]))


def _parts(view: PlanView) -> Iterator[str]:
    yield f'<p style="font-weight:600;max-width:60em">{escape(view.sentence)}</p>'
    if not view.feasible and view.needed:
        yield f'<p style="max-width:60em">Needed: {escape(view.needed)}</p>'
    if view.options:
        yield "<table><thead><tr>"
        yield from (f'<th style="text-align:{side}">{head}</th>' for head, side in _HEADS)
        yield "</tr></thead><tbody>"
        yield from (_row(option) for option in view.options[:_MOST_ROWS])
        yield "</tbody></table>"
    yield f'<p style="{_MUTED};max-width:60em">{escape(_small_print(view))}</p>'


def _row(option: OptionView) -> str:
    cells: Sequence[str] = (
        str(option.rank),
        option.pair,
        option.length if option.speculates else "",
        option.hardware,
        f"{option.offer}, {option.gpu_hour} ({option.price_date})",
        option.usd_per_month,
        option.usd_per_million,
        option.tpot,
        option.speedup if option.speculates else "",
    )
    return (
        "<tr>"
        + "".join(
            f'<td style="text-align:{side}">{escape(cell)}</td>'
            for cell, (_, side) in zip(cells, _HEADS, strict=True)
        )
        + "</tr>"
    )


def _small_print(view: PlanView) -> str:
    said = [f"{view.candidates} candidates"]
    more = len(view.options) - _MOST_ROWS
    if more > 0:
        said.append(f"{more} more options in to_frame()")
    left_out = ", ".join(f"{found.label} {found.count}" for found in view.rejections)
    if left_out:
        said.append(f"left out: {left_out}")
    said.append(f"planned {view.created} with capplan {view.capplan_version}")
    return "; ".join(said) + ". Intervals in brackets: 95 %."
