"""What an importer hands over: an observation, and what the file states beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from capplan.schema.observation import Flag, Observation, SpeculationCounts, Spread
from capplan.schema.pairing import Method

PromptText = Literal["", "random tokens", "synthetic text"]


@dataclass(frozen=True)
class Stated:
    """Figures that a file states twice, or in another definition; checks compare them.

    Attributes
    ----------
    requests_sent
        Requests that the client meant to send.
    requests_per_s, prompt_tokens_per_s, total_tokens_per_s, total_tokens
        As printed by the tool.
    mean_prompt_tokens, mean_output_tokens
        A request.
    asked_prompt_tokens
        Length that the tool was told to make prompts of.
    output_tokens_per_s_per_gpu
        As printed by the tool.
    tpot_with_first_s
        Time per output token, the first one included (end to end over tokens).
    gap_s
        Time between two pieces of a stream: one step, or one token, as the tool has it.
    gap_is
        What the tool says of ``gap_s``.
    tokens_per_gap
        Tokens of one piece of a stream, where the tool counted them.
    acceptance_rate, tokens_per_draft_round, position_rates
        As printed; a rate may be a fraction or a percentage.
    latency_unit
        Unit that the latencies were taken to be in; empty where the file names it nowhere.
    rounding
        Half a unit of the last printed digit, for files that print few of them.
    tolerance
        By how much a rate times the duration may miss the count: tools measure them over windows
        that differ at the ends.
    prompt_text
        What the prompts were made of, as far as the file says.
    warmup
        Whether the first requests are among the measured ones.
    merged_runs
        Number of runs that the figures are an average or a union of.
    truncated
        What is missing of the file.
    num_speculative_tokens
        N, where only the mean length of a round is known.
    """

    requests_sent: float | None = None
    requests_per_s: float | None = None
    prompt_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    total_tokens: float | None = None
    mean_prompt_tokens: float | None = None
    mean_output_tokens: float | None = None
    asked_prompt_tokens: float | None = None
    output_tokens_per_s_per_gpu: float | None = None
    tpot_with_first_s: float | None = None
    gap_s: Spread | None = None
    gap_is: Literal["step", "token", "unknown"] = "unknown"
    tokens_per_gap: float | None = None
    acceptance_rate: float | None = None
    tokens_per_draft_round: float | None = None
    position_rates: tuple[float, ...] = ()
    latency_unit: str = "ms"
    unit_is_named: bool = True
    rounding: float = 0.0
    tolerance: float = 0.02
    prompt_text: PromptText = ""
    warmup: Literal["unknown", "excluded", "included"] = "unknown"
    merged_runs: int = 1
    truncated: str = ""
    num_speculative_tokens: int | None = None
    odd: tuple[str, ...] = ()
    flags: tuple[Flag, ...] = ()
    """What the importer itself found."""


@dataclass(frozen=True)
class Known:
    """What the user states; it holds where a file does not say, and over what it says."""

    model: str = ""
    draft: str = ""
    method: Method | None = None
    num_speculative_tokens: int | None = None
    temperature: float | None = None
    gpu: str = ""
    gpu_count: int | None = None


@dataclass(frozen=True)
class Reading:
    """One benchmark or window of a file, not yet checked."""

    observation: Observation
    stated: Stated = field(default_factory=Stated)


def speculation_counts(
    drafts: float | None,
    drafted: float | None,
    accepted: float | None,
    **more: Any,
) -> tuple[SpeculationCounts | None, tuple[Flag, ...]]:
    """Return totals of a window, or why they cannot be true."""
    if drafts is None or drafted is None or accepted is None or not drafts:
        return None, ()
    if accepted > drafted:
        text = f"{accepted:g} tokens accepted of {drafted:g} drafted: more than all"
        return None, (contradiction("accepted_over_drafted", text),)
    counts = SpeculationCounts(drafts=drafts, drafted=drafted, accepted=accepted, **more)
    return counts, ()


def contradiction(check: str, text: str, *uses: str) -> Flag:
    """Return a flag of counts that cannot be true together."""
    return Flag.model_validate(
        {
            "check": check,
            "text": text,
            "remedy": "Take the file again from the tool; it was edited, merged or cut.",
            "unusable_for": uses or ("acceptance",),
        }
    )


def named(mapping: Mapping[str, float | None]) -> dict[str, float]:
    """Return what is known of a mapping."""
    return {key: value for key, value in mapping.items() if value is not None}
