"""The product's own promise: profile a corner of the grid, predict the rest, then measure it.

A real vLLM is profiled at batches 1 and 8 with N = 0, 2 and 4. From that file alone the speedup at
batches 4 and 16 with N = 1, 3 and 5 is predicted; then those points are measured, each block of
rounds between two blocks of plain decoding. Times are medians of engine steps, ratios are to the
plain steps of the same run.

Run from the repository where vLLM is installed, about twelve minutes on two idle cores:

    python benchmarks/predict_then_measure.py

With two profiles at hand nothing is measured: --profiled FILE --measured FILE.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from capplan.estimate.evidence import ProfileEvidence, evidence_from_profile
from capplan.profiles.store import StoredProfile, load_profile
from capplan.schema.cells import Phase, RoundsCell, TimingCell
from capplan.schema.profile import Profile

PROFILED = {"batch": (1, 8), "length": (2, 4)}
PREDICTED = {"batch": (4, 16), "length": (1, 3, 5)}
PROMISED_ERROR = 0.08
TEMPERATURE = 0.0


@dataclass(frozen=True)
class Point:
    """One batch and length: what was foretold and what came of it."""

    batch: int
    num_speculative_tokens: int
    predicted_round_ratio: float
    round_ratio: float
    predicted_tokens_per_round: float
    tokens_per_round: float

    @property
    def predicted_speedup(self) -> float:
        """Tokens per round over the round's cost, as foretold."""
        return self.predicted_tokens_per_round / self.predicted_round_ratio

    @property
    def speedup(self) -> float:
        """The same, measured."""
        return self.tokens_per_round / self.round_ratio

    @property
    def error(self) -> float:
        """Relative error of the foretold speedup."""
        return self.predicted_speedup / self.speedup - 1.0

    @property
    def round_ratio_error(self) -> float:
        """Relative error of the foretold round alone."""
        return self.predicted_round_ratio / self.round_ratio - 1.0


def profile(grid: dict[str, tuple[int, ...]], file: Path, extra: Sequence[str]) -> StoredProfile:
    """Profile the demo pair on vLLM, in a process of its own."""
    command = [sys.executable, "-m", "capplan", "profile", "--demo", "--backend", "vllm"]
    for option, values in grid.items():
        for value in values:
            command += [f"--{option}", str(value)]
    command += ["--temperature", str(TEMPERATURE), "-o", str(file), "--resume", *extra]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if not file.exists():
        sys.exit(f"profiling failed:\n{done.stdout}")
    return load_profile(file)


def taken(
    given: Path | None, grid: dict[str, tuple[int, ...]], file: Path, extra: Sequence[str]
) -> StoredProfile:
    """Read the profile that was given, or take one."""
    return load_profile(given) if given else profile(grid, file, extra)


def compare(profiled: StoredProfile, measured: Profile) -> Iterator[Point]:
    """Predict every point of the second profile from the first."""
    evidence = evidence_from_profile(profiled.profile, profiled.arrays)
    curve = evidence.curve(TEMPERATURE, None)
    assert curve is not None, "the first profile holds no acceptance"
    for cell in measured.timing:
        if cell.phase is not Phase.ROUND:
            continue
        n = cell.tokens_per_sequence - 1
        tokens = measured_tokens(measured.rounds, n)
        if tokens is None:
            continue
        yield Point(
            batch=cell.batch,
            num_speculative_tokens=n,
            predicted_round_ratio=predicted_ratio(evidence, cell),
            round_ratio=median(cell.seconds) / plain_s(measured.timing, cell),
            predicted_tokens_per_round=curve.at(n),
            tokens_per_round=tokens,
        )


def predicted_ratio(evidence: ProfileEvidence, cell: TimingCell) -> float:
    """Return the foretold round in plain steps, both at the context measured."""
    n = cell.tokens_per_sequence - 1
    spent = evidence.round_seconds(cell.batch, n, cell.context)
    return spent / evidence.round_seconds(cell.batch, 0, cell.context)


