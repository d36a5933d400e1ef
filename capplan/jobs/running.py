"""The loop that starts what has room, watches it, tries again what is worth it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from capplan.errors import Interrupted
from capplan.jobs.answers import read_answer
from capplan.jobs.job import Ending, JobResult, Outcome, State
from capplan.jobs.preparing import Prepared
from capplan.jobs.protocol import Executor, Running
from capplan.jobs.store import BatchStore
from capplan.units import SECONDS_PER_MINUTE

LOOK_EVERY_S = 0.1
GRACE_S = 60.0
"""After a task's limit its machine should have said so; then it counts as lost."""
_PASSING = frozenset({"EngineError", "ServerError", "StorageError", "DeviceError"})
"""Errors that may be gone at the next attempt; others would come again."""


@dataclass(frozen=True)
class Limits:
    """How long and how often."""

    retries: int = 1
    """Attempts after the first."""
    wait_s: float = 600.0
    """For a machine to come, or to be free of others' work."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a job."""

    name: str
    what: str
    """``started``, ``again`` or ``ended``."""
    done: int
    total: int
    detail: str = ""
    result: JobResult | None = None


@dataclass
class _Turn:
    """A job on its way: its attempts so far, and the one that runs."""

    prepared: Prepared
    attempts: list[Outcome] = field(default_factory=list)
    running: Running | None = None
    afresh: bool = False
    """Whether the next attempt starts from nothing."""
    prepared_once: bool = False
    submitted_s: float = 0.0
    placed_s: float | None = None


