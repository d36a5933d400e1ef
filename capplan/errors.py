"""Every error that capplan raises on purpose.

::

    CapplanError                 exit 1   something went wrong and the message says how to mend it
    ├── RequestError             exit 2   the caller asked for the impossible (a negative budget)
    ├── UnknownIdError           exit 1   no such GPU, LLM or provider; offers the nearest names
    ├── FactsError               exit 1   a bad row in models_db, with file and line
    ├── PairingError             exit 1   target and draft cannot work together (vocabularies)
    ├── ProfileError             exit 1   a profile file that cannot be used
    │   ├── ProfileFormatError            truncated, not JSON, or not a profile
    │   ├── ProfileVersionError           written by a newer capplan
    │   └── ProfileInvalidError           measured, but its own verdict says not to trust it
    ├── PlanFileError            exit 1   a plan file that cannot be used
    │   ├── PlanFormatError               truncated, not JSON, or not a plan
    │   └── PlanVersionError              written by a newer capplan
    ├── CalibrationError         exit 1   profiles that no better constants come from
    │   └── CalibrationFileError          not a calibration, damaged, or written by a newer capplan
    ├── ResultsFileError         exit 1   another tool's file that cannot be imported
    ├── WorkloadError            exit 1   a workload or trace file that cannot be used
    ├── CheckpointError          exit 1   a checkpoint that cannot be loaded (cut GGUF, pickle)
    ├── PromptsError             exit 1   a prompts file that cannot be used
    ├── DeviceError              exit 1   the device asked for is not there, or too small
    ├── EngineError              exit 1   an inference engine did not start, died or fell silent
    ├── MissingPackageError      exit 1   an optional package is missing; gives the install line
    ├── MetricsError             exit 1   text that is no metrics exposition, or of no known engine
    ├── ServerError              exit 1   a server that does not answer, or not as it should
    ├── UnreadableFileError      exit 1   a file from outside: absent, too large, too deep, damaged
    ├── StorageError             exit 1   a file could not be written (disk full, no permission)
    ├── JobsFileError            exit 1   a file of jobs that cannot be run as it stands
    ├── ExecutorError            exit 1   a cluster that does not answer, a folder another run uses
    └── Interrupted              exit 130 Ctrl-C: what was finished is on disk

"No feasible plan" is an answer, not an error: the command line reports it with exit code 3.
A traceback shown to a user is a defect.
"""

from __future__ import annotations


class CapplanError(Exception):
    """Base of every deliberate error.

    Parameters
    ----------
    message
        What happened: the thing, the value got and what was expected.
    remedy
        How to mend it, in one sentence; shown after the message.
    """

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = _within(message)
        self.remedy = _within(remedy)

    def __str__(self) -> str:
        """Message and remedy on separate lines."""
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


_LONGEST_TEXT = 4_000
"""Characters: what is quoted from a file may be as long as the file."""


def _within(text: str) -> str:
    """Return a text that can be shown: of bounded length, without halves of characters."""
    short = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} ..."
    return short.encode("utf-8", errors="replace").decode("utf-8")


class RequestError(CapplanError):
    """The request itself makes no sense."""

    exit_code = 2


class UnknownIdError(CapplanError):
    """An identifier that no catalogue or cache knows."""


class FactsError(CapplanError):
    """A row of models_db that cannot be trusted."""


class PairingError(CapplanError):
    """Target and draft cannot be used together."""


class ProfileError(CapplanError):
    """A profile that cannot be used."""


class ProfileFormatError(ProfileError):
    """Not a readable profile file."""


class ProfileVersionError(ProfileError):
    """A profile written by a newer version."""


class ProfileInvalidError(ProfileError):
    """A profile whose own verdict is ``invalid``."""


class PlanFileError(CapplanError):
    """A plan file that cannot be used."""


class PlanFormatError(PlanFileError):
    """Not a readable plan file."""


class PlanVersionError(PlanFileError):
    """A plan written by a newer version."""


class CalibrationError(CapplanError):
    """Profiles that give no constants, or none better than the shipped ones."""


class CalibrationFileError(CalibrationError):
    """Not a calibration file that can be used."""


class ResultsFileError(CapplanError):
    """A result file of another tool that cannot be imported."""


class WorkloadError(CapplanError):
    """A workload file or a trace of requests that cannot be used."""


class CheckpointError(CapplanError):
    """A checkpoint that cannot be loaded."""


class PromptsError(CapplanError):
    """A prompts file that cannot be used."""


class DeviceError(CapplanError):
    """The device asked for is absent or too small."""


class EngineError(CapplanError):
    """An inference engine did not start, refused, died or fell silent."""


class MissingPackageError(CapplanError):
    """An optional package is needed and absent.

    Parameters
    ----------
    feature
        What needed it, for example ``"profiling with the torch backend"``.
    package
        Its distribution name, for example ``"torch"``.
    extra
        The capplan extra that installs it, for example ``"profile"``.
    """

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the package {package}, which is not installed.",
            f"Install it with: pip install 'capplan[{extra}]'",
        )
        self.package = package
        self.extra = extra


class MetricsError(CapplanError):
    """Text that holds no engine's metrics."""


class ServerError(CapplanError):
    """A server that does not answer, or not as an inference server does."""


class UnreadableFileError(CapplanError):
    """A file or text from outside that cannot be read; readers make an error of their own of it.

    Parameters
    ----------
    what
        Its path, or what it is called.
    reason
        Why, as a clause without an end: ``it has 5 MB, a workload at most 1 MB``.
    remedy
        How to mend it.
    line
        Where, if that is known; counted from 1.
    """

    def __init__(
        self,
        what: str,
        reason: str,
        remedy: str = "Check that it is the file that was meant, or fetch it again.",
        *,
        line: int | None = None,
    ) -> None:
        super().__init__(f"Cannot read {what}: {reason}.", remedy)
        self.reason = reason
        self.line = line


class StorageError(CapplanError):
    """A file could not be written; the previous version is untouched."""


class JobsFileError(CapplanError):
    """A file of jobs, or one job of it, that cannot be run as it stands."""


class ExecutorError(CapplanError):
    """What should run the jobs is not there, or is busy with another run."""


class Interrupted(CapplanError):  # noqa: N818 - an outcome, named as the user sees it
    """The user pressed Ctrl-C; finished work is on disk."""

    exit_code = 130
