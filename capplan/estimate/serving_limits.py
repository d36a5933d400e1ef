"""How a serving engine was started, as far as its scheduler goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capplan.errors import RequestError
from capplan.estimate.serving_acceptance import AcceptedLengths
from capplan.estimate.serving_traffic import Traffic


@dataclass(frozen=True)
class EngineLimits:
    """How the engine was started.

    Attributes
    ----------
    max_num_seqs, max_num_batched_tokens
        Sequences at a time; tokens of a step.
    kv_tokens, block_tokens
        Tokens that the KV pool holds, and tokens of one of its blocks.
    num_speculative_tokens
        N, or N by batch: entry b holds for b sequences that decode, the last one beyond.
    first_token_overhead_s
        Of every request outside the engine's steps (connection, tokenisation): added to its
        first and last token, occupies nothing.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    kv_tokens: int
    block_tokens: int = 16
    num_speculative_tokens: int | Sequence[int] = 0
    first_token_overhead_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse an engine that cannot run."""
        for name in ("max_num_seqs", "max_num_batched_tokens", "kv_tokens", "block_tokens"):
            if getattr(self, name) < 1:
                raise RequestError(
                    f"{name} is {getattr(self, name)}; expected 1 or more.", "Raise it."
                )
        if self.longest + 1 > self.max_num_batched_tokens:
            raise RequestError(
                f"A step of {self.max_num_batched_tokens} tokens cannot verify "
                f"{self.longest} drafts.",
                "Raise max_num_batched_tokens, or draft fewer.",
            )

    @property
    def longest(self) -> int:
        """Largest N."""
        n = self.num_speculative_tokens
        return int(n) if isinstance(n, int) else int(max(n))

    def lengths(self) -> list[int]:
        """Return N by batch, entry 0 .. ``max_num_seqs``."""
        n = self.num_speculative_tokens
        if isinstance(n, int):
            return [n] * (self.max_num_seqs + 1)
        stated = [int(one) for one in n]
        return [stated[min(b, len(stated) - 1)] for b in range(self.max_num_seqs + 1)]


def check_load(traffic: Traffic, limits: EngineLimits, accepted: AcceptedLengths) -> None:
    """Refuse a load that the engine could never serve.

    Raises
    ------
    RequestError
        If a request cannot fit the pool by itself, or acceptance at a length is unknown.
    """
    if limits.longest > accepted.longest:
        raise RequestError(
            f"{limits.longest} drafts a round are asked for; acceptance is known up to "
            f"{accepted.longest}.",
            "Draft fewer, or trace acceptance at that length.",
        )
    longest = int((traffic.prompt_tokens + traffic.output_tokens).max()) + limits.longest + 1
    blocks = limits.kv_tokens // limits.block_tokens
    if -(-longest // limits.block_tokens) > blocks:
        raise RequestError(
            f"A request of {longest} tokens (drafts included) does not fit a KV pool of "
            f"{limits.kv_tokens} tokens by itself.",
            "Give the engine more memory, or shorten the requests.",
        )
