"""The answer of a Prometheus query as scrapes: what every engine reported at each of its times."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from statistics import median
from typing import NamedTuple

from capplan.errors import MetricsError
from capplan.profiles.engine_reading import scrape_of
from capplan.profiles.engine_scrape import Scrape
from capplan.profiles.exposition import Exposition, Sample
from capplan.profiles.query_answer import QueryAnswer, Series

_LEAST_SHARED = 0.65
"""Share of the times of its life that a usual series has, where one step was asked for."""


class Look(NamedTuple):
    """What the engines reported at one time."""

    second: float
    """Since 1970 in UTC."""
    scrape: Scrape


def looks(answer: QueryAnswer, name: str) -> tuple[Look, ...]:
    """Return the engines' figures at each time of an answer, the earliest first.

    Raises
    ------
    MetricsError
        If no series is an engine's, or the servers were looked at at different times each, as in
        the answer to a selector of a range (``metric[5m]``).
    """
    by_time: dict[float, list[Sample]] = defaultdict(list)
    for series in answer.series:
        for second, value in zip(series.seconds, series.values, strict=True):
            by_time[second].append(Sample(series.name, series.labels, value))
    times = sorted(by_time)
    _check_shared(answer, times, name)
    found = []
    for second in times:
        try:
            found.append(Look(second, scrape_of(Exposition(tuple(by_time[second]), {}))))
        except MetricsError:
            if len(times) == 1:
                raise
    if not found:
        raise MetricsError(
            f"{name} holds no figure of an engine that is known.",
            'Ask for the engine\'s own series: query={__name__=~"vllm:.*"}',
        )
    return tuple(found)


def _check_shared(answer: QueryAnswer, times: list[float], name: str) -> None:
    shares = [_share_of_times(series, times) for series in answer.series]
    if median(shares) < _LEAST_SHARED:
        raise MetricsError(
            f"{name}: every server was looked at at other times, {len(times)} in all.",
            "Ask /api/v1/query_range with a step: it looks at all series at the same times.",
        )


def _share_of_times(series: Series, times: list[float]) -> float:
    first, last = bisect_left(times, series.seconds[0]), bisect_left(times, series.seconds[-1])
    return len(series.seconds) / (last - first + 1)
