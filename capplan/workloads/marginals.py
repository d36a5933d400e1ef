"""Shares of tasks, of temperatures and of thinking, each by itself, as a mix of parts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

MARGINALS = ("task_shares", "temperature_shares", "thinking_share")
"""Fields of a workload file beside those of the workload itself."""


def with_mix(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with marginal shares multiplied out into a mix.

    Task, temperature and thinking are then taken to be independent; a ``mix`` says it where they
    are not.

    Raises
    ------
    ValueError
        If a mix stands beside marginal shares, or a share is no number above 0.
    """
    rest = {name: value for name, value in fields.items() if name not in MARGINALS}
    given = [name for name in MARGINALS if name in fields]
    if not given:
        return rest
    for name in ("mix", *(["temperature"] if "temperature_shares" in given else [])):
        if name in fields:
            msg = f"{name} and {given[0]} say the same; expected one of them"
            raise ValueError(msg)
    if "task_shares" in given and rest.get("task") is not None:
        msg = "task and task_shares say the same; expected one of them"
        raise ValueError(msg)
    tasks = _shares(fields, "task_shares") or {rest.pop("task", None): 1.0}
    temperatures = _shares(fields, "temperature_shares") or {rest.pop("temperature", 0.0): 1.0}
    thinking = _thinking(fields)
    every = product(tasks.items(), temperatures.items(), thinking.items())
    rest["mix"] = [_part(*chosen) for chosen in every]
    return rest


def _part(
    task: tuple[str | None, float],
    temperature: tuple[float, float],
    thinking: tuple[bool | None, float],
) -> dict[str, Any]:
    return {
        "share": task[1] * temperature[1] * thinking[1],
        "task": task[0],
        "temperature": temperature[0],
        "thinking": thinking[0],
    }


def _shares(fields: Mapping[str, Any], name: str) -> dict[Any, float]:
    if name not in fields:
        return {}
    given = fields[name]
    if not isinstance(given, Mapping) or not given:
        msg = f"{name}: expected pairs, as in {{code: 0.6, chat: 0.4}}; got {given!r}"
        raise ValueError(msg)
    for key, share in given.items():
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not share > 0:
            msg = f"{name}.{key}: got {share!r}; expected a share above 0"
            raise ValueError(msg)
    return dict(given)


def _thinking(fields: Mapping[str, Any]) -> dict[bool | None, float]:
    if "thinking_share" not in fields:
        return {None: 1.0}
    share = fields["thinking_share"]
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        msg = f"thinking_share: got {share!r}; expected 0 to 1"
        raise ValueError(msg)
    return {thinks: part for thinks, part in ((True, share), (False, 1 - share)) if part > 0}
