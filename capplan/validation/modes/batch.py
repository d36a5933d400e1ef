"""Speedup at other batch sizes or concurrencies from the smallest and the largest one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

from capplan.estimate.batch_curve import BatchPoint, scatter_of, speedup_between
from capplan.validation.rows import PublishedRows, SpeedupRow, ThroughputRow
from capplan.validation.runs import Key, throughput_speedup
from capplan.validation.scoring import Scored

_LEAST_POINTS = 3
_OUTCOMES = frozenset(
    {"id", "alpha", "tau", "c", "t_ar_ms", "t_sd_ms", "gammaTD_ms", "TV_ms", "quality", "notes"}
    | {"measured_speedup", "speedup", "baseline", "spec", "batch_size", "load"}
)
"""Columns that may differ along a curve; all others must agree."""

Curve = Sequence[BatchPoint]


def predict(rows: PublishedRows) -> Sequence[Scored]:
    """Predict the inner points of every speedup curve over the batch.

    How far curves stray from the line, hence the interval, is taken from other sources.
    """
    curves = _curves(rows)
    scored: list[Scored] = []
    for key, curve in curves.items():
        elsewhere = [found for other, found in curves.items() if _source(other) != _source(key)]
        scatter = scatter_of(elsewhere)
        scored += [_scored(key, curve, point, scatter) for point in curve[1:-1]]
    return scored


def _scored(key: Key, curve: Curve, point: BatchPoint, scatter: float) -> Scored:
    found = speedup_between(curve[0], curve[-1], point.batch, scatter)
    low, high = found.interval_90()
    return Scored(
        source=_source(key),
        measured=point.speedup,
        predicted=found.mid,
        low=low,
        high=high,
        is_speedup=True,
        label=f"{', '.join(str(part) for part in key[1:] if part not in ('', None))}, "
        f"B={point.batch:g}",
    )


def _source(key: Key) -> str:
    return str(key[0])


def _curves(rows: PublishedRows) -> Mapping[Key, Curve]:
    """Return curves with enough batches, ordered; of a batch measured twice the first counts."""
    points: defaultdict[Key, dict[float, float]] = defaultdict(dict)
    for key, batch, speedup in _points(rows):
        if batch and speedup and batch > 0 and speedup > 0:
            points[key].setdefault(batch, speedup)
    return {
        key: [BatchPoint(batch, found[batch]) for batch in sorted(found)]
        for key, found in points.items()
        if len(found) >= _LEAST_POINTS
    }


def _points(rows: PublishedRows) -> Iterator[tuple[Key, float | None, float | None]]:
    for row in rows.speedup:
        yield _key(row), row.batch_size, row.measured_speedup
    for run in rows.throughput:
        yield _key(run), run.load, throughput_speedup(run)


def _key(row: SpeedupRow | ThroughputRow) -> Key:
    settled = (f.name for f in fields(row) if f.name not in {*_OUTCOMES, "source_key"})
    return (row.source_key, *(getattr(row, name) for name in settled))
