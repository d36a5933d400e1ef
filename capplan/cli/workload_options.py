"""Options that say of a workload what its file does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
from pydantic import ValidationError

from capplan.estimate.traffic import mean_requests_per_s, peak_to_mean
from capplan.schema.workload import Workload
from capplan.workloads.columns import ROLES
from capplan.workloads.marginals import with_mix


class NamedShare(click.ParamType[tuple[str | float, float]]):
    """``code=0.6``: a name, or a number, and its share."""

    name = "NAME=SHARE"

    def __init__(self, *, of_numbers: bool = False) -> None:
        self._of_numbers = of_numbers

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str | float, float]:
        """Parse one pair; shares are put in proportion, so they need not sum to 1."""
        if isinstance(value, tuple):
            return value
        name, sign, share = str(value).rpartition("=")
        try:
            pair = (float(name) if self._of_numbers else name.strip(), float(share))
        except ValueError:
            pair = ("", 0.0)
        if not sign or pair[0] == "" or not 0 < pair[1] < float("inf"):
            example = "0.7=0.5" if self._of_numbers else "code=0.6"
            self.fail(f"{value!r}: expected a name and a share above 0, as {example}", param, ctx)
        return pair


def named_columns(pairs: Iterable[str]) -> dict[str, str]:
    """Return columns by role.

    Raises
    ------
    click.UsageError
        For a role that traces do not have.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        role, _, name = pair.partition("=")
        if role not in ROLES or not name:
            raise click.UsageError(
                f"--column {pair}: expected ROLE=NAME with one of the roles {', '.join(ROLES)}."
            )
        found[role] = name
    return found


_DIRECT = {
    "rate": "requests_per_s",
    "tokens_per_month": "output_tokens_per_month",
    "temperature": "temperature",
    "task": "task",
    "cache_hit_rate": "prefix_cache_hit_rate",
    "thinking_share": "thinking_share",
}
"""Options by the field that they fill."""


def changed_by(options: Mapping[str, Any]) -> Callable[[Workload], Workload] | None:
    """Return how options change a workload that was read; None if none is given.

    A mix from options replaces the file's mix, task and temperature.
    """
    stated = {
        field: options[name] for name, field in _DIRECT.items() if options.get(name) is not None
    }
    for name in ("task_shares", "temperature_shares"):
        if options.get(name):
            stated[name] = dict(options[name])
    peak = options.get("peak_rate")
    if not stated and peak is None:
        return None
    return lambda load: _changed(load, stated, peak)


_SAMPLING = frozenset({"temperature", "task", "task_shares", "temperature_shares"})


def _changed(load: Workload, stated: Mapping[str, Any], peak: float | None) -> Workload:
    fields = {name: getattr(load, name) for name in load.model_fields_set}
    if load.mix and {*_SAMPLING, "thinking_share"} & set(stated):
        del fields["mix"]
        fields.pop("temperature", None)
    if "task_shares" in stated:
        fields.pop("task", None)
    if "temperature_shares" in stated:
        fields.pop("temperature", None)
    fields.pop("arrival", None)
    arrival = load.arrival.model_dump() if load.arrival is not None else {}
    if {"requests_per_s", "output_tokens_per_month"} & set(stated):
        fields.pop("requests_per_s", None)
        fields.pop("output_tokens_per_month", None)
        arrival.pop("peak_requests_per_s", None)
    changed = _built({**fields, **stated})
    # at another rate the load keeps its shape: its peak stays in proportion
    if peak is None and load.arrival is not None and load.arrival.peak_requests_per_s is not None:
        mean = mean_requests_per_s(changed)
        peak = None if mean is None else peak_to_mean(load) * mean
    if peak is not None:
        arrival["peak_requests_per_s"] = peak
    if any(value is not None for value in arrival.values()):
        return _built({**fields, **stated, "arrival": arrival})
    return changed


def _built(fields: Mapping[str, Any]) -> Workload:
    try:
        return Workload.model_validate(with_mix(fields))
    except ValidationError as error:
        message = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise click.UsageError(f"The options do not fit the file: {message}.") from error
    except ValueError as error:
        raise click.UsageError(f"The options do not fit each other: {error}.") from error
