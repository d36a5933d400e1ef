"""The guide's limits, and what is said of them alike for plans and profiles."""

from __future__ import annotations

LENGTH = 5
"""The guide's length for every pairing and load."""
ENABLE_TO, OFF_ABOVE = 0.7, 1.0
"""Temperatures between which the guide leaves open whether to speculate."""
LEAST_ACCEPTANCE = 0.6
LOW_SPEEDUP = 1.5
LARGE_PARAMS = 100e9

CODE_OR_TRANSLATION = (
    *("code", "coding", "humaneval", "mbpp", "livecodebench"),
    *("translation", "translate", "wmt"),
)
MATHS = ("math", "gsm", "aime", "maths")

NO_FLAG = (
    'vLLM has no such flag any more: 0.33 stops at it with "unrecognized arguments". Leave it out.'
)
EVIDENCE_ON_TASKS = (
    "Of six tasks Spec-Bench finds translation slowest in most of its tables, maths fastest most "
    "often (capplan claims --topic tasks); measure your own prompts."
)
NO_LEVER = "The draft's tensor parallelism is no lever: vLLM refuses or ignores it."


def is_about(task: str | None, words: tuple[str, ...]) -> bool:
    """Return whether a task's name speaks of one of these subjects."""
    return task is not None and any(word in task.lower() for word in words)


def limiting(tokens: float, ratio: float, length: float) -> str:
    """Say whether acceptance or the cost of a round keeps a speedup low, and what would help.

    Parameters
    ----------
    tokens
        Tokens a round, bonus included.
    ratio
        Plain steps that a round takes.
    length
        Tokens drafted a round.
    """
    most = (length + 1) / ratio
    if most < LOW_SPEEDUP:
        return (
            f"even with every draft accepted {most:.2f}x: the cost of a round is the limit, so a "
            "cheaper draft or less load a replica would help"
        )
    return (
        f"{LOW_SPEEDUP:g}x needs {LOW_SPEEDUP * ratio:.2f} tokens a round, it has {tokens:.2f}: "
        "look for a better draft, or another N"
    )
