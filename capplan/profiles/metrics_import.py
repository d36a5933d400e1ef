"""Metrics texts as observations: one scrape is everything since start, two are a window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from capplan.profiles.counter_checks import ALL_USES, speculation_of
from capplan.profiles.engine_counters import (
    Difference,
    EngineWindow,
    added,
    course,
    since_start,
)
from capplan.profiles.engine_reading import read_scrape
from capplan.profiles.engine_scrape import Scrape
from capplan.profiles.window_checks import window_flags
from capplan.schema.observation import Flag, Load, Observation, Spread

_RUN_ERROR = 0.01
_SERVED_TOO = "Take the scrapes right before and right after the run, with no other traffic."


@dataclass(frozen=True)
class RunTotals:
    """What a client says of the run that a window is meant to hold; None where it does not."""

    drafts: float | None = None
    output_tokens: float | None = None
    completed: float | None = None


def observe_text(text: str, source: str) -> Observation:
    """Return what one scrape says: totals since the engine's start, flagged as such.

    Raises
    ------
    MetricsError
        If the text holds no engine's metrics.
    """
    return one_observation(observe_text_parts(text, source), source)


def observe_text_parts(text: str, source: str) -> tuple[Observation, ...]:
    """Return one observation a served model (see ``observe_text``)."""
    return since_start_observations(read_scrape(text), source)


def since_start_observations(
    scrape: Scrape, source: str, flags: Iterable[Flag] = ()
) -> tuple[Observation, ...]:
    """Return one observation a served model of a scrape that was read."""
    flag = Flag(
        check="since_start",
        text="Totals since the engine's start, not a window: warm-up and all other loads are in.",
        remedy="Give a second scrape, taken later; the difference is a window.",
        unusable_for=("capacity", "latency", "step_time"),
    )
    shared = (flag, *flags, *_text_flags([scrape]))
    return tuple(
        observation_of(window, source, flags=shared) for window in _by_model(since_start(scrape))
    )


def observe_window(
    before_text: str,
    after_text: str,
    source: str,
    *,
    duration_s: float | None = None,
    run: RunTotals | None = None,
) -> Observation:
    """Return what happened between two scrapes.

    Parameters
    ----------
    before_text, after_text
        Two scrapes of one server.
    source
        Where they come from.
    duration_s
        Time between them; texts do not hold it.
    run
        Totals of the run that the window is meant to hold, to see other traffic in it.

    Raises
    ------
    MetricsError
        If one of the texts holds no engine's metrics.
    """
    parts = observe_window_parts(before_text, after_text, source, duration_s=duration_s, run=run)
    return one_observation(parts, source)


def observe_window_parts(
    before_text: str,
    after_text: str,
    source: str,
    *,
    duration_s: float | None = None,
    run: RunTotals | None = None,
) -> tuple[Observation, ...]:
    """Return one observation a served model (see ``observe_window``)."""
    before, after = read_scrape(before_text), read_scrape(after_text)
    return window_observations(before, after, source, duration_s=duration_s, run=run)


def window_observations(
    before: Scrape,
    after: Scrape,
    source: str,
    *,
    duration_s: float | None = None,
    run: RunTotals | None = None,
) -> tuple[Observation, ...]:
    """Return one observation a served model of two scrapes that were read."""
    return course_observations((before, after), source, duration_s=duration_s, run=run)


def course_observations(
    scrapes: Sequence[Scrape],
    source: str,
    *,
    duration_s: float | None = None,
    run: RunTotals | None = None,
) -> tuple[Observation, ...]:
    """Return one observation a served model of scrapes that follow each other."""
    seen = course(scrapes)
    shared = (*_text_flags(scrapes), *_difference_flags(seen))
    windows = _by_model(seen.windows)
    if not windows:
        return (Observation(source=source, format="prometheus", flags=shared),)
    return tuple(
        observation_of(window, source, duration_s=duration_s, flags=shared, run=run)
        for window in windows
    )


def one_observation(parts: Sequence[Observation], source: str) -> Observation:
    """Return the only observation, or an empty one where several models cannot be told as one."""
    if len(parts) == 1:
        return parts[0]
    models = ", ".join(part.model or "(unnamed)" for part in parts)
    flag = Flag(
        check="several_models",
        text=f"The server serves {len(parts)} models ({models}); they are not added up.",
        remedy="Look at each model by itself.",
        unusable_for=ALL_USES,
    )
    return Observation(source=source, format="prometheus", flags=(flag,))


def observation_of(
    window: EngineWindow,
    source: str,
    *,
    duration_s: float | None = None,
    flags: Iterable[Flag] = (),
    run: RunTotals | None = None,
) -> Observation:
    """Return the observation of one window."""
    speculation, told = speculation_of(window)
    output = window.output_tokens
    completed = window.counters.get("completed")
    hit_rate = window.prefix_hit_rate
    return Observation(
        source=source,
        format="prometheus",
        part=",".join(name for name in window.engines if name),
        model=window.model,
        engine=window.software,
        duration_s=duration_s,
        load=Load(
            achieved_rate_per_s=_per_second(completed, duration_s),
            mean_concurrency=_per_second(window.sums.get("step"), duration_s),
            prefix_cache_hit_rate=None if hit_rate is None else min(hit_rate, 1.0),
        ),
        completed=completed,
        failed=window.counters.get("failed"),
        prompt_tokens=window.prompt_tokens,
        output_tokens=output,
        output_tokens_per_s=_per_second(output, duration_s),
        ttft_s=_spread(window.ttft_s),
        tpot_s=_spread(window.tpot_s if window.tpot_s is not None else window.time_per_token_s),
        step_s=_spread(window.step_s),
        e2e_s=_spread(window.e2e_s),
        speculation=speculation,
        flags=(*flags, *window_flags(window), *told, *_run_flags(window, run)),
    )


def _by_model(windows: Iterable[EngineWindow]) -> list[EngineWindow]:
    """Add up the engines of each model; engines that only show gauges say nothing of a window."""
    groups: dict[tuple[str, str], list[EngineWindow]] = defaultdict(list)
    for window in windows:
        groups[window.software, window.model].append(window)
    totals = []
    for group in groups.values():
        counting = [window for window in group if window.counters or window.counts]
        totals.append(added(counting or group))
    return totals


def _text_flags(scrapes: Sequence[Scrape]) -> list[Flag]:
    flags = []
    if any(scrape.contradictory for scrape in scrapes):
        flags.append(
            Flag(
                check="contradictory_series",
                text="Series stand twice with different values, as if two scrapes were joined.",
                remedy="Give each scrape as a file of its own.",
                unusable_for=ALL_USES,
            )
        )
    notes = [note for scrape in scrapes for note in scrape.notes]
    if any(scrape.truncated for scrape in scrapes) or notes:
        check = "truncated_text" if any(s.truncated for s in scrapes) else "text_notes"
        flags.append(Flag(check=check, text=" ".join(dict.fromkeys(notes))))
    return flags


def _difference_flags(seen: Difference) -> list[Flag]:
    flags = []
    if seen.restarted:
        flags.append(
            Flag(
                check="engine_restarted",
                text=f"Restarted, and what it did between these two looks is dropped: "
                f"{'; '.join(seen.restarted)}.",
                remedy="Give the earlier text first, or take a window in which the engine stays "
                "up.",
                unusable_for=("capacity",) if seen.windows else ALL_USES,
            )
        )
    if seen.missing:
        flags.append(
            Flag(
                check="engine_missing",
                text=f"In one of the two scrapes only: {', '.join(seen.missing)}.",
                remedy="Take both scrapes from one server.",
                unusable_for=("capacity",) if seen.windows else ALL_USES,
            )
        )
    if seen.lost_fields:
        flags.append(
            Flag(
                check="field_missing",
                text=f"In one of the two scrapes only: {', '.join(seen.lost_fields)}.",
            )
        )
    return flags


def _run_flags(window: EngineWindow, run: RunTotals | None) -> list[Flag]:
    """Say what the window holds beside the run it is meant to hold."""
    if run is None:
        return []
    pairs = (
        ("rounds with a draft", window.counters.get("drafts"), run.drafts),
        ("output tokens", window.output_tokens, run.output_tokens),
        ("completed requests", window.counters.get("completed"), run.completed),
    )
    differing = [
        f"{seen:g} {what}, the run's own summary {said:g} ({seen - said:+g})"
        for what, seen, said in pairs
        if seen is not None and said is not None and abs(seen - said) > _RUN_ERROR * max(said, 1)
    ]
    if not differing:
        return []
    return [
        Flag(
            check="traffic_outside_run",
            text=f"The window is not one run, it holds {'; '.join(differing)}: warm-up or other "
            "traffic.",
            remedy=_SERVED_TOO,
            unusable_for=("capacity", "latency"),
        )
    ]


def _spread(mean: float | None) -> Spread | None:
    return None if mean is None else Spread(mean=mean)


def _per_second(amount: float | None, duration_s: float | None) -> float | None:
    return amount / duration_s if amount is not None and duration_s else None
