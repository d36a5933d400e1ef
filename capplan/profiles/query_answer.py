"""Answers of Prometheus' query API: series of values, each with its labels and times.

Thanos, Mimir, VictoriaMetrics and the managed services answer alike. Format:
https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from capplan.errors import MetricsError

_KINDS = ("vector", "matrix")
_ASK_FOR_COUNTERS = (
    'Ask for the engine\'s own series: query={__name__=~"vllm:.*",__name__!~".*_seconds_bucket"}'
)
_EARLIEST_S, _LATEST_S = 1_262_304_000.0, 4_102_444_800.0
"""2010 and 2100: times are seconds, not milliseconds, and not since the start of something."""
_AGAIN = "Save the answer of /api/v1/query or /api/v1/query_range as it comes."


@dataclass(frozen=True)
class Series:
    """One series.

    Attributes
    ----------
    name
        Of the metric.
    labels
        All others than the name, sorted.
    seconds
        Since 1970 in UTC, rising.
    values
        At these times; NaN and infinities are kept.
    """

    name: str
    labels: tuple[tuple[str, str], ...]
    seconds: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class QueryAnswer:
    """What a query found.

    Attributes
    ----------
    kind
        ``vector``: one value a series; ``matrix``: values over a range.
    series
        At least one.
    notes
        Warnings of the server, and what was left out.
    """

    kind: Literal["vector", "matrix"]
    series: tuple[Series, ...]
    notes: tuple[str, ...] = ()


def is_query_answer(value: Any) -> bool:
    """Whether a JSON value is an answer of the query API, one of an error included."""
    if not isinstance(value, dict):
        return False
    if value.get("status") == "error":
        return "errorType" in value
    data = value.get("data")
    return value.get("status") == "success" and isinstance(data, dict) and "resultType" in data


def read_query_answer(value: Mapping[str, Any], name: str) -> QueryAnswer:
    """Return the series of an answer.

    Parameters
    ----------
    value
        For which ``is_query_answer`` holds.
    name
        Of the file, for messages.

    Raises
    ------
    MetricsError
        If it is an error, empty, of another kind, without names of series, or no such answer.
    """
    if value["status"] == "error":
        said = str(value.get("error", ""))[:200]
        raise MetricsError(
            f"{name} is a refusal of the server ({value['errorType']}): {said}.",
            "Mend the query, and save its answer.",
        )
    kind, found = value["data"]["resultType"], value["data"].get("result")
    if kind not in _KINDS or not isinstance(found, list):
        raise MetricsError(f"{name} holds a {kind!r}; expected vector or matrix.", _AGAIN)
    if not found:
        raise MetricsError(
            f"{name} is an answer without a single series: the query matched nothing in its time.",
            "Check names and labels with query=count by (__name__, job) ({__name__=~"
            '"(vllm|sglang|trtllm|tgi|llamacpp)[:_].*"}), and the time asked for.',
        )
    series = tuple(one for item in found if (one := _series(item, kind, name)) is not None)
    if not series:
        raise MetricsError(f"{name} holds native histograms only.", _ASK_FOR_COUNTERS)
    return QueryAnswer(kind, series, tuple(_notes(value, len(found) - len(series))))


def _notes(value: Mapping[str, Any], left_out: int) -> list[str]:
    warnings = value.get("warnings")
    notes = [str(one)[:200] for one in warnings] if isinstance(warnings, list) else []
    if left_out:
        notes.append(f"{left_out} native histograms were left out.")
    return notes


def _series(item: Any, kind: str, name: str) -> Series | None:
    """Return one series; None for a native histogram."""
    if not isinstance(item, dict) or not isinstance(labels := item.get("metric"), dict):
        raise MetricsError(f"{name} holds a result without its labels ('metric').", _AGAIN)
    if not all(isinstance(label, str) for label in labels.values()):
        raise MetricsError(f"{name} holds a label that is no text.", _AGAIN)
    if not labels.get("__name__"):
        raise MetricsError(
            f"{name} holds series without a name: what a function as rate() or sum() makes of "
            "counters, not the counters.",
            _ASK_FOR_COUNTERS,
        )
    points = [item["value"]] if kind == "vector" and "value" in item else item.get("values")
    if points is None:
        if "histogram" in item or "histograms" in item:
            return None
        points = []
    seconds, values = _points(points, labels["__name__"], name)
    rest = tuple(sorted((key, label) for key, label in labels.items() if key != "__name__"))
    return Series(labels["__name__"], rest, seconds, values)


def _points(points: Any, metric: str, name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    try:
        seconds = tuple(float(time) for time, _ in points)
        values = tuple(float(value) for _, value in points)
    except (TypeError, ValueError, OverflowError) as error:
        raise MetricsError(
            f"{name}: values of {metric[:60]} are no pairs of time and number.", _AGAIN
        ) from error
    rising = all(early < late for early, late in pairwise(seconds))
    if not seconds or not rising or not _EARLIEST_S <= seconds[0] <= seconds[-1] <= _LATEST_S:
        raise MetricsError(
            f"{name}: times of {metric[:60]} are no seconds since 1970 (2010 to 2100) that rise.",
            _AGAIN,
        )
    return seconds, values
