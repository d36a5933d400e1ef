"""Figures of a plan for notebooks: plain SVG, shown by any viewer, script or no script.

The report draws the same two with plotly; :meth:`Figure.interactive` gives those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

from capplan.errors import RequestError
from capplan.files import write_atomic
from capplan.reporting import formatting as fmt, labels, svg_chart as svg
from capplan.reporting.figure_style import LIGHT, Palette
from capplan.reporting.svg_chart import Mark, Scale
from capplan.schema.pairing import Method
from capplan.schema.plan import LoadPoint, Plan, PlanOption

FigureKind = Literal["cost", "load"]


@dataclass(frozen=True)
class Figure:
    """A picture that a notebook shows, ``save`` writes and ``interactive`` makes zoomable."""

    svg: str = field(repr=False)
    _interactive: Callable[[], Any] = field(repr=False, compare=False)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        """Write the SVG and return where it lies.

        Raises
        ------
        RequestError
            If the name ends as another kind of picture.
        """
        file = Path(path)
        if file.suffix.lower() not in {".svg", ""}:
            raise RequestError(
                f"A figure is an SVG, {file.name} ends in {file.suffix}.",
                "Name it .svg; .interactive() gives a plotly figure, which writes others.",
            )
        write_atomic(file, self.svg)
        return file

    def interactive(self) -> Any:
        """Return the same figure as a ``plotly.graph_objects.Figure``, as in the report."""
        return self._interactive()


def plan_figure(plan: Plan, kind: FigureKind = "cost", *, rank: int = 1) -> Figure:
    """Return a figure of a plan.

    Parameters
    ----------
    plan
        A plan with at least one option.
    kind
        ``cost``: dollars a million output tokens against time per output token, a point an
        option. ``load``: speedup of one option against concurrent requests, with its interval.
    rank
        The option of ``load``, 1 for the recommended one.

    Raises
    ------
    RequestError
        If there is no such option, no such kind, or nothing to draw.
    """
    if kind not in get_args(FigureKind):
        known = ", ".join(get_args(FigureKind))
        raise RequestError(f"Unknown figure {kind!r}.", f"Choose one of: {known}.")
    if not 1 <= rank <= len(plan.options):
        raise RequestError(
            f"The plan has {len(plan.options)} options, no option {rank} to draw.",
            plan.verdict.needed or "Ask for a rank from 1 on.",
        )
    if kind == "cost":
        return Figure(cost_svg(plan), lambda: _drawn("cost_figures").cost_figure(plan, LIGHT))
    option = plan.options[rank - 1]
    if not option.load_curve or not option.num_speculative_tokens:
        raise RequestError(
            f"Option {rank} does not speculate: there is no speedup to draw.",
            "Choose the rank of an option with num_speculative_tokens > 0.",
        )
    return Figure(load_svg(option), lambda: _drawn("figures").speedup_figure(option, LIGHT))


def _drawn(module: str) -> Any:
    # plotly: a second of import, only where it is asked for
    return import_module(f"capplan.reporting.{module}")


def cost_svg(plan: Plan, palette: Palette = LIGHT) -> str:
    """Return cost against latency for all options, with the Pareto front and the limit."""
    options, limit_ms = plan.options, plan.request.slo.tpot_ms
    best = options[0] if plan.verdict.feasible else None
    tpots = [option.tpot_ms.mid for option in options]
    costs = [_cost(option) for option in options]
    if best is not None:
        tpots += [best.tpot_ms.low, best.tpot_ms.high]
        costs += [best.usd_per_million_output_tokens.low, best.usd_per_million_output_tokens.high]
    if limit_ms is not None:
        tpots.append(limit_ms)
    low, high, is_log = svg.fitted(tpots)
    x = svg.across(low, high, is_log=is_log)
    low, high, is_log = svg.fitted(costs)
    y = svg.upwards(low, high, is_log=is_log)
    parts = [
        *svg.legend(_cost_legend(plan, palette)),
        *_limit(x, limit_ms, palette),
        *_front(options, x, y, palette),
        *(_option_symbol(option, x, y, palette) for option in reversed(options)),
        *(_recommended(best, x, y, palette) if best is not None else ()),
    ]
    titles = ("Time per output token (ms)", "USD per million output tokens")
    about = f"{titles[1]} against {titles[0].lower()}, {len(options)} options"
    return svg.document(parts, x, y, titles, palette, about)


def _cost(option: PlanOption) -> float:
    return option.usd_per_million_output_tokens.mid


def _cost_legend(plan: Plan, palette: Palette) -> Iterator[Mark]:
    if plan.verdict.feasible:
        yield Mark("recommended", palette.ink, "ring")
    if any(option.on_pareto_front for option in plan.options):
        yield Mark("Pareto front", palette.accent, "dot")
    if any(option.method is not Method.NONE for option in plan.options):
        yield Mark("speculation", palette.second, "dot")
    if any(option.method is Method.NONE for option in plan.options):
        yield Mark("no speculation", palette.warning, "cross")


def _limit(x: Scale, limit_ms: float | None, palette: Palette) -> Iterator[str]:
    if limit_ms is None:
        return
    at = x.at(limit_ms)
    yield svg.line(at, svg.TOP, at, svg.HEIGHT - svg.BOTTOM, palette.warning, "6 4")
    words = f"limit {fmt.milliseconds(limit_ms)}"
    yield svg.text(at - 6, svg.TOP + 12, words, palette.warning, anchor="end")


def _front(options: Sequence[PlanOption], x: Scale, y: Scale, palette: Palette) -> Iterator[str]:
    front = sorted((o for o in options if o.on_pareto_front), key=lambda o: o.tpot_ms.mid)
    corners: list[tuple[float, float]] = []
    for option in front:
        at = (x.at(option.tpot_ms.mid), y.at(_cost(option)))
        if corners:
            corners.append((at[0], corners[-1][1]))
        corners.append(at)
    if len(front) > 1:
        yield svg.path(corners, palette.accent)


def _option_symbol(option: PlanOption, x: Scale, y: Scale, palette: Palette) -> str:
    plain = option.method is Method.NONE
    colour = palette.warning if plain else palette.second
    if option.on_pareto_front:
        colour = palette.accent
    hover = "\n".join(
        (
            labels.option_title(option),
            f"{labels.hardware(option)}, {labels.offer(option)}",
            f"{fmt.usd_interval(option.usd_per_million_output_tokens)} per million output tokens",
            f"TPOT {fmt.milliseconds_interval(option.tpot_ms)}",
            f"{fmt.usd_unit(option.usd_per_month.mid)} a month",
        )
    )
    at = x.at(option.tpot_ms.mid), y.at(_cost(option))
    return svg.symbol("cross" if plain else "dot", *at, colour, hover)


def _recommended(best: PlanOption, x: Scale, y: Scale, palette: Palette) -> Iterator[str]:
    tpot, cost = best.tpot_ms, best.usd_per_million_output_tokens
    across, up = x.at(tpot.mid), y.at(cost.mid)
    yield svg.line(x.at(tpot.low), up, x.at(tpot.high), up, palette.muted)
    yield svg.line(across, y.at(cost.low), across, y.at(cost.high), palette.muted)
    yield svg.symbol("ring", across, up, palette.ink)


def load_svg(option: PlanOption, palette: Palette = LIGHT) -> str:
    """Return speedup against concurrent requests, with its interval and the best lengths."""
    curve = sorted(option.load_curve, key=lambda point: point.concurrency)
    loads = [point.concurrency for point in curve]
    x = svg.across(loads[0] / 1.35, loads[-1] * 1.25, is_log=True)
    tallest = max(max(p.speedup.high, p.best_speedup, p.guide_speedup) for p in curve)
    y = svg.upwards(0.0, max(tallest, 1.0) * 1.08)
    length = option.num_speculative_tokens
    marks = (
        Mark(f"N = {length}, calibrated", palette.accent, "line"),
        Mark("95 % interval", palette.band, "band"),
        Mark("guide's formula", palette.second, "dash"),
        Mark("best N there", palette.ink, "diamond"),
    )
    middle = [(x.at(p.concurrency), y.at(p.speedup.mid)) for p in curve]
    parts = [
        *svg.legend(marks),
        svg.area(_band(curve, x, y), palette.band),
        svg.line(svg.LEFT, y.at(1.0), svg.WIDTH - svg.RIGHT, y.at(1.0), palette.warning, "6 4"),
        *_planned(option, x, palette),
        svg.path(
            [(x.at(p.concurrency), y.at(p.guide_speedup)) for p in curve],
            palette.second,
            dash="2 4",
        ),
        svg.path(middle, palette.accent),
        *(
            svg.symbol("dot", *at, palette.accent, _load_hover(p))
            for at, p in zip(middle, curve, strict=True)
        ),
        *_best_lengths(curve, x, y, palette),
    ]
    titles = ("Requests at once a replica", "Speedup (x)")
    return svg.document(parts, x, y, titles, palette, f"{titles[1]} against {titles[0].lower()}")


def _load_hover(point: LoadPoint) -> str:
    return f"{fmt.count(point.concurrency)} at once: {fmt.factor_interval(point.speedup)}"


def _band(curve: Sequence[LoadPoint], x: Scale, y: Scale) -> list[tuple[float, float]]:
    above = [(x.at(p.concurrency), y.at(p.speedup.high)) for p in curve]
    below = [(x.at(p.concurrency), y.at(p.speedup.low)) for p in reversed(curve)]
    return [*above, *below]


def _planned(option: PlanOption, x: Scale, palette: Palette) -> Iterator[str]:
    at = x.at(option.concurrency)
    bottom = svg.HEIGHT - svg.BOTTOM
    yield svg.line(at, svg.TOP, at, bottom, palette.muted, "2 3")
    words = f"planned: {fmt.count(option.concurrency)}"
    yield svg.text(at + 6, bottom - 8, words, palette.muted)


def _best_lengths(
    curve: Sequence[LoadPoint], x: Scale, y: Scale, palette: Palette
) -> Iterator[str]:
    before: int | None = None
    for point in curve:
        length = point.best_num_speculative_tokens
        at = x.at(point.concurrency), y.at(point.best_speedup)
        said = f"N = {length}" if length else "off"
        best = f"best at {fmt.count(point.concurrency)} at once: {said}"
        yield svg.symbol("diamond", *at, palette.ink, f"{best}, {fmt.factor(point.best_speedup)}")
        if length != before:
            yield svg.text(at[0], at[1] - 10, said, palette.ink, anchor="middle")
        before = length
