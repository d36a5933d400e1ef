"""Names that a launch may hold: of checkpoints and folders, from a plan that may be anybody's."""

from __future__ import annotations

import unicodedata

from capplan.deploy.settings import Settings
from capplan.errors import RequestError

_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def check_names(settings: Settings) -> None:
    """Refuse names that quoting alone does not make harmless.

    Raises
    ------
    RequestError
        Naming the name, in characters that can be seen.
    """
    problem = name_problem(settings)
    if problem:
        raise RequestError(
            problem,
            "Look where the plan is from; give a checkpoint by --target-path or --draft-path, a "
            "folder as ./NAME.",
        )


def name_problem(settings: Settings) -> str:
    """Return what is wrong with a name, or nothing.

    Quotes keep a name in one word on every way. But a word that begins with a hyphen is a flag
    to the engine whatever its quotes; and where characters cannot be seen, nobody can judge what
    a command does before running it.
    """
    named = {
        "target": settings.target,
        "draft": settings.draft or "",
        "quantisation": settings.quantisation or "",
        "type of the KV cache": settings.kv_cache_dtype,
    }
    for what, name in named.items():
        if name.startswith("-"):
            return f"The {what} is called {name!a}, which the engine would take for a flag."
        if any(unicodedata.category(char) in _UNSEEN for char in name):
            return f"The {what} is called {name!a}: some of its characters cannot be seen."
    return ""
