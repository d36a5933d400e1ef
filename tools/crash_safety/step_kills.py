"""A kill before, within and after every call by which a profile is written."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capplan.profiles.sidecars import remove_leftovers
from capplan.profiles.store import StoredProfile, load_profile, save_profile
from crash_safety import forked

CALLS = ("open", "write", "pwrite", "ftruncate", "fchmod", "fsync", "replace", "unlink", "close")
"""Functions of :mod:`os` by which files are made, filled, named and removed."""
Arrays = Mapping[str, NDArray[Any]]


@dataclass
class Steps:
    """Counts calls, and dies at one of them."""

    fatal: int | None = None
    """Number of the call that is not survived; None: count only."""
    half: bool = False
    """Die in the middle of a write, half of its bytes written, instead of before the call."""
    names: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Put the counter in front of every call."""
        for name in CALLS:
            setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.names.append(name)
            if len(self.names) - 1 == self.fatal:
                if self.half:
                    handle, data = arguments
                    real(handle, data[: len(data) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return call


@dataclass(frozen=True)
class StepKill:
    """What a kill at one call left."""

    call: str
    half: bool
    state: str
    """``old`` or ``new``: which profile could be read."""
    problems: tuple[str, ...]


def kill_at_every_step(folder: Path, old: StoredProfile, more: Arrays) -> list[StepKill]:
    """Overwrite a profile with one of other arrays, killed at each call in turn.

    Parameters
    ----------
    folder
        An empty folder.
    old
        The profile that is overwritten.
    more
        Arrays of the new one.
    """
    names = _calls_of_a_save(folder, old, more)
    cases = [(number, False) for number in range(len(names) + 1)]
    cases += [(number, True) for number, name in enumerate(names) if name == "write"]
    return [_killed_at(folder, old, more, names, *case) for case in sorted(cases)]


def _calls_of_a_save(folder: Path, old: StoredProfile, more: Arrays) -> list[str]:
    _begin(folder, old)
    reading, writing = os.pipe()

    def count() -> None:
        steps = Steps()
        tell = os.write
        steps.watch()
        _overwrite(folder, old, more)
        tell(writing, " ".join(steps.names).encode())

    child = forked.start(count)
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        names = said.read().decode().split()
    if not forked.ended_well(child):
        raise SystemExit("saving a profile failed without any kill")
    return names


def _killed_at(
    folder: Path, old: StoredProfile, more: Arrays, names: list[str], number: int, half: bool
) -> StepKill:
    _begin(folder, old)

    def doomed() -> None:
        Steps(number, half).watch()
        _overwrite(folder, old, more)
        os.kill(os.getpid(), signal.SIGKILL)

    problems = [] if forked.was_killed(forked.start(doomed)) else ["it was not killed"]
    state, wrong = _state(folder, old, more)
    problems += wrong
    if not forked.ended_well(forked.start(lambda: _overwrite(folder, old, more))):
        problems.append("the next save failed")
    remove_leftovers(folder / "p.json")
    if _state(folder, old, more)[0] != "new":
        problems.append("the next save did not come through")
    expected = {"p.json", load_profile(folder / "p.json").profile.sidecar}
    problems += [f"{one.name} left" for one in folder.iterdir() if one.name not in expected]
    return StepKill([*names, "the end"][number], half, state, tuple(problems))


def _begin(folder: Path, old: StoredProfile) -> None:
    for file in folder.iterdir():
        file.unlink()
    save_profile(folder / "p.json", old.profile, old.arrays)


def _overwrite(folder: Path, old: StoredProfile, more: Arrays) -> None:
    changed = old.profile.model_copy(update={"complete": not old.profile.complete})
    save_profile(folder / "p.json", changed, more)


def _state(folder: Path, old: StoredProfile, more: Arrays) -> tuple[str, list[str]]:
    """Return which profile is read, and whether it has its own arrays."""
    found = load_profile(folder / "p.json")
    state = "old" if found.profile.complete == old.profile.complete else "new"
    expected = old.arrays if state == "old" else more
    same = found.arrays.keys() == expected.keys() and all(
        np.array_equal(values, found.arrays[name]) for name, values in expected.items()
    )
    return state, [] if same else [f"the {state} profile has other arrays"]
