"""The commands that a job can run: which options are files, which are ours, how to call them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from capplan.errors import JobsFileError
from capplan.jobs.job import Kind, Option, Scalar

JOB_PREFIX = "job:"
"""``profile: job:NAME`` in a plan stands for the profile that the job NAME writes."""


@dataclass(frozen=True)
class Command:
    """How a job of one kind becomes a command."""

    output: str
    arguments: tuple[str, ...]
    """Set by us, before the job's own."""
    argument: str | None
    """Option that is the command's positional argument."""
    files: frozenset[str]
    """Options whose values are files to carry along."""
    ours: frozenset[str]
    """Options that a job may not set."""
    negatable: frozenset[str] = frozenset()
    """Switches for which ``false`` is something to say."""
    not_asked: frozenset[str] = frozenset()
    """Options that change how far a run gets, not what it is about."""
    measures: bool = False


COMMANDS: Mapping[Kind, Command] = {
    "profile": Command(
        output="profile.json",
        arguments=("--resume", "--output=profile.json"),
        argument="target",
        files=frozenset({"prompts"}),
        ours=frozenset({"output", "resume", "force"}),
        negatable=frozenset({"thinking"}),
        not_asked=frozenset({"budget-minutes"}),
        measures=True,
    ),
    "recommend": Command(
        output="plan.json",
        arguments=("--format=json", "--output=plan.json"),
        argument=None,
        files=frozenset({"profile", "calibration", "price-file", "workload"}),
        ours=frozenset({"output", "format", "plan-json"}),
    ),
}


def words(kind: Kind, options: Mapping[str, Option]) -> tuple[str, ...]:
    """Return a job's options as the words of its command line, without our own."""
    command = COMMANDS[kind]
    said: list[str] = []
    for name, value in options.items():
        if name != command.argument:
            said += _words(name, value, negatable=name in command.negatable)
    positional = options.get(command.argument or "")
    return (*said, "--", str(positional)) if positional is not None else tuple(said)


def _words(name: str, value: Option, *, negatable: bool) -> Iterator[str]:
    if isinstance(value, bool):
        if value:
            yield f"--{name}"
        elif negatable:
            yield f"--no-{name}"
        return
    for each in each_value(value):
        yield f"--{name}={each}"


def each_value(value: Option) -> tuple[Scalar, ...]:
    """Return the values of an option that may be repeated; a mapping gives ``key=value``."""
    if isinstance(value, dict):
        return tuple(f"{key}={each}" for key, each in value.items())
    return value if isinstance(value, tuple) else (value,)


def refuse_ours(name: str, kind: Kind, options: Mapping[str, Option]) -> None:
    """Refuse options that the batch itself sets, and a GPU number where GPUs are dealt out.

    Raises
    ------
    JobsFileError
        With the option and what to write instead.
    """
    for option in sorted(COMMANDS[kind].ours & set(options)):
        raise JobsFileError(
            f"Job {name!r}: {option} is set by the batch, which keeps every answer in the "
            "job's own folder.",
            f"Leave {option} out; the summary names the file.",
        )
    device = str(options.get("device", ""))
    if device.startswith("cuda:"):
        raise JobsFileError(
            f"Job {name!r}: device {device} names one GPU, but the executor deals them out.",
            "Leave device out or write device: cuda; `--gpus 0,1` says which GPUs may be used.",
        )
