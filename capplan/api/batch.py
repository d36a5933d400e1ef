"""Batches: many profiles and plans, on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import capplan
from capplan.errors import JobsFileError, RequestError
from capplan.jobs.job import BatchResult, Ending, Job, JobResult, Outcome, State
from capplan.jobs.jobfile import check_together, load_jobs, needed_jobs
from capplan.jobs.preparing import Prepared, prepare
from capplan.jobs.protocol import Executor
from capplan.jobs.registry import create_executor
from capplan.jobs.running import Batch, Event, Limits
from capplan.jobs.store import BatchStore
from capplan.units import SECONDS_PER_MINUTE

DEFAULT_TIMEOUT_MINUTES = 120.0
DEFAULT_WAIT_MINUTES = 10.0


def _silent(_event: Event) -> None:
    """Tell nobody."""


def run_batch(
    jobs: Path | str | Sequence[Job],
    output: Path | str,
    executor: str | Executor = "local",
    *,
    gpus: str = "all",
    workers: int | None = None,
    address: str | None = None,
    timeout_minutes: float = DEFAULT_TIMEOUT_MINUTES,
    wait_minutes: float = DEFAULT_WAIT_MINUTES,
    retries: int = 1,
    force: bool = False,
    on_event: Callable[[Event], None] = _silent,
) -> BatchResult:
    """Run jobs, each a process of its own; those that an earlier run finished are not run again.

    Profiles come first, then plans, which may use them (``profile: job:NAME``).

    Parameters
    ----------
    jobs
        A file of jobs, or jobs whose paths are relative to the working directory.
    output
        Folder of the results, one folder a job, named by a hash of what was asked.
    executor
        ``local`` (a process a GPU), ``ray``, or one of your own.
    gpus, workers
        For ``local``: GPUs to use (``all``, ``none``, ``0,1``), plans at once.
    address
        For ``ray``: the cluster's head; None takes the one this machine belongs to.
    timeout_minutes
        Of one attempt, for jobs that do not say it themselves.
    wait_minutes
        For a machine that a job needs.
    retries
        Attempts after the first, where another one may go better.
    force
        Run finished jobs again, from nothing.
    on_event
        Told what happens.

    Returns
    -------
    BatchResult
        Every job with its state, result file, attempts and reason.

    Raises
    ------
    JobsFileError
        If the jobs make no sense, or a file that they name is not there.
    ExecutorError, DeviceError, MissingPackageError
        If what should run them is not there, or another run holds the folder.
    Interrupted
        At Ctrl-C; what was finished is kept.
    """
    base = Path()
    if isinstance(jobs, Path | str):
        base = Path(jobs).parent
        jobs = load_jobs(Path(jobs))
    else:
        check_together(jobs)
    if retries < 0 or timeout_minutes <= 0 or wait_minutes < 0:
        raise RequestError(
            f"A batch needs times above 0 and no negative count: timeout {timeout_minutes:g} min, "
            f"wait {wait_minutes:g} min, {retries} retries."
        )
    limits = Limits(retries, wait_minutes * SECONDS_PER_MINUTE)
    run = _Run(tuple(jobs), base.resolve(), timeout_minutes * SECONDS_PER_MINUTE)
    run.prepare_all_that_can_be()
    with BatchStore(Path(output)) as store:
        chosen = executor
        if isinstance(chosen, str):
            chosen = create_executor(chosen, gpus=gpus, workers=workers, address=address)
        try:
            results = run.through(chosen, store, limits, on_event, force=force)
            result = BatchResult(
                capplan_version=capplan.__version__,
                executor=chosen.name,
                output=str(store.folder),
                jobs=tuple(results),
            )
        finally:
            chosen.close()
        store.summarise(result)
    return result


class _Run:
    """Profiles, then plans; the second may need the first."""

    def __init__(self, jobs: Sequence[Job], base: Path, limit_s: float) -> None:
        self._jobs, self._base, self._limit_s = jobs, base, limit_s
        self._results: dict[str, JobResult] = {}

    def prepare_all_that_can_be(self) -> None:
        """Find out before anything runs whether a job's files are there."""
        for job in self._jobs:
            if not needed_jobs(job):
                self._prepared(job)

    def _prepared(self, job: Job, profiles: dict[str, Path] | None = None) -> Prepared:
        return prepare(job, self._base, self._limit_s, profiles)

    def through(
        self,
        executor: Executor,
        store: BatchStore,
        limits: Limits,
        on_event: Callable[[Event], None],
        *,
        force: bool,
    ) -> list[JobResult]:
        """Run what is missing; return every job's result in the order of the file."""
        for kind in ("profile", "recommend"):
            todo = []
            for job in (job for job in self._jobs if job.kind == kind):
                prepared = self._ready(job, store, on_event)
                earlier = store.finished(prepared) if prepared and not force else None
                if earlier is not None:
                    self._note(earlier, on_event)
                elif prepared is not None:
                    todo.append(prepared)
            done, total = len(self._results), len(self._jobs)
            batch = Batch(executor, store, limits, on_event, done, total)
            self._results |= {r.name: r for r in batch.run(todo, afresh=force)}
        return [self._results[job.name] for job in self._jobs]

    def _ready(
        self, job: Job, store: BatchStore, on_event: Callable[[Event], None]
    ) -> Prepared | None:
        """Prepare a job; one whose profile was not written has failed, with that reason."""
        needed = [self._results[name] for name in needed_jobs(job)]
        missing = [r.name for r in needed if r.state is State.FAILED or r.result is None]
        if not missing:
            profiles = {r.name: store.folder / str(r.result) for r in needed}
            try:
                return self._prepared(job, profiles)
            except JobsFileError as error:  # a file that was there when the batch began
                reason, remedy = error.message, error.remedy
        else:
            reason = f"it needs the profile of {', '.join(missing)}, which failed"
            remedy = "Run the batch again when that job is mended."
        outcome = Outcome(ending=Ending.NEVER_PLACED, reason=reason, remedy=remedy)
        self._note(
            JobResult(
                name=job.name,
                kind=job.kind,
                id="",
                state=State.FAILED,
                reason=reason,
                remedy=remedy,
                attempts=(outcome,),
            ),
            on_event,
        )
        return None

    def _note(self, result: JobResult, on_event: Callable[[Event], None]) -> None:
        self._results[result.name] = result
        total = len(self._jobs)
        on_event(Event(result.name, "ended", len(self._results), total, result=result))
