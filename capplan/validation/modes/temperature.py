"""Tokens a round at one temperature from those at another; the scored source is left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from capplan.estimate.acceptance import tokens_per_round_iid
from capplan.estimate.temperature import (
    KEPT,
    KEPT_SOURCES,
    Drafter,
    KeptShare,
    predict_kept_share,
    transfer_temperature,
)
from capplan.estimate.uncertainty import LogEstimate, student_quantile_95
from capplan.validation.rows import AcceptanceRow, PublishedRows, SpeedupRow, ThroughputRow
from capplan.validation.runs import Key
from capplan.validation.scoring import Scored

_ALPHA_LENGTH = 5
"""N at which a source that states acceptance a token is compared."""
_LEAST_ACCEPTED = 0.3
"""Tokens accepted a round below which a share is mostly rounding."""
_LLM_METHODS = ("draft model", "sps", "pld", "lookup", "n-gram", "ngram", "rest")

Family = SpeedupRow | ThroughputRow | AcceptanceRow


@dataclass(frozen=True)
class TextByTemperature:
    """A pair on one text at one length, measured at two temperatures or more."""

    source: str
    pair: tuple[str, ...]
    drafter: Drafter
    label: str
    by_temperature: Mapping[float, float]

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest temperature."""
        return min(self.by_temperature), max(self.by_temperature)

    @property
    def kept(self) -> KeptShare:
        """What is left, brought to one unit of temperature."""
        cold, hot = self.ends
        share = (self.by_temperature[hot] - 1.0) / (self.by_temperature[cold] - 1.0)
        fall = (1.0 - share) / (hot - cold * share)
        return KeptShare(self.source, self.pair, self.drafter, 1.0 - fall)


def predict(rows: PublishedRows) -> Sequence[Scored]:
    """Predict the highest temperature of each text from the lowest one and other sources."""
    texts = usable_texts(rows)
    scored = []
    for text in texts:
        given = [other.kept for other in texts if other.source != text.source]
        if given:
            kept = predict_kept_share(given, text.source, text.pair, text.drafter)
            scored.append(_scored(text, kept))
        elif text.source not in KEPT_SOURCES:  # alone in its folder: the shipped constants
            scored.append(_scored(text, KEPT[text.drafter]))
    return scored


def _scored(text: TextByTemperature, kept: LogEstimate) -> Scored:
    cold, hot = text.ends
    moved = transfer_temperature(np.array([text.by_temperature[cold]]), cold, hot, kept)
    mid = float(moved.tokens_per_round[0])
    reach = np.exp(student_quantile_95(kept.degrees) * float(moved.relative_se[0]))
    return Scored(
        source=text.source,
        measured=text.by_temperature[hot],
        predicted=mid,
        low=mid / reach,
        high=mid * reach,
        is_speedup=False,
        label=f"{text.label}, T={cold:g} to {hot:g}",
    )


def usable_texts(rows: PublishedRows) -> list[TextByTemperature]:
    """Return the texts that were measured at two temperatures and accept enough to compare."""
    return [text for text in _texts(rows) if _is_usable(text)]


def _is_usable(text: TextByTemperature) -> bool:
    cold, hot = text.ends
    return hot > cold and text.by_temperature[cold] - 1.0 >= _LEAST_ACCEPTED


def _texts(rows: PublishedRows) -> list[TextByTemperature]:
    """Group rows that differ in the temperature alone; what two files or papers repeat is one."""
    values: defaultdict[Key, dict[float, float]] = defaultdict(dict)
    first_source: dict[Key, str] = {}
    for row in _rows(rows):
        tokens = _tokens(row)
        if tokens is None or row.temperature is None:
            continue
        key = (row.target, row.draft, row.method, row.task, row.N, row.verify_tokens)
        copy = (*key[:2], _family(row.method), *key[3:], row.temperature, tokens)
        if first_source.setdefault(copy, row.source_key) == row.source_key:
            values[row.source_key, *key].setdefault(row.temperature, tokens)
    return [
        TextByTemperature(
            source=str(key[0]),
            pair=(str(key[1]), str(key[2]), str(key[3])),
            drafter=_drafter(str(key[3])),
            label=", ".join(str(part) for part in key[1:5]),
            by_temperature=found,
        )
        for key, found in values.items()
        if len(found) > 1
    ]


def _rows(rows: PublishedRows) -> Iterator[Family]:
    for family in (rows.speedup, rows.throughput, rows.acceptance):
        yield from family


def _family(method: str) -> str:
    """Return the method's first word: the same run is an EAGLE tree here and EAGLE there."""
    return method.split()[0] if method.split() else ""


def _tokens(row: Family) -> float | None:
    if row.tau is not None and row.tau >= 1.0:
        return row.tau
    # speedup.csv repeats the acceptance that acceptance.csv lists by temperature
    alpha = row.alpha if isinstance(row, AcceptanceRow) else None
    if alpha is None or not 0.0 <= alpha <= 1.0:
        return None
    return float(tokens_per_round_iid(alpha, _ALPHA_LENGTH))


def _drafter(method: str) -> Drafter:
    return Drafter.LLM if method.casefold().startswith(_LLM_METHODS) else Drafter.HEAD
