"""Published load sweeps against the serving simulation, anchored on one point of each.

One point of a sweep scales every step; the others are predicted. Throughput of the rows of
serving_baseline.csv is what their own TTFT and TPOT imply in a closed loop (Little's law), on both
sides; that of throughput.csv is measured.

    python benchmarks/serving_sweeps.py --format json
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from serving_sweep_runs import Point, plain_points, speculative_points, why_unused

from capplan.facts.catalog import load_catalog
from capplan.resources import models_db_dir
from capplan.validation.folder import read_published
from capplan.validation.serving_rows import serving_steps
from capplan.validation.specs import Specs

ANCHORS = ("lowest", "middle")
"""Which point of a sweep scales it: that of the fewest requests at a time, or the middle one."""
FEWEST = 3
BAR = 0.10


@dataclass(frozen=True)
class SweepErrors:
    """Mean absolute relative errors of the points of a sweep that were predicted."""

    sweep: str
    points: int
    factor: float
    tpot: float | None
    ttft: float | None
    tokens_per_s: float | None


def anchor_of(sweep: Sequence[Point], which: str) -> Point:
    """Return the point that scales a sweep; of several at one load the first in the file."""
    ordered = sorted(sweep, key=lambda point: point.concurrency)
    return ordered[0] if which == "lowest" else ordered[len(ordered) // 2]


def errors_of(sweep: Sequence[Point], which: str | None) -> SweepErrors:
    """Return the errors of a sweep; without an anchor every point counts."""
    anchor = anchor_of(sweep, which) if which else None
    predicted = [
        point.anchored_on(anchor) if anchor else point for point in sweep if point is not anchor
    ]
    return SweepErrors(
        sweep=sweep[0].sweep,
        points=len(predicted),
        factor=anchor.factor if anchor else 1.0,
        tpot=_error([(p.simulated_tpot_s, p.tpot_s) for p in predicted]),
        ttft=_error([(p.simulated_ttft_s, p.ttft_s) for p in predicted]),
        tokens_per_s=_error([(p.simulated_tokens_per_s, p.tokens_per_s) for p in predicted]),
    )


def _error(pairs: Sequence[tuple[float, float | None]]) -> float | None:
    errors = [abs(found / wanted - 1.0) for found, wanted in pairs if wanted]
    return float(np.mean(errors)) if errors else None


def grouped(points: Sequence[Point]) -> list[list[Point]]:
    """Return sweeps of at least three points."""
    found: dict[str, list[Point]] = {}
    for point in points:
        found.setdefault(point.sweep, []).append(point)
    return [sweep for sweep in found.values() if len(sweep) >= FEWEST]


def overall(sweeps: Sequence[SweepErrors], figure: str) -> float | None:
    """Return the mean over all predicted points."""
    pairs = [(getattr(s, figure), s.points) for s in sweeps if getattr(s, figure) is not None]
    if not pairs:
        return None
    return sum(error * points for error, points in pairs) / sum(points for _, points in pairs)


def summary(points: Sequence[Point], which: str | None) -> dict[str, object]:
    """Return errors by sweep and overall."""
    sweeps = [errors_of(sweep, which) for sweep in grouped(points)]
    return {
        "anchor": which or "none",
        "sweeps": [vars(sweep) for sweep in sweeps],
        "predicted_points": sum(sweep.points for sweep in sweeps),
        "mean_absolute_error": {
            figure: overall(sweeps, figure) for figure in ("tpot", "ttft", "tokens_per_s")
        },
    }


def simulate_published() -> tuple[list[Point], list[Point], dict[str, int]]:
    """Simulate every usable row; return plain and speculative points, and what was left out."""
    rows = read_published(models_db_dir() / "published")
    catalog = load_catalog()
    specs = Specs(catalog.llms, catalog.gpus, catalog.pairings)
    steps = serving_steps(rows, specs)
    plain = list(plain_points(steps))
    speculative = list(speculative_points(rows.throughput))
    left_out: Counter[str] = Counter(
        f"throughput.csv: {reason}" for row in rows.throughput if (reason := why_unused(row))
    )
    few = sum(why_unused(row) is None for row in rows.throughput) - len(speculative)
    left_out["throughput.csv: fewer than three loads of one pairing"] = few
    scored = [step for step in steps if step.scored]
    other = len(rows.serving_baseline) - len(scored)
    left_out["serving_baseline.csv: another engine than vLLM, or facts unknown"] = other
    lone = len(plain) - sum(len(sweep) for sweep in grouped(plain))
    left_out["serving_baseline.csv: fewer than three points of one machine"] = lone
    return plain, speculative, dict(left_out)


def show(title: str, found: dict[str, Any]) -> None:
    """Print one table."""
    print(f"{title}; anchor: {found['anchor']}")
    for sweep in found["sweeps"]:
        errors = [sweep[name] for name in ("tpot", "ttft", "tokens_per_s")]
        shown = ("     -" if error is None else f"{error:6.1%}" for error in errors)
        head = f"{sweep['sweep'][:70]:<70} {sweep['points']:>4} x{sweep['factor']:.2f}"
        print(f"  {head} {' '.join(shown)}")
    print(f"  all {found['predicted_points']} points: {found['mean_absolute_error']}\n")


def main() -> None:
    """Simulate, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--format", choices=("table", "json"), default="table")
    options = parser.parse_args()
    plain, speculative, left_out = simulate_published()
    tables = {
        "plain": [summary(plain, which) for which in (None, *ANCHORS)],
        "speculative": [summary(speculative, which) for which in ANCHORS],
    }
    if options.format == "json":
        print(json.dumps({**tables, "left_out": left_out, "bar": BAR}, indent=1))
        return
    for title, found in tables.items():
        for table in found:
            show(title, table)
    for reason, count in left_out.items():
        print(f"not used, {count} rows: {reason}")


if __name__ == "__main__":
    main()
