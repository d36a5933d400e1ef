"""Pictures of a profile: SVG in the page's own colours, no script."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from capplan.estimate.evidence import ProfileEvidence
from capplan.estimate.tracing import TracedAcceptance, pool
from capplan.estimate.uncertainty import Z_95
from capplan.reporting import svg_chart as svg
from capplan.reporting.figure_style import PAGE
from capplan.reporting.svg_chart import Mark
from capplan.reporting.tables import Figure
from capplan.schema.cells import Phase, Role, TimingCell
from capplan.units import MS_PER_S

_COLOURS = (PAGE.accent, PAGE.warning, PAGE.second, PAGE.ink)
_MOST_LENGTH = 8


def step_figure(evidence: ProfileEvidence) -> Figure | None:
    """Return the time of a decode step by batch: what was measured, and its fit."""
    cells = [
        cell
        for cell in evidence.profile.timing
        if cell.role is Role.TARGET and cell.phase is Phase.DECODE
    ]
    batches = sorted({cell.batch for cell in cells})
    if len(batches) < 2:
        return None
    context = evidence.mean_context
    fitted = [
        (batch, float(evidence.target_step.seconds(batch, 1, context)) * MS_PER_S)
        for batch in batches
    ]
    highest = max([ms for _, ms in fitted] + [_ms(cell) for cell in cells])
    x = svg.across(batches[0] / 1.3, batches[-1] * 1.2, is_log=True)
    y = svg.upwards(0.0, highest * 1.08)
    marks = (
        Mark("measured", PAGE.second, "dot"),
        Mark(f"fit at {context:,.0f} tokens", PAGE.accent, "line"),
    )
    parts = [
        *svg.legend(marks),
        *(
            svg.symbol("dot", x.at(cell.batch), y.at(_ms(cell)), PAGE.second, _hover(cell))
            for cell in cells
        ),
        svg.path([(x.at(batch), y.at(ms)) for batch, ms in fitted], PAGE.accent),
    ]
    titles = ("Requests at once", "Decode step (ms)")
    about = f"{titles[1]} by batch: {', '.join(f'{ms:.3g} ms at {b}' for b, ms in fitted)}"
    drawn = svg.document(parts, x, y, titles, PAGE, about)
    return Figure(drawn, "Each point is the median of one cell of the grid, at its own context.")


def _ms(cell: TimingCell) -> float:
    return median(cell.seconds) * MS_PER_S


def _hover(cell: TimingCell) -> str:
    return f"batch {cell.batch}, context {cell.context:,}: {_ms(cell):.3g} ms"


def acceptance_figure(
    groups: Sequence[tuple[str, Sequence[TracedAcceptance]]],
) -> Figure | None:
    """Return tokens a round by N, a line a temperature and way to draft, four at most."""
    curves = []
    for name, traces in groups[: len(_COLOURS)]:
        values, errors = pool(list(traces)).curve()
        last = min(len(values) - 1, _MOST_LENGTH)
        points = [
            (n, float(values[n]), float(Z_95 * errors[n] * values[n])) for n in range(1, last + 1)
        ]
        if len(points) > 1:
            curves.append((name, points))
    if not curves:
        return None
    longest = max(points[-1][0] for _, points in curves)
    tallest = max(mid + half for _, points in curves for _, mid, half in points)
    x = svg.across(0.7, longest + 0.3)
    y = svg.upwards(0.0, max(tallest, 1.0) * 1.1)
    parts = list(
        svg.legend(
            Mark(name, colour, "line") for (name, _), colour in zip(curves, _COLOURS, strict=False)
        )
    )
    parts.append(
        svg.line(svg.LEFT, y.at(1.0), svg.WIDTH - svg.RIGHT, y.at(1.0), PAGE.muted, "6 4")
    )
    for (name, points), colour in zip(curves, _COLOURS, strict=False):
        parts.append(svg.path([(x.at(n), y.at(mid)) for n, mid, _ in points], colour))
        for n, mid, half in points:
            parts.append(
                svg.line(x.at(n), y.at(mid - half), x.at(n), y.at(mid + half), PAGE.muted)
            )
            parts.append(
                svg.symbol(
                    "dot", x.at(n), y.at(mid), colour, f"{name}, N = {n}: {mid:.3f} +- {half:.3f}"
                )
            )
    titles = ("Speculation length N", "Tokens a round")
    drawn = svg.document(parts, x, y, titles, PAGE, "Tokens a round by N; the table holds them")
    return Figure(drawn, "Bars are 95 % intervals, clustered by request. 1 is plain decoding.")
