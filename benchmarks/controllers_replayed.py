"""What one replay of the controllers gave: as a line of a table, and kept for the audit."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from capplan.schema.quantity import Quantity
from capplan.schema.schedule import ControllerResult

LONGEST = 10
"""Drafts a round up to which texts are replayed."""
COLUMNS = (
    *("pairing", "setting", "requests", "best_n", "guide_n"),
    *("over_five_low", "over_five", "over_five_high"),
    *("over_best_low", "over_best", "over_best_high", "source", "as_of", "note"),
)


@dataclass(frozen=True)
class Replayed:
    """One replay, for the file that ``capplan claims`` reads."""

    pairing: str
    setting: str
    requests: int
    best: int
    results: Sequence[ControllerResult]

    @property
    def guide(self) -> ControllerResult:
        """What the guide's rule did."""
        return next(one for one in self.results if one.name == "guide")


def gain(value: Quantity | None) -> str:
    """Return ``+3.1 % (1.2 to 5.0)``."""
    if value is None:
        return "-"
    return f"{value.mid * 100:+.1f} % ({value.low * 100:+.1f} to {value.high * 100:+.1f})"


def keep(replays: Sequence[Replayed], file: Path, as_of: str) -> None:
    """Write what the guide's rule gained, a line a replay; gains are fractions."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for one in replays:
            guide = one.guide
            gains = [
                f"{value:.4f}" if gained is not None else ""
                for gained in (guide.gain_over_five, guide.gain_over_best_fixed)
                for value in ((gained.low, gained.mid, gained.high) if gained else ("",) * 3)
            ]
            row_of = [one.pairing, one.setting, one.requests, one.best, f"{guide.mean_length:.1f}"]
            source = "benchmarks/controllers.py (docs/method/adaptive.md)"
            writer.writerow([*row_of, *gains, source, as_of, ""])
