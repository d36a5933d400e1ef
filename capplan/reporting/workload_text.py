"""What was understood of a workload, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capplan.estimate.acceptance_mix import part_words, token_shares
from capplan.reporting import formatting as fmt
from capplan.schema.traffic import (
    CountedFigures,
    LengthFigures,
    ServiceReport,
    TraceFigures,
    TrafficFigures,
    WorkloadReport,
)
from capplan.schema.workload import Workload

_BARS = "▁▂▃▄▅▆▇█"
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_HOUR_MARKS = "0     6     12    18"


def render_workload(report: WorkloadReport) -> str:
    """Return every service, and all of them together."""
    shown = [*report.services, *([report.together] if report.together is not None else [])]
    blocks = ["\n".join(_service(one)) for one in shown]
    notes = [f"Note: {note}" for note in report.notes]
    return fmt.printable("\n\n".join([*blocks, *notes])) + "\n"


def _service(one: ServiceReport) -> list[str]:
    lines = [one.name, *_asked(one)]
    if one.trace is not None:
        lines.extend(_trace(one.trace))
    if one.counted is not None:
        lines.extend(_counted(one.counted))
    lines.extend(_rates(one.figures, one.workload))
    lines.extend(_lengths(one.figures, one.workload))
    is_stated = one.trace is None and one.counted is None
    lines.extend(_sampling(one.workload, is_stated=is_stated))
    lines.extend(_shape(one.figures))
    return lines


def _asked(one: ServiceReport) -> list[str]:
    """Return what a service of several asks for beside its traffic."""
    limits = (("TPOT", one.slo.tpot_ms), ("TTFT", one.slo.ttft_ms))
    said = ", ".join(f"{name} {limit:g} ms" for name, limit in limits if limit is not None)
    lines = [_row("LLM", one.target)] if one.target is not None else []
    return [*lines, _row("Limits", said)] if said else lines


def _row(name: str, value: str) -> str:
    return f"  {name:<18}{value}"


def _trace(trace: TraceFigures) -> list[str]:
    columns = ", ".join(trace.columns)
    lines = [
        _row("Trace", f"{trace.file}, {trace.layout} ({columns})"),
        _row("Times", f"{trace.times}; {_hours(trace.hours)} from first to last"),
        _row(
            "Rows",
            f"{trace.rows:,}: {trace.requests:,} requests, {trace.failed:,} failed, "
            f"{trace.bad:,} bad",
        ),
    ]
    lines.extend(f"    {reason}" for reason in trace.bad_rows)
    if trace.bad > len(trace.bad_rows):
        lines.append(f"    and {trace.bad - len(trace.bad_rows):,} more")
    lines.extend(_peaks(trace.peak_requests_per_s))
    if trace.index_of_dispersion is not None:
        lines.append(
            _row(
                "Burstiness",
                f"variance / mean of requests a minute {fmt.number(trace.index_of_dispersion)} "
                "(1: independent arrivals)",
            )
        )
    lines.extend(f"    {note}" for note in trace.notes)
    return lines


def _counted(counted: CountedFigures) -> list[str]:
    engines = f"{counted.engines} engine{'s' if counted.engines > 1 else ''}"
    lost = f", {_hours(counted.unseen_hours)} of it not watched" if counted.unseen_hours else ""
    failed = f", {counted.failed:,.0f} failed" if counted.failed else ""
    times = "once" if counted.restarts == 1 else f"{counted.restarts} times"
    again = f"; an engine began anew {times}" if counted.restarts else ""
    return [
        _row("Counters", f"{counted.file}: {counted.model}, {engines} of {counted.software}"),
        _row(
            "Looks",
            f"{counted.looks:,} at most {counted.step_s:,.0f} s apart; {_hours(counted.hours)} "
            f"from first to last{lost}",
        ),
        _row("Requests", f"{counted.requests:,.0f} ended{failed}{again}"),
        *_peaks(counted.peak_requests_per_s),
        *(f"    {note}" for note in counted.notes),
    ]


def _peaks(peak_requests_per_s: Mapping[str, float | None]) -> list[str]:
    known = {name: rate for name, rate in peak_requests_per_s.items() if rate is not None}
    told = ", ".join(f"{fmt.number(rate)} over {name}" for name, rate in known.items())
    return [_row("Peaks", f"{told} (requests/s)")] if told else []


def _hours(hours: float) -> str:
    if hours >= 48:
        return f"{hours / 24:.1f} days"
    return f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.1f} min"


def _rates(figures: TrafficFigures, load: Workload) -> list[str]:
    mean, peak = figures.mean_requests_per_s, figures.peak_requests_per_s
    if mean is None or peak is None:
        lines = [_row("Rate", "not known: a plan buys the most tokens for its budget")]
        if figures.peak_to_mean > 1:
            lines.append(_row("Peak", f"{figures.peak_to_mean:.2f} times the mean"))
        return lines
    month = figures.output_tokens_per_month or 0.0
    lines = [
        _row(
            "Mean rate",
            f"{fmt.number(mean)} requests/s, {fmt.number(mean * load.output_tokens)} output "
            f"tokens/s, {fmt.number(month / 1e6)} M output tokens a month",
        )
    ]
    if figures.peak_to_mean > 1:
        lines.append(
            _row(
                "Peak rate",
                f"{fmt.number(peak)} requests/s, {figures.peak_to_mean:.2f} times the mean: "
                "replicas are for it",
            )
        )
    else:
        lines.append(_row("Peak rate", "not known: replicas are for the mean, with headroom"))
    return lines


def _lengths(figures: TrafficFigures, load: Workload) -> list[str]:
    heads = "".join(f"{name:>8}" for name in ("mean", "p50", "p90", "p95", "p99"))
    lines = [f"  {'Lengths (tokens)':<18}{heads}{'longest':>9}"]
    lines.extend(
        _length_row(name, lengths)
        for name, lengths in (("prompt", figures.prompt), ("output", figures.output))
    )
    further = figures.further_context_tokens
    if round(further):
        lines.append(
            _row(
                "Context",
                f"a decode step meets {further:+,.0f} tokens against prompt + output / 2: it sees "
                "requests by how long they write",
            )
        )
    if load.length_correlation:
        lines.append(
            _row("Correlation", f"{load.length_correlation:+.2f} of prompt and output length")
        )
    return lines


def _length_row(name: str, lengths: LengthFigures) -> str:
    label = f"  {name}, {lengths.kind}"
    values = (
        lengths.mean_tokens,
        lengths.p50_tokens,
        lengths.p90_tokens,
        lengths.p95_tokens,
        lengths.p99_tokens,
    )
    cells = "".join(f"{value:>8,.0f}" for value in values)
    longest = "-" if lengths.longest_tokens is None else f"{lengths.longest_tokens:,.0f}"
    return f"  {label:<18}{cells}{longest:>9}"


def _sampling(load: Workload, *, is_stated: bool) -> list[str]:
    lines = []
    if load.mix:
        shares = token_shares(load)
        lines.append(_row("Mix", "of the output tokens"))
        lines.extend(
            f"    {fmt.percent(float(share)):>5}  {part_words(part)}"
            for share, part in zip(shares, load.mix, strict=True)
        )
    else:
        task = f"{load.task}, " if load.task else ""
        # traces and counters tell no temperature: what is not 0 was stated beside them
        taken = "" if is_stated or load.temperature else ": the file does not say (--temperature)"
        lines.append(_row("Sampling", f"{task}temperature {load.temperature:g}{taken}"))
    if load.prefix_cache_hit_rate:
        missed = 1 - load.prefix_cache_hit_rate
        lines.append(
            _row(
                "Prefix cache",
                f"{fmt.percent(load.prefix_cache_hit_rate)} of the prompt tokens hit; "
                f"{load.prompt_tokens * missed:,.0f} a request are computed",
            )
        )
    return lines


def _shape(figures: TrafficFigures) -> list[str]:
    lines: list[str] = []
    hours, days = figures.requests_per_s_by_hour, figures.requests_per_s_by_day
    if hours is not None:
        lines.append(_row("By hour of day", f"{bars(hours)}  {_range(hours)}"))
        lines.append(_row("", _HOUR_MARKS))
    if days is not None:
        told = "  ".join(
            f"{name} {fmt.number(rate)}" for name, rate in zip(_DAYS, days, strict=True)
        )
        lines.append(_row("By day", f"{told} requests/s"))
    return lines


def _range(values: Sequence[float]) -> str:
    return f"{fmt.number(min(values))}-{fmt.number(max(values))} requests/s"


def bars(values: Sequence[float]) -> str:
    """Return one bar a value, the largest full height; nothing at all is the lowest."""
    most = max(values)
    if most <= 0:
        return _BARS[0] * len(values)
    top = len(_BARS) - 1
    return "".join(_BARS[round(value / most * top)] for value in values)
