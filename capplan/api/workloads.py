"""Workloads: from files and traces to values and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from capplan.api.counted_workloads import counted_services, query_answer
from capplan.errors import RequestError
from capplan.estimate import request_trace as traced
from capplan.estimate.acceptance_mix import shares_in_proportion
from capplan.estimate.merged_traffic import merged
from capplan.estimate.traffic import mean_requests_per_s
from capplan.estimate.traffic_figures import (
    DEFAULT_WINDOW,
    WINDOWS_S,
    peaks,
    traffic_figures,
    workload_of_trace,
)
from capplan.schema.services import NamedWorkload, Services
from capplan.schema.traffic import ServiceReport, TraceFigures, WorkloadReport
from capplan.schema.workload import Workload
from capplan.units import SECONDS_PER_HOUR
from capplan.workloads.trace_file import ReadTrace, TraceOptions, is_trace, read_trace
from capplan.workloads.workload_file import read_workload_file, write_workload_file

_REPEATED_SHARE = 0.01
"""Chance makes a few alike where times are whole seconds."""
Change = Callable[[Workload], Workload]


def understand(
    paths: Sequence[str | Path],
    options: TraceOptions | None = None,
    window: str = DEFAULT_WINDOW,
    change: Change | None = None,
) -> WorkloadReport:
    """Read workload files and traces, and say what they hold.

    Parameters
    ----------
    paths
        Workload files (YAML), traces (CSV, JSON lines, Parquet) and answers of Prometheus (JSON).
        Each is a service named after the file, or, of a file with ``services`` and of an answer
        about several LLMs, several.
    options
        How to read traces.
    window
        Of the peak that is taken from a trace: ``1 min``, ``5 min`` or ``15 min``.
    change
        Applied to every workload that was read: what the caller states beside the files.

    Returns
    -------
    WorkloadReport
        Every service with figures; several also together, as one fleet would serve them.

    Raises
    ------
    WorkloadError
        If a file cannot be used.
    RequestError
        If two services have one name, or there is no such window.
    """
    if window not in WINDOWS_S:
        raise RequestError(
            f"No peak is told over {window!r}; known: {', '.join(WINDOWS_S)}.", "Choose one."
        )
    found: list[ServiceReport] = []
    for path in map(Path, paths):
        found.extend(_read(path, options, window, change or (lambda load: load)))
    names = [one.name for one in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RequestError(
            f"Two services are named {twice[0]!r}.", "Rename a file, or a service in it."
        )
    report = _together(tuple(found))
    return report.model_copy(update={"notes": (*_notes_on_mixes(found), *report.notes)})


def _notes_on_mixes(services: Sequence[ServiceReport]) -> list[str]:
    found = ((one.name, shares_in_proportion(one.workload)) for one in services)
    return [f"{name}: {said}" for name, said in found if said]


def _read(
    path: Path, options: TraceOptions | None, window: str, change: Change
) -> list[ServiceReport]:
    if is_trace(path):
        read = read_trace(path, options)
        load = change(workload_of_trace(read.trace, window))
        name = path.with_suffix("").stem if path.suffix == ".gz" else path.stem
        return [_report(name, load, _trace_figures(read, window))]
    if answer := query_answer(path):
        return counted_services(answer, window, change)
    return [
        _report(one.name, change(one.workload)).model_copy(
            update={"target": one.target, "slo": one.slo}
        )
        for one in read_workload_file(path).services
    ]


def _report(name: str, load: Workload, trace: TraceFigures | None = None) -> ServiceReport:
    return ServiceReport(name=name, workload=load, figures=traffic_figures(load), trace=trace)


def _together(services: tuple[ServiceReport, ...]) -> WorkloadReport:
    if len(services) == 1:
        return WorkloadReport(services=services)
    silent = [one.name for one in services if mean_requests_per_s(one.workload) is None]
    if silent:
        note = f"{', '.join(silent)}: no rate, so what all services are together is not known"
        return WorkloadReport(services=services, notes=(note,))
    if len({one.target for one in services}) > 1:
        note = (
            "services that ask for different LLMs share no replica, so they are not put together"
        )
        return WorkloadReport(services=services, notes=(note,))
    try:
        load = merged(services_of(WorkloadReport(services=services)))
    except RequestError as error:
        note = f"not put together: {error.message.rstrip('.')}"
        return WorkloadReport(services=services, notes=(note,))
    return WorkloadReport(services=services, together=_report("together", load))


def services_of(report: WorkloadReport) -> Services:
    """Return the services of a report."""
    named = (
        NamedWorkload(name=one.name, workload=one.workload, target=one.target, slo=one.slo)
        for one in report.services
    )
    return Services(services=tuple(named))


def load_services(path: str | Path) -> Services:
    """Read the services of a file: a workload file, a trace, or an answer of Prometheus.

    Raises
    ------
    WorkloadError
        If the file cannot be used.
    """
    if is_trace(Path(path)):
        return services_of(understand([path]))
    if answer := query_answer(Path(path)):
        counted = counted_services(answer, DEFAULT_WINDOW, lambda load: load)
        return services_of(WorkloadReport(services=tuple(counted)))
    return read_workload_file(path)


def load_workload(path: str | Path) -> Workload:
    """Read a workload file or a trace; several services are put together, as one fleet's load.

    Raises
    ------
    WorkloadError
        If the file cannot be used.
    RequestError
        If one of several services has no rate, or they plan for different utilisations.
    """
    report = understand([path])
    return merged(services_of(report))


def save_workload(path: str | Path, workload: Workload | Services) -> None:
    """Write a workload file (YAML) in one step.

    Raises
    ------
    StorageError
        If it cannot be written; an older file stays as it was.
    """
    if isinstance(workload, Workload):
        workload = Services(services=(NamedWorkload(name="service", workload=workload),))
    write_workload_file(path, workload)


def _trace_figures(read: ReadTrace, window: str) -> TraceFigures:
    trace = read.trace
    return TraceFigures(
        file=read.name,
        layout=read.layout,
        columns=read.columns,
        times=read.times,
        rows=read.rows,
        requests=len(trace.seconds),
        failed=read.failed,
        bad=read.bad,
        bad_rows=tuple(f"line {row.line}: {row.reason}" for row in read.bad_rows),
        hours=trace.span_s / SECONDS_PER_HOUR,
        mean_requests_per_s=traced.mean_requests_per_s(trace),
        peak_requests_per_s=peaks(trace),
        index_of_dispersion=traced.index_of_dispersion(trace),
        length_correlation=traced.length_correlation(trace),
        notes=tuple(_notes(read, window)),
    )


def _notes(read: ReadTrace, window: str) -> list[str]:
    trace, notes = read.trace, []
    if read.failed:
        notes.append(
            f"{read.failed:,} requests wrote no token (failed or refused); they are in no figure"
        )
    if read.contradicting:
        have = "row has" if read.contradicting == 1 else "rows have"
        notes.append(
            f"{read.contradicting:,} {have} a total that is not prompt + output: which of the "
            "three is wrong nobody knows, so they are in no figure"
        )
    if read.unsorted:
        notes.append("the file was not in the order of arrival; it was sorted")
    repeated = traced.repeated_requests(trace)
    if repeated > _REPEATED_SHARE * len(trace.seconds):
        notes.append(
            f"{repeated:,} requests have the very time and lengths of another: where the file "
            "holds rows twice, the rate is too high"
        )
    if trace.span_s < WINDOWS_S[window]:
        notes.append(f"the trace is shorter than {window}: no peak is known")
    if traced.hour_of_day_weights(trace) is None:
        why = (
            "its times count from its own begin"
            if trace.clock == "relative"
            else "it does not cover every hour"
        )
        notes.append(f"no shape of the day: {why}")
    elif traced.day_of_week_weights(trace) is None:
        notes.append("no shape of the week: the trace does not say, or cover, every weekday")
    return notes
