"""Steps and tokens: what the gap between two pieces of a stream is, found by TPOT and rounds."""

from __future__ import annotations

from capplan.profiles.importers.reading import Reading
from capplan.schema.observation import Flag, Spread, Use

_SAME, _NEAR = 0.25, 0.2
_LONGEST_ROUND = 17.0
"""N of 16 and the bonus token."""
_STEP: tuple[Use, ...] = ("step_time",)


def step_of(reading: Reading) -> tuple[Spread | None, tuple[Flag, ...]]:
    """Return the time of a step, and what stands against it.

    The mean gap over TPOT is the number of tokens that come together. It must be the tokens of a
    round (the gap is a step) or one (the gap is a token's share).
    """
    o, s = reading.observation, reading.stated
    if s.tokens_per_gap is not None and not 1 <= s.tokens_per_gap <= _LONGEST_ROUND:
        return None, (_impossible(s.tokens_per_gap),)
    if o.step_s is not None or s.gap_s is None:
        return o.step_s, ()
    together = tokens_together(reading)
    if together is None:
        return None, ()
    if not 1 - 2 * _NEAR <= together <= _LONGEST_ROUND:
        return None, (_impossible(together),)
    one = abs(together - 1) <= _NEAR
    tau = _tokens_per_round(reading)
    if tau is None:
        return (s.gap_s, ()) if one else (None, (_unexplained(together),))
    if s.gap_is != "token" and abs(together / tau - 1) <= _SAME:
        return s.gap_s, ()
    if one:
        return None, (_per_token(tau),) if s.gap_is == "step" else ()
    return None, (_another(together, tau),)


def tokens_together(reading: Reading) -> float | None:
    """Return the mean gap over the mean TPOT (medians where no means are printed)."""
    o, s = reading.observation, reading.stated
    if o.tpot_s is None or s.gap_s is None:
        return None
    for name in ("mean", "p50"):
        gap, tpot = getattr(s.gap_s, name), getattr(o.tpot_s, name)
        if gap is not None and tpot:
            return float(gap / tpot)
    return None


def _tokens_per_round(reading: Reading) -> float | None:
    counts = reading.observation.speculation
    if counts is None:
        return reading.stated.tokens_per_draft_round
    return counts.tokens_per_round or counts.tokens_per_draft_round


def _impossible(together: float) -> Flag:
    return Flag(
        check="gap_over_tpot",
        text=f"the gap between pieces of a stream is {together:.3g} times TPOT; it is between one "
        "token and a round of them",
        remedy="One of the two is in another unit, or of another run.",
        unusable_for=("latency", "step_time"),
    )


def _unexplained(together: float) -> Flag:
    return Flag(
        check="several_tokens_together",
        text=f"{together:.2f} tokens arrive together, and no speculation is counted: it is on and "
        "not in the file, or the stream is sent in chunks",
        remedy="Save /metrics before and after the run, and give both files too.",
        unusable_for=_STEP,
    )


def _per_token(tau: float) -> Flag:
    return Flag(
        check="gap_is_a_token",
        text=f"the gap between pieces equals TPOT while a round yields {tau:.2f} tokens: the "
        "client divides it, so the time of a step is not in the file",
        remedy="Read the step from the engine's own histogram of inter-token latency.",
    )


def _another(together: float, tau: float) -> Flag:
    return Flag(
        check="gap_over_tpot",
        text=f"{together:.2f} tokens arrive together, a round yields {tau:.2f}",
        remedy="The counters cover other traffic than the latencies, or chunks are merged.",
        unusable_for=_STEP,
    )
