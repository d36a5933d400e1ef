"""What a profile of a borrowed device shows: pure functions from a profile to JSON values."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import Any

import numpy as np

from capplan.errors import ProfileError
from capplan.estimate.calibration import fit_step_time
from capplan.facts.catalog import load_catalog
from capplan.facts.gpu_names import gpu_id_from_device_name
from capplan.schema.cells import Phase, Role
from capplan.schema.measured_setup import ModelDraft
from capplan.schema.profile import Profile

DECODE_TARGET = 1.35
"""A bf16 decode step of an 8B LLM at batch 1 takes at most this many times bytes/bandwidth."""
READ_ONCE_BELOW, READ_EACH_ABOVE = 0.25, 0.75
BYTES_PER_BF16 = 2


def findings(profile: Profile, *, tied_embeddings: bool) -> dict[str, Any]:
    """Return everything below for one profile."""
    return {
        "device": profile.environment.device.name,
        "backend": f"{profile.backend.name} {profile.backend.version}",
        "complete": profile.complete,
        "verdict": profile.verdict.stability.value,
        "reasons": [f"{r.check} {r.value:g} ({r.remedy})" for r in profile.verdict.reasons],
        "timing_cells": len(profile.timing),
        "cells_in_cuda_graphs": sum(cell.cuda_graph for cell in profile.timing),
        "skipped": [f"{s.what}: {s.reason}" for s in profile.skipped],
        "decode": decode_against_bandwidth(profile, tied_embeddings=tied_embeddings),
        "context_reads": context_reads(profile),
        "cost_ratio": cost_ratios(profile),
        "verify_over_decode": verify_ratios(profile),
        "power": power(profile),
        "fit_held_out_error": {role.value: held_out(profile, role) for role in Role},
    }


def medians(profile: Profile, role: Role) -> dict[tuple[int, int, int], float]:
    """Return median seconds by (batch, tokens a sequence, context), prefill left out."""
    return {
        (cell.batch, cell.tokens_per_sequence, cell.context): median(cell.seconds)
        for cell in profile.timing
        if cell.role is role and cell.phase is not Phase.PREFILL
    }


def decode_against_bandwidth(profile: Profile, *, tied_embeddings: bool) -> dict[str, Any] | None:
    """Compare a decode step at batch 1 with the bytes it must read over the memory's peak.

    The input embedding is a lookup of one row: its table is not counted where the output
    projection has one of its own. The context's KV cache is.
    """
    steps = {key: s for key, s in medians(profile, Role.TARGET).items() if key[:2] == (1, 1)}
    if not steps:
        return None
    (_, _, context), seconds = min(steps.items())
    spec = profile.target.spec
    table = 0 if tied_embeddings else spec.vocab_size * spec.hidden * BYTES_PER_BF16
    read = spec.weight_bytes_active - table + (spec.kv_bytes_per_token or 0.0) * context
    peak = peak_bytes_per_s(profile)
    return {
        "context": context,
        "seconds": seconds,
        "bytes_read": read,
        "bytes_per_s_reached": read / seconds,
        "bytes_per_s_peak": peak,
        "times_the_limit": None if peak is None else seconds * peak / read,
        "wanted_at_most": DECODE_TARGET,
    }


def peak_bytes_per_s(profile: Profile) -> float | None:
    """Return the data sheet's bandwidth of exactly this device, if the catalogue knows it."""
    gpu_id = gpu_id_from_device_name(profile.environment.device.name)
    return None if gpu_id is None else load_catalog().gpu(gpu_id).memory_bytes_per_s


def context_reads(profile: Profile) -> dict[str, Any] | None:
    """Tell how often a verification pass reads the context's KV cache.

    The slope of the time over the context is what reading one more cached token costs. At q
    tokens a pass it is ``slope(1) * (1 + mu * (q - 1))``: mu = 0 reads the context once a pass,
    mu = 1 once a verified token. mu is fitted by least squares over all batches and q.
    """
    slopes = context_slopes(profile)
    pairs = [
        (slopes[batch, 1], slope, batch, tokens)
        for (batch, tokens), slope in slopes.items()
        if tokens > 1 and slopes.get((batch, 1), 0.0) > 0
    ]
    if not pairs:
        return None
    once, slope, batches, tokens = (
        np.array(column, dtype=float) for column in zip(*pairs, strict=True)
    )
    extra = once * (tokens - 1)
    mu = float((extra * (slope - once)).sum() / (extra**2).sum())
    multiplicity: dict[int, list[float]] = defaultdict(list)
    for m, q in zip(slope / once, tokens, strict=True):
        multiplicity[int(q)].append(float(m))
    return {
        "mu": mu,
        "answer": _answer(mu),
        "multiplicity_by_tokens": {q: median(values) for q, values in multiplicity.items()},
        "batches": sorted({int(b) for b in batches}),
    }


def _answer(mu: float) -> str:
    if mu < READ_ONCE_BELOW:
        return "the context is read once a pass"
    if mu > READ_EACH_ABOVE:
        return "the context is read once a verified token"
    return "between once a pass and once a verified token"


def context_slopes(profile: Profile) -> dict[tuple[int, int], float]:
    """Return seconds a cached token by (batch, tokens), from the shortest and longest context."""
    lines: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
    for (batch, tokens, context), seconds in medians(profile, Role.TARGET).items():
        lines[batch, tokens].append((context, seconds))
    slopes = {}
    for key, points in lines.items():
        (near, near_s), (far, far_s) = min(points), max(points)
        if far > near:
            slopes[key] = (far_s - near_s) / (far - near)
    return slopes


def cost_ratios(profile: Profile) -> list[dict[str, float]]:
    """Return draft pass over target decode step, same batch and context."""
    if not isinstance(profile.draft, ModelDraft):
        return []
    target, draft = medians(profile, Role.TARGET), medians(profile, Role.DRAFT)
    return [
        {"batch": key[0], "context": key[2], "cost_ratio": seconds / target[key]}
        for key, seconds in sorted(draft.items())
        if key in target
    ]


def verify_ratios(profile: Profile) -> list[dict[str, float]]:
    """Return verification of q tokens over one decode step, same batch and context."""
    target = medians(profile, Role.TARGET)
    return [
        {
            "batch": batch,
            "context": context,
            "tokens": tokens,
            "ratio": seconds / target[batch, 1, context],
        }
        for (batch, tokens, context), seconds in sorted(target.items())
        if tokens > 1 and (batch, 1, context) in target
    ]


def power(profile: Profile) -> list[dict[str, float]]:
    """Return watts and joules a token of each window of the energy counter."""
    return [
        {
            "batch": record.batch,
            "watts": record.joules / record.seconds,
            "joules_per_token": record.joules / max(record.tokens, 1),
        }
        for record in profile.power
    ]


def held_out(profile: Profile, role: Role) -> float | None:
    """Return the error of the fitted step time on points left out; None if too few were timed."""
    try:
        fitted = fit_step_time(profile, role)
    except ProfileError:
        return None
    return None if fitted is None else fitted.relative_se
