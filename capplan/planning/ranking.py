"""Order and Pareto front."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.planning.candidates import Candidate


def ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates best first: target as asked, dollars a token, latency."""
    return sorted(candidates, key=lambda candidate: candidate.rank_key)


def pareto_front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return those that no other of the same target beats on both dollars a token and TPOT.

    One sweep over the candidates sorted by cost: the front is where latency sets a new minimum.
    """
    front: list[Candidate] = []
    best_tpot: dict[int, float] = {}
    for candidate in ranked(candidates):
        if candidate.tpot_s < best_tpot.get(candidate.target_index, float("inf")):
            best_tpot[candidate.target_index] = candidate.tpot_s
            front.append(candidate)
    return front
