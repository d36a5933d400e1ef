"""A file of jobs (YAML or JSON) to values; what is wrong is said with job, field and example."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from capplan.errors import JobsFileError, UnreadableFileError
from capplan.inputs.limits import JOBS
from capplan.inputs.yaml_text import read_yaml
from capplan.jobs.job import Job, Kind
from capplan.jobs.kinds import COMMANDS, JOB_PREFIX, each_value, refuse_ours

_EXAMPLE = (
    "A file of jobs looks like this: {jobs: [{name: chat, recommend: {target: qwen3-32b, "
    "budget: 20k, rate: 2}}]}"
)
_OPTION = re.compile(r"[a-z][a-z0-9-]*")
_FIELDS = ("name", "gpus", "gpu-type", "cpus", "node", "timeout-minutes")


def load_jobs(path: Path) -> tuple[Job, ...]:
    """Read a file of jobs.

    Raises
    ------
    JobsFileError
        If it cannot be read, or a job of it makes no sense.
    """
    try:
        document = read_yaml(path, JOBS)
    except UnreadableFileError as error:
        raise JobsFileError(f"Cannot read the jobs {path}: {error.reason}.", _EXAMPLE) from error
    return parse_jobs(document, str(path))


def parse_jobs(document: object, source: str = "jobs") -> tuple[Job, ...]:
    """Return the jobs of a document that was read; errors as in :func:`load_jobs`."""
    if not isinstance(document, dict) or not isinstance(document.get("jobs"), list):
        raise JobsFileError(f"{source} has no list of jobs.", _EXAMPLE)
    _refuse_unknown(source, document, ("jobs", "defaults"))
    defaults = _defaults(document.get("defaults"), source)
    jobs = tuple(
        _job(entry, f"{source}, job {number}", defaults)
        for number, entry in enumerate(document["jobs"], 1)
    )
    if not jobs:
        raise JobsFileError(f"{source} has no list of jobs.", _EXAMPLE)
    check_together(jobs, source)
    return jobs


def check_together(jobs: Sequence[Job], source: str = "jobs") -> None:
    """Refuse what makes no sense among several jobs: names said twice, profiles of nobody.

    Raises
    ------
    JobsFileError
        With the job.
    """
    names = [job.name.lower() for job in jobs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise JobsFileError(
            f"{source}: {len(names) - len(set(names)) + 1} jobs are called {twice[0]}.",
            "Every job needs a name of its own, since its folder bears it.",
        )
    profiles = [job.name for job in jobs if job.kind == "profile"]
    for job in jobs:
        refuse_ours(job.name, job.kind, job.options)
        for named in needed_jobs(job):
            if named not in profiles or job.kind == "profile":
                known = ", ".join(profiles) or "none"
                raise JobsFileError(
                    f"{source}: job {job.name!r} wants {JOB_PREFIX}{named}, which is no profile "
                    f"job of this file (there are: {known}).",
                    "Name a profile job of the same file, or give the path of a profile.",
                )


def needed_jobs(job: Job) -> tuple[str, ...]:
    """Return the jobs whose profile a job wants."""
    values = (
        str(value)
        for option in sorted(COMMANDS[job.kind].files & set(job.options))
        for value in each_value(job.options[option])
    )
    return tuple(v.removeprefix(JOB_PREFIX) for v in values if v.startswith(JOB_PREFIX))


def _defaults(entry: object, source: str) -> dict[str, Mapping[str, Any]]:
    if entry is None:
        return {}
    if not isinstance(entry, dict) or not all(isinstance(each, dict) for each in entry.values()):
        raise JobsFileError(
            f"{source}: defaults must hold options by kind.",
            "For example: {defaults: {recommend: {budget: 20k}}}",
        )
    _refuse_unknown(f"{source}, defaults", entry, tuple(COMMANDS))
    return {kind: _options(f"{source}, defaults", options) for kind, options in entry.items()}


def _job(entry: object, where: str, defaults: Mapping[str, Mapping[str, Any]]) -> Job:
    if not isinstance(entry, dict):
        raise JobsFileError(f"{where}: expected a mapping, got {entry!r}.", _EXAMPLE)
    if isinstance(entry.get("name"), str):
        where = f"{where} ({entry['name']})"
    _refuse_unknown(where, entry, (*_FIELDS, *COMMANDS))
    kinds: list[Kind] = [kind for kind in COMMANDS if kind in entry]
    if len(kinds) != 1:
        raise JobsFileError(
            f"{where}: says {' and '.join(kinds) or 'nothing'} to do; expected one of "
            f"{', '.join(COMMANDS)}.",
            _EXAMPLE,
        )
    kind = kinds[0]
    fields = {_field(name): value for name, value in entry.items() if name not in COMMANDS}
    options = {**defaults.get(kind, {}), **_options(where, entry[kind])}
    try:
        return Job(kind=kind, options=options, **fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise JobsFileError(
            f"{where}: {field}: {first['msg']}, got {first.get('input')!r}.", _EXAMPLE
        ) from error


def _options(where: str, entry: object) -> dict[str, Any]:
    """Return options by their long names, without those that are null."""
    if entry is None:
        return {}
    if not isinstance(entry, dict):
        raise JobsFileError(f"{where}: expected options by name, got {entry!r}.", _EXAMPLE)
    return {
        _option(where, name): tuple(value) if isinstance(value, list) else value
        for name, value in entry.items()
        if value is not None
    }


def _option(where: str, name: object) -> str:
    """Return an option's long name: a word, so that it cannot bring a value or another along."""
    option = str(name).lstrip("-").replace("_", "-")
    if not _OPTION.fullmatch(option):
        raise JobsFileError(
            f"{where}: {str(name)[:60]!r} is no option of a command.",
            "Write options by their long names: {recommend: {budget: 20k}}",
        )
    return option


def _field(name: str) -> str:
    return name.replace("-", "_")


def _refuse_unknown(where: str, entry: Mapping[Any, Any], known: Sequence[str]) -> None:
    for name in entry:
        if str(name) in known or str(name).replace("_", "-") in known:
            continue
        near = get_close_matches(str(name), known, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise JobsFileError(
            f"{where}: unknown key {name!r}; {hint}Known: {', '.join(known)}.", _EXAMPLE
        )
