"""Profiles whose pass times follow the data-sheet model with planted constants and noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from capplan.estimate.datasheet_step import DatasheetStep, HardwareGroup
from capplan.estimate.engine_fit import with_constants
from capplan.estimate.pass_timings import PassTimings
from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.schema.cells import Phase, Role, TimingCell
from capplan.schema.llm import LlmSpec
from capplan.schema.measured_setup import Backend, Device, Environment, ProfiledLlm
from capplan.schema.profile import Profile
from capplan.schema.verdict import Stability, Verdict

GPU = load_catalog().gpu("h100-sxm-80gb")
ENGINE = load_engine("vllm")
STABLE = Verdict(stability=Stability.STABLE)
PLANTED = {
    "layer_s": 3.0e-5,
    "weight_bandwidth_efficiency": 0.78,
    "kv_bandwidth_efficiency": 0.62,
    "verify_flops_efficiency": 0.45,
    "decoded_token_cost": 2.2,
    "request_s": 1.1e-5,
    "prompt_flops_efficiency": 0.60,
    "prompt_attention_efficiency": 0.25,
}
"""Far enough from the shipped ones that a fit which only repeats them is seen to fail."""

SMALL, MIDDLE, UNSEEN, LARGE = (
    load_catalog().llm(f"Qwen/Qwen3-{size}") for size in ("1.7B", "8B", "14B", "32B")
)


def seconds(
    llm: LlmSpec, b: int, q: int, s: int, constants: Mapping[str, float] = PLANTED, tp: int = 1
) -> float:
    engine = with_constants(ENGINE, constants)
    step = DatasheetStep(llm, HardwareGroup.of([(GPU, tp)], engine, axes=1), engine)
    return float(step.seconds(b, q, s).item())


def prompt_seconds(llm: LlmSpec, tokens: int, constants: Mapping[str, float] = PLANTED) -> float:
    engine = with_constants(ENGINE, constants)
    step = DatasheetStep(llm, HardwareGroup.of([(GPU, 1)], engine, axes=1), engine)
    return float(step.prompt_seconds(float(tokens)).item())


def cells(
    llm: LlmSpec,
    noise: float = 0.02,
    seed: int = 0,
    constants: Mapping[str, float] = PLANTED,
    role: Role = Role.TARGET,
    tp: int = 1,
) -> list[TimingCell]:
    rng = np.random.default_rng(seed)

    def cell(phase: Phase, b: int, q: int, s: int, exact: float) -> TimingCell:
        took = exact * float(np.exp(noise * rng.standard_normal()))
        return TimingCell(
            role=role,
            phase=phase,
            batch=b,
            tokens_per_sequence=q,
            context=s,
            seconds=(took * 0.995, took, took * 1.01),
            verdict=STABLE,
        )

    steps = [
        cell(
            Phase.DECODE if q == 1 else Phase.VERIFY, b, q, s, seconds(llm, b, q, s, constants, tp)
        )
        for b in (1, 4, 16, 64)
        for q in (1, 4, 8)
        for s in (256, 2048, 8192)
    ]
    prompts = [
        cell(Phase.PREFILL, 1, n, 0, prompt_seconds(llm, n, constants))
        for n in (128, 512, 2048, 4096, 8192, 16384)
    ]
    return steps + prompts


def timings(
    llm: LlmSpec, noise: float = 0.02, seed: int = 0, constants: Mapping[str, float] = PLANTED
) -> PassTimings:
    steps = [c for c in cells(llm, noise, seed, constants) if c.phase is not Phase.PREFILL]
    return PassTimings(
        llm,
        1,
        np.array([float(c.batch) for c in steps]),
        np.array([float(c.tokens_per_sequence) for c in steps]),
        np.array([float(c.context) for c in steps]),
        np.array([c.seconds[1] for c in steps]),
    )


def profile(
    llm: LlmSpec,
    name: str = "p-1",
    timing: Sequence[TimingCell] | None = None,
    **overrides: Any,
) -> Profile:
    device = overrides.pop("device", {})
    backend = overrides.pop("backend", {})
    on: dict[str, Any] = {
        "kind": "cuda",
        "name": "NVIDIA H100 80GB HBM3",
        "memory_bytes": 81559 * 2.0**20,
    }
    ran: dict[str, Any] = {"name": "vllm", "version": "0.33", "cuda_graphs": True}
    fields: dict[str, Any] = {
        "id": name,
        "created_at": "2026-01-02T03:04:05+00:00",
        "capplan_version": "0",
        "complete": True,
        "request": {},
        "environment": Environment(device=Device(**{**on, **device}), python="3.11", libraries={}),
        "backend": Backend(**{**ran, **backend}),
        "target": ProfiledLlm(spec=llm, dtype="bfloat16"),
        "timing": tuple(timing if timing is not None else cells(llm)),
        "verdict": STABLE,
    }
    return Profile(**{**fields, **overrides})
