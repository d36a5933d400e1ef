"""The growing profile: every finished cell is on disk before the next one starts."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from numpy.typing import NDArray

import capplan
from capplan.errors import ProfileError
from capplan.profiles.store import StoredProfile, save_held_profile
from capplan.schema.cells import AcceptanceCell, LosslessnessCell, RoundsCell, TimingCell
from capplan.schema.profile import EngineMemory, MemoryRecord, Profile, Skipped
from capplan.schema.verdict import Stability, Verdict
from profiler.cells import Point, Timed, Traced
from profiler.experiment import AcceptancePoint, RoundsPoint
from profiler.gates import judge_profile
from profiler.protocol import TimingPoint
from profiler.timing.verdict import STABLE, combine

MUST_AGREE = (
    "capplan_version",
    "environment.device.kind",
    "environment.device.name",
    "environment.device.uuid",
    "environment.device.cores",
    "backend.name",
    "backend.version",
    "target.spec.id",
    "target.weight_sha256",
    "target.weights",
    "target.dtype",
    "draft",
)
"""Fields in which the two halves of an interrupted run must not differ."""

SEEN_ONCE = {
    "cpu_busy": Stability.NOISY,
    "throttled": Stability.NOISY,
    "foreign_process": Stability.INVALID,
}
"""Checks of the telemetry: a run that goes on keeps what its first part saw."""


class Ledger:
    """One profile on its way to completion.

    Parameters
    ----------
    path
        The profile file.
    profile
        What is known before the first cell; for a run that goes on, the earlier cells too.
    arrays
        Sidecar arrays that belong to it.
    """

    def __init__(self, path: Path, profile: Profile, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._path = path
        self._profile = profile
        self._arrays = dict(arrays)
        self.peak_memory_bytes_per_s: float | None = None
        self.is_saved = False
        self.session_verdicts = [kept_from(profile.verdict)]
        """What was seen apart from the cells: foreign work, throttling."""

    @property
    def profile(self) -> Profile:
        """The profile as it stands."""
        return self._profile

    def measured(self) -> Counter[Point]:
        """Return how often each point was measured."""
        points: Counter[Point] = Counter(map(timing_point, self._profile.timing))
        points.update(
            AcceptancePoint(cell.task, cell.temperature) for cell in self._profile.acceptance
        )
        points.update(map(rounds_point, self._profile.rounds))
        return points

    def has_power(self, point: TimingPoint) -> bool:
        """Whether the energy of such a point is already there."""
        return any((p.phase, p.batch) == (point.phase, point.batch) for p in self._profile.power)

    def add_timing(self, timed: Timed) -> None:
        """Add a timing cell, and what it cost to read the timer."""
        backend = self._profile.backend
        arguments = {**backend.arguments, "timer_cost_s": f"{timed.timer_cost_s:.2e}"}
        power = () if timed.power is None else (timed.power,)
        self._update(
            timing=(*self._profile.timing, timed.cell),
            power=(*self._profile.power, *power),
            backend=backend.model_copy(update={"arguments": arguments}),
        )

    def add_acceptance(self, traced: Traced) -> None:
        """Add an acceptance cell with its arrays."""
        index = len(self._profile.acceptance)
        for name, values in traced.arrays.items():
            self._arrays[f"acceptance/{index}/{name}"] = values
        self._update(acceptance=(*self._profile.acceptance, traced.cell))

    def add_rounds(self, cell: RoundsCell) -> None:
        """Add a cell of really run speculation."""
        self._update(rounds=(*self._profile.rounds, cell))

    def add_steps(self, cells: Sequence[TimingCell]) -> None:
        """Add step times of an engine."""
        self._update(timing=(*self._profile.timing, *cells))

    def add_engine_trace(self, cell: AcceptanceCell, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Add what an engine accepted; the trace of a run that was killed is replaced."""
        same = ("task", "temperature", "draft_sampling", "max_num_speculative_tokens")
        places = [
            index
            for index, one in enumerate(self._profile.acceptance)
            if all(getattr(one, name) == getattr(cell, name) for name in same)
        ]
        cells = list(self._profile.acceptance)
        index = places[0] if places else len(cells)
        cells[index : index + 1] = [cell]
        for name, values in arrays.items():
            self._arrays[f"acceptance/{index}/{name}"] = values
        self._update(acceptance=tuple(cells))

    def put_rounds(self, cell: RoundsCell) -> None:
        """Add the rounds of an engine, in the place of those measured before at this point."""
        point, batch = rounds_point(cell), cell.batch
        kept = [c for c in self._profile.rounds if (rounds_point(c), c.batch) != (point, batch)]
        self._update(rounds=(*kept, cell))

    def add_losslessness(self, cell: LosslessnessCell) -> None:
        """Add a comparison of texts with and without speculation."""
        self._update(losslessness=(*self._profile.losslessness, cell))

    def add_engine_memory(self, memory: EngineMemory) -> None:
        """Note what a configuration took, once."""
        if memory not in self._profile.engine_memory:
            self._update(engine_memory=(*self._profile.engine_memory, memory))

    def skip(self, what: str, reason: str) -> None:
        """Note what was asked for and not measured."""
        self._update(skipped=(*self._profile.skipped, Skipped(what=what, reason=reason)))

    def set_memory(self, memory: Sequence[MemoryRecord]) -> None:
        """Replace the record of memory."""
        self._update(memory=tuple(memory))

    def finish(self, *, complete: bool) -> None:
        """Say whether every cell that could be measured is there."""
        self._update(complete=complete)

    def save(self, sentinel: TimingPoint) -> StoredProfile:
        """Judge what is there and write it."""
        medians_s = [
            median(cell.seconds) for cell in self._profile.timing if timing_point(cell) == sentinel
        ]
        cells = judge_profile(self._profile, medians_s, self.peak_memory_bytes_per_s)
        self._update(verdict=combine([*self.session_verdicts, cells]))
        stored = save_held_profile(self._path, self._profile, self._arrays)
        self.is_saved = True
        return stored

    def _update(self, **changes: Any) -> None:
        self._profile = self._profile.model_copy(update=changes)


