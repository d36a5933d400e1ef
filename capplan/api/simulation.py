"""Length controllers replayed on the traces of profiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capplan.api.replayed_controllers import CONTROLLERS, Replay, SimulationWishes
from capplan.errors import ProfileError, RequestError
from capplan.estimate.controllers import RoundClock
from capplan.estimate.evidence import ProfileEvidence, evidence_from_profile
from capplan.estimate.framework_tax import framework_tax
from capplan.estimate.length_times import round_times
from capplan.estimate.traced_requests import trace_requests
from capplan.profiles.store import StoredProfile, load_profile
from capplan.schema.pairing import Method
from capplan.schema.schedule import Simulation

Floats = NDArray[np.float64]


def simulate(
    profiles: Sequence[StoredProfile | Path | str] | StoredProfile | Path | str,
    wishes: SimulationWishes | None = None,
) -> Simulation:
    """Replay length controllers on the traced requests of profiles of one pairing.

    Parameters
    ----------
    profiles
        Profiles, or files of them; rounds take the time that the first one measured.
    wishes
        Controllers, load and order.

    Raises
    ------
    ProfileError
        If nothing was traced, or the profiles are of different pairings.
    RequestError
        For a controller that does not exist, or a load that was not measured.
    """
    wishes = wishes or SimulationWishes()
    unknown = [name for name in wishes.controllers if name not in CONTROLLERS]
    if unknown:
        raise RequestError(
            f"There is no controller {unknown[0]!r}.", f"Known: {', '.join(CONTROLLERS)}."
        )
    if isinstance(profiles, StoredProfile | Path | str):
        profiles = (profiles,)
    stored = [p if isinstance(p, StoredProfile) else load_profile(p) for p in profiles]
    evidence = _one_pairing(stored)
    requests = trace_requests(
        [(p.profile, p.arrays) for p in stored], wishes.temperatures, wishes.draft_sampling
    )
    if requests.longest < 1:
        raise ProfileError("The traces hold no drafts.", "Profile a pairing that drafts.")
    clock, words = _clock(stored[0], evidence, wishes)
    replay = Replay(requests, clock, wishes)
    return Simulation(
        profiles=tuple(p.profile.id for p in stored),
        target=evidence.target.id,
        draft=evidence.draft_id,
        method=evidence.method.value,
        temperatures=tuple(sorted(set(requests.temperature.tolist()))),
        requests=requests.count,
        stream=wishes.stream,
        order=wishes.order,
        load=words,
        best_fixed=replay.best,
        controllers=tuple(replay.results()),
        notes=replay.notes(),
    )


def _one_pairing(stored: Sequence[StoredProfile]) -> ProfileEvidence:
    if not stored:
        raise RequestError("No profile was given.", "Name at least one profile file.")
    found = [evidence_from_profile(one.profile, one.arrays) for one in stored]
    pairs = {(one.target.id, one.draft_id, one.method) for one in found}
    if len(pairs) > 1:
        shown = "; ".join(sorted(f"{target} + {draft}" for target, draft, _ in pairs))
        raise ProfileError(
            f"The profiles are of different pairings: {shown}.", "Simulate one at a time."
        )
    if found[0].method is Method.NONE:
        raise ProfileError(
            f"Profile {stored[0].profile.id} has no draft.", "Profile with --draft or --method."
        )
    return found[0]


def _clock(
    stored: StoredProfile, evidence: ProfileEvidence, wishes: SimulationWishes
) -> tuple[RoundClock, str]:
    measured = sorted({cell.batch for cell in stored.profile.timing})
    shares = dict(wishes.load or dict.fromkeys(measured, 1.0))
    if max(shares) > measured[-1]:
        raise RequestError(
            f"The load has {max(shares)} requests at once; the largest batch measured is "
            f"{measured[-1]}.",
            "State a load within it, or measure larger batches: capplan profile --batch B.",
        )
    batches = np.array(sorted(shares))
    load = np.array([shares[int(batch)] for batch in batches])
    lengths = np.arange(max(wishes.max_num_speculative_tokens, wishes.rule.most) + 1)
    rounds = round_times(evidence, batches, lengths, evidence.mean_context)
    tax = np.array([framework_tax(float(batch)).mid for batch in batches])
    words = ", ".join(f"{b} at once {s:.0%}" for b, s in zip(batches, load / load.sum(),
                                                            strict=True))  # fmt: skip
    return RoundClock(batches, load / load.sum(), rounds.round_s, rounds.pass_s, tax), words
