"""Colours and layout of the figures, light and dark."""

from __future__ import annotations

from dataclasses import dataclass

_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


@dataclass(frozen=True)
class Palette:
    """Colours of one scheme; the page's style sheet uses the same ones."""

    ink: str
    muted: str
    grid: str
    surface: str
    accent: str
    band: str
    second: str
    warning: str


LIGHT = Palette(
    ink="#1b2430",
    muted="#5a6675",
    grid="#e4e8ee",
    surface="#ffffff",
    accent="#0b6e5f",
    band="rgba(11,110,95,0.14)",
    second="#7d8896",
    warning="#a4501a",
)
DARK = Palette(
    ink="#e7ecf2",
    muted="#9eabba",
    grid="#2b3542",
    surface="#171e27",
    accent="#54c7b0",
    band="rgba(84,199,176,0.18)",
    second="#8b98a8",
    warning="#eda368",
)

PAGE = Palette(
    ink="var(--ink)",
    muted="var(--muted)",
    grid="var(--line)",
    surface="none",
    accent="var(--accent)",
    band="var(--accent-soft)",
    second="var(--control)",
    warning="var(--warning)",
)
"""Those of the page itself, for SVG that stands in it: light, dark and print alike."""


def layout(palette: Palette, x_title: str, y_title: str) -> dict[str, object]:
    """Return what all figures share: quiet axes, legend above, colours of the scheme."""
    axis: dict[str, object] = {
        "gridcolor": palette.grid,
        "linecolor": palette.grid,
        "zeroline": False,
        "automargin": True,
        "tickfont": {"size": 12, "color": palette.muted},
    }
    title = {"font": {"size": 13, "color": palette.muted}, "standoff": 12}
    return {
        "template": "none",
        "height": 420,
        # Room for every label at once: where plotly has to make more, it draws all again.
        "margin": {"l": 60, "r": 28, "t": 56, "b": 56},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": _FONT, "size": 13, "color": palette.ink},
        "hoverlabel": {
            "bgcolor": palette.surface,
            "bordercolor": palette.grid,
            "font": {"family": _FONT, "color": palette.ink, "size": 13},
            "align": "left",
        },
        "modebar": {
            "bgcolor": "rgba(0,0,0,0)",
            "color": palette.second,
            "activecolor": palette.accent,
        },
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "xanchor": "left",
            "yanchor": "bottom",
            "font": {"size": 12, "color": palette.muted},
            "itemclick": "toggle",
        },
        "xaxis": axis | {"title": title | {"text": x_title}},
        "yaxis": axis | {"title": title | {"text": y_title}},
    }
