"""Profiles whose step times follow known coefficients, and facts for them; no file is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capplan.schema.cells import AcceptanceCell, Phase, Role, RoundsCell, TimingCell
from capplan.schema.llm import LlmSpec
from capplan.schema.measured_setup import (
    Backend,
    Device,
    Environment,
    ModelDraft,
    NgramDraft,
    ProfiledLlm,
)
from capplan.schema.pairing import AcceptanceFact, Method
from capplan.schema.profile import Profile
from capplan.schema.provenance import Kind, Source
from capplan.schema.verdict import Reason, Stability, Verdict

STABLE = Verdict(stability=Stability.STABLE)
SOURCE = Source(kind=Kind.CITED, reference="a hand-made row", date="2026-01-02")


def llm(name: str = "org/target", **overrides: Any) -> LlmSpec:
    fields: dict[str, Any] = {
        "id": name,
        "family": "toy",
        "params_total": 1.0e9,
        "params_active": 1.0e9,
        "weight_bytes": 2.0e9,
        "weight_bytes_active": 2.0e9,
        "layers": 16,
        "hidden": 2048,
        "vocab_size": 32000,
        "kv_bytes_per_token": 65536.0,
        "kv_heads": 8,
        "dtype": "bfloat16",
        "source": SOURCE,
    }
    return LlmSpec(**{**fields, **overrides})


@dataclass(frozen=True)
class Planted:
    """Seconds of a step: fixed + b*sequence + b*(q-1)*token + b*s*context."""

    fixed: float
    per_sequence: float
    per_token: float
    per_context: float

    def seconds(self, b: int, q: int, s: int) -> float:
        return (
            self.fixed
            + self.per_sequence * b
            + self.per_token * b * (q - 1)
            + self.per_context * b * s
        )


TARGET_TIMES = Planted(10e-3, 0.2e-3, 0.15e-3, 2e-7)
DRAFT_TIMES = Planted(1e-3, 0.02e-3, 0.01e-3, 1e-8)


def timing(
    role: Role,
    planted: Planted,
    batches: Sequence[int] = (1, 4, 16),
    tokens: Sequence[int] = (1, 3, 9),
    contexts: Sequence[int] = (128, 2048),
    noise: float = 0.0,
    seed: int = 0,
) -> list[TimingCell]:
    rng = np.random.default_rng(seed)
    cells = []
    for b in batches:
        for q in tokens:
            for s in contexts:
                exact = planted.seconds(b, q, s) * float(np.exp(noise * rng.standard_normal()))
                cells.append(
                    TimingCell(
                        role=role,
                        phase=Phase.DECODE if q == 1 else Phase.VERIFY,
                        batch=b,
                        tokens_per_sequence=q,
                        context=s,
                        seconds=(exact * 0.99, exact, exact * 1.02),
                        verdict=STABLE,
                    )
                )
    return cells


def acceptance_cell(requests: int, tokens_each: int, **overrides: Any) -> AcceptanceCell:
    fields: dict[str, Any] = {
        "task": "code",
        "temperature": 0.0,
        "trace_kind": "per_token",
        "prompts_sha256": "0" * 64,
        "requests": requests,
        "prompt_tokens": 100 * requests,
        "generated_tokens": requests * tokens_each,
        "seed": 0,
    }
    return AcceptanceCell(**{**fields, **overrides})


def trace_arrays(
    index: int, requests: int, tokens_each: int, probability: float
) -> dict[str, NDArray[Any]]:
    total = requests * tokens_each
    flat = np.full(total, probability, dtype=np.float32)
    return {
        f"acceptance/{index}/offsets": np.arange(requests + 1, dtype=np.int64) * tokens_each,
        f"acceptance/{index}/accept_greedy": flat,
        f"acceptance/{index}/accept_probabilistic": flat * np.float32(0.9),
    }


def rounds_cell(n: int, seconds_a_round: float, **overrides: Any) -> RoundsCell:
    fields: dict[str, Any] = {
        "task": "code",
        "temperature": 0.0,
        "num_speculative_tokens": n,
        "batch": 1,
        "requests": 4,
        "rounds": 100,
        "drafted": 100 * n,
        "accepted": 50 * n,
        "accepted_per_position": (50,) * n,
        "emitted": 100 + 50 * n,
        "seconds": 100 * seconds_a_round,
        "baseline_emitted": 100 + 50 * n,
        "baseline_seconds": 1.0,
    }
    return RoundsCell(**{**fields, **overrides})


def profile(
    *,
    draft: str | None = "model",
    stability: Stability = Stability.STABLE,
    probability: float = 0.7,
    requests: int = 10,
    tokens_each: int = 200,
    noise: float = 0.0,
    **overrides: Any,
) -> tuple[Profile, dict[str, NDArray[Any]]]:
    """Return a profile of a toy pairing and the arrays of its sidecar."""
    reasons = ()
    if stability is not Stability.STABLE:
        reasons = (Reason(check="drift", value=0.3, threshold=0.02, remedy="Close other work."),)
    drafts = {
        None: None,
        "model": ModelDraft(
            llm=ProfiledLlm(
                spec=llm("org/draft", params_total=1e8, params_active=1e8, weight_bytes=2e8,
                         weight_bytes_active=2e8, layers=4, kv_bytes_per_token=8192.0),
                dtype="bfloat16",
            )
        ),
        "ngram": NgramDraft(prompt_lookup_max=4, prompt_lookup_min=2),
    }  # fmt: skip
    cells = timing(Role.TARGET, TARGET_TIMES, noise=noise)
    if draft == "model":
        cells += timing(Role.DRAFT, DRAFT_TIMES, tokens=(1, 2), noise=noise, seed=1)
    arrays = trace_arrays(0, requests, tokens_each, probability)
    acceptance = (acceptance_cell(requests, tokens_each),)
    if draft == "ngram":
        flat = np.full(requests * tokens_each, 4, dtype=np.uint8)
        arrays = {
            "acceptance/0/offsets": arrays["acceptance/0/offsets"],
            "acceptance/0/proposed": flat,
            "acceptance/0/accepted": flat // 2,
        }
        acceptance = (acceptance_cell(requests, tokens_each, trace_kind="per_start"),)
    fields: dict[str, Any] = {
        "id": "p-0001",
        "created_at": "2026-01-02T03:04:05+00:00",
        "capplan_version": "0",
        "complete": True,
        "request": {},
        "environment": Environment(
            device=Device(kind="cpu", name="Toy CPU", memory_bytes=64e9),
            python="3.11",
            libraries={},
        ),
        "backend": Backend(name="fake", version="0"),
        "target": ProfiledLlm(spec=llm(), dtype="bfloat16"),
        "draft": drafts[draft],
        "timing": tuple(cells),
        "acceptance": acceptance if draft is not None else (),
        "verdict": Verdict(stability=stability, reasons=reasons),
    }
    return Profile(**{**fields, **overrides}), arrays if draft is not None else {}


def fact(n: int, tokens_per_round: float, **overrides: Any) -> AcceptanceFact:
    fields: dict[str, Any] = {
        "target": "org/target",
        "draft": "org/draft",
        "method": Method.DRAFT_MODEL,
        "task": "code",
        "temperature": 0.0,
        "num_speculative_tokens": n,
        "tokens_per_round": tokens_per_round,
        "definition": "bonus token included",
        "source": SOURCE,
    }
    return AcceptanceFact(**{**fields, **overrides})
