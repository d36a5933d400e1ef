"""What a run is asked to do, and whether the file it writes to allows it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from capplan.errors import ProfileError, StorageError
from capplan.files import hold, place_of
from capplan.profiles.sidecars import remove_leftovers, sidecar_name
from capplan.profiles.store import StoredProfile, load_profile
from capplan.schema.pairing import Method
from profiler.experiment import Wishes
from profiler.prompts import PromptSet

SECONDS_PER_MINUTE = 60.0
Answer = str | int | float | bool | tuple[int | float | str, ...] | None


@dataclass(frozen=True)
class SessionRequest:
    """What to profile, how far, and where to write it."""

    output: Path
    target: str | None = None
    """None profiles the embedded checkpoint (``demo``)."""
    draft: str | None = None
    draft_id: str | None = None
    """Name to record for the draft where it is not the one it was found by."""
    prompt_lookup: tuple[int, int] | None = None
    """(min, max) of an n-gram draft; exclusive with ``draft``."""
    method: Method | None = None
    """How an engine drafts; None: by a draft LLM or prompt lookup, whichever is given."""
    tensor_parallel: int = 1
    gpu_memory_utilization: float | None = None
    """Share of the GPU that an engine may take; None: its adapter's default."""
    synthetic: bool = False
    """Whether an engine is also run with drafts that are accepted by chance."""
    backend: str = "torch"
    device: str = "auto"
    dtype: str = "auto"
    weights: Literal["real", "dummy"] = "real"
    prompts: Path | Sequence[Path] | None = None
    """One file or several, each a task; none: the shipped prompts."""
    wishes: Wishes = field(default_factory=Wishes)
    seed: int = 0
    budget_minutes: float | None = None
    resume: bool = False
    force: bool = False

    def identity(self, prompts: PromptSet) -> dict[str, Answer]:
        """Return what must be equal for a run to go on: not the budget, nor the file name."""
        lookup = self.prompt_lookup or (None, None)
        return {
            "target": self.target,
            "draft": self.draft_id or self.draft,
            "prompt_lookup_min": lookup[0],
            "prompt_lookup_max": lookup[1],
            "backend": self.backend,
            "device": self.device,
            "dtype": self.dtype,
            "weights": self.weights,
            "prompts_sha256": prompts.sha256,
            "temperatures": self.wishes.temperatures,
            "batches": self.wishes.batches,
            "contexts": self.wishes.contexts,
            "max_tokens": self.wishes.max_tokens,
            "requests_per_task": self.wishes.requests_per_task,
            "lengths": self.wishes.lengths,
            "method": None if self.method is None else self.method.value,
            "tensor_parallel": None if self.tensor_parallel == 1 else self.tensor_parallel,
            "gpu_memory_utilization": self.gpu_memory_utilization,
            "synthetic": self.synthetic or None,
            "seed": self.seed,
        }

    @property
    def budget_s(self) -> float | None:
        """The budget in seconds; None without one."""
        return None if self.budget_minutes is None else self.budget_minutes * SECONDS_PER_MINUTE


def earlier_profile(request: SessionRequest, prompts: PromptSet) -> StoredProfile | None:
    """Return the profile to go on with; refuse to overwrite anything unasked."""
    return profile_to_resume(
        request.output, request.identity(prompts), resume=request.resume, force=request.force
    )


def profile_to_resume(
    path: Path, wanted: Mapping[str, Answer], *, resume: bool, force: bool
) -> StoredProfile | None:
    """Return what lies in a file that a run is to go on with; None if it starts afresh.

    Raises
    ------
    ProfileError
        If the file holds a profile that nobody asked to go on with, or that of another request.
    """
    if force or not _is_there(path):
        return None
    stored = load_profile(path)
    state = "a complete" if stored.profile.complete else "an unfinished"
    if not resume:
        raise ProfileError(
            f"{path} already holds {state} profile; it is not overwritten.",
            "Go on with it by --resume, start afresh by --force, or choose another -o.",
        )
    had = stored.profile.request
    differing = [f"{k}: {had.get(k)} then, {v} now" for k, v in wanted.items() if had.get(k) != v]
    if differing:
        raise ProfileError(
            f"{path} was begun with another request ({'; '.join(differing)}).",
            "Give the same options, start afresh by --force, or choose another -o.",
        )
    return stored


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that no file system takes: check_writable says so
        return False


@contextmanager
def held_output(path: Path) -> Iterator[None]:
    """Let this run alone write the profile, and clear away what a killed one left.

    Found out before minutes of measuring: whether the result can be written at all.

    Raises
    ------
    StorageError
        If it cannot, or another run is writing it.
    """
    check_writable(path)
    with hold(path):
        remove_leftovers(path)
        yield


def clear_leftovers(path: Path) -> None:
    """Clear away what a run left that was killed at its very end; where nobody may, it stays."""
    with suppress(StorageError), held_output(path):
        pass


def check_writable(path: Path) -> None:
    """Refuse a file that could not be written in the end.

    Raises
    ------
    StorageError
        Saying what stands against it.
    """
    try:
        place = place_of(path)
        why = "" if place is None else _obstacle(place)
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise StorageError(f"Cannot write {path}: {why}.", "Choose another -o.")


def _obstacle(file: Path) -> str:
    folder = file.parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist"
    if not os.access(folder, os.W_OK):
        return f"the folder {folder} is not writable"
    too_many = len(os.fsencode(sidecar_name(file))) - os.pathconf(folder, "PC_NAME_MAX")
    if too_many > 0:
        return f"with the sidecar (.npz) beside it, its name is {too_many} bytes too long"
    if file.is_dir():
        return "it is a folder"
    if file.exists() and not os.access(file, os.W_OK):
        return "the file is read-only"
    return ""
