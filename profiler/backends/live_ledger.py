"""A live server's profile while it grows: written after every window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from capplan.profiles.losslessness import losslessness_verdict
from capplan.profiles.store import StoredProfile, save_held_profile
from capplan.schema.cells import LosslessnessCell
from capplan.schema.observation import Observation
from capplan.schema.profile import Profile, Skipped
from capplan.schema.verdict import Stability, Verdict
from profiler.backends.live_check import REPORTS
from profiler.backends.live_traces import ServedTrace
from profiler.timing.verdict import combine, doubt

_FAILED_SHARE = 0.05
MOST_NOTED = 400
"""Outages and restarts written one by one."""
LEVEL = "level: "
"""Begins the note of a level that was not measured: a run that goes on tries it again."""
_MORE = "more of the same"


class ServerLedger:
    """A profile of a server; every addition is on disk when the call returns."""

    def __init__(
        self, path: Path, profile: Profile, arrays: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        self._path = path
        self._arrays = dict(arrays or {})
        tried_again = tuple(one for one in profile.skipped if not one.what.startswith(LEVEL))
        self.profile = profile.model_copy(update={"skipped": tried_again})
        self.seen_once = _kept(profile.verdict)
        """What was judged of values that are not kept."""

    def add_observations(self, seen: Sequence[Observation]) -> None:
        """Add windows."""
        self._update(observations=(*self.profile.observations, *seen))

    def add_traces(self, traces: Sequence[ServedTrace]) -> None:
        """Add acceptance traces with their arrays."""
        for trace in traces:
            index = len(self.profile.acceptance)
            for name, values in trace.arrays.items():
                self._arrays[f"acceptance/{index}/{name}"] = values
            self._update(acceptance=(*self.profile.acceptance, trace.cell))

    def add_losslessness(self, cell: LosslessnessCell) -> None:
        """Add a check of the text."""
        self._update(losslessness=(*self.profile.losslessness, cell))

    def skip(self, skipped: Sequence[Skipped]) -> None:
        """Note what was not measured or not counted; a server that flaps for days is counted."""
        noted = (*self.profile.skipped, *skipped)
        self._update(skipped=noted if len(noted) <= MOST_NOTED else _shortened(noted))

    def update(self, **changes: Any) -> None:
        """Replace fields that are known only later."""
        self._update(**changes)

    def save(self, *, complete: bool) -> StoredProfile:
        """Judge what is there and write it."""
        verdict = combine([self.seen_once, judged(self.profile)])
        self._update(complete=complete, verdict=verdict)
        return save_held_profile(self._path, self.profile, self._arrays)

    def _update(self, **changes: Any) -> None:
        self.profile = self.profile.model_copy(update=changes)


def judged(profile: Profile) -> Verdict:
    """Return how far the windows can be trusted, and whether the text is the target's own."""
    failed = sum(seen.failed or 0.0 for seen in profile.observations)
    ended = failed + sum(seen.completed or 0.0 for seen in profile.observations)
    verdicts = [losslessness_verdict(profile.losslessness, profile.target.dtype)]
    if ended and failed / ended > _FAILED_SHARE:
        verdicts.append(
            doubt(
                "failed_requests",
                failed / ended,
                _FAILED_SHARE,
                "Look at the server's log; lower the load.",
            )
        )
    restarts = sum("restart" in skipped.reason for skipped in profile.skipped)
    if restarts:
        verdicts.append(
            doubt("restarts", float(restarts), 0.0, "Measure while the server stays up.")
        )
    return combine(verdicts)


def _shortened(noted: Sequence[Skipped]) -> tuple[Skipped, ...]:
    """Return the first notes, and how many there are beyond them."""
    kept = [one for one in noted if one.what != _MORE]
    counted = sum(int(one.reason.split()[0]) for one in noted if one.what == _MORE)
    more = counted + len(kept) - (MOST_NOTED - 1)
    last = Skipped(what=_MORE, reason=f"{more} further restarts, outages or losses")
    return (*kept[: MOST_NOTED - 1], last)


def _kept(verdict: Verdict) -> Verdict:
    """Return what an earlier part of the run judged and nobody can judge again."""
    reasons = tuple(reason for reason in verdict.reasons if reason.check == REPORTS)
    stability = Stability.INVALID if reasons else Stability.STABLE
    return Verdict(stability=stability, reasons=reasons)
