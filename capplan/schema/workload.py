"""The traffic to plan for, and its limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

from pydantic import Field, TypeAdapter, model_validator

from capplan.schema.arrival import Arrival
from capplan.schema.base import Value
from capplan.schema.lengths import Lengths

MEAN_TOLERANCE = 0.02
"""By how much a stated mean length may miss that of its distribution; half a token is allowed."""

_LENGTHS: TypeAdapter[Lengths] = TypeAdapter(Lengths)
_LEAST_OUTPUT = 2
_LONGEST = 10_000_000
"""Tokens of a prompt or an answer; no trace may state more either."""
_MOST_PER_S, _MOST_A_MONTH = 1e9, 1e18
"""More is a slip of the unit, and its bill is beyond what a number keeps to the cent."""
_LEAST_UTILISATION = 1e-6


class TrafficPart(Value):
    """Requests that are sampled alike: one task, one temperature, all thinking or none."""

    share: float = Field(gt=0)
    """Of the requests; shares are put in proportion, so they need not sum to 1."""
    task: str | None = None
    temperature: float = Field(default=0.0, ge=0)
    thinking: bool | None = None
    """Whether the target thinks first; acceptance is then read from traces recorded so."""
    output_tokens: float | None = Field(default=None, ge=1)
    """Mean output length of this part, thinking included; the workload's if None."""


_MIX = TypeAdapter(tuple[TrafficPart, ...])


class Workload(Value):
    """Traffic of one service. Without a rate, a plan buys the most tokens for its budget."""

    requests_per_s: float | None = Field(default=None, gt=0, le=_MOST_PER_S)
    """Mean rate of the hours in which the load arrives."""
    output_tokens_per_month: float | None = Field(default=None, gt=0, le=_MOST_A_MONTH)
    prompt_tokens: int = Field(default=1024, ge=1, le=_LONGEST)
    """Mean prompt length."""
    output_tokens: int = Field(default=256, ge=_LEAST_OUTPUT, le=_LONGEST)
    """Mean output length."""
    temperature: float = Field(default=0.0, ge=0)
    """Of a mix, the mean over its tokens."""
    task: str | None = None
    utilisation: float = Field(default=0.6, ge=_LEAST_UTILISATION, le=1)
    """Share of a replica's largest throughput that is planned to be used on average; where a peak
    is known, at the peak."""
    arrival: Arrival | None = None
    prompt_lengths: Lengths | None = None
    output_lengths: Lengths | None = None
    length_correlation: float = Field(default=0.0, ge=-1, le=1)
    """Pearson correlation of a request's prompt and output length."""
    mix: tuple[TrafficPart, ...] = ()
    """Tasks, temperatures and thinking; empty: all requests as ``task`` and ``temperature``."""
    prefix_cache_hit_rate: float = Field(default=0.0, ge=0, lt=1)
    """Share of the prompt tokens whose KV the engine still holds and does not compute again."""

    @model_validator(mode="before")
    @classmethod
    def _derived(cls, data: Any) -> Any:
        """Fill in means that distributions and a mix already say."""
        if not isinstance(data, dict):
            return data
        filled = dict(data)
        for name, least in (("prompt", 1), ("output", _LEAST_OUTPUT)):
            lengths = data.get(f"{name}_lengths")
            if lengths is not None and f"{name}_tokens" not in data:
                mean = _LENGTHS.validate_python(lengths).mean_tokens
                filled[f"{name}_tokens"] = max(round(mean), least)
        parts = _MIX.validate_python(data.get("mix", ()))
        if not parts:
            return filled
        own = _own_output_tokens(parts)
        if own is not None:
            filled.setdefault("output_tokens", max(round(own), _LEAST_OUTPUT))
        filled.setdefault("temperature", mean_temperature(parts))
        return filled

    @model_validator(mode="after")
    def _one_rate(self) -> Self:
        if self.requests_per_s is not None and self.output_tokens_per_month is not None:
            msg = "give either requests_per_s or output_tokens_per_month, not both"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _lengths_agree(self) -> Self:
        for name, lengths, stated in (
            ("prompt", self.prompt_lengths, self.prompt_tokens),
            ("output", self.output_lengths, self.output_tokens),
        ):
            if lengths is not None:
                _check_mean(name, lengths.mean_tokens, stated, f"{name}_lengths")
        known = self.prompt_lengths is not None and self.output_lengths is not None
        if self.length_correlation and not known:
            msg = "length_correlation needs prompt_lengths and output_lengths"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _mix_agrees(self) -> Self:
        if not self.mix:
            return self
        if self.task is not None:
            msg = "give either task or mix, not both"
            raise ValueError(msg)
        mean = mean_temperature(self.mix)
        if not math.isclose(self.temperature, mean, abs_tol=1e-6):
            msg = f"temperature {self.temperature:g}, but the mix has {mean:g} on average"
            raise ValueError(msg)
        own = _own_output_tokens(self.mix)
        if own is not None:
            _check_mean("output", own, self.output_tokens, "the mix")
        return self

    @model_validator(mode="after")
    def _peak_has_a_mean(self) -> Self:
        peak = self.arrival.peak_requests_per_s if self.arrival is not None else None
        if peak is None:
            return self
        if self.requests_per_s is None and self.output_tokens_per_month is None:
            msg = (
                "a peak needs a mean: add requests_per_s or output_tokens_per_month, or no token "
                "could be priced"
            )
            raise ValueError(msg)
        if self.requests_per_s is not None and peak < self.requests_per_s:
            msg = f"the peak of {peak:g} requests/s lies below the mean of {self.requests_per_s:g}"
            raise ValueError(msg)
        return self


def mean_temperature(parts: Sequence[TrafficPart]) -> float:
    """Return the temperature of a mix: the mean over its output tokens."""
    weights = [part.share * (part.output_tokens or 1.0) for part in parts]
    return sum(
        weight * part.temperature for weight, part in zip(weights, parts, strict=True)
    ) / sum(weights)


def _own_output_tokens(parts: Sequence[TrafficPart]) -> float | None:
    """Return the mean output length that the parts state; None where they state none."""
    stated = [part.output_tokens for part in parts if part.output_tokens is not None]
    if not stated:
        return None
    if len(stated) < len(parts):
        msg = "output_tokens stands in some parts of the mix only; give it in all or in none"
        raise ValueError(msg)
    total = sum(part.share for part in parts)
    return sum(p.share * n for p, n in zip(parts, stated, strict=True)) / total


def _check_mean(name: str, mean: float, stated: int, origin: str) -> None:
    if abs(mean - stated) > max(MEAN_TOLERANCE * mean, 0.5 + 1e-9) and stated > _LEAST_OUTPUT:
        msg = (
            f"{name}_tokens is {stated}, but {origin} has {mean:.1f} on average; leave "
            f"{name}_tokens out"
        )
        raise ValueError(msg)


class Slo(Value):
    """Limits that a plan must keep."""

    tpot_ms: float | None = Field(default=None, gt=0)
    ttft_ms: float | None = Field(default=None, gt=0)
