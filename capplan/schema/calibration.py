"""A calibration: constants of one engine on one GPU, fitted to profiles, with their error."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from capplan.schema.base import Value
from capplan.schema.quantity import Quantity

CALIBRATION_SCHEMA_VERSION = 1

ConstantName = Literal[
    "layer_s",
    "weight_bandwidth_efficiency",
    "kv_bandwidth_efficiency",
    "verify_flops_efficiency",
    "decoded_token_cost",
    "request_s",
    "exchange_efficiency",
    "prompt_flops_efficiency",
    "prompt_attention_efficiency",
]
"""Constants of :class:`~capplan.schema.engine.EngineConstants` that timed passes can tell."""


class CalibratedConstant(Value):
    """One constant as fitted, beside the shipped one that it was drawn towards."""

    name: ConstantName
    value: Quantity
    shipped: float = Field(gt=0)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        most = 1.0 if self.name.endswith("efficiency") else float("inf")
        least = 1.0 if self.name == "decoded_token_cost" else 0.0
        if not least <= self.value.low <= self.value.high <= most or self.value.mid == 0:
            msg = (
                f"{self.name} must be positive and within {least:g} to {most:g}, got "
                f"{self.value.mid:g} ({self.value.low:g} to {self.value.high:g})"
            )
            raise ValueError(msg)
        return self


class HeldOutGroup(Value):
    """Points that were left out of the fit together, and how far they were then predicted."""

    group: str
    """``batch 8``, ``context 2,048``, or the LLM."""
    points: int = Field(ge=1)
    held_out_error: float = Field(ge=0)
    datasheet_error: float = Field(ge=0)


class CalibrationFit(Value):
    """Constants fitted together. Errors are root mean squares of ln(predicted / measured)."""

    constants: tuple[CalibratedConstant, ...] = Field(min_length=1)
    points: int = Field(ge=1)
    fit_error: float = Field(ge=0)
    """On the fitted points themselves."""
    held_out_error: float = Field(gt=0)
    """On points left out, group by group."""
    datasheet_error: float = Field(gt=0)
    """Of the shipped constants on the same points."""
    groups: tuple[HeldOutGroup, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _better_than_shipped(self) -> Self:
        if self.held_out_error >= self.datasheet_error:
            msg = (
                f"held_out_error={self.held_out_error:g} is not smaller than "
                f"datasheet_error={self.datasheet_error:g}: the shipped constants are better"
            )
            raise ValueError(msg)
        return self

    @property
    def values(self) -> dict[str, float]:
        """The fitted values by name."""
        return {constant.name: constant.value.mid for constant in self.constants}


class Calibration(Value):
    """What ``capplan calibrate`` writes and ``capplan recommend --calibration`` reads."""

    schema_version: Literal[1] = 1
    created_at: str
    """ISO 8601, UTC."""
    capplan_version: str
    engine: str
    """What ran the models: the backend of the profiles."""
    engine_version: str
    cuda_graphs: bool
    gpu: str
    """Id in the catalogue."""
    device: str
    """The GPU as its driver names it."""
    tensor_parallel: tuple[int, ...] = Field(min_length=1)
    llms: tuple[str, ...] = Field(min_length=1)
    profiles: tuple[str, ...] = Field(min_length=1)
    held_out_by: Literal["llm", "point"]
    """Whole LLMs were left out, or single batches, contexts and pass lengths of the same LLMs."""
    step: CalibrationFit
    prefill: CalibrationFit | None = None
    """None: prompts stay on the shipped constants."""
    prefill_note: str = ""
    """Why, where it is None."""

    @property
    def values(self) -> dict[str, float]:
        """Every fitted value by name."""
        return {**self.step.values, **(self.prefill.values if self.prefill is not None else {})}

    def measured(self, llm_id: str, tensor_parallel: int) -> bool:
        """Whether the held-out error speaks for this LLM on this many GPUs."""
        known = self.held_out_by == "llm" or llm_id in self.llms
        return known and tensor_parallel in self.tensor_parallel
