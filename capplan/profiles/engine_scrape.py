"""What the engines of a server report in one scrape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class EngineReading:
    """What one engine of a server reports in one scrape; what it does not report is absent."""

    software: str
    model: str
    engine: str
    counters: Mapping[str, float] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)
    sums: Mapping[str, float] = field(default_factory=dict)
    """Of histograms: total of the observed values."""
    counts: Mapping[str, float] = field(default_factory=dict)
    """Of histograms: number of observed values."""
    accepted_at: tuple[float, ...] = ()
    """How often the draft token of each position was accepted."""
    born_s: Mapping[str, float] = field(default_factory=dict)
    """When a counter was created, where the text says it: a later birth is a restart."""
    buckets: Mapping[str, Mapping[float, float]] = field(default_factory=dict)
    """Of histograms of lengths: requests up to each bound, bounds rising."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it the same engine in two scrapes."""
        return self.software, self.model, self.engine


@dataclass(frozen=True)
class Scrape:
    """All engines of one scrape."""

    engines: tuple[EngineReading, ...]
    process_start_s: float | None = None
    truncated: bool = False
    contradictory: int = 0
    notes: tuple[str, ...] = ()