class Batch:
    """Runs prepared jobs to their end.

    Parameters
    ----------
    executor
        Where.
    store
        What is finished is written there at once.
    limits
        How long and how often.
    on_event
        Told of every start, retry and end.
    done, total
        What stands before these jobs, for the events.
    """

    def __init__(
        self,
        executor: Executor,
        store: BatchStore,
        limits: Limits,
        on_event: Callable[[Event], None],
        done: int = 0,
        total: int = 0,
    ) -> None:
        self._executor, self._store, self._limits = executor, store, limits
        self._on_event = on_event
        self._done, self._total = done, total
        self._waiting: list[_Turn] = []
        self._live: list[_Turn] = []
        self._results: list[JobResult] = []
        self._moved_s = time.monotonic()
        """When something last started or ended: a queue that moves is not stuck."""

    def run(self, jobs: Sequence[Prepared], *, afresh: bool = False) -> list[JobResult]:
        """Run all; one job's failure leaves the others alone.

        Parameters
        ----------
        jobs
            What to run.
        afresh
            Remove what earlier runs began or finished of them.

        Raises
        ------
        Interrupted
            At Ctrl-C; what was finished is on disk.
        CapplanError
            If results cannot be written.
        """
        self._waiting = [_Turn(job, afresh=afresh) for job in jobs]
        try:
            while self._waiting or self._live:
                self._start_what_has_room()
                for turn in list(self._live):
                    self._look_after(turn)
                time.sleep(LOOK_EVERY_S)
        except KeyboardInterrupt:
            raise Interrupted(
                f"Interrupted: {self._done} of {self._total} jobs are finished in "
                f"{self._store.folder}.",
                "The same command goes on from there.",
            ) from None
        finally:
            for turn in self._live:
                if turn.running is not None:
                    turn.running.stop()
        return self._results

    def _start_what_has_room(self) -> None:
        for turn in list(self._waiting):
            task = turn.prepared.task
            refusal = self._executor.refusal(task)
            if refusal is not None:
                self._waiting.remove(turn)
                reason = f"it cannot run on {self._executor.describe()}: {refusal}"
                self._end(turn, Outcome(ending=Ending.NEVER_PLACED, reason=reason))
            elif self._executor.has_room(task):
                self._waiting.remove(turn)
                self._start(turn)

    def _start(self, turn: _Turn) -> None:
        folder = self._store.lay_out(turn.prepared, afresh=turn.afresh)
        turn.afresh, turn.prepared_once = False, True
        turn.running = self._executor.start(turn.prepared.task, folder)
        turn.submitted_s, turn.placed_s = time.monotonic(), None
        self._live.append(turn)
        self._note_place(turn)

    def _note_place(self, turn: _Turn) -> None:
        place = turn.running.place if turn.running is not None else None
        if place is None or turn.placed_s is not None:
            return
        turn.placed_s = self._moved_s = time.monotonic()
        self._tell(turn, "started", place)

    def _look_after(self, turn: _Turn) -> None:
        assert turn.running is not None, "it is live"
        outcome = turn.running.poll()
        self._note_place(turn)
        if outcome is None:
            outcome = self._given_up(turn)
            if outcome is None:
                return
            turn.running.stop()
        self._live.remove(turn)
        turn.running = None
        self._moved_s = time.monotonic()
        turn.attempts.append(outcome)
        if self._is_worth_retrying(turn, outcome):
            self._tell(turn, "again", f"{outcome.ending}: {outcome.reason}")
            self._waiting.append(turn)
        else:
            self._end(turn, outcome)

    def _given_up(self, turn: _Turn) -> Outcome | None:
        """Return why to wait no longer for an attempt, or None."""
        now_s = time.monotonic()
        task = turn.prepared.task
        if turn.placed_s is not None:
            if now_s - turn.placed_s <= task.limit_s + GRACE_S:
                return None
            reason = f"its machine said nothing {GRACE_S:g} s after the time limit"
            place = (turn.running.place if turn.running is not None else None) or ""
            return Outcome(ending=Ending.LOST, reason=reason, place=place)
        lacking = self._executor.lacks(task)
        since_s = turn.submitted_s if lacking else max(turn.submitted_s, self._moved_s)
        if now_s - since_s <= self._limits.wait_s:
            return None
        waited = f"waited {self._limits.wait_s / SECONDS_PER_MINUTE:g} min for a place"
        why = lacking or "all that could hold it is taken by other work"
        return Outcome(
            ending=Ending.NEVER_PLACED,
            reason=f"{waited}: {why}",
            remedy="Add such a machine, change what the job asks for (gpus, gpu-type, cpus, "
            "node, or device: cpu), or wait longer with --wait-minutes.",
            seconds=now_s - turn.submitted_s,
        )

    def _is_worth_retrying(self, turn: _Turn, outcome: Outcome) -> bool:
        if len(turn.attempts) > self._limits.retries:
            return False
        if outcome.ending in (Ending.KILLED, Ending.TIMED_OUT, Ending.LOST):
            return True
        if outcome.ending is not Ending.FAILED:
            return False
        folder, output = self._store.folder_of(turn.prepared), turn.prepared.task.output
        if outcome.error == "ProfileError" and read_answer(folder, output):
            # What was begun cannot be gone on with: on another GPU, or by another version.
            turn.afresh = True
            return True
        unexpected = not outcome.error
        return unexpected or outcome.error in _PASSING

    def _end(self, turn: _Turn, outcome: Outcome) -> None:
        turn.attempts = turn.attempts or [outcome]
        state = _state(outcome)
        job = turn.prepared.job
        failed = state is State.FAILED
        result = JobResult(
            name=job.name,
            kind=job.kind,
            id=turn.prepared.id,
            state=state,
            answer=outcome.answer,
            reason=_reason(outcome, len(turn.attempts)) if failed else "",
            remedy=outcome.remedy if failed else "",
            attempts=tuple(turn.attempts),
        )
        if not turn.prepared_once:
            self._store.lay_out(turn.prepared)  # refused before it had a folder
        result = self._store.record(turn.prepared, result)
        self._results.append(result)
        self._done += 1
        self._tell(turn, "ended", result=result)

    def _tell(
        self, turn: _Turn, what: str, detail: str = "", result: JobResult | None = None
    ) -> None:
        name = turn.prepared.job.name
        self._on_event(Event(name, what, self._done, self._total, detail, result))


def _state(outcome: Outcome) -> State:
    if outcome.ending is not Ending.ANSWERED:
        return State.FAILED
    if not outcome.complete:
        return State.INCOMPLETE
    return State.INFEASIBLE if outcome.exit_code else State.DONE


def _reason(outcome: Outcome, attempts: int) -> str:
    return f"{outcome.reason} (after {attempts} attempts)" if attempts > 1 else outcome.reason
