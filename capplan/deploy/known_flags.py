"""The flags of the server, version by version: ``flags.csv``, recorded from its own parser."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from capplan.deploy.versions import EngineVersion, Minor


@cache
def _table() -> dict[str, tuple[str, Minor | None, Minor | None]]:
    text = files("capplan.deploy").joinpath("flags.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {
        row["flag"]: (row["values"], _minor(row["since"]), _minor(row["until"])) for row in rows
    }


def _minor(text: str) -> Minor | None:
    if not text:
        return None
    major, minor = text.split(".")
    return int(major), int(minor)


@cache
def flags_of(version: EngineVersion) -> dict[str, str]:
    """Return every flag that a version takes, with how many values follow: 0, 1, ``?``, ``+``."""
    return {
        flag: values
        for flag, (values, since, until) in _table().items()
        if (since is None or version.minor >= since) and (until is None or version.minor < until)
    }


def values_taken(flag: str, version: EngineVersion) -> str | None:
    """Return how many values follow a flag, None if the version does not know it.

    As its parser does, a beginning that only one flag has is taken for that flag, ``-O3`` for an
    optimisation level, and ``--json-flag.key`` for a key of the flag's JSON.
    """
    known = flags_of(version)
    if flag in known:
        return known[flag]
    base, dot, _ = flag.partition(".")
    if dot and known.get(base) == "1":
        return "1"
    if flag.startswith("-O"):
        return "1" if flag == "-O" else "0"
    begun = {known[name] for name in known if name.startswith(flag)} if flag[:2] == "--" else set()
    names = [name for name in known if name.startswith(flag)]
    return begun.pop() if len(names) == 1 and begun else None
