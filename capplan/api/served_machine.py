"""A machine as the serving simulation takes it; here from a profile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capplan.errors import ProfileError
from capplan.estimate.evidence import ProfileEvidence, evidence_from_profile
from capplan.estimate.length_times import round_times
from capplan.estimate.request_lengths import RequestKind
from capplan.estimate.serving_acceptance import AcceptedLengths
from capplan.estimate.serving_clocks import StepClock
from capplan.estimate.serving_profile import profile_acceptance, profile_clock
from capplan.profiles.store import StoredProfile
from capplan.schema.pairing import Method

_PROFILED_BATCHED_TOKENS = {"cpu": 2048, "cuda": 8192}
"""What ``capplan profile`` starts an engine with."""


@dataclass(frozen=True)
class Machine:
    """What is simulated, and what it rests on.

    Attributes
    ----------
    clock
        Knows N = 0 and every N of ``accepted`` that was asked for.
    max_num_seqs, max_num_batched_tokens, kv_tokens
        Of one replica; ``kv_tokens`` None where nothing says how large its pool is.
    prompt_tokens, output_tokens
        Mean lengths that its source was made with.
    requests_per_s
        Load that it was planned for, at all replicas; None for a profile.
    prefix_hit_share
        Share of every prompt that a prefix cache holds, as it was planned with.
    kinds
        What the lengths of requests are drawn from; empty where only the means are known.
    longest_request
        Tokens of the longest request that its engine is launched for; None where nothing says.
    """

    origin: str
    target: str
    draft: str
    method: Method
    clock: StepClock
    accepted: AcceptedLengths
    num_speculative_tokens: int
    replicas: int
    max_num_seqs: int
    max_num_batched_tokens: int
    kv_tokens: int | None
    prompt_tokens: int
    output_tokens: int
    first_token_overhead_s: float
    requests_per_s: float | None
    notes: tuple[str, ...]
    prefix_hit_share: float = 0.0
    kinds: tuple[RequestKind, ...] = ()
    longest_request: int | None = None


@dataclass(frozen=True)
class MachineWishes:
    """What is asked of a machine; None takes its own.

    Attributes
    ----------
    lengths
        N that are asked; empty takes the source's own.
    longest_request
        Tokens of the longest request, prompt and answer.
    """

    temperature: float | None = None
    task: str | None = None
    lengths: tuple[int, ...] = ()
    max_num_seqs: int | None = None
    longest_request: int | None = None
    prefix_hit_share: float | None = None


def machine_of_profile(stored: StoredProfile, wishes: MachineWishes) -> Machine:
    """Return the profiled machine.

    Raises
    ------
    ProfileError
        If drafts are asked for and their acceptance was not traced.
    ProfileInvalidError
        If the profile judged itself invalid.
    """
    profile = stored.profile
    evidence = evidence_from_profile(profile, stored.arrays)
    temperature = wishes.temperature
    if temperature is None:
        temperature = min((trace.temperature for trace in evidence.traces), default=0.0)
    measured = max(cell.batch for cell in profile.timing)
    max_num_seqs = wishes.max_num_seqs or measured
    lengths = wishes.lengths or (_best_length(evidence, temperature, wishes.task, measured),)
    accepted = profile_acceptance(evidence, temperature, wishes.task, max(lengths))
    if accepted is None:
        raise ProfileError(
            f"Profile {profile.id} traced no acceptance: what drafts would give is not known.",
            "Simulate --length 0, or profile with real weights: capplan profile TARGET --draft D.",
        )
    prompt, output = _traced_lengths(evidence)
    longest = wishes.longest_request or prompt + output
    clock = profile_clock(
        evidence,
        max_batch=max_num_seqs,
        lengths=lengths,
        longest_context=longest,
        curve=evidence.curve(temperature, wishes.task) if max(lengths) else None,
    )
    return Machine(
        origin=f"profile {profile.id}",
        target=evidence.target.id,
        draft=evidence.draft_id,
        method=evidence.method,
        clock=clock,
        accepted=accepted,
        num_speculative_tokens=max(lengths),
        replicas=1,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=_PROFILED_BATCHED_TOKENS[
            "cuda" if profile.environment.device.kind == "cuda" else "cpu"
        ],
        kv_tokens=None,
        prompt_tokens=prompt,
        output_tokens=output,
        first_token_overhead_s=0.0,
        requests_per_s=None,
        notes=_profile_notes(max_num_seqs, measured),
    )


def _profile_notes(max_num_seqs: int, measured: int) -> tuple[str, ...]:
    if max_num_seqs <= measured:
        return ()
    return (f"Batches above {measured} were not measured: their step times carry the fit on.",)


def _traced_lengths(evidence: ProfileEvidence) -> tuple[int, int]:
    """Return mean prompt and answer of what was traced, or the context that was timed."""
    cells = evidence.profile.acceptance
    requests = sum(cell.requests for cell in cells)
    if not requests:
        return max(max(cell.context for cell in evidence.profile.timing), 1), 2
    prompts = sum(cell.prompt_tokens for cell in cells) / requests
    answers = sum(cell.generated_tokens for cell in cells) / requests
    return max(round(prompts), 1), max(round(answers), 2)


def _best_length(
    evidence: ProfileEvidence, temperature: float, task: str | None, largest: int
) -> int:
    """Return the single N that is fastest with half of the places taken; 0 without drafts."""
    curve = evidence.curve(temperature, task)
    if evidence.method is Method.NONE or curve is None:
        return 0
    ran = max((cell.num_speculative_tokens for cell in evidence.profile.rounds), default=8)
    lengths = np.arange(ran + 1)
    batch = np.array([max(1, largest // 2)])
    rounds = round_times(evidence, batch, lengths, evidence.mean_context, curve)
    return int(np.argmin(rounds.round_s[0] / curve.tokens_per_round[lengths]))
