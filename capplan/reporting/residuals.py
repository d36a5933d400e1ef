"""Predicted over measured, a panel a mode: one SVG, alone or in a page that needs no network.

Drawn by hand and not by plotly, so that the picture in the documentation and the page are the
same few kilobytes and need no browser to make.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from capplan.reporting.figure_style import LIGHT, Palette

_WIDTH, _HEIGHT = 560.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 54.0, 12.0, 44.0, 40.0
_TEN_PERCENT = 0.10
_NARROWEST = 1.25
"""The vertical axis shows at least predictions from 1/1.25 to 1.25 of the measured value."""
_TICKS = (0.25, 0.33, 0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0)
_FEWEST_DECADES = 0.1
_MOST_TICKS = 7


@dataclass(frozen=True)
class ResidualPoint:
    """One row: what was measured and predicted, and whether the interval holds the former."""

    measured: float
    predicted: float
    inside: bool
    label: str


@dataclass(frozen=True)
class ResidualPanel:
    """All rows of one mode; not empty."""

    name: str
    caption: str
    points: Sequence[ResidualPoint]


def residuals_svg(
    panels: Sequence[ResidualPanel], *, hover: bool = False, palette: Palette = LIGHT
) -> str:
    """Return one SVG document with the panels below one another.

    Parameters
    ----------
    panels
        At least one.
    hover
        Say what each point is when the pointer rests on it; four times the size.
    palette
        Colours.
    """
    height = _HEIGHT * len(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:g}" '
        f'width="{_WIDTH:g}" height="{height:g}" role="img" font-size="12" '
        f'font-family="system-ui, sans-serif" fill="{palette.ink}">',
        f'<rect width="100%" height="100%" fill="{palette.surface}"/>',
    ]
    for index, panel in enumerate(panels):
        parts.append(f'<g transform="translate(0 {_HEIGHT * index:g})">')
        parts.extend(_panel(panel, hover, palette))
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def residuals_html(panels: Sequence[ResidualPanel]) -> str:
    """Return a page that holds the figure and nothing from elsewhere."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        "<title>Predicted against measured</title>\n"
        "<style>body{margin:2rem auto;max-width:60rem;font-family:system-ui,sans-serif}"
        "svg{width:100%;height:auto}</style></head><body>\n"
        "<h1>Predicted against measured</h1>\n"
        "<p>Each point is a published measurement that did not enter its own prediction. The "
        "band is 10 % to either side; points outside their interval are in the warning colour. "
        "Rest the pointer on one to see what it is.</p>\n"
        f"{residuals_svg(panels, hover=True)}</body></html>\n"
    )


def _panel(panel: ResidualPanel, hover: bool, palette: Palette) -> Iterator[str]:
    axes = _Axes.of(panel.points)
    yield f'<text x="{_LEFT:g}" y="20" font-weight="600">{escape(panel.name)}</text>'
    yield f'<text x="{_LEFT:g}" y="36" fill="{palette.muted}">{escape(panel.caption)}</text>'
    upper, lower = axes.y(1.0 + _TEN_PERCENT), axes.y(1.0 - _TEN_PERCENT)
    inner = _WIDTH - _LEFT - _RIGHT
    yield (
        f'<rect x="{_LEFT:g}" y="{upper:.1f}" width="{inner:g}" height="{lower - upper:.1f}" '
        f'fill="{palette.band}"/>'
    )
    yield from _vertical_ticks(axes, palette)
    yield from _horizontal_ticks(axes, palette)
    # outside last, so that the crowd does not hide them
    for point in sorted(panel.points, key=lambda one: not one.inside):
        yield _dot(point, axes, hover, palette)


def _dot(point: ResidualPoint, axes: _Axes, hover: bool, palette: Palette) -> str:
    colour = palette.accent if point.inside else palette.warning
    place = (
        f'cx="{axes.x(point.measured):.1f}" cy="{axes.y(point.predicted / point.measured):.1f}"'
    )
    dot = f'<circle {place} r="2.4" fill="{colour}" fill-opacity="0.55"'
    if not hover:
        return f"{dot}/>"
    said = (
        f"{point.label}: measured {point.measured:.4g}, predicted {point.predicted:.4g} "
        f"({point.predicted / point.measured - 1:+.1%})"
    )
    return f"{dot}><title>{escape(said)}</title></circle>"


@dataclass(frozen=True)
class _Axes:
    """Logarithmic both ways: measured across, predicted over measured upwards."""

    low: float
    high: float
    reach: float

    @classmethod
    def of(cls, points: Sequence[ResidualPoint]) -> _Axes:
        measured = [math.log10(point.measured) for point in points]
        farthest = max(abs(math.log(point.predicted / point.measured)) for point in points)
        room = max((max(measured) - min(measured)) * 0.04, _FEWEST_DECADES / 2)
        reach = max(farthest * 1.05, math.log(_NARROWEST))
        return cls(min(measured) - room, max(measured) + room, reach)

    def x(self, measured: float) -> float:
        share = (math.log10(measured) - self.low) / (self.high - self.low)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, ratio: float) -> float:
        share = (1.0 - math.log(ratio) / self.reach) / 2
        return _TOP + share * (_HEIGHT - _TOP - _BOTTOM)


def _vertical_ticks(axes: _Axes, palette: Palette) -> Iterator[str]:
    last = math.inf
    for ratio in sorted(_TICKS, key=lambda tick: (tick != 1.0, tick)):
        if abs(math.log(ratio)) > axes.reach:
            continue
        y = axes.y(ratio)
        if ratio != 1.0 and (abs(y - last) < 16 or abs(y - axes.y(1.0)) < 16):
            continue
        last = y
        stroke = palette.muted if ratio == 1.0 else palette.grid
        yield (
            f'<line x1="{_LEFT:g}" x2="{_WIDTH - _RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{stroke}"/>'
        )
        yield (
            f'<text x="{_LEFT - 6:g}" y="{y + 4:.1f}" text-anchor="end" '
            f'fill="{palette.muted}">{ratio:g}</text>'
        )
    middle = axes.y(1.0)
    yield (
        f'<text transform="translate(14 {middle:.1f}) rotate(-90)" text-anchor="middle" '
        f'fill="{palette.muted}">predicted / measured</text>'
    )


def _horizontal_ticks(axes: _Axes, palette: Palette) -> Iterator[str]:
    bottom = _HEIGHT - _BOTTOM
    for value in _round_values(axes.low, axes.high):
        yield (
            f'<text x="{axes.x(value):.1f}" y="{bottom + 16:g}" text-anchor="middle" '
            f'fill="{palette.muted}">{value:g}</text>'
        )
    yield (
        f'<text x="{_WIDTH - _RIGHT:g}" y="{bottom + 33:g}" text-anchor="end" '
        f'fill="{palette.muted}">measured</text>'
    )


def _round_values(low: float, high: float) -> list[float]:
    """Return values of one significant digit between two logarithms, not too many."""
    found: list[float] = []
    for digits in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)):
        decades = range(math.floor(low), math.ceil(high) + 1)
        marks = [digit * 10.0**decade for decade in decades for digit in digits]
        inside = [mark for mark in marks if low <= math.log10(mark) <= high]
        if len(inside) > _MOST_TICKS:
            break
        found = inside
    return found
