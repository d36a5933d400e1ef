"""A profile as text: what was measured, and actual beside projected speedup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from capplan.errors import CapplanError
from capplan.estimate.evidence import evidence_from_profile
from capplan.reporting.appendix import short_lines
from capplan.reporting.profile_rounds import acceptance_lines, round_lines
from capplan.reporting.profile_steps import step_lines
from capplan.schema.audit import GuidePoint
from capplan.schema.measured_setup import Draft
from capplan.schema.pairing import Method
from capplan.schema.profile import Profile
from capplan.units import BYTES_PER_GB


def render_profile(
    profile: Profile,
    arrays: Mapping[str, NDArray[np.generic]],
    checklist: Sequence[GuidePoint] = (),
) -> str:
    """Return the summary that ``capplan profile`` prints; recomputed from raw values."""
    lines = [*_heading(profile)]
    try:
        evidence = evidence_from_profile(profile, arrays)
    except CapplanError as error:
        lines += ["", str(error)]
        return "\n".join([*lines, *_closing(profile)]) + "\n"
    lines += [*step_lines(evidence), *acceptance_lines(evidence), *round_lines(evidence)]
    lines += ["", *short_lines(checklist)] if checklist else []
    lines += _closing(profile)
    return "\n".join(lines) + "\n"


def draft_name(draft: Draft) -> str:
    """Return what drafts: an id, or how the lookup looks."""
    if draft.method is Method.DRAFT_MODEL:
        return draft.llm.spec.id
    if draft.method is Method.NGRAM:
        return f"n-gram lookup {draft.prompt_lookup_min}-{draft.prompt_lookup_max}"
    return f"{draft.id} ({draft.method.value})"


def _heading(profile: Profile) -> Iterator[str]:
    device, target = profile.environment.device, profile.target
    draft = profile.draft
    drafted = "no draft" if draft is None else draft_name(draft)
    yield f"Profile {profile.id}: {target.spec.id} ({target.dtype}) with {drafted}"
    yield f"  on {device.count} x {device.name}, {profile.backend.name} {profile.backend.version}"
    for record in profile.memory:
        yield (
            f"  {record.role.value}: weights {record.weight_bytes / BYTES_PER_GB:.2f} GB, "
            f"KV {record.kv_bytes_per_token:,.0f} bytes a token"
        )


def _closing(profile: Profile) -> Iterator[str]:
    yield ""
    yield f"Verdict: {profile.verdict.stability.value}"
    for reason in profile.verdict.reasons:
        yield f"  {reason.check}: {reason.value:.3g} (limit {reason.threshold:g}). {reason.remedy}"
    yield from _not_measured(profile)


_NAMED_SKIPS = 3


def _not_measured(profile: Profile) -> Iterator[str]:
    """Group what was left out by reason: a budget that ran out leaves dozens of like cells."""
    by_reason: dict[str, list[str]] = {}
    for skipped in profile.skipped:
        # a budget's reason goes on with the seconds each cell would have needed
        by_reason.setdefault(skipped.reason.partition(":")[0], []).append(skipped.what)
    for reason, left_out in by_reason.items():
        named = "; ".join(left_out[:_NAMED_SKIPS])
        more = len(left_out) - _NAMED_SKIPS
        others = f" and {more} more" if more > 0 else ""
        yield f"  not measured ({reason}): {named}{others}"
    if not profile.complete:
        yield "  Go on with the same command and --resume."
