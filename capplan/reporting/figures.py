"""Plotly figures of a plan. The only module that imports plotly.

Plotly reads HTML-like tags and entities in any text it draws, and ``%{...}`` in hover
templates. So names reach a figure only through ``plain`` and only as data, never inside a
template.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from capplan.reporting import formatting as fmt, labels
from capplan.reporting.figure_style import Palette, layout
from capplan.reporting.money_view import UtilisationRow
from capplan.reporting.option_view import length_text
from capplan.schema.pairing import Method
from capplan.schema.plan import LoadPoint, Plan, PlanOption


def plotly_js() -> str:
    """Return plotly's own script, from the installed package."""
    script: str = get_plotlyjs()
    return script


def plain(text: str) -> str:
    """Return text that plotly draws as it is, tags and entities included."""
    return html.escape(text, quote=False)


def speedup_figure(option: PlanOption, palette: Palette) -> go.Figure:
    """Return speedup against concurrent requests, with its interval and the best lengths."""
    curve = sorted(option.load_curve, key=lambda point: point.concurrency)
    loads = [point.concurrency for point in curve]
    figure = go.Figure()
    _add_band(figure, curve, palette)
    figure.add_scatter(
        x=loads,
        y=[point.guide_speedup for point in curve],
        name="Guide's formula",
        mode="lines",
        line={"color": palette.second, "width": 1.5, "dash": "dot"},
        hovertemplate="guide's formula %{y:.2f}x<extra></extra>",
    )
    figure.add_scatter(
        x=loads,
        y=[point.speedup.mid for point in curve],
        name=f"N = {option.num_speculative_tokens}, calibrated",
        mode="lines+markers",
        line={"color": palette.accent, "width": 2.5},
        marker={"size": 6},
        customdata=[[fmt.factor_interval(point.speedup)] for point in curve],
        hovertemplate=f"N = {option.num_speculative_tokens}: %{{customdata[0]}}<extra></extra>",
    )
    _add_best_lengths(figure, curve, palette)
    figure.add_hline(y=1, line={"color": palette.warning, "width": 1.5, "dash": "dash"})
    _add_planned_load(figure, option, loads, palette)
    figure.update_layout(**layout(palette, "Requests at once a replica", "Speedup (x)"))
    figure.update_layout(hovermode="x unified")
    figure.update_xaxes(
        type="log", showspikes=False, tickvals=loads, ticktext=[fmt.count(load) for load in loads]
    )
    figure.update_yaxes(rangemode="tozero")
    return figure


def _add_band(figure: go.Figure, curve: Sequence[LoadPoint], palette: Palette) -> None:
    loads = [point.concurrency for point in curve]
    figure.add_scatter(
        x=[*loads, *reversed(loads)],
        y=[
            *(point.speedup.high for point in curve),
            *(point.speedup.low for point in reversed(curve)),
        ],
        name="95 % interval",
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=palette.band,
        hoverinfo="skip",
    )


def _add_best_lengths(figure: go.Figure, curve: Sequence[LoadPoint], palette: Palette) -> None:
    lengths = [point.best_num_speculative_tokens for point in curve]
    changed = [index == 0 or lengths[index] != lengths[index - 1] for index in range(len(curve))]
    figure.add_scatter(
        x=[point.concurrency for point in curve],
        y=[point.best_speedup for point in curve],
        name="Best N at each load",
        mode="markers+text",
        marker={"size": 9, "symbol": "diamond-open", "color": palette.ink, "line": {"width": 1.5}},
        text=[
            f"N = {length}" if new and length else "off" if new else ""
            for length, new in zip(lengths, changed, strict=True)
        ],
        textposition="top center",
        textfont={"size": 12, "color": palette.ink},
        cliponaxis=False,
        customdata=[[length_text(length)] for length in lengths],
        hovertemplate="best N here: %{customdata[0]}, %{y:.2f}x<extra></extra>",
    )


def _add_planned_load(
    figure: go.Figure, option: PlanOption, loads: Sequence[int], palette: Palette
) -> None:
    if not loads or not loads[0] <= option.concurrency <= loads[-1]:
        return
    figure.add_vline(
        x=option.concurrency, line={"color": palette.muted, "width": 1, "dash": "dot"}
    )
    figure.add_annotation(
        # On a logarithmic axis plotly places lines by value but annotations by exponent.
        x=math.log10(option.concurrency),
        y=0,
        yref="paper",
        xanchor="left",
        yanchor="bottom",
        showarrow=False,
        text=f"planned: {fmt.count(option.concurrency)}",
        font={"size": 12, "color": palette.muted},
    )


def utilisation_figure(rows: Sequence[UtilisationRow], palette: Palette) -> go.Figure:
    """Return dollars a million output tokens against utilisation, the plan's point marked."""
    figure = go.Figure()
    for name, shown, style in (
        ("This bill", rows, {"mode": "lines", "line": {"color": palette.accent, "width": 2.5}}),
        (
            "This plan",
            [row for row in rows if row.planned],
            {
                "mode": "markers",
                "marker": {"size": 11, "symbol": "diamond-open", "color": palette.ink},
            },
        ),
    ):
        figure.add_scatter(
            x=[row.share * 100 for row in shown],
            y=[row.usd for row in shown],
            name=name,
            customdata=[[row.utilisation, row.usd_per_million] for row in shown],
            hovertemplate="%{customdata[1]} at %{customdata[0]}<extra></extra>",
            **style,
        )
    figure.update_layout(
        **layout(palette, "Utilisation in the paid hours (%)", "USD per million output tokens")
    )
    figure.update_layout(hovermode="closest")
    figure.update_yaxes(rangemode="tozero")
    return figure


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
            update(type="log", dtick="D2")
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
