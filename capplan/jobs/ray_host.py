"""What runs on a machine of a Ray cluster: one job, its files brought there and back.

Ray makes it an actor. It knows nothing of Ray, so a machine needs capplan alone to unpack it.
"""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

import capplan
from capplan.errors import ExecutorError
from capplan.jobs.answers import read_answer
from capplan.jobs.job import Task
from capplan.jobs.process import Process
from capplan.jobs.protocol import LOG_FILE

Files = dict[str, bytes]


def _inside(name: str) -> str:
    """Return the name of a file if it lies in the job's folder.

    Raises
    ------
    ExecutorError
        If it lies elsewhere.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ExecutorError(
            f"A file of a job is called {name!r}, which is not in its folder.",
            "Run the same version of capplan on every node.",
        )
    return name


class JobHost:
    """Runs one task in a temporary folder of its machine."""

    def __init__(self) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="capplan-job-")
        self._folder = Path(self._place.name)
        self._output = ""
        self._sent: tuple[int, int] | None = None
        self._process: Process | None = None

    def about(self) -> dict[str, str]:
        """Return where this is and which capplan is installed there."""
        return {"host": platform.node(), "capplan": capplan.__version__}

    def run(self, task: str, files: Mapping[str, bytes], *, has_gpus: bool) -> tuple[str, Files]:
        """Run a task to its end.

        Parameters
        ----------
        task
            The task as JSON.
        files
            What its folder holds at the start.
        has_gpus
            Whether Ray reserved GPUs; it then says itself which ones are seen.

        Returns
        -------
        tuple
            The outcome as JSON, and the files of the answer with the log.
        """
        parsed = Task.model_validate_json(task)
        for name, content in files.items():
            path = self._folder / _inside(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self._output = parsed.output
        self._process = Process(parsed, self._folder, None if has_gpus else "")
        outcome = self._process.wait().model_dump_json()
        return outcome, self._files()

    def begun(self) -> Files:
        """Return the unfinished answer if it has grown since the last call, else nothing."""
        try:
            stat = (self._folder / self._output).stat()
        except OSError:
            return {}
        stamp = (stat.st_mtime_ns, stat.st_size)
        if not self._output or stamp == self._sent:
            return {}
        self._sent = stamp
        return self._files()

    def end(self) -> None:
        """Stop what runs, and leave nothing on this machine."""
        if self._process is not None:
            self._process.stop()
        self._place.cleanup()

    def _files(self) -> Files:
        files = read_answer(self._folder, self._output)
        with suppress(OSError):
            files[LOG_FILE] = (self._folder / LOG_FILE).read_bytes()
        return files
