"""Several services on one bill."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from capplan.schema.base import Value
from capplan.schema.workload import Slo, Workload


class NamedWorkload(Value):
    """The traffic of one service, and what it asks for."""

    name: str = Field(min_length=1)
    workload: Workload
    target: str | None = None
    """LLM that serves it; None: that of the request."""
    slo: Slo = Slo()
    """Limits of this service; those that are None are the request's."""


class Services(Value):
    """Services that one budget pays for; those of one target may share replicas."""

    services: tuple[NamedWorkload, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [one.name for one in self.services]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"service {twice[0]!r} stands there twice"
            raise ValueError(msg)
        return self
