"""Drafts that are themselves drafted: an inner pair serves as the drafter of an outer one.

Experimental: the composition follows from the single-level law, but no published table with the
acceptance of both levels was found, so its error is not known and no plan uses it.
docs/method/multilevel.md
"""

from __future__ import annotations

from dataclasses import dataclass

from capplan.estimate.speculation import round_ratio


@dataclass(frozen=True)
class InnerPair:
    """The pair that drafts: a middle LLM and its own smaller draft.

    Attributes
    ----------
    tokens_per_round
        Emitted by a round of the pair, bonus token included.
    round_s
        Time of such a round: its drafts and the middle LLM's verification.
    """

    tokens_per_round: float
    round_s: float

    @property
    def token_s(self) -> float:
        """Time of one token that the pair drafts for the outer target."""
        return self.round_s / self.tokens_per_round


def drafted_alone(pass_s: float) -> InnerPair:
    """Return a single-level draft as a pair: one token a round, one pass a token."""
    return InnerPair(1.0, pass_s)


def multilevel_speedup(
    tokens_per_round: float,
    num_speculative_tokens: int,
    inner: InnerPair,
    verify_s: float,
    decode_s: float,
    round_overhead_s: float = 0.0,
) -> float:
    """Return the speedup of the outer target over its own decoding.

    Parameters
    ----------
    tokens_per_round
        Of the outer target with N tokens drafted by the pair. Speculation inside the pair is
        lossless, so this is the middle LLM's acceptance, not the small draft's.
    num_speculative_tokens
        N of the outer round.
    inner
        Who drafts them.
    verify_s, decode_s
        Verification and plain decode step of the outer target, same batch and context.
    round_overhead_s
        Of the outer round.

    Notes
    -----
    The inner pair runs about N / tokens rounds for N tokens; that its last round may overshoot
    and is then cut is left out, so the speedup is slightly high for short N.
    """
    ratio = round_ratio(
        num_speculative_tokens, inner.token_s, verify_s, decode_s, round_overhead_s
    )
    return tokens_per_round / float(ratio)


def pays(inner: InnerPair, middle_alone_s: float) -> bool:
    """Say whether drafting the middle LLM's tokens beats letting it write them itself."""
    return inner.token_s < middle_alone_s