def plain_s(timing: Sequence[TimingCell], of: TimingCell) -> float:
    """Return the median plain step at the same batch, from the run nearest in the file.

    Plain steps are measured beside each length, so the nearest are those of the same minutes.
    """
    place = timing.index(of)
    plain = [
        (abs(index - place), cell)
        for index, cell in enumerate(timing)
        if cell.phase is Phase.DECODE and cell.batch == of.batch
    ]
    return median(min(plain, key=lambda pair: pair[0])[1].seconds)


def measured_tokens(cells: Sequence[RoundsCell], n: int) -> float | None:
    """Return tokens per round over the whole texts that were written with N drafts a round."""
    at = (cell for cell in cells if cell.num_speculative_tokens == n)
    return next((cell.tokens_per_round for cell in at), None)


def baseline_spread(timing: Sequence[TimingCell]) -> float | None:
    """Return how far repeated plain steps of one batch lie apart, the largest over batches."""
    spreads = []
    for batch in {cell.batch for cell in timing}:
        medians = [
            median(c.seconds) for c in timing if c.phase is Phase.DECODE and c.batch == batch
        ]
        if len(medians) > 1:
            spreads.append(max(medians) / min(medians) - 1.0)
    return max(spreads, default=None)


def report(points: Sequence[Point], spread: float | None) -> dict[str, object]:
    """Return what is printed as JSON."""
    errors = np.abs([point.error for point in points])
    ratios = np.abs([point.round_ratio_error for point in points])
    return {
        "points": [
            {
                "batch": p.batch,
                "num_speculative_tokens": p.num_speculative_tokens,
                "predicted_round_ratio": p.predicted_round_ratio,
                "round_ratio": p.round_ratio,
                "predicted_tokens_per_round": p.predicted_tokens_per_round,
                "tokens_per_round": p.tokens_per_round,
                "predicted_speedup": p.predicted_speedup,
                "speedup": p.speedup,
                "error": p.error,
            }
            for p in points
        ],
        "mean_absolute_error": float(errors.mean()),
        "mean_absolute_round_ratio_error": float(ratios.mean()),
        "repeated_baseline_spread": spread,
        "promised_error": PROMISED_ERROR,
    }


def show(points: Sequence[Point], spread: float | None) -> None:
    """Print the table."""
    print(" batch  N   round ratio: foretold measured   tokens/round: foretold measured   "
          "speedup: foretold measured   error")  # fmt: skip
    for p in points:
        print(
            f"{p.batch:6d} {p.num_speculative_tokens:2d}   {p.predicted_round_ratio:21.3f} "
            f"{p.round_ratio:8.3f}   {p.predicted_tokens_per_round:22.3f} "
            f"{p.tokens_per_round:8.3f}   {p.predicted_speedup:17.3f} {p.speedup:8.3f}   "
            f"{p.error:+6.1%}"
        )
    error = np.abs([point.error for point in points]).mean()
    ratio_error = np.abs([point.round_ratio_error for point in points]).mean()
    print(
        f"\nmean absolute error of the speedup {error:.1%} (promised {PROMISED_ERROR:.0%}), "
        f"of the round ratio {ratio_error:.1%}; {len(points)} points"
    )
    if spread is not None:
        print(f"plain steps measured again and again in the same run lay {spread:.1%} apart")


def main() -> None:
    """Measure, predict, measure, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profiled", type=Path, help="profile to predict from")
    parser.add_argument("--measured", type=Path, help="profile to compare with")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("extra", nargs="*", help="more options of capplan profile, after --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        profiled = taken(options.profiled, PROFILED, Path(folder) / "first.json", options.extra)
        measured = taken(options.measured, PREDICTED, Path(folder) / "then.json", options.extra)
    points = list(compare(profiled, measured.profile))
    spread = baseline_spread(measured.profile.timing)
    if options.format == "json":
        print(json.dumps(report(points, spread), indent=1))
    else:
        show(points, spread)


if __name__ == "__main__":
    main()
