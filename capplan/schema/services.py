"""Several services that share one fleet."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from capplan.schema.base import Value
from capplan.schema.workload import Workload


class NamedWorkload(Value):
    """The traffic of one service."""

    name: str = Field(min_length=1)
    workload: Workload


class Services(Value):
    """Services whose requests the same replicas serve."""

    services: tuple[NamedWorkload, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [one.name for one in self.services]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"service {twice[0]!r} stands there twice"
            raise ValueError(msg)
        return self