def begun_profile(**known: Any) -> Profile:
    """Return a profile without a cell, named and dated now."""
    return Profile(
        id=f"profile-{uuid.uuid4().hex[:12]}",
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        capplan_version=capplan.__version__,
        complete=False,
        verdict=STABLE,
        **known,
    )


def open_ledger(
    path: Path, fresh: Profile, earlier: StoredProfile | None, prompts_left_out: str
) -> Ledger:
    """Return the ledger of a run: of its own profile, or of the one that it goes on with.

    Raises
    ------
    ProfileError
        If the earlier one was taken with another setup.
    """
    arrays: Mapping[str, NDArray[Any]] = {}
    if earlier is not None:
        check_same_setup(earlier.profile, fresh)
        fresh, arrays = earlier.profile.model_copy(update={"skipped": ()}), earlier.arrays
    ledger = Ledger(path, fresh, arrays)
    if prompts_left_out:
        ledger.skip("prompts", prompts_left_out)
    return ledger


def kept_from(earlier: Verdict) -> Verdict:
    """Return what an earlier part of the run saw and nobody can judge again."""
    seen = [reason for reason in earlier.reasons if reason.check in SEEN_ONCE]
    return combine(
        Verdict(stability=SEEN_ONCE[reason.check], reasons=(reason,)) for reason in seen
    )


def timing_point(cell: TimingCell) -> TimingPoint:
    """Return the point that a cell was measured at."""
    return TimingPoint(cell.role, cell.phase, cell.batch, cell.tokens_per_sequence, cell.context)


def rounds_point(cell: RoundsCell) -> RoundsPoint:
    """Return the point that a cell was measured at."""
    return RoundsPoint(
        cell.task, cell.temperature, cell.num_speculative_tokens, cell.draft_sampling
    )


def check_same_setup(earlier: Profile, now: Profile) -> None:
    """Refuse to go on with a profile that was begun with other models or on another machine.

    Raises
    ------
    ProfileError
        Naming every field that differs, with both values.
    """
    before, after = earlier.model_dump(mode="json"), now.model_dump(mode="json")
    differing = [
        f"{name}: {_short(_field(before, name))} then, {_short(_field(after, name))} now"
        for name in MUST_AGREE
        if _field(before, name) != _field(after, name)
    ]
    if differing:
        raise ProfileError(
            f"The profile cannot be resumed, the setup differs ({'; '.join(differing)}).",
            "Start afresh with --force, or write to another file with -o.",
        )


def _field(document: Mapping[str, Any], name: str) -> Any:
    value: Any = document
    for part in name.split("."):
        value = value[part]
    return value


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
