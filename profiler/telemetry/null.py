"""A machine without a GPU: no energy counter, but other work on the CPU can be seen."""

from __future__ import annotations

import time
from pathlib import Path

from capplan.schema.measured_setup import Device
from capplan.schema.verdict import Reason, Stability, Verdict

STABLE = Verdict(stability=Stability.STABLE)
BUSY_SHARE_NOISY = 0.1
"""Share of all CPU time that others may use while the profiler waits."""
WINDOW_S = 0.5


class NullTelemetry:
    """Telemetry of a CPU: nothing but how busy the machine is when we are not.

    Parameters
    ----------
    window_s
        Seconds over which the load is watched.
    stat_file
        Where Linux counts CPU time; where the file is absent, nothing is said.
    """

    def __init__(self, window_s: float = WINDOW_S, stat_file: str = "/proc/stat") -> None:
        self._window_s = window_s
        self._stat_file = Path(stat_file)

    def device(self) -> Device | None:
        """Return None: there is no device beside the CPU."""
        return None

    def isolation(self, *, loaded: bool) -> Verdict:  # noqa: ARG002 - part of the protocol
        """Judge the load by the CPU time of a short window in which the profiler sleeps."""
        before = cpu_ticks(self._stat_file)
        time.sleep(self._window_s)
        after = cpu_ticks(self._stat_file)
        if before is None or after is None or after[1] <= before[1]:
            return STABLE
        busy = (after[0] - before[0]) / (after[1] - before[1])
        if busy <= BUSY_SHARE_NOISY:
            return STABLE
        remedy = "Stop other programs on this machine and measure again."
        reason = Reason(
            check="cpu_busy", value=round(busy, 3), threshold=BUSY_SHARE_NOISY, remedy=remedy
        )
        return Verdict(stability=Stability.NOISY, reasons=(reason,))

    def health(self) -> Verdict:
        """Return stable: a CPU's throttling is not read."""
        return STABLE

    def gone(self) -> str:
        """Return nothing: a CPU that is gone runs no profiler."""
        return ""

    def energy_j(self) -> float | None:
        """Return None: there is no energy counter."""
        return None

    def peak_memory_bytes_per_s(self) -> float | None:
        """Return None: the memory bus is not known."""
        return None

    def close(self) -> None:
        """Do nothing."""


def cpu_ticks(stat_file: Path) -> tuple[int, int] | None:
    """Return (busy, all) CPU time in ticks since boot, or None where Linux does not tell."""
    try:
        fields = stat_file.read_text(encoding="ascii").split("\n", 1)[0].split()
        ticks = [int(value) for value in fields[1:9]]
    except (OSError, ValueError):
        return None
    if len(ticks) < 5:
        return None
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)
