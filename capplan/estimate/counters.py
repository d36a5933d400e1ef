"""What an engine's counters say of acceptance, by definition. No estimate is involved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class AcceptanceCounters:
    """Totals over a run; every count must belong to the same rounds.

    Attributes
    ----------
    rounds
        Target passes that verified a draft, or could have (rounds without a draft count).
    drafted, accepted
        Tokens.
    """

    rounds: float
    drafted: float
    accepted: float

    @classmethod
    def from_output(
        cls, output_tokens: float, drafted: float, accepted: float
    ) -> AcceptanceCounters:
        """Return counters where rounds are not counted: each emits one token of its own."""
        return cls(output_tokens - accepted, drafted, accepted)

    @property
    def acceptance_rate(self) -> float:
        """Accepted over drafted tokens; falls with N."""
        return self.accepted / self.drafted

    @property
    def tokens_per_round(self) -> float:
        """Emitted tokens a round, bonus token included."""
        return 1.0 + self.accepted / self.rounds

    def cut_at_the_end(self, output_tokens: float) -> float:
        """Return the tokens that rounds emitted beyond what was kept.

        The last round of a request yields more than its limit or its end leaves room for. A
        prefill yields a token without a round, which hides one of them a request.
        """
        return self.rounds + self.accepted - output_tokens

    def binomial_half_width(self) -> float:
        """Return 1.96 standard errors of the rate as if drafted tokens were independent.

        They are not, so the true interval is wider; ``ratio_of_sums`` over requests gives it.
        """
        rate = self.acceptance_rate
        return float(1.96 * np.sqrt(rate * (1.0 - rate) / self.drafted))


def tokens_per_round_from_cumulative(cumulative_rates: Sequence[float]) -> float:
    """Return ``1 + sum_i C_i``, C_i the share of rounds that accept positions 1 .. i.

    This is what vLLM's counters by position hold, over the number of drafts.
    """
    return 1.0 + float(sum(cumulative_rates))


def round_ratio_bounds(speedup: float, num_speculative_tokens: int) -> tuple[float, float]:
    """Return what a round may have cost where only speeds were measured.

    Between one token a round (nothing accepted) and N + 1 (all of it), in plain decode steps.
    """
    return 1.0 / speedup, (num_speculative_tokens + 1.0) / speedup
