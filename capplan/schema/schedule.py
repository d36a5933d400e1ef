"""A schedule of draft lengths by batch, and length controllers replayed on traces."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from capplan.schema.base import Value
from capplan.schema.quantity import Quantity


class LengthAtBatch(Value):
    """What the length does at one number of requests at once."""

    batch: int = Field(ge=1)
    load_share: float = Field(ge=0, le=1)
    """Share of time with so many requests, up to the next batch of the table."""
    num_speculative_tokens: int = Field(ge=0)
    tpot_ms: float = Field(gt=0)
    plain_tpot_ms: float = Field(gt=0)
    """Served without speculation."""
    fixed_tpot_ms: float = Field(gt=0)
    """With the best single length; beyond the largest batch that it can run, waiting included."""


class LengthAtContext(Value):
    """The schedule if every request had this many tokens in its cache."""

    context_tokens: int = Field(ge=0)
    ranges: tuple[tuple[int, int, int], ...]
    best_fixed: int = Field(ge=0)
    gain: float


class GraphEdge(Value):
    """Where captured CUDA graphs end for one length."""

    num_speculative_tokens: int = Field(ge=0)
    largest_batch: int = Field(ge=0)


class LengthSchedule(Value):
    """Lengths by batch for ``num_speculative_tokens_per_batch_size``, and whether they pay."""

    origin: str
    """Profile id, or plan option, that it was computed from."""
    target: str
    draft: str
    method: str
    ranges: tuple[tuple[int, int, int], ...]
    """(first batch, last batch, N), both ends included, as the engine takes them."""
    num_speculative_tokens: int = Field(ge=0)
    """The largest N of the ranges: what the engine's own field must be set to."""
    best_fixed: int = Field(ge=0)
    """Best single length over the load; 0 is serving without speculation."""
    recommended: Literal["schedule", "fixed"]
    reason: str
    gain: Quantity
    """Tokens a second of the schedule over those of the best single length, less one."""
    gain_before_tax: float
    tax_paid: float
    """What the schedule's own N = 0 costs over the load: the drafting path stays in the step."""
    tax_at_load: Quantity
    """TPOT that a schedule adds wherever its N is 0, as a fraction, at the mean of the load."""
    merge_loss: float
    """Share of the tokens a second given up for fewer ranges."""
    load: str
    mean_batch: float
    context_tokens: int
    captured_tokens: int | None
    """Tokens of a step up to which CUDA graphs are taken to reach; None where none are used."""
    graph_edges: tuple[GraphEdge, ...] = ()
    at_batch: tuple[LengthAtBatch, ...]
    at_context: tuple[LengthAtContext, ...] = ()
    notes: tuple[str, ...] = ()


class ControllerResult(Value):
    """One way to choose the length, replayed."""

    name: str
    detail: str
    """Its settings, or the lengths it used."""
    tokens_per_round: float | None = None
    mean_length: float | None = None
    """Drafts a round, averaged over rounds."""
    gain_over_best_fixed: Quantity | None = None
    """Tokens a second over those of the best single length, less one."""
    gain_over_five: Quantity | None = None
    """The same over N = 5, which the guide compares with; None where N = 5 was not traced."""
    refused: str = ""
    """Why it could not be replayed, and how it could."""


class Simulation(Value):
    """Length controllers on the same requests, in the same time model."""

    profiles: tuple[str, ...]
    target: str
    draft: str
    method: str
    temperatures: tuple[float, ...]
    requests: int
    stream: int
    """Requests served in a replay."""
    order: Literal["mixed", "by-task", "hotter"]
    load: str
    best_fixed: int
    controllers: tuple[ControllerResult, ...]
    notes: tuple[str, ...] = ()
