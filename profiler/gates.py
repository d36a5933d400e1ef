"""Plausibility: what no honest measurement can show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from statistics import median

from capplan.profiles.losslessness import losslessness_verdict
from capplan.schema.cells import Phase, Role, TimingCell
from capplan.schema.measured_setup import ProfiledLlm
from capplan.schema.profile import Profile
from capplan.schema.verdict import Stability, Verdict
from profiler.timing.verdict import combine, doubt, judge_sentinel

FALLS_WITH_BATCH_NOISY = 0.10
"""A pass over a larger batch may be faster than over a smaller one by this much, not more."""
BANDWIDTH_MARGIN = 1.05
BANDWIDTH_MIN_BYTES = 1e9
"""Smaller weights may come out of the last-level cache, faster than memory."""
LOSSLESS_SHARE = 0.5
"""At least this share of texts must equal plain decoding at temperature 0."""
INVALID_CELLS_SHARE = 0.5
TINY_S = 1e-12


def judge_profile(
    profile: Profile, sentinel_medians_s: Sequence[float], peak_bytes_per_s: float | None
) -> Verdict:
    """Judge the cells of a profile together."""
    return combine(
        [
            _cells(profile.timing),
            judge_sentinel(sentinel_medians_s),
            *_falling_times(profile.timing),
            _bandwidth(profile.timing, profile.target, peak_bytes_per_s),
            *_lossless(profile),
            losslessness_verdict(profile.losslessness, profile.target.dtype),
        ]
    )


def _cells(cells: Sequence[TimingCell]) -> Verdict:
    """Carry the cells' own verdicts up: one bad cell makes the profile noisy, many invalid."""
    if not cells:
        return combine([])
    shares = {
        kind: sum(cell.verdict.stability is kind for cell in cells) / len(cells)
        for kind in Stability
    }
    remedy = "Measure on an idle machine; the verdict of each cell says what was wrong."
    if shares[Stability.INVALID] > INVALID_CELLS_SHARE:
        share = shares[Stability.INVALID]
        return doubt("invalid_cells", share, INVALID_CELLS_SHARE, remedy, Stability.INVALID)
    doubtful = shares[Stability.INVALID] + shares[Stability.NOISY]
    return doubt("noisy_cells", doubtful, 0.0, remedy) if doubtful else combine([])


def _falling_times(cells: Sequence[TimingCell]) -> Iterable[Verdict]:
    """Find points where more sequences took clearly less time."""

    def line(cell: TimingCell) -> tuple[str, str, int, int]:
        return cell.role, cell.phase, cell.tokens_per_sequence, cell.context

    ordered = sorted(cells, key=lambda cell: (*line(cell), cell.batch))
    for key, group in groupby(ordered, key=line):
        for smaller, larger in pairwise(group):
            saved = 1 - median(larger.seconds) / max(median(smaller.seconds), TINY_S)
            if larger.batch > smaller.batch and saved > FALLS_WITH_BATCH_NOISY:
                remedy = (
                    f"{key[0]} {key[1]}: batch {larger.batch} was faster than {smaller.batch}; "
                    "measure again on an idle machine."
                )
                yield doubt("time_falls_with_batch", saved, FALLS_WITH_BATCH_NOISY, remedy)


def _bandwidth(
    cells: Sequence[TimingCell], target: ProfiledLlm, peak_bytes_per_s: float | None
) -> Verdict:
    """Compare weights read a decode step with the memory's peak, where that is known."""
    steps_s = [
        median(cell.seconds)
        for cell in cells
        if cell.role is Role.TARGET and cell.phase is Phase.DECODE and cell.batch == 1
    ]
    weight_bytes = target.spec.weight_bytes_active
    if not steps_s or not peak_bytes_per_s or weight_bytes < BANDWIDTH_MIN_BYTES:
        return combine([])
    implied = weight_bytes / min(steps_s)
    limit = BANDWIDTH_MARGIN * peak_bytes_per_s
    if implied <= limit:
        return combine([])
    remedy = "The clock or the weights are not what they seem: report this as a defect."
    return doubt("implied_bandwidth_bytes_per_s", implied, limit, remedy, Stability.INVALID)


def _lossless(profile: Profile) -> Iterable[Verdict]:
    """Compare texts at temperature 0. In low precision near-ties may end either way.

    An engine's texts were scored and are judged by what differs, not by how many do.
    """
    dtype = profile.target.dtype
    for cell in profile.rounds if not profile.losslessness else ():
        if cell.identical_outputs is None or cell.identical_outputs == cell.requests:
            continue
        share = cell.identical_outputs / cell.requests
        broken = share < LOSSLESS_SHARE and dtype == "float32"
        remedy = (
            f"Speculation with {cell.num_speculative_tokens} tokens changed "
            f"{cell.requests - cell.identical_outputs} of {cell.requests} texts at temperature 0 "
            f"({dtype}): ties in low precision may, in float32 it is a fault of the decoder."
        )
        stability = Stability.INVALID if broken else Stability.NOISY
        yield doubt(
            "identical_outputs", share, LOSSLESS_SHARE if broken else 1.0, remedy, stability
        )
