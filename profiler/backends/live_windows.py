"""Windows of a live server's counters: scraped all the while, cut where an engine restarts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from capplan.errors import MetricsError, ServerError
from capplan.profiles.engine_counters import difference
from capplan.profiles.engine_reading import read_scrape
from capplan.profiles.engine_scrape import Scrape
from capplan.profiles.metrics_import import RunTotals, window_observations
from capplan.schema.observation import Observation
from capplan.schema.profile import Skipped

_FULL_MINUTES = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Look:
    """One scrape and when it was taken."""

    at_s: float
    """Of a clock that never goes back."""
    at: str
    """ISO 8601, UTC."""
    scrape: Scrape


@dataclass
class WindowRecorder:
    """Cuts a server's life into windows.

    A window ends before a restart and the next begins after it, so that all that was counted on
    either side is kept; what lies between the two looks around the restart is noted as lost.
    """

    fetch: Callable[[], str]
    source: str
    clock: Callable[[], float] = time.monotonic
    windows: list[Observation] = field(default_factory=list)
    lost: list[Skipped] = field(default_factory=list)
    first: Look | None = None
    last: Look | None = None
    running: list[float] = field(default_factory=list)
    """Requests being served, as seen by each look of the window."""
    problem: str = ""
    """Why the latest look failed; empty while the server answers."""

    def look(self) -> Look | None:
        """Scrape once; None if the server does not answer, which ``problem`` explains."""
        try:
            text = self.fetch()
            look = Look(self.clock(), _now(), read_scrape(text + "\n"))
        except (ServerError, MetricsError) as error:
            self.problem = error.message
            return None
        self.problem = ""
        if self.last is not None:
            self._cut_at_restart(self.last, look)
        if self.first is None:
            self.first = look
        self.last = look
        gauges = [engine.gauges for engine in look.scrape.engines]
        known = [gauge["running"] for gauge in gauges if "running" in gauge]
        if known:
            self.running.append(sum(known))
        return look

    def length_s(self) -> float:
        """Return the length of the window under way."""
        if self.first is None or self.last is None:
            return 0.0
        return self.last.at_s - self.first.at_s

    def close(self, run: RunTotals | None = None) -> list[Observation]:
        """End the window under way, begin the next, and return what was seen in it."""
        first, last = self.first, self.last
        if first is None or last is None or last.at_s <= first.at_s:
            return []
        peak = max(self.running, default=None)
        seen = [
            observation.model_copy(
                update={
                    "started_at": first.at,
                    "load": observation.load.model_copy(update={"peak_concurrency": peak}),
                }
            )
            for observation in window_observations(
                first.scrape,
                last.scrape,
                self.source,
                duration_s=last.at_s - first.at_s,
                run=run,
            )
        ]
        self.windows += seen
        self.first, self.running = last, []
        return seen

    def _cut_at_restart(self, last: Look, look: Look) -> None:
        seen = difference(last.scrape, look.scrape)
        if not seen.restarted and not seen.missing:
            return
        self.close()
        reasons = (*seen.restarted, *(f"{name} came or went" for name in seen.missing))
        self.lost.append(
            Skipped(
                what=f"{last.at} to {look.at} of {self.source}",
                reason=f"restart: {'; '.join(reasons)}; counts between the two looks are lost",
            )
        )
        self.first, self.running = look, []


def _now() -> str:
    return datetime.now(UTC).strftime(_FULL_MINUTES)
