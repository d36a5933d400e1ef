"""Telemetry with handed-in answers, for tests and for backends that are not real."""

from __future__ import annotations

from dataclasses import dataclass, field

from capplan.schema.measured_setup import Device
from capplan.schema.verdict import Stability, Verdict
from profiler.timing.clock import Clock

STABLE = Verdict(stability=Stability.STABLE)


@dataclass
class FakeTelemetry:
    """Says what it was told to say; energy grows with the clock at constant power."""

    clock: Clock
    watts: float | None = None
    seen_device: Device | None = None
    isolations: list[Verdict] = field(default_factory=list)
    """Answers in turn; stable when they run out."""
    condition: Verdict = STABLE
    peak_bytes_per_s: float | None = None
    gone_because: str = ""
    """Set it while a run goes on: the device is lost from then on."""
    closed: bool = False

    def device(self) -> Device | None:
        """Return the device handed in."""
        return self.seen_device

    def isolation(self, *, loaded: bool) -> Verdict:  # noqa: ARG002 - part of the protocol
        """Return the next verdict handed in."""
        return self.isolations.pop(0) if self.isolations else STABLE

    def health(self) -> Verdict:
        """Return the condition handed in."""
        return self.condition

    def gone(self) -> str:
        """Return the reason handed in."""
        return self.gone_because

    def energy_j(self) -> float | None:
        """Return watts times the time on the clock."""
        return None if self.watts is None else self.watts * self.clock.now_s()

    def peak_memory_bytes_per_s(self) -> float | None:
        """Return the bandwidth handed in."""
        return self.peak_bytes_per_s

    def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True
