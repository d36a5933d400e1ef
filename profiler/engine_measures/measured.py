"""Which points of an engine's plan a profile holds."""

from __future__ import annotations

from capplan.schema.cells import Phase
from capplan.schema.profile import Profile
from profiler.engine_cells import ALL_TASKS
from profiler.engine_plan import EnginePoint, PrefillPoint, StepsPoint, SyntheticPoint, TextPoint


def measured_points(profile: Profile) -> set[EnginePoint]:
    """Return the points that a profile holds."""
    points: set[EnginePoint] = set()
    for timing in profile.timing:
        if timing.phase is Phase.PREFILL:
            points.add(PrefillPoint(timing.tokens_per_sequence))
        else:
            points.add(StepsPoint(timing.tokens_per_sequence - 1, timing.batch, timing.context))
    run = {
        (c.num_speculative_tokens, c.draft_sampling, c.temperature)
        for c in profile.rounds
        if c.task == ALL_TASKS
    }
    points |= {
        TextPoint(c.num_speculative_tokens, c.draft_sampling, c.temperature)
        for c in profile.losslessness
        if (c.num_speculative_tokens, c.draft_sampling, c.temperature) in run
    }
    points |= {
        SyntheticPoint(c.num_speculative_tokens, float(c.task.split()[1]))
        for c in profile.rounds
        if c.task.startswith("synthetic ")
    }
    return points
