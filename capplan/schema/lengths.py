"""How long prompts and outputs are: one length, a lognormal, or quantiles of a sample."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from capplan.schema.base import Value

Z_P95 = 1.6448536269514722
"""Standard normal quantile at 0.95."""


class FixedLength(Value):
    """Every request has the same length."""

    kind: Literal["fixed"] = "fixed"
    tokens: float = Field(ge=1)

    @property
    def mean_tokens(self) -> float:
        """The length."""
        return self.tokens


class _MeanAndP95(Value):
    mean_tokens: float = Field(ge=1)
    p95_tokens: float = Field(ge=1)


class LognormalLength(Value):
    """Logarithms of the lengths are normal: many short requests, few long ones.

    May also be given as ``mean_tokens`` and ``p95_tokens``; kept as median and sigma.
    """

    kind: Literal["lognormal"] = "lognormal"
    median_tokens: float = Field(ge=1)
    sigma: float = Field(gt=0, le=4)
    """Standard deviation of the natural logarithm; 4 spans more than any LLM's context."""

    @model_validator(mode="before")
    @classmethod
    def _from_mean_and_p95(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not {"mean_tokens", "p95_tokens"} & set(data):
            return data
        rest = {k: v for k, v in data.items() if k not in ("mean_tokens", "p95_tokens")}
        pair = {"mean_tokens", "p95_tokens"} <= set(data)
        if not pair or {"median_tokens", "sigma"} & set(rest):
            msg = "give mean_tokens and p95_tokens, or median_tokens and sigma"
            raise ValueError(msg)
        stated = _MeanAndP95.model_validate({k: v for k, v in data.items() if k not in rest})
        return {**rest, **lognormal_parameters(stated.mean_tokens, stated.p95_tokens)}

    @property
    def mean_tokens(self) -> float:
        """``median * exp(sigma^2 / 2)``."""
        return self.median_tokens * math.exp(self.sigma**2 / 2.0)


def lognormal_parameters(mean_tokens: float, p95_tokens: float) -> dict[str, float]:
    """Return median and sigma of the lognormal with this mean and 95th percentile.

    From ``ln p95 - ln mean = z sigma - sigma^2 / 2`` the smaller root is taken: the larger one
    (sigma above 1.64) puts the median far below the mean and is no traffic that was seen.

    Raises
    ------
    ValueError
        If no lognormal has such a ratio: it lies above 1 and at most ``exp(z^2 / 2)`` = 3.87.
    """
    most = math.exp(Z_P95**2 / 2.0)
    if mean_tokens < 1 or not 1.0 < p95_tokens / mean_tokens <= most:
        msg = (
            f"a lognormal's p95_tokens lies above its mean_tokens and at most {most:.2f} times "
            f"it; got {p95_tokens:g} and {mean_tokens:g}"
        )
        raise ValueError(msg)
    sigma = Z_P95 - math.sqrt(Z_P95**2 - 2.0 * math.log(p95_tokens / mean_tokens))
    return {"median_tokens": mean_tokens / math.exp(sigma**2 / 2.0), "sigma": sigma}


class EmpiricalLength(Value):
    """Quantiles of a sample, straight lines between them."""

    kind: Literal["empirical"] = "empirical"
    probabilities: tuple[float, ...] = Field(min_length=2, max_length=2001)
    """Rising from 0 to 1."""
    tokens: tuple[float, ...] = Field(min_length=2, max_length=2001)
    """Length at each probability; the first is the shortest, the last the longest."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        p, tokens = self.probabilities, self.tokens
        if len(p) != len(tokens):
            msg = f"{len(p)} probabilities and {len(tokens)} lengths; expected as many of both"
            raise ValueError(msg)
        if p[0] != 0 or p[-1] != 1 or any(b <= a for a, b in pairwise(p)):
            msg = "probabilities must rise from 0 to 1"
            raise ValueError(msg)
        if tokens[0] < 1 or any(b < a for a, b in pairwise(tokens)):
            msg = "lengths must not fall from one probability to the next, and start at 1 or more"
            raise ValueError(msg)
        return self

    @property
    def mean_tokens(self) -> float:
        """Area under the quantiles."""
        p, tokens = self.probabilities, self.tokens
        return sum(
            (p[i + 1] - p[i]) * (tokens[i + 1] + tokens[i]) / 2.0 for i in range(len(p) - 1)
        )


Lengths = Annotated[FixedLength | LognormalLength | EmpiricalLength, Field(discriminator="kind")]
