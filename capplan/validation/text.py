"""A validation for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from capplan.validation.scoring import NOMINAL_COVERAGE, ModeResult, Score, Scored

POOLED = "all sources"
_HEADINGS = ("n", "error", "bias", "sign", "coverage")
_UNKNOWN = "-"


def render_json(results: Mapping[str, ModeResult]) -> str:
    """Return ``{"modes": {MODE: {"pooled": {...}, "sets": {SOURCE: {...}}}}}``."""
    modes = {
        name: {
            "pooled": result.pooled.to_json(),
            "sets": {source: found.to_json() for source, found in result.sets.items()},
        }
        for name, result in results.items()
    }
    return json.dumps({"modes": modes}, indent=2) + "\n"


def render_table(results: Mapping[str, ModeResult], residuals: int = 0) -> str:
    """Return a table a mode; with ``residuals``, that many of its worst rows below."""
    if not results:
        return "Nothing in this folder can be predicted by any of these modes.\n"
    width = max(len(source) for result in results.values() for source in (*result.sets, POOLED))
    blocks = []
    for name, result in results.items():
        lines = [*_table(name, result, width), *_worst(result.rows, residuals)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + f"\n\n{_LEGEND}\n"


_LEGEND = (
    "error: mean |predicted/measured - 1|; bias: its signed mean; sign: right side of 1x;\n"
    f"coverage: measurements inside the interval, nominally {NOMINAL_COVERAGE:.0%}."
)


def _table(name: str, result: ModeResult, width: int) -> Iterator[str]:
    head = "".join(f"{heading:>10}" for heading in _HEADINGS)
    yield f"{name:<{width}}{head}"
    for source, found in result.sets.items():
        yield f"{source:<{width}}{_cells(found)}"
    if len(result.sets) > 1:
        yield f"{POOLED:<{width}}{_cells(result.pooled)}"


def _cells(found: Score) -> str:
    sign = _UNKNOWN if found.sign_accuracy is None else f"{found.sign_accuracy:.1%}"
    return f"{found.n:>10}{found.mape:>10.2%}{found.bias:>+10.2%}{sign:>10}{found.coverage:>10.0%}"


def _worst(rows: Sequence[Scored], residuals: int) -> Iterator[str]:
    ordered = sorted(rows, key=lambda row: -abs(row.relative_error))
    for row in ordered[:residuals]:
        yield (
            f"  {row.relative_error:>+7.1%}  measured {row.measured:.4g}, predicted "
            f"{row.predicted:.4g} ({row.low:.4g} to {row.high:.4g})  {row.source}: {row.label}"
        )
