"""What became of every (hardware, N, batch) of one way to draft."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.memory import MemoryPlan
from capplan.estimate.planned_round import RoundFactors, RoundParts, RoundRatio, round_in_steps
from capplan.estimate.speculation import guide_speedup
from capplan.schema.workload import Slo
from capplan.units import MS_PER_S

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class RoundModel:
    """What the interval of a round ratio is computed from, where it is asked for."""

    parts: RoundParts
    factors: RoundFactors
    shape: tuple[int, ...]

    def at(self, hardware: Indices, length: Indices) -> RoundRatio:
        """Return ratio and interval of some (hardware, N), a row of batches each."""
        return round_in_steps(self.parts.at(hardware, length, self.shape), self.factors)


@dataclass(frozen=True)
class Grid:
    """Outcome of every (hardware, N, batch).

    A search reads a few arrays of every point and the rest of a few finalists: what only these
    need (intervals, the guide's speedup) is computed when it is asked for.
    """

    lengths: NDArray[np.int64]
    batches: Floats
    tokens_per_round: Floats
    tokens_per_round_se: Floats
    round_ratio: Floats
    cost_ratio: tuple[Floats, ...] | None
    """Low, mid, high."""
    tpot_s: Floats
    decode_s: Floats
    """A plain step; shape (hardware, 1, batch)."""
    prompt_share_s: Floats
    """What a prompt adds to the steps of others, a token of its answer; shape (hardware, 1, 1)."""
    own_prompt_s: Floats
    """What a request's own prompt takes of a replica's time, a token of its answer; shape
    (hardware, 1, batch)."""
    ttft_s: Floats
    throughput: Floats
    """Output tokens a second of one replica, shape (hardware, N, batch)."""
    fits_memory: Booleans
    within_tpot: Booleans
    within_ttft: Booleans
    memory: MemoryPlan
    request_tokens: Floats
    """Tokens of KV counted for each request (``estimate.kv_room``), those of one more round
    included; shape (N, batch), the latter of length one where requests are all alike."""
    request_bytes: Floats
    """Bytes of them, shape (hardware, N, batch) or (hardware, N, 1)."""
    decode_relative_se: Floats
    """Along the hardware axis."""
    round_model: RoundModel | None
    """None where nothing drafts."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of (hardware, N, batch)."""
        return self.tpot_s.shape

    @property
    def interference_s(self) -> Floats:
        """What prompts of others add to a token; shape (hardware, 1, batch)."""
        return self.prompt_share_s * (self.batches - 1.0)

    @cached_property
    def feasible(self) -> Booleans:
        """Whether memory and limits allow the point."""
        return self.fits_memory & self.within_tpot & self.within_ttft

    @cached_property
    def speedup(self) -> Floats:
        """Tokens a round over the round ratio."""
        result: Floats = self.tokens_per_round[:, None] / self.round_ratio
        return result

    @cached_property
    def baseline_tpot_s(self) -> Floats:
        """Time a token without speculation."""
        return np.broadcast_to(self.decode_s + self.interference_s, self.shape)

    def room_at(self, hardware: Indices, length: Indices) -> tuple[Floats, Floats]:
        """Return the requests that the KV pool holds at some (hardware, N), and tokens of each.

        Below one: the share of a request.
        """
        each = np.broadcast_to(self.request_bytes, (*self.shape[:2], self.request_bytes.shape[2]))[
            hardware, length
        ]
        pool = np.broadcast_to(self.memory.kv_pool_bytes, (*self.shape[:2], 1))[hardware, length]
        tokens = self.request_tokens[length]
        if each.shape[1] == 1:
            return (pool / each)[:, 0], tokens[:, 0]
        # what a batch needs rises with it, so it meets the pool once
        held = [
            float(np.interp(have, need, self.batches, left=have / need[0], right=have / row[-1]))
            for have, need, row in zip(pool[:, 0], each * self.batches, each, strict=True)
        ]
        met = [np.interp(n, self.batches, row) for n, row in zip(held, tokens, strict=True)]
        return np.array(held), np.array(met)

    def guide_at(self, hardware: Indices, length: Indices) -> Floats:
        """Return the guide's formula at some (hardware, N), a row of batches each."""
        if self.cost_ratio is None:
            return np.ones((len(hardware), len(self.batches)))
        cost = np.broadcast_to(self.cost_ratio[1], self.shape)[hardware, length]
        n = self.lengths[length].astype(float)[:, None]
        accepted = (self.tokens_per_round[length][:, None] - 1.0) / n
        return guide_speedup(accepted, n, cost)

    def round_at(self, hardware: Indices, length: Indices) -> RoundRatio:
        """Return ratio and interval of some (hardware, N), a row of batches each."""
        if self.round_model is not None:
            return self.round_model.at(hardware, length)
        nothing = np.zeros((len(hardware), len(self.batches)))
        return RoundRatio(nothing + 1.0, nothing, nothing, {})

    @cached_property
    def _round(self) -> RoundRatio:
        everywhere = np.indices(self.shape[:2]).reshape(2, -1)
        return self.round_at(everywhere[0], everywhere[1])

    @property
    def round_log_down(self) -> Floats:
        """How far the interval of the round ratio reaches down, as a logarithm."""
        return self._round.log_down.reshape(self.shape)

    @property
    def round_log_up(self) -> Floats:
        """How far the interval of the round ratio reaches up, as a logarithm."""
        return self._round.log_up.reshape(self.shape)


def with_tokens(grid: Grid, tokens_per_round: Floats, slo: Slo) -> Grid:
    """Return the grid at other tokens a round: what a round costs stays as it is.

    A request waits for the prompts of others only, but a replica computes all of them: its
    throughput pays for every prompt, one of a request that runs alone included.

    Parameters
    ----------
    tokens_per_round
        Along the N axis.
    slo
        Limits that the new times are held against.
    """
    tpot = grid.decode_s * grid.round_ratio / tokens_per_round[:, None] + grid.interference_s
    return replace(
        grid,
        tokens_per_round=tokens_per_round,
        tpot_s=tpot,
        throughput=grid.batches / (tpot + grid.own_prompt_s),
        within_tpot=within(tpot, slo.tpot_ms),
    )


def within(seconds: Floats, limit_ms: float | None) -> Booleans:
    """Return where a limit is kept; everywhere if there is none."""
    if limit_ms is None:
        return np.ones(seconds.shape, dtype=bool)
    return seconds * MS_PER_S <= limit_ms
