"""Plotly figures of a plan: speedup by load. It and cost_figures alone import plotly.

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

from capplan.reporting import formatting as fmt
from capplan.reporting.crossing_view import Crossing
from capplan.reporting.figure_style import Palette, layout
from capplan.reporting.option_view import length_text
from capplan.reporting.page import visible
from capplan.schema.plan import LoadPoint, PlanOption

_LOADER_OPENS, _LOADER_CLOSES = ": this, () => {\n", "return Plotly;\n}));"


def plotly_js() -> str:
    """Return plotly's own script, from the installed package.

    It comes wrapped for module loaders. A browser reads the inside of the wrapper once to skip
    it and once more to run it, which for megabytes takes a third of the time until the last
    figure is there: so the wrapper is left out, where it is the known one.
    """
    script: str = get_plotlyjs()
    before, opens, inside = script.rstrip().partition(_LOADER_OPENS)
    if not opens or not inside.endswith(_LOADER_CLOSES):
        return script
    licence = before[: before.find("*/") + 2]
    return f"{licence}\n{inside.removesuffix(_LOADER_CLOSES)}"


def plain(text: str) -> str:
    """Return text that plotly draws as it is, tags and entities included."""
    return html.escape(visible(text), quote=False)


def speedup_figure(
    option: PlanOption, palette: Palette, crossing: Crossing | None = None
) -> go.Figure:
    """Return speedup against concurrent requests: interval, best lengths, where it loses."""
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
    _add_crossing(figure, crossing, palette)
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
            # Numbers alone after the first: on a narrow screen they stand close together.
            "" if not new else f"N = {length}" if length and not at else length_text(length)
            for at, (length, new) in enumerate(zip(lengths, changed, strict=True))
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
        xshift=4,
        font={"size": 12, "color": palette.muted},
    )


def _add_crossing(figure: go.Figure, crossing: Crossing | None, palette: Palette) -> None:
    """Mark the load from which the length loses, where the curve shows it."""
    if crossing is None or crossing.mid is None or crossing.mid <= crossing.first:
        return
    figure.add_scatter(
        x=[crossing.mid],
        y=[1.0],
        name="Below 1x from here",
        mode="markers",
        marker={"size": 11, "symbol": "x-thin", "line": {"width": 3, "color": palette.warning}},
        cliponaxis=False,
        hovertemplate="loses from %{x:.3g} at once on<extra></extra>",
    )
