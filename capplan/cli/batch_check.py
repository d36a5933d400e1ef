"""The options of jobs, held to the commands' own definitions before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import click

from capplan.errors import JobsFileError
from capplan.jobs.job import Job, Kind
from capplan.jobs.kinds import words


def command_of(kind: Kind) -> click.Command:
    """Return the command that a kind of job runs."""
    command: click.Command = import_module(f"capplan.cli.{kind}").command
    return command


def check_options(jobs: Sequence[Job], source: str) -> None:
    """Refuse a job whose options its command would not take.

    Raises
    ------
    JobsFileError
        With the job, and what the command says.
    """
    for job in jobs:
        command = command_of(job.kind)
        try:
            command.make_context(job.kind, list(words(job.kind, job.options)))
        except click.UsageError as error:
            raise JobsFileError(
                f"{source}, job {job.name!r}: {error.format_message()}",
                f"See `capplan {job.kind} --help`; in the file, options have no dashes in front.",
            ) from error
