"""Workloads out of the counters that a Prometheus server kept of inference engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from capplan.errors import MetricsError, ResultsFileError, UnreadableFileError, WorkloadError
from capplan.estimate.counted_traffic import (
    CountedTraffic,
    lengths_in_buckets,
    peak_requests_per_s,
    workload_of_counts,
)
from capplan.estimate.recurring_rates import hour_of_day_rates
from capplan.estimate.traffic_figures import WINDOWS_S, traffic_figures
from capplan.inputs.reading import read_start
from capplan.profiles.importers.document import Document, open_document
from capplan.profiles.query_answer import QueryAnswer, is_query_answer, read_query_answer
from capplan.profiles.query_scrapes import looks
from capplan.profiles.traffic_counts import Buckets, TrafficCounts, traffic_counts
from capplan.schema.lengths import FixedLength, Lengths
from capplan.schema.traffic import CountedFigures, ServiceReport
from capplan.schema.workload import Workload
from capplan.units import SECONDS_PER_HOUR

_ASK_RANGE = (
    'Ask /api/v1/query_range with query={__name__=~"vllm:.*",__name__!~".*_seconds_bucket"}, '
    "start, end and step=60."
)
_HEAD_BYTES = 1_000
_NO_BUCKETS = "every request is taken to have the mean length: the answer holds no buckets of "


def query_answer(path: Path) -> Document | None:
    """Return a file that is the answer of a query; None for any other file.

    Raises
    ------
    WorkloadError
        If it begins as an answer and cannot be read to its end.
    """
    is_packed = path.suffixes[-2:] == [".json", ".gz"]
    if path.suffix.lower() != ".json" and not is_packed:
        return None
    try:
        document = open_document(path)
    except ResultsFileError as error:
        if is_packed or _begins_as_answer(path):
            raise WorkloadError(
                error.message,
                "Save the answer again; if it is too large, ask for a larger step, a shorter time "
                "or fewer series.",
            ) from error
        return None  # whoever reads it as a workload file says what is wrong
    return document if is_query_answer(document.value) else None


def _begins_as_answer(path: Path) -> bool:
    try:
        return b'"resultType"' in read_start(path, _HEAD_BYTES)
    except UnreadableFileError:
        return False


def counted_services(
    document: Document, window: str, change: Callable[[Workload], Workload]
) -> list[ServiceReport]:
    """Return a service for each LLM that served requests, the busiest first.

    One alone is named after the file; of several each is named after its LLM and asks for it.

    Parameters
    ----------
    document
        Answer of ``/api/v1/query_range``.
    window
        Of the peak, a key of ``WINDOWS_S``.
    change
        Applied to every workload.

    Raises
    ------
    WorkloadError
        If it holds no requests that were counted over a range of time, or not their lengths.
    """
    try:
        answer = read_query_answer(document.value, document.name)
        served = traffic_counts(looks(answer, document.name))
    except MetricsError as error:
        raise WorkloadError(error.message, error.remedy) from error
    busy = [one for one in served if sum(one.requests)]
    if not busy:
        raise _nothing(document.name, answer, served)
    notes = [*answer.notes, *(f"{one.model} served nothing" for one in served if one not in busy)]
    found = [
        _service(counts, name, document.name, window, change)
        for counts, name in zip(busy, _names(busy), strict=True)
    ]
    if len(found) == 1:
        name = document.name.removesuffix(".gz").removesuffix(".json")
        found = [found[0].model_copy(update={"name": name, "target": None})]
    counted = found[0].counted
    if notes and counted is not None:
        told = counted.model_copy(update={"notes": (*counted.notes, *notes)})
        found[0] = found[0].model_copy(update={"counted": told})
    return found


def _nothing(name: str, answer: QueryAnswer, served: Sequence[TrafficCounts]) -> WorkloadError:
    if answer.kind == "vector":
        return WorkloadError(f"{name} is of one moment; a rate needs a range.", _ASK_RANGE)
    uncounted = [one.software for one in served if one.total.output_tokens]
    if uncounted:
        return WorkloadError(
            f"{name} holds tokens of {uncounted[0]}, but no counter of requests.", _ASK_RANGE
        )
    return WorkloadError(
        f"{name}: not one request ended in its time.", "Ask for a time with traffic."
    )


def _names(served: Sequence[TrafficCounts]) -> list[str]:
    """Return the LLMs' names, with the engine's where two engines serve one."""
    models = [one.model or one.software for one in served]
    return [
        model if models.count(model) == 1 else f"{model} ({one.software})"
        for model, one in zip(models, served, strict=True)
    ]


def _service(
    counts: TrafficCounts,
    name: str,
    file: str,
    window: str,
    change: Callable[[Workload], Workload],
) -> ServiceReport:
    try:
        traffic = CountedTraffic(
            np.array(counts.seconds),
            np.array(counts.requests),
            np.array(counts.watched),
            _lengths(counts.prompts, _mean(counts, "prompt"), file),
            _lengths(counts.outputs, _mean(counts, "output"), file),
            counts.total.prefix_hit_rate or 0.0,
        )
        seen = workload_of_counts(traffic, WINDOWS_S[window])
    except (ValidationError, ArithmeticError) as error:
        raise WorkloadError(
            f"{file} holds figures that cannot be: {_first(error)}.",
            "Take the answer again from the server; it was edited or cut.",
        ) from error
    load = change(seen)
    return ServiceReport(
        name=name,
        target=counts.model or None,
        workload=load,
        figures=traffic_figures(load),
        counted=_figures(counts, traffic, file, window),
    )


def _first(error: ValidationError | ArithmeticError) -> str:
    if isinstance(error, ArithmeticError):
        return str(error)
    return str(error.errors(include_url=False)[0]["msg"])


def _mean(counts: TrafficCounts, side: str) -> float | None:
    """Return mean tokens of a request: of those that ended, else all tokens over all requests."""
    total, length = counts.total, {"prompt": "prompted", "output": "generated"}[side]
    ended = total.counts.get(length)
    if ended:
        return total.sums.get(length, 0.0) / ended
    tokens = total.prompt_tokens if side == "prompt" else total.output_tokens
    return None if tokens is None else tokens / sum(counts.requests)


def _lengths(buckets: Buckets, mean_tokens: float | None, file: str) -> Lengths:
    if mean_tokens is None:
        raise WorkloadError(f"{file} holds requests, but not their tokens.", _ASK_RANGE)
    if not buckets or not buckets[-1][1]:
        return FixedLength(tokens=max(mean_tokens, 1.0))
    bounds, counts = zip(*buckets, strict=True)
    return lengths_in_buckets(bounds, counts, mean_tokens)


def _figures(
    counts: TrafficCounts, traffic: CountedTraffic, file: str, window: str
) -> CountedFigures:
    span_s = counts.seconds[-1] - counts.seconds[0]
    return CountedFigures(
        file=file,
        software=counts.software,
        model=counts.model,
        engines=len(counts.engines),
        requests=sum(counts.requests),
        failed=counts.total.counters.get("failed", 0.0),
        looks=len(counts.seconds),
        step_s=traffic.step_s,
        hours=span_s / SECONDS_PER_HOUR,
        unseen_hours=(span_s - traffic.watched_s) / SECONDS_PER_HOUR,
        restarts=counts.restarts,
        peak_requests_per_s={
            name: peak_requests_per_s(traffic, seconds) for name, seconds in WINDOWS_S.items()
        },
        notes=tuple(_notes(counts, traffic, window)),
    )


def _notes(counts: TrafficCounts, traffic: CountedTraffic, window: str) -> Iterator[str]:
    if traffic.step_s > WINDOWS_S[window] * 1.001:
        yield (
            f"looks are {traffic.step_s / 60:.3g} min apart: the peak is the busiest time between "
            f"two, and shorter bursts are not seen; a step of {window} or less shows them"
        )
    without = [
        name
        for name, buckets in (("prompts", counts.prompts), ("outputs", counts.outputs))
        if not buckets
    ]
    if without:
        yield f"{_NO_BUCKETS}{' and '.join(without)}"
    else:
        yield "counters do not say whether long prompts get long answers: taken as independent"
    if hour_of_day_rates(traffic.course) is None:
        yield "no shape of the day: not every hour was watched"
