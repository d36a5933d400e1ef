"""Tokens a round at the longest measured length, from the shorter ones of the same text."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.estimate.lengths import extrapolate_length, pooled_fall
from capplan.validation.rows import PublishedRows
from capplan.validation.runs import length_series
from capplan.validation.scoring import Scored

_LENGTHS_GIVEN = 2
"""First acceptance and fall need two lengths; ``forward`` covers one."""


def predict(rows: PublishedRows) -> Sequence[Scored]:
    """Predict the longest length of every text from at least two shorter ones.

    The fall of acceptance with the length is shrunk towards the mean of the same method in the
    same source, of which too only lengths below the predicted one are used.
    """
    scored = []
    everything = length_series(rows)
    for key, series in everything.items():
        if len(series.lengths) <= _LENGTHS_GIVEN:
            continue
        wanted = series.lengths[-1]
        alike = [
            other.up_to(wanted)
            for name, other in everything.items()
            if name != key and (name.source, name.method) == (key.source, key.method)
        ]
        found = extrapolate_length(series.up_to(wanted), wanted, pooled_fall(alike))
        low, high = found.interval_90()
        scored.append(
            Scored(
                source=key.source,
                measured=series.tokens_per_round[-1],
                predicted=found.mid,
                low=low,
                high=high,
                is_speedup=False,
                label=f"N={wanted}, {_words((*key.pair, key.method, *key.text))}",
            )
        )
    return scored


def _words(parts: Sequence[object]) -> str:
    return ", ".join(str(part) for part in parts if part not in (None, ""))
