"""One scrape, engine by engine: which counters, gauges and histograms it gives."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from capplan.errors import MetricsError
from capplan.profiles.engine_names import (
    ENGINE_LABELS,
    ENGINES,
    GAUGES,
    HISTOGRAMS,
    LENGTHS,
    MODEL_LABELS,
    POSITION_LABELS,
    SAME_VALUE_LABELS,
    EngineNames,
    plain_name,
)
from capplan.profiles.engine_scrape import EngineReading, Scrape
from capplan.profiles.exposition import Exposition, Sample, parse_exposition

_ADDED_GAUGES = ("running", "waiting")
"""Gauges that two processes of one engine share; of the others the largest counts."""
_UNFINISHED = ("abort", "error", "cancelled")
_SHOWN_NAMES = 3
MOST = 1e18
"""No counter of an engine gets so far: beyond it sums overflow and single events are lost."""
_LONGEST_LABEL = 300


@dataclass
class _Series:
    """Values of one engine as they are gathered: meaning -> place of the name -> rank -> value."""

    values: dict[tuple[str, str], dict[int, dict[str, float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(dict))
    )
    positions: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    born_s: dict[str, float] = field(default_factory=dict)
    buckets: dict[str, dict[float, float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )


_Meaning = tuple[EngineNames, str, str, int]
"""Engine, field, part (value, sum, count, bucket), position of the name among its candidates."""


def _meanings() -> dict[str, _Meaning]:
    found: dict[str, _Meaning] = {}
    for engine in ENGINES:
        for name, candidates in engine.fields.items():
            for place, candidate in enumerate(candidates):
                if name in HISTOGRAMS:
                    found[f"{candidate}_sum"] = (engine, name, "sum", place)
                    found[f"{candidate}_count"] = (engine, name, "count", place)
                    if name in LENGTHS:
                        found[f"{candidate}_bucket"] = (engine, name, "bucket", place)
                else:
                    found[candidate] = (engine, name, "value", place)
    return found


_MEANINGS = _meanings()


def read_scrape(text: str) -> Scrape:
    """Read the engines' figures out of a metrics text.

    Raises
    ------
    MetricsError
        If it is no metrics text, or holds no figure of an engine that is known.
    """
    return scrape_of(parse_exposition(text))


def scrape_of(exposition: Exposition) -> Scrape:
    """Return the engines' figures of samples that were read.

    Raises
    ------
    MetricsError
        If they hold no figure of an engine that is known.
    """
    gathered: dict[tuple[str, str, str], _Series] = defaultdict(_Series)
    unusable = 0
    for sample in exposition.samples:
        unusable += not _take(sample, gathered)
    engines = _joined([_reading(key, series) for key, series in gathered.items()])
    if not engines:
        raise _no_engine(exposition)
    notes = (f"{unusable} values are no usable numbers (NaN, infinite, negative, too large).",)
    return Scrape(
        engines=tuple(sorted(engines, key=lambda engine: engine.key)),
        process_start_s=_process_start_s(exposition.samples),
        truncated=exposition.truncated,
        contradictory=exposition.contradictory,
        notes=exposition.notes + (notes if unusable else ()),
    )


def _take(sample: Sample, gathered: dict[tuple[str, str, str], _Series]) -> bool:
    """File one value; False if it is one that is read and cannot be used."""
    name = plain_name(sample.name)
    is_birth = name.endswith("_created")
    base = plain_name(name.removesuffix("_created"))
    meaning = _MEANINGS.get(base if is_birth else name) or (
        _MEANINGS.get(f"{base}_count") if is_birth else None
    )
    if meaning is None:
        return True
    engine, meant, part, place = meaning
    labels = dict(sample.labels)
    if not _is_selected(engine, meant, labels):
        return True
    if not (math.isfinite(sample.value) and 0 <= sample.value <= MOST):
        return False
    series = gathered[engine.engine, _first(labels, MODEL_LABELS), _engine_label(labels)]
    if is_birth:
        series.born_s[f"{base}{sorted(labels.items())}"] = sample.value
    elif meant == "accepted_at":
        return _take_position(series, labels, sample.value)
    elif part == "bucket":
        return _take_bucket(series, meant, labels.get("le", ""), sample.value)
    else:
        _add(series, (_told_apart(meant, labels), part), place, labels, sample.value)
        return _take_of_position(series, meant, place, labels, sample.value)
    return True


def _add(
    series: _Series, key: tuple[str, str], place: int, labels: Mapping[str, str], value: float
) -> None:
    ranks = series.values[key][place]
    rank = ",".join(labels.get(label, "") for label in SAME_VALUE_LABELS)
    earlier = ranks.get(rank)
    is_share = key[0] in GAUGES and key[0] not in _ADDED_GAUGES
    combine: Callable[[float, float], float] = max if is_share else float.__add__
    ranks[rank] = value if earlier is None else combine(earlier, value)


def _take_of_position(
    series: _Series, meant: str, place: int, labels: Mapping[str, str], value: float
) -> bool:
    """File what a counter that has a series a position says beside its total."""
    if "token_position" not in labels:
        return True
    if meant == "accepted":
        return _take_position(series, labels, value)
    if meant == "drafted" and labels["token_position"] == "0":
        _add(series, ("drafts", "value"), place, labels, value)
    return True


def _take_bucket(series: _Series, meant: str, bound: str, value: float) -> bool:
    try:
        upper = float(bound)
    except ValueError:
        return False
    if math.isnan(upper) or MOST < upper < math.inf:
        return False
    series.buckets[meant][upper] += value
    return True


def _take_position(series: _Series, labels: Mapping[str, str], value: float) -> bool:
    position = next((labels[name] for name in POSITION_LABELS if name in labels), "")
    if not position.isascii() or not position.isdigit() or len(position) > 4:
        return False
    series.positions[int(position)] += value
    return True


def _told_apart(meant: str, labels: Mapping[str, str]) -> str:
    """Return the field, with requests that did not end well kept apart from those that did."""
    reason = labels.get("finished_reason", labels.get("finish_reason", ""))
    return "failed" if meant == "completed" and reason in _UNFINISHED else meant


def _is_selected(engine: EngineNames, meant: str, labels: Mapping[str, str]) -> bool:
    wanted = (engine.selected or {}).get(meant)
    return wanted is None or labels.get(wanted[0]) == wanted[1]


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    return _shown(next((labels[name] for name in names if name in labels), ""))


def _engine_label(labels: Mapping[str, str]) -> str:
    present = [(name, labels[name]) for name in ENGINE_LABELS if name in labels]
    if len(present) == 1:
        return _shown(present[0][1])
    return _shown(",".join(f"{name}={value}" for name, value in present))


def _shown(label: str) -> str:
    """Return a label as a name that can be shown on one line, and be held in a file."""
    short = label[:_LONGEST_LABEL]
    return short if short.isprintable() else "".join(c if c.isprintable() else "?" for c in short)


def _reading(key: tuple[str, str, str], series: _Series) -> EngineReading:
    parts: dict[str, dict[str, float]] = {"value": {}, "sum": {}, "count": {}}
    for (meant, part), places in series.values.items():
        # Ranks of one engine report the same figure each.
        parts[part][meant] = max(places[min(places)].values())
    values = parts["value"]
    depth = len(series.positions)
    is_whole = set(series.positions) == set(range(depth))
    return EngineReading(
        *key,
        counters={name: value for name, value in values.items() if name not in GAUGES},
        gauges={name: value for name, value in values.items() if name in GAUGES},
        sums=parts["sum"],
        counts=parts["count"],
        accepted_at=tuple(series.positions[i] for i in range(depth)) if is_whole else (),
        born_s=series.born_s,
        buckets={name: dict(sorted(found.items())) for name, found in series.buckets.items()},
    )


def _joined(readings: list[EngineReading]) -> list[EngineReading]:
    """Merge what carries no engine label into the only engine there is."""
    by_model: dict[tuple[str, str], list[EngineReading]] = defaultdict(list)
    for reading in readings:
        by_model[reading.software, reading.model].append(reading)
    joined: list[EngineReading] = []
    for group in by_model.values():
        named = [reading for reading in group if reading.engine]
        nameless = [reading for reading in group if not reading.engine]
        if len(named) == 1 and nameless:
            joined.append(_merged(named[0], nameless[0]))
        else:
            joined.extend(group)
    return joined


def _merged(named: EngineReading, nameless: EngineReading) -> EngineReading:
    return EngineReading(
        *named.key,
        counters={**nameless.counters, **named.counters},
        gauges={**nameless.gauges, **named.gauges},
        sums={**nameless.sums, **named.sums},
        counts={**nameless.counts, **named.counts},
        accepted_at=named.accepted_at or nameless.accepted_at,
        born_s={**nameless.born_s, **named.born_s},
        buckets={**nameless.buckets, **named.buckets},
    )


def _process_start_s(samples: Iterable[Sample]) -> float | None:
    starts = [s.value for s in samples if s.name == "process_start_time_seconds"]
    return starts[0] if len(starts) == 1 and math.isfinite(starts[0]) else None


def _no_engine(exposition: Exposition) -> MetricsError:
    names = sorted({sample.name for sample in exposition.samples})
    shown = ", ".join(name[:60] for name in names[:_SHOWN_NAMES])
    known = ", ".join(sorted({engine.engine for engine in ENGINES}))
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return MetricsError(
        f"The metrics are of no engine that is known ({known}): {shown}{more}.",
        "Give the address of the inference server itself, not of a proxy or an exporter.",
    )
