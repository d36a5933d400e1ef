"""The folder of a batch: what was finished stays finished.

::

    DIR/
      batch.json                    the summary of the last run
      <job>-<hash>/                 hash of what was asked, with the content of its files
        job.json                    the job
        inputs/                     the files it reads
        profile.json or plan.json   its answer; a profile that was begun, too
        log.txt                     what it printed
        result.json                 written last: how it ended
"""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path
from types import TracebackType
from typing import IO

from pydantic import ValidationError

from capplan.errors import ExecutorError, StorageError, UnreadableFileError
from capplan.files import write_atomic
from capplan.inputs.limits import JOB_RECORD, PROFILE
from capplan.inputs.reading import read_bytes, read_text
from capplan.jobs.answers import read_answer
from capplan.jobs.job import BatchResult, JobResult, State
from capplan.jobs.preparing import Prepared
from capplan.jobs.protocol import LOG_FILE, OUTCOME_FILE

_RESULT, _JOB, _SUMMARY, _LOCK = "result.json", "job.json", "batch.json", ".lock"
_STAYS = (State.DONE, State.INFEASIBLE)
"""Ends that need no other run."""


class BatchStore:
    """Results of a batch; one run at a time may hold it.

    Parameters
    ----------
    folder
        Made if it is not there.

    Raises
    ------
    ExecutorError
        On entering, if another run holds the folder.
    StorageError
        On entering, if it cannot be made or written to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._lock: IO[str] | None = None

    def __enter__(self) -> BatchStore:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / _LOCK).open("a+", encoding="utf-8")
        except OSError as error:
            raise StorageError(
                f"Cannot use {self.folder} for a batch: {error.strerror or error}.",
                "Choose another -o.",
            ) from error
        self._hold(self._lock)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._lock is not None:
            self._lock.close()

    def _hold(self, lock: IO[str]) -> None:
        """Take the lock; the kernel gives it back if we die, so that none is left behind."""
        import fcntl

        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            who = lock.read().strip() or "unknown"
            lock.close()
            raise ExecutorError(
                f"Another batch is running in {self.folder} ({who}).",
                "Wait for it, or choose another folder with -o.",
            ) from error
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {platform.node()}")
        lock.flush()

    def folder_of(self, prepared: Prepared) -> Path:
        """Return a job's folder."""
        return self.folder / f"{prepared.job.name}-{prepared.id}"

    def finished(self, prepared: Prepared) -> JobResult | None:
        """Return the result of an earlier run if its answer still lies there, undamaged."""
        folder = self.folder_of(prepared)
        try:
            text = read_text(folder / _RESULT, JOB_RECORD)
            result = JobResult.model_validate_json(text)
            content = read_bytes(folder / prepared.task.output, PROFILE)
        except (UnreadableFileError, ValidationError):
            return None
        if result.state not in _STAYS or result.result_sha256 != _sha256(content):
            return None
        return result.model_copy(update={"reused": True})

    def lay_out(self, prepared: Prepared, *, afresh: bool = False) -> Path:
        """Make a job's folder ready for an attempt.

        Parameters
        ----------
        prepared
            The job.
        afresh
            Remove what an earlier attempt began.
        """
        folder = self.folder_of(prepared)
        try:
            folder.mkdir(exist_ok=True)
            (folder / _RESULT).unlink(missing_ok=True)
            if afresh:
                for name in (*read_answer(folder, prepared.task.output), LOG_FILE):
                    (folder / name).unlink(missing_ok=True)
            for name, content in prepared.inputs.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                write_atomic(folder / name, content)
        except OSError as error:
            raise StorageError(
                f"Cannot write to {folder}: {error.strerror or error}.",
                "Free some space or choose another -o; what was finished is kept.",
            ) from error
        write_atomic(folder / _JOB, prepared.job.model_dump_json(indent=1) + "\n")
        return folder

    def record(self, prepared: Prepared, result: JobResult) -> JobResult:
        """Write down how a job ended, with the hash of its answer; that makes it finished."""
        folder = self.folder_of(prepared)
        output = folder / prepared.task.output
        update: dict[str, object] = {"result": None, "result_sha256": None}
        if output.is_file():
            update["result"] = str(output.relative_to(self.folder))
            update["result_sha256"] = _sha256(read_bytes(output, PROFILE))
        result = result.model_copy(update=update)
        write_atomic(folder / _RESULT, result.model_dump_json(indent=1) + "\n")
        (folder / OUTCOME_FILE).unlink(missing_ok=True)
        return result

    def summarise(self, result: BatchResult) -> None:
        """Write the summary of a run."""
        write_atomic(self.folder / _SUMMARY, result.model_dump_json(indent=1) + "\n")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
