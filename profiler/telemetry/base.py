"""What a source of telemetry offers, whatever stands behind it."""

from __future__ import annotations

from typing import Protocol

from capplan.schema.measured_setup import Device
from capplan.schema.verdict import Verdict


class Telemetry(Protocol):
    """Watches the device while something else runs on it."""

    def device(self) -> Device | None:
        """Return the device watched; None where only a CPU is watched."""

    def isolation(self, *, loaded: bool) -> Verdict:
        """Judge whether the device is ours alone; called when our own work rests.

        ``loaded`` says whether the profiler itself already holds memory on the device.
        """

    def health(self) -> Verdict:
        """Judge whether the device ran at full speed since the last call (throttling)."""

    def gone(self) -> str:
        """Return why the device does not answer any more; empty as long as it does."""

    def energy_j(self) -> float | None:
        """Return joules since some moment in the past; None without an energy counter."""

    def peak_memory_bytes_per_s(self) -> float | None:
        """Return the bandwidth that memory clock and bus width allow, if they are known."""

    def close(self) -> None:
        """Let go of the driver."""
