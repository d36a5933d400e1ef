"""The traffic to plan for, and its limits."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from capplan.schema.base import Value


class Workload(Value):
    """Traffic of one service. Without a rate, a plan is made per replica at ``utilisation``."""

    requests_per_s: float | None = Field(default=None, gt=0)
    output_tokens_per_month: float | None = Field(default=None, gt=0)
    prompt_tokens: int = Field(default=1024, ge=1)
    """Mean prompt length."""
    output_tokens: int = Field(default=256, ge=2)
    """Mean output length."""
    temperature: float = Field(default=0.0, ge=0)
    task: str | None = None
    utilisation: float = Field(default=0.6, gt=0, le=1)
    """Share of a replica's largest throughput that is planned to be used on average."""

    @model_validator(mode="after")
    def _one_rate(self) -> Self:
        if self.requests_per_s is not None and self.output_tokens_per_month is not None:
            msg = "give either requests_per_s or output_tokens_per_month, not both"
            raise ValueError(msg)
        return self


class Slo(Value):
    """Limits that a plan must keep."""

    tpot_ms: float | None = Field(default=None, gt=0)
    ttft_ms: float | None = Field(default=None, gt=0)
