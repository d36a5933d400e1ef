"""A job to a task: its files read and named by content, its command line, its hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import capplan
from capplan.errors import JobsFileError, UnreadableFileError
from capplan.inputs.limits import CONFIG, JOB_INPUT
from capplan.inputs.names import at_home
from capplan.inputs.reading import read_bytes
from capplan.jobs.answers import sidecar_of
from capplan.jobs.job import Job, Option, Scalar, Task
from capplan.jobs.kinds import COMMANDS, JOB_PREFIX, each_value, words
from capplan.units import SECONDS_PER_MINUTE

_HASH_DIGITS, _LONG = 12, 6
_CHECKPOINT_OPTIONS = ("target", "draft")
"""May be paths; checkpoints are not carried along but must lie at the same path everywhere."""


@dataclass(frozen=True)
class Prepared:
    """A job that can be run: task, files, identity."""

    job: Job
    task: Task
    id: str
    inputs: Mapping[str, bytes]
    """Content by path within the job's folder."""


@dataclass
class _Reading:
    """The files of one job while they are read."""

    job: Job
    base: Path
    profiles: Mapping[str, Path]
    inputs: dict[str, bytes] = field(default_factory=dict)

    def file(self, option: str, value: Scalar) -> tuple[str, str]:
        """Return where a file will lie in the job's folder, and its digest."""
        said = str(value)
        path = self.profiles.get(said.removeprefix(JOB_PREFIX), self.base / said)
        if not said.startswith(JOB_PREFIX):
            path = self.base / at_home(said)
        content = self.read(path, option)
        digest = _digest(content)
        folder = f"inputs/{digest}"
        self.inputs[f"{folder}/{path.name}"] = content
        if option == "profile" and (sidecar := sidecar_of(content)):
            self.inputs[f"{folder}/{sidecar}"] = self.read(path.parent / sidecar, option)
        return f"{folder}/{path.name}", digest

    def read(self, path: Path, option: str) -> bytes:
        try:
            return read_bytes(path, JOB_INPUT)
        except UnreadableFileError as error:
            raise JobsFileError(
                f"Job {self.job.name!r}: cannot read {path} ({option}): {error.reason}.",
                "Paths are relative to the file of jobs.",
            ) from error

    def checkpoint(self, value: Scalar) -> tuple[str, str]:
        """Return a checkpoint's absolute path if it is one, and what tells it from another."""
        path = self.base / at_home(str(value))
        try:
            if not path.exists():
                return str(value), str(value)
            return str(path.resolve()), _fingerprint(path)
        except (OSError, UnreadableFileError) as error:
            raise JobsFileError(
                f"Job {self.job.name!r}: the checkpoint {path} cannot be read: {error}.",
                "Check its permissions.",
            ) from error


def prepare(
    job: Job, base: Path, default_limit_s: float, profiles: Mapping[str, Path] | None = None
) -> Prepared:
    """Read a job's files and build its command.

    Parameters
    ----------
    job
        What to run.
    base
        Folder that its paths are relative to.
    default_limit_s
        Time limit of an attempt where the job has none.
    profiles
        What profile jobs of the same batch wrote, by name.

    Raises
    ------
    JobsFileError
        If a file cannot be read.
    """
    command = COMMANDS[job.kind]
    reading = _Reading(job, base, profiles or {})
    options: dict[str, Option] = {}
    identity: dict[str, object] = {}
    for name, value in sorted(job.options.items()):
        if name in command.files:
            pairs = [reading.file(name, each) for each in each_value(value)]
        elif name in _CHECKPOINT_OPTIONS and not isinstance(value, bool):
            pairs = [reading.checkpoint(each) for each in each_value(value)]
        else:
            options[name] = value
            identity[name] = value
            continue
        options[name] = tuple(said for said, _ in pairs)
        identity[name] = [known for _, known in pairs]
    target = options.get(command.argument or "")
    if isinstance(target, tuple):
        if len(target) != 1:
            raise JobsFileError(
                f"Job {job.name!r}: one {command.argument}, got {len(target)}.",
                "Write a job for each.",
            )
        options[str(command.argument)] = target[0]
    minutes = job.timeout_minutes
    task = Task(
        name=job.name,
        arguments=(job.kind, *command.arguments, *words(job.kind, options)),
        output=command.output,
        measures=command.measures and "server" not in job.options,
        gpus=job.gpus,
        gpus_if_any=_gpus_if_any(job),
        gpu_type=job.gpu_type,
        cpus=job.cpus,
        node=job.node,
        limit_s=minutes * SECONDS_PER_MINUTE if minutes is not None else default_limit_s,
    )
    kept = {name: known for name, known in identity.items() if name not in command.not_asked}
    return Prepared(job, task, _id(job, kept), reading.inputs)


def _gpus_if_any(job: Job) -> int:
    if not COMMANDS[job.kind].measures or "server" in job.options:
        return 0
    if str(job.options.get("device", "auto")) == "cpu":
        return 0
    size = job.options.get("tensor-parallel", 1)
    text = str(size)
    return int(text) if text.isascii() and text.isdigit() and len(text) < _LONG else 1


def _id(job: Job, identity: Mapping[str, object]) -> str:
    """Hash what was asked. Plans also follow capplan's facts and formulas, so its version."""
    asked = {
        **job.model_dump(mode="json", include={"name", "kind", "gpus", "gpu_type", "node"}),
        "options": identity,
        "capplan": None if COMMANDS[job.kind].measures else capplan.__version__,
    }
    return _digest(json.dumps(asked, sort_keys=True).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]


def _fingerprint(path: Path) -> str:
    """Tell checkpoints apart without reading gigabytes: names and sizes, and the config's text."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    sizes = [f"{file.name} {file.stat().st_size}" for file in files if file.is_file()]
    config = path / "config.json"
    text = read_bytes(config, CONFIG) if config.is_file() else b""
    return _digest("\n".join(sizes).encode() + text)
