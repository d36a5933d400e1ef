"""Profile runs killed at random moments and gone on with, against one that was left alone."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from capplan.profiles.store import StoredProfile, load_profile
from crash_safety import forked
from profiler.backends.fake import FakeBackend
from profiler.experiment import Wishes
from profiler.protocol import TimingPoint
from profiler.session import SessionRequest, run_session
from profiler.telemetry.fake import FakeTelemetry

FILE = "profile.json"
WISHES = Wishes(batches=(1, 2), contexts=(64,), max_tokens=12, requests_per_task=2)
CELLS = ("timing", "acceptance", "rounds")
OF_THE_RUN = {"id", "created_at"}
"""Fields that two runs never share."""
AGAIN_SHARE = 0.3
"""Of the runs that go on after a kill, how many are killed too."""


class SteadyBackend(FakeBackend):
    """Its noise hangs on the point alone: a cell has its values whenever it is measured."""

    def pass_s(self, point: TimingPoint) -> float:
        """Return the modelled seconds of one pass."""
        self._noise = np.random.default_rng(zlib.crc32(repr(point).encode()))
        return super().pass_s(point)


@dataclass(frozen=True)
class Killed:
    """What became of a run that was killed."""

    moments_s: tuple[float, ...]
    """From the start of each run until it was killed; one that ended before has none."""
    cells_kept: int
    problems: tuple[str, ...] = ()


def profile(folder: Path, pause_s: float, announce: Callable[[int], None] | None = None) -> None:
    """Take a profile, or go on with the one that is there.

    Parameters
    ----------
    folder
        Where it lies.
    pause_s
        How long each piece of work lasts beside the writing.
    announce
        Called with the number of cells that are finished.
    """
    backend = SteadyBackend(hook=lambda _what: time.sleep(pause_s))
    request = SessionRequest(
        output=folder / FILE,
        target="big",
        prompt_lookup=(2, 4),
        backend="fake",
        wishes=WISHES,
        resume=True,
    )
    run_session(
        request,
        on_progress=lambda step: announce(step.done) if announce else None,
        clock=backend.clock,
        telemetry=FakeTelemetry(backend.clock),
        backend=backend,
    )


def kill_one(
    folder: Path, reference: StoredProfile, pause_s: float, lasts_s: float, random: Random
) -> Killed:
    """Kill a run at a random moment, look at what is there, go on, and compare.

    Parameters
    ----------
    folder
        An empty folder.
    reference
        The profile of a run that was left alone.
    pause_s, lasts_s
        Of each piece of work, and of a whole run with such pauses.
    random
        Draws the moments.
    """
    moments_s: list[float] = []
    problems: list[str] = []
    kept = 0
    while not moments_s or random.random() < AGAIN_SHARE:
        moment_s = random.uniform(0, lasts_s)
        finished = _finished_when_killed(folder, moment_s, pause_s)
        moments_s.append(moment_s)
        kept, found = _kept(folder, reference)
        problems += found
        if finished is not None and kept < finished:
            problems.append(f"{finished} cells were finished, {kept} are in the file")
    if not forked.ended_well(forked.start(lambda: profile(folder, 0.0))):
        problems.append("the run that went on failed")
    else:
        problems += _differences(load_profile(folder / FILE), reference)
        problems += _left(folder)
    return Killed(tuple(moments_s), kept, tuple(problems))


def _finished_when_killed(folder: Path, moment_s: float, pause_s: float) -> int | None:
    """Kill a run; return how many cells it had finished, None if it never said."""
    reading, writing = os.pipe()
    child = forked.start(lambda: profile(folder, pause_s, lambda done: _say(writing, done)))
    os.close(writing)
    forked.kill_after(child, moment_s)
    with os.fdopen(reading, "rb") as said:
        counts = said.read().split()
    return int(counts[-1]) if counts else None


def _say(handle: int, done: int) -> None:
    os.write(handle, f"{done} ".encode())


def _kept(folder: Path, reference: StoredProfile) -> tuple[int, list[str]]:
    """Return how many cells a killed run left, and what is wrong with them."""
    path = folder / FILE
    if not path.exists():
        return 0, []
    document, whole = _document(load_profile(path)), _document(reference)
    wrong = [kind for kind in CELLS if document[kind] != whole[kind][: len(document[kind])]]
    problems = [f"the {kind} cells after the kill are not those measured" for kind in wrong]
    return sum(len(document[kind]) for kind in CELLS), problems


def _differences(found: StoredProfile, reference: StoredProfile) -> list[str]:
    document, whole = _document(found), _document(reference)
    fields = [name for name in whole if name not in OF_THE_RUN and document[name] != whole[name]]
    problems = [f"{name} differs from the run that was left alone" for name in fields]
    if found.arrays.keys() != reference.arrays.keys():
        problems.append("the arrays have other names")
    problems += [
        f"array {name} differs"
        for name, values in reference.arrays.items()
        if not np.array_equal(values, found.arrays.get(name, np.empty(0)))
    ]
    return problems


def _document(stored: StoredProfile) -> dict[str, Any]:
    return stored.profile.model_dump(mode="json")


def _left(folder: Path) -> list[str]:
    expected = {FILE, load_profile(folder / FILE).profile.sidecar or ""}
    return [
        f"{path.name} was left behind" for path in folder.iterdir() if path.name not in expected
    ]
