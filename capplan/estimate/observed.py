"""Acceptance from the counters of a served load: what a profile without timing tells a plan.

The first n positions of a round do not know how many follow, so counts by position give every
length up to the N that was run.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from capplan.errors import ProfileInvalidError
from capplan.estimate.curves import SINGLE_SOURCE_RELATIVE_SE
from capplan.estimate.uncertainty import LogEstimate, as_normal, ratio_of_sums
from capplan.schema.observation import Observation, SpeculationCounts
from capplan.schema.pairing import AcceptanceFact, Method
from capplan.schema.profile import Profile
from capplan.schema.provenance import Kind, Source

LOOKUP = frozenset({Method.NGRAM, Method.SUFFIX})
"""Methods without a draft of their own: many of their rounds find nothing to propose."""
CLUSTER_FACTOR = 2.1
"""What a binomial error is widened by where requests were not counted apart: intervals over tokens
covered 64 % (0.92 standard errors), where clustered ones covered 95 % (1.96 of them)."""
_DEFINITION = "engine counters: accepted tokens over rounds, bonus token added"


def only_observed(profile: Profile) -> bool:
    """Return whether a profile holds observations of a served load and no timing of its own."""
    return bool(profile.observations) and not profile.timing


def tokens_per_round(counts: SpeculationCounts) -> LogEstimate:
    """Return emitted tokens a round with an error that knows its rounds are not independent.

    Clustered by request where requests were counted apart; else the binomial error of the
    accepted tokens, widened by ``CLUSTER_FACTOR``.
    """
    mid = counts.tokens_per_round or counts.tokens_per_draft_round or 1.0
    if len(counts.by_request) > 1:
        rounds, accepted = np.array(counts.by_request, dtype=float).T
        _, relative = ratio_of_sums(rounds + accepted, rounds)
        return LogEstimate(mid, relative, degrees=len(counts.by_request) - 1.0)
    rate = counts.acceptance_rate or 0.0
    accepted_se = float(np.sqrt(counts.drafted * rate * (1.0 - rate)))
    rounds_in_all = counts.rounds or counts.drafts
    return LogEstimate(mid, CLUSTER_FACTOR * accepted_se / rounds_in_all / mid)


def observed_acceptance(profile: Profile) -> list[AcceptanceFact]:
    """Return what the observations of a profile tell of acceptance.

    Raises
    ------
    ProfileInvalidError
        If none of them can be used; names the reasons.
    """
    usable = [one for one in profile.observations if not why_not(one, profile)]
    if not usable:
        reasons = {reason for one in profile.observations if (reason := why_not(one, profile))}
        raise ProfileInvalidError(
            f"No observation of profile {profile.id} can be planned with: "
            f"{'; '.join(sorted(reasons))}.",
            "Import results that count accepted tokens, and name the draft with --draft.",
        )
    greedy = [one for one in usable if one.draft_sampling != "probabilistic"]
    return [fact for one in greedy or usable for fact in _facts(one, profile)]


def why_not(one: Observation, profile: Profile) -> str:
    """Return why an observation says nothing of acceptance; empty if it does."""
    if one.speculation is None or not one.speculation.drafts:
        return "no speculation is counted"
    against = [flag.check for flag in one.flags if "acceptance" in flag.unusable_for]
    if against:
        return f"acceptance is flagged ({', '.join(against)})"
    method = _method(one, profile)
    if method is None or not _draft(one, profile):
        return "the draft is not named"
    if _length(one.speculation) is None:
        return "N is not known"
    if method in LOOKUP and one.speculation.rounds is None:
        return "rounds without a draft are not counted, and lookup has many"
    return ""


def _method(one: Observation, profile: Profile) -> Method | None:
    return one.method or (profile.draft.method if profile.draft is not None else None)


def _draft(one: Observation, profile: Profile) -> str:
    if one.draft:
        return one.draft
    if profile.draft is None:
        return ""
    if profile.draft.method is Method.DRAFT_MODEL:
        return profile.draft.llm.spec.id
    return "ngram" if profile.draft.method is Method.NGRAM else profile.draft.id


def _length(counts: SpeculationCounts) -> int | None:
    return counts.num_speculative_tokens or len(counts.accepted_per_position) or None


def _facts(one: Observation, profile: Profile) -> Iterator[AcceptanceFact]:
    counts, method = one.speculation, _method(one, profile)
    assert counts is not None, "chosen for its counts"
    assert method is not None, "chosen for its draft"
    n = _length(counts)
    assert n is not None, "chosen for its length"
    rounds = counts.rounds or counts.drafts
    positions = counts.accepted_per_position
    by_length = (
        {length: sum(positions[:length]) for length in range(1, len(positions) + 1)}
        if positions
        else {n: counts.accepted}
    )
    known = tokens_per_round(counts)
    relative = as_normal(known.log_sd, known.degrees)
    for length, accepted in by_length.items():
        yield AcceptanceFact(
            target=profile.target.spec.id,
            draft=_draft(one, profile),
            method=method,
            task=one.load.dataset or "observed traffic",
            temperature=one.load.temperature,
            num_speculative_tokens=length,
            tokens_per_round=min(1.0 + accepted / rounds, length + 1.0),
            definition=_DEFINITION,
            setting=_setting(one),
            draft_sampling=one.draft_sampling,
            relative_se=max(relative, SINGLE_SOURCE_RELATIVE_SE) if np.isfinite(relative) else 1.0,
            source=Source(
                kind=Kind.MEASURED,
                reference=f"profile {profile.id}, {one.source}",
                date=profile.created_at[:10],
            ),
        )


def _setting(one: Observation) -> str:
    engine = " ".join(text for text in (one.engine, one.engine_version) if text)
    sampling = f"{one.draft_sampling} drafts" if one.draft_sampling else ""
    return ", ".join(text for text in (engine, one.gpu, sampling) if text)
