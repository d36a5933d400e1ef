"""What is asked of a batch: jobs, and what became of each."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from capplan.schema.base import Value

Kind = Literal["profile", "recommend"]
Scalar = str | int | float | bool
Option = Scalar | tuple[Scalar, ...] | dict[str, Scalar]
Minutes = Annotated[float, Field(gt=0)]


class Job(Value):
    """One run of a command, and where it may run."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    """Names its folder too."""
    kind: Kind
    options: dict[str, Option] = Field(default_factory=dict)
    """By the command's long names, without dashes in front; ``target`` for the argument."""
    gpus: int | None = Field(default=None, ge=0)
    """GPUs it takes; None: what the profile is spread over, if there is a GPU at all."""
    gpu_type: str | None = None
    """As Ray names it (``H100``), or a part of the GPU's name on this machine."""
    cpus: float | None = Field(default=None, gt=0)
    """Cores it reserves on a cluster."""
    node: str | None = None
    """Address of the one host of a cluster that will do."""
    timeout_minutes: Minutes | None = None
    """Of one attempt; None: that of the batch."""


class Task(Value):
    """A job made ready for an executor: everything it needs lies in one folder."""

    name: str
    arguments: tuple[str, ...]
    """Of ``capplan``; file names are relative to the folder."""
    output: str
    """File that the answer will be in."""
    measures: bool
    """Whether other work on the same device would spoil it."""
    gpus: int | None = None
    gpus_if_any: int = 0
    """GPUs to take where ``gpus`` says nothing and there are some."""
    gpu_type: str | None = None
    cpus: float | None = None
    node: str | None = None
    limit_s: float

    def gpus_where(self, *, there_are_some: bool) -> int:
        """Return how many GPUs it takes at a place that has some, or none."""
        if self.gpus is not None:
            return self.gpus
        return self.gpus_if_any if there_are_some or self.gpu_type else 0


class Ending(StrEnum):
    """How one attempt ended."""

    ANSWERED = "answered"
    FAILED = "failed"
    """The command said why, or broke."""
    KILLED = "killed"
    TIMED_OUT = "timed out"
    LOST = "lost"
    """The machine it ran on went away."""
    NEVER_PLACED = "never placed"


class Outcome(Value):
    """What an executor says of one attempt."""

    ending: Ending
    reason: str = ""
    remedy: str = ""
    error: str = ""
    """Class of the error that the command named, if it named one."""
    exit_code: int | None = None
    complete: bool = True
    answer: str = ""
    """The result in one sentence."""
    place: str = ""
    seconds: float = 0.0


class State(StrEnum):
    """Where a job stands at the end of a batch."""

    DONE = "done"
    INCOMPLETE = "incomplete"
    """A profile whose budget ran out: the next run goes on with it."""
    INFEASIBLE = "infeasible"
    """A plan that says that nothing fits: an answer."""
    FAILED = "failed"


class JobResult(Value):
    """What became of a job."""

    name: str
    kind: Kind
    id: str
    """Hash of what was asked; the job's folder bears it."""
    state: State
    reused: bool = False
    """Whether an earlier run had finished it."""
    result: str | None = None
    """The answer's file, relative to the output folder."""
    result_sha256: str | None = None
    answer: str = ""
    reason: str = ""
    remedy: str = ""
    attempts: tuple[Outcome, ...] = ()

    @property
    def seconds(self) -> float:
        """Time of all attempts together."""
        return sum(attempt.seconds for attempt in self.attempts)


class BatchResult(Value):
    """What became of a batch."""

    schema_version: Literal[1] = 1
    capplan_version: str
    executor: str
    output: str
    jobs: tuple[JobResult, ...]

    def count(self, state: State) -> int:
        """Return how many jobs ended so."""
        return sum(job.state is state for job in self.jobs)

    @property
    def exit_code(self) -> int:
        """0 answers, 1 some failed, 3 none failed but a plan found nothing that fits."""
        if self.count(State.FAILED):
            return 1
        return 3 if self.count(State.INFEASIBLE) else 0
