"""Length schedules: a profile or a plan in, (batch range, N) and what they gain out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capplan.api.schedule_loads import ScheduleWishes, asked_load
from capplan.api.schedule_of_plan import schedule_of_plan
from capplan.api.schedule_values import Context, Scheduled, schedule_value
from capplan.errors import CapplanError, ProfileError, RequestError
from capplan.estimate.acceptance import MAX_NUM_SPECULATIVE_TOKENS
from capplan.estimate.adaptive import plan_lengths, stated_load
from capplan.estimate.cuda_graphs import captured_tokens
from capplan.estimate.evidence import ProfileEvidence, evidence_from_profile
from capplan.estimate.length_spread import gain_interval
from capplan.estimate.length_times import nearest_traces, profile_draws, round_times, token_times
from capplan.planning.part_plans import asked_plan
from capplan.profiles.calibration_file import StoredCalibration
from capplan.profiles.store import StoredProfile, load_profile
from capplan.reporting.plan_file import load_plan
from capplan.schema.cells import Phase
from capplan.schema.pairing import Method
from capplan.schema.plan import Plan
from capplan.schema.schedule import LengthSchedule

Floats = NDArray[np.float64]

_SEED = 0
_MEASURE = "Measure it: capplan profile TARGET --draft DRAFT -o p.json"
DEFAULT_LONGEST = 8


def schedule(
    source: StoredProfile | Plan | Path | str,
    wishes: ScheduleWishes | None = None,
    *,
    rank: int | None = None,
    service: str | None = None,
    profiles: Sequence[StoredProfile] = (),
    calibrations: Sequence[StoredCalibration] = (),
) -> LengthSchedule:
    """Return draft lengths by batch for vLLM, and by how much they beat the best single one.

    Parameters
    ----------
    source
        A profile, or a plan (a file of either).
    wishes
        Load, traffic and limits.
    rank
        Which option of a plan, 1 for the recommended one; the first that speculates by default.
    service
        Of a plan of several services: which one's replicas.
    profiles, calibrations
        What the plan was made with.

    Raises
    ------
    RequestError
        If nothing is drafted, or the load lies beyond what was measured or fits.
    ProfileError
        If a profile has no acceptance, or judged itself invalid.
    """
    wishes = wishes or ScheduleWishes()
    found = source if isinstance(source, StoredProfile | Plan) else read_source(source)
    if isinstance(found, StoredProfile):
        check_of_profile(rank, service)
        return _of_profile(found, wishes)
    plan, rank = asked_plan(found, service, rank)
    return schedule_of_plan(plan, wishes, rank, profiles, calibrations)


def check_of_profile(rank: int | None, service: str | None) -> None:
    """Refuse what only a plan has.

    Raises
    ------
    RequestError
        If an option or a service is named.
    """
    if rank is not None:
        raise RequestError("A profile has no options to rank.", "Leave --option out.")
    if service is not None:
        raise RequestError("A profile is of no service.", "Leave --service out.")


def read_source(path: Path | str) -> StoredProfile | Plan:
    """Read a plan or a profile, whichever the file holds."""
    try:
        return load_plan(path)
    except CapplanError as not_a_plan:
        try:
            return load_profile(path)
        except CapplanError as not_a_profile:
            is_profile = "is a profile" in not_a_plan.message
            raise (not_a_profile if is_profile else not_a_plan) from None


# ---- profile


def _of_profile(stored: StoredProfile, wishes: ScheduleWishes) -> LengthSchedule:
    evidence = evidence_from_profile(stored.profile, stored.arrays)
    if evidence.method is Method.NONE:
        raise ProfileError(f"Profile {stored.profile.id} has no draft.", _MEASURE)
    measured = sorted({cell.batch for cell in stored.profile.timing})
    load, words = _profile_load(wishes, measured)
    contexts = wishes.contexts or (round(evidence.mean_context),)
    parts = [_profile_parts(evidence, wishes, load, context) for context in contexts]
    return schedule_value(
        parts[0],
        [Context(context, part.plan) for context, part in zip(contexts, parts, strict=True)],
        load_words=words,
        origin=f"profile {stored.profile.id}",
        pairing=(evidence.target.id, evidence.draft_id, evidence.method),
        data_parallel=1,
    )


def _profile_load(wishes: ScheduleWishes, measured: Sequence[int]) -> tuple[Floats, str]:
    largest = measured[-1]
    if wishes.load is None and wishes.mean_batch is None:
        load = stated_load(dict.fromkeys(measured, 1.0), largest)
        return load, "the batches measured, each for the same share of time (state yours: --load)"
    return asked_load(wishes, largest, "the largest batch measured")


def _profile_parts(
    evidence: ProfileEvidence, wishes: ScheduleWishes, load: Floats, context: int
) -> Scheduled:
    temperature = wishes.temperature
    if temperature is None:
        temperature = min((t.temperature for t in evidence.traces), default=0.0)
    curve = evidence.curve(temperature, wishes.task)
    if curve is None:
        raise ProfileError(
            f"Profile {evidence.profile.id} traced no acceptance: its schedule is not known.",
            "Profile with real weights and prompts: capplan profile TARGET --draft DRAFT.",
        )
    longest = wishes.max_num_speculative_tokens or DEFAULT_LONGEST
    lengths = np.arange(min(longest, MAX_NUM_SPECULATIVE_TOKENS) + 1)
    captured = wishes.captured or _captured(evidence, len(load), int(lengths[-1]))
    batches = np.arange(1, len(load) + 1)
    rounds = round_times(evidence, batches, lengths, float(context), curve, captured)
    times = token_times(rounds, curve)
    plan = plan_lengths(times, load, wishes.merge_loss)
    traces = nearest_traces(evidence, temperature, wishes.task)
    draws = profile_draws(evidence, traces, curve, lengths, _SEED)
    gain = gain_interval(times, plan, load, draws)
    return Scheduled(times, plan, load, gain, context, captured)


def _captured(evidence: ProfileEvidence, largest: int, longest: int) -> int | None:
    """Return vLLM's default on the profiled GPU; an engine's own rounds hold the edge already."""
    profile = evidence.profile
    on_gpu = profile.environment.device.kind == "cuda"
    if not on_gpu or any(cell.phase is Phase.ROUND for cell in profile.timing):
        return None
    return captured_tokens(largest, longest)
