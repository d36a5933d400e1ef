"""The frame of a small chart in SVG: scales, ticks, legend. No library, no script."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from capplan.reporting.figure_style import Palette
from capplan.reporting.formatting import printable

WIDTH, HEIGHT = 680.0, 380.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 20.0, 48.0, 52.0
_MOST_TICKS = 7
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_DIGITS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0))
_LEGEND_GAP = 22.0
_LETTER_WIDTH = 7.2
"""Of the 12 px legend, on average; too wide rather than too narrow."""


@dataclass(frozen=True)
class Scale:
    """Values to pixels along one axis."""

    low: float
    high: float
    start_px: float
    end_px: float
    is_log: bool = False

    def at(self, value: float) -> float:
        """Return the pixel of a value; beyond the ends it stays at the end."""
        low, high, this = (self._place(one) for one in (self.low, self.high, value))
        share = min(1.0, max(0.0, (this - low) / (high - low)))
        return self.start_px + share * (self.end_px - self.start_px)

    def ticks(self) -> list[float]:
        """Return round values on the axis, seven at most."""
        return _log_ticks(self.low, self.high) if self.is_log else _ticks(self.low, self.high)

    def _place(self, value: float) -> float:
        return math.log10(max(value, self.low)) if self.is_log else value


def across(low: float, high: float, *, is_log: bool = False) -> Scale:
    """Return the horizontal scale."""
    return Scale(low, high, LEFT, WIDTH - RIGHT, is_log)


def upwards(low: float, high: float, *, is_log: bool = False) -> Scale:
    """Return the vertical scale."""
    return Scale(low, high, HEIGHT - BOTTOM, TOP, is_log)


def fitted(values: Sequence[float]) -> tuple[float, float, bool]:
    """Return the ends of an axis, and whether it is logarithmic.

    It starts at zero, unless the values lie more than a decade apart.
    """
    low, high = min(values), max(values)
    if low > 0 and high / low > 10:
        return low / 1.15, high * 1.15, True
    return 0.0, high * 1.08 or 1.0, False  # an owned GPU may cost nothing


def _ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / (_MOST_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one * power for one in _STEPS if one * power >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    found: list[float] = []
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in _DIGITS:
        marks = [digit * 10.0**decade for decade in decades for digit in digits]
        inside = [mark for mark in marks if low <= mark <= high]
        if len(inside) > _MOST_TICKS:
            break
        found = inside
    return found


@dataclass(frozen=True)
class Mark:
    """One entry of the legend: how it looks and what it means."""

    text: str
    colour: str
    symbol: str
    """``dot``, ``ring``, ``cross``, ``diamond``, ``line``, ``dash``, ``band``."""


def document(
    parts: Sequence[str], x: Scale, y: Scale, titles: tuple[str, str], palette: Palette, about: str
) -> str:
    """Return a whole SVG document: axes below, ``parts`` above, ``about`` for screen readers."""
    return printable(
        "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" '
                f'width="{WIDTH:g}" height="{HEIGHT:g}" role="img" aria-label="{escape(about)}" '
                f'font-size="12" font-family="system-ui, sans-serif" fill="{palette.ink}">',
                f'<rect width="100%" height="100%" fill="{palette.surface}"/>',
                *_axes(x, y, titles, palette),
                *parts,
                "</svg>",
                "",
            ]
        )
    )


def _axes(x: Scale, y: Scale, titles: tuple[str, str], palette: Palette) -> Iterator[str]:
    for value in y.ticks():
        at = y.at(value)
        yield line(LEFT, at, WIDTH - RIGHT, at, palette.grid)
        yield text(LEFT - 8, at + 4, _tick_text(value), palette.muted, anchor="end")
    bottom = HEIGHT - BOTTOM
    for value in x.ticks():
        at = x.at(value)
        yield line(at, bottom, at, bottom + 4, palette.muted)
        yield text(at, bottom + 18, _tick_text(value), palette.muted, anchor="middle")
    yield line(LEFT, bottom, WIDTH - RIGHT, bottom, palette.muted)
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield text(middle, HEIGHT - 12, titles[0], palette.muted, anchor="middle")
    yield (
        f'<text transform="translate(16 {(TOP + bottom) / 2:.1f}) rotate(-90)" '
        f'text-anchor="middle" fill="{palette.muted}">{escape(titles[1])}</text>'
    )


def _tick_text(value: float) -> str:
    return f"{value:,.10g}"


def legend(marks: Iterable[Mark]) -> Iterator[str]:
    """Draw the legend in one row above the chart."""
    left = LEFT
    for mark in marks:
        yield symbol(mark.symbol, left + 8, 20.0, mark.colour)
        yield text(left + _LEGEND_GAP, 24.0, mark.text, "currentColor")
        left += _LEGEND_GAP + len(mark.text) * _LETTER_WIDTH + 14


def symbol(kind: str, x: float, y: float, colour: str, hover: str = "") -> str:
    """Return one symbol, which says ``hover`` when the pointer rests on it."""
    shape = {
        "dot": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"',
        "ring": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="8" fill="none" stroke="{colour}" '
        'stroke-width="2"',
        "cross": f'<path d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8" stroke="{colour}" '
        'stroke-width="2" fill="none"',
        "diamond": f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z" stroke="{colour}" '
        'stroke-width="1.5" fill="none"',
        "line": f'<path d="M{x - 8:.1f} {y:.1f}h16" stroke="{colour}" stroke-width="2.5"',
        "dash": f'<path d="M{x - 8:.1f} {y:.1f}h16" stroke="{colour}" stroke-width="1.5" '
        'stroke-dasharray="3 3"',
        "band": f'<rect x="{x - 8:.1f}" y="{y - 5:.1f}" width="16" height="10" fill="{colour}"',
    }[kind]
    inside = f"><title>{escape(hover)}</title></{shape[1:].split()[0]}>" if hover else "/>"
    return f"{shape}{inside}"


def line(x1: float, y1: float, x2: float, y2: float, colour: str, dash: str = "") -> str:
    """Return a straight line."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}"{dashed}/>'


def path(points: Sequence[tuple[float, float]], colour: str, *, dash: str = "") -> str:
    """Return a line through points."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<polyline points="{_points(points)}" fill="none" stroke="{colour}" '
        f'stroke-width="2"{dashed}/>'
    )


def area(points: Sequence[tuple[float, float]], colour: str) -> str:
    """Return a filled polygon."""
    return f'<polygon points="{_points(points)}" fill="{colour}"/>'


def text(x: float, y: float, words: str, colour: str, *, anchor: str = "start") -> str:
    """Return one line of text, whatever characters it has."""
    fill = "" if colour == "currentColor" else f' fill="{colour}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{fill}>{escape(words)}</text>'


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
