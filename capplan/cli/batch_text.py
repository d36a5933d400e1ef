"""What a batch says while it runs and at its end."""

from __future__ import annotations

from capplan.jobs.job import BatchResult, JobResult, State
from capplan.jobs.running import Event

_WORDS = {
    State.DONE: "done",
    State.INCOMPLETE: "incomplete",
    State.INFEASIBLE: "nothing fits",
    State.FAILED: "failed",
}


def duration(seconds: float) -> str:
    """Return a time in words.

    >>> duration(4.2), duration(95), duration(7290)
    ('4.2 s', '1:35 min', '2:01 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d} min"
    return f"{minutes // 60}:{minutes % 60:02d} h"


def event_line(event: Event) -> str:
    """Return one thing that happened as a line, whatever its names hold."""
    return " ".join(_event(event).split())


def _event(event: Event) -> str:
    count = f"[{event.done}/{event.total}] {event.name}:"
    if event.result is None:
        return f"{count} {event.what}{' on' if event.what == 'started' else ','} {event.detail}"
    result = event.result
    if result.reused:
        return f"{count} finished earlier"
    return f"{count} {_WORDS[result.state]} after {duration(result.seconds)}"


def summary(result: BatchResult) -> str:
    """Return the table of jobs, each failure with its reason, and where the results are."""
    width = max(len(job.name) for job in result.jobs)
    states = max(len(_WORDS[job.state]) for job in result.jobs)
    lines = [_row(job, width, states) for job in result.jobs]
    counts = ", ".join(
        f"{result.count(state)} {word}" for state, word in _WORDS.items() if result.count(state)
    )
    reused = sum(job.reused for job in result.jobs)
    earlier = f" ({reused} by an earlier run)" if reused else ""
    lines += ["", f"{counts}{earlier}. Results: {result.output}"]
    if result.count(State.FAILED) or result.count(State.INCOMPLETE):
        lines.append("The same command runs what is missing.")
    return "\n".join(lines) + "\n"


def _row(job: JobResult, width: int, states: int) -> str:
    time = "earlier" if job.reused else duration(job.seconds)
    said = job.reason if job.state is State.FAILED else job.answer
    head = f"{job.name:<{width}}  {_WORDS[job.state]:<{states}}  {time:>8}  "
    lines = [head + said]
    if job.remedy:
        lines.append(" " * len(head) + job.remedy)
    if job.state is not State.FAILED and job.result:
        lines.append(" " * len(head) + job.result)
    return "\n".join(lines)
