"""Plotly figures of money: cost against latency, and the price of a token by utilisation.

Names reach a figure only through :func:`capplan.reporting.figures.plain`, and only as data.
"""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from capplan.reporting import formatting as fmt, labels
from capplan.reporting.figure_style import Palette, layout
from capplan.reporting.figures import plain
from capplan.reporting.money_view import UtilisationRow
from capplan.schema.pairing import Method
from capplan.schema.plan import Plan, PlanOption

_CURVE_STEPS = 48


def utilisation_figure(rows: Sequence[UtilisationRow], palette: Palette) -> go.Figure:
    """Return dollars a million output tokens against utilisation, the plan's point marked."""
    figure = go.Figure()
    percents, usd = _hyperbola(rows)
    figure.add_scatter(
        x=percents,
        y=usd,
        name="This bill",
        mode="lines",
        line={"color": palette.accent, "width": 2.5},
        hoverinfo="skip",
    )
    for name, shown, marker in (
        (
            "Rows of the table",
            [row for row in rows if not row.planned],
            {"size": 6, "color": palette.accent},
        ),
        (
            "This plan",
            [row for row in rows if row.planned],
            {"size": 11, "symbol": "diamond-open", "color": palette.ink, "line": {"width": 2}},
        ),
    ):
        figure.add_scatter(
            x=[row.share * 100 for row in shown],
            y=[row.usd for row in shown],
            name=name,
            mode="markers",
            marker=marker,
            customdata=[[row.utilisation, row.usd_per_million] for row in shown],
            hovertemplate="%{customdata[1]} at %{customdata[0]}<extra></extra>",
        )
    figure.update_layout(
        **layout(palette, "Utilisation in the paid hours (%)", "USD per million output tokens")
    )
    figure.update_layout(hovermode="closest")
    figure.update_xaxes(range=[0, 102])
    figure.update_yaxes(rangemode="tozero")
    return figure


def _hyperbola(rows: Sequence[UtilisationRow]) -> tuple[list[float], list[float]]:
    """Return the curve through the rows: dollars a token are one bill over its tokens."""
    if not rows:
        return [], []
    first, last = rows[0], rows[-1]
    ratio = (last.share / first.share) ** (1 / _CURVE_STEPS)
    shares = [first.share * ratio**step for step in range(_CURVE_STEPS + 1)]
    return [100 * share for share in shares], [first.usd * first.share / share for share in shares]


def cost_figure(plan: Plan, palette: Palette) -> go.Figure:
    """Return cost against latency for all options, with the Pareto front and the limit."""
    options = list(plan.options)
    figure = go.Figure()
    off_front = [o for o in options if not o.on_pareto_front]
    _add_options(
        figure,
        [o for o in off_front if o.method is not Method.NONE],
        "With speculation",
        {"size": 9, "color": palette.second, "opacity": 0.75},
    )
    _add_options(
        figure,
        [o for o in off_front if o.method is Method.NONE],
        "Without speculation",
        {"size": 9, "symbol": "x", "color": palette.warning},
    )
    front = sorted((o for o in options if o.on_pareto_front), key=lambda o: o.tpot_ms.mid)
    _add_front(figure, front, palette)
    if options and plan.verdict.feasible:
        _add_recommended(figure, options[0], palette)
    if plan.request.slo.tpot_ms is not None:
        _add_limit(figure, plan.request.slo.tpot_ms, palette)
    figure.update_layout(
        **layout(palette, "Time per output token (ms)", "USD per million output tokens")
    )
    figure.update_layout(hovermode="closest")
    _set_cost_axes(figure, options)
    return figure


def _set_cost_axes(figure: go.Figure, options: Sequence[PlanOption]) -> None:
    """Use a logarithmic axis where options lie more than a decade apart."""
    for update, values in (
        (figure.update_xaxes, [option.tpot_ms.mid for option in options]),
        (figure.update_yaxes, [option.usd_per_million_output_tokens.mid for option in options]),
    ):
        if values and min(values) > 0 and max(values) / min(values) > 10:
            # Every label a whole number: plotly's own say 2 and 5 for 20 and 50.
            update(type="log", dtick="D2", tickformat=",~r")
        else:
            update(rangemode="tozero")


def _add_front(figure: go.Figure, front: Sequence[PlanOption], palette: Palette) -> None:
    _add_options(
        figure,
        front,
        "Pareto front",
        {
            "size": 11,
            "color": palette.accent,
            "symbol": ["x" if o.method is Method.NONE else "circle" for o in front],
        },
        mode="lines+markers",
        line={"color": palette.accent, "width": 1.5, "shape": "hv"},
    )


def _add_recommended(figure: go.Figure, best: PlanOption, palette: Palette) -> None:
    cost, tpot = best.usd_per_million_output_tokens, best.tpot_ms
    _add_options(
        figure,
        [best],
        "Recommended",
        {"size": 20, "symbol": "circle-open", "color": palette.ink, "line": {"width": 2}},
        error_x=_error(tpot.high - tpot.mid, tpot.mid - tpot.low, palette),
        error_y=_error(cost.high - cost.mid, cost.mid - cost.low, palette),
    )


def _error(above: float, below: float, palette: Palette) -> dict[str, object]:
    return {
        "type": "data",
        "array": [above],
        "arrayminus": [below],
        "color": palette.muted,
        "thickness": 1,
        "width": 4,
    }


def _add_options(
    figure: go.Figure,
    options: Sequence[PlanOption],
    name: str,
    marker: dict[str, object],
    mode: str = "markers",
    **more: object,
) -> None:
    if not options:
        return
    figure.add_scatter(
        x=[option.tpot_ms.mid for option in options],
        y=[option.usd_per_million_output_tokens.mid for option in options],
        name=name,
        mode=mode,
        marker=marker,
        customdata=[_hover_row(option) for option in options],
        hovertemplate=(
            "<b>%{customdata[0]}</b><br>%{customdata[1]}<br>"
            "%{customdata[2]} per million output tokens<br>TPOT %{customdata[3]}<br>"
            "%{customdata[4]} a month<extra></extra>"
        ),
        **more,
    )


def _hover_row(option: PlanOption) -> list[str]:
    return [
        plain(labels.option_title(option)),
        plain(f"{labels.hardware(option)}, {labels.offer(option)}"),
        fmt.usd_interval(option.usd_per_million_output_tokens),
        fmt.milliseconds_interval(option.tpot_ms),
        fmt.usd_unit(option.usd_per_month.mid),
    ]


def _add_limit(figure: go.Figure, limit_ms: float, palette: Palette) -> None:
    figure.add_vline(
        x=limit_ms,
        line={"color": palette.warning, "width": 1.5, "dash": "dash"},
        annotation={
            "text": f"limit {fmt.milliseconds(limit_ms)}",
            "xanchor": "right",
            "font": {"size": 12, "color": palette.warning},
        },
    )
