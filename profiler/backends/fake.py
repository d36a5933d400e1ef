"""A backend without any LLM: deterministic text, a model of time and a clock that it moves itself.

It lets everything above a backend run, and be tested, in milliseconds. Its profiles carry the
backend name ``fake``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from capplan.schema.cells import DraftSampling, Role
from capplan.schema.llm import LlmSpec
from capplan.schema.measured_setup import (
    Backend as BackendRecord,
    Draft,
    ModelDraft,
    NgramDraft,
    ProfiledLlm,
)
from capplan.schema.profile import MemoryRecord
from capplan.schema.provenance import Kind, Source
from profiler.protocol import (
    Generation,
    LoadRequest,
    RoundsOutcome,
    SamplingPoint,
    TimingPoint,
    Trace,
)
from profiler.timing.clock import FakeClock

VOCAB = 256
MAX_CONTEXT = 1024
MAX_DRAFT = 16
FIXED_S = {Role.TARGET: 0.040, Role.DRAFT: 0.008}
PER_TOKEN_S = {Role.TARGET: 1e-3, Role.DRAFT: 2e-4}
PER_CONTEXT_TOKEN_S = 2e-7
NOISE = 0.005
MEAN_ACCEPTANCE = 0.6


def _nothing(_what: str) -> None:
    """Take the place of a hook that is not given."""


@dataclass
class FakeBackend:
    """Answers every question of the protocol from formulas.

    Parameters
    ----------
    hook
        Called with a description before each piece of work; a test raises from it.
    speed_change_per_s
        Relative growth of all times per second on the clock: a machine that heats up.
    """

    hook: Callable[[str], None] = _nothing
    clock: FakeClock = field(default_factory=FakeClock)
    speed_change_per_s: float = 0.0
    _request: LoadRequest | None = None
    _noise: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def load(self, request: LoadRequest) -> None:
        """Remember the request."""
        self.hook(f"load {request.target}")
        self._request = request

    @property
    def request(self) -> LoadRequest:
        """The request that was loaded."""
        assert self._request is not None, "load() comes first"
        return self._request

    def record(self) -> BackendRecord:
        """Return the fake backend's own name and version."""
        return BackendRecord(name="fake", version="1", arguments={"device": "cpu"})

    def target(self) -> ProfiledLlm:
        """Return a made-up LLM under the name that was asked for."""
        return self._llm(self.request.target, params=1e8)

    def draft(self) -> Draft | None:
        """Return the draft that was asked for."""
        if self.request.prompt_lookup is not None:
            low, high = self.request.prompt_lookup
            return NgramDraft(prompt_lookup_min=low, prompt_lookup_max=high)
        if self.request.draft is None:
            return None
        return ModelDraft(llm=self._llm(self.request.draft, params=1e7))

    def _llm(self, name: str, params: float) -> ProfiledLlm:
        spec = LlmSpec(
            id=name,
            family="fake",
            params_total=params,
            params_active=params,
            weight_bytes=4 * params,
            weight_bytes_active=4 * params,
            layers=2,
            hidden=64,
            vocab_size=VOCAB,
            kv_bytes_per_token=1024,
            max_context=MAX_CONTEXT,
            dtype="float32",
            source=Source(kind=Kind.ASSUMED, reference="fake backend"),
        )
        dummy = self.request.dummy_weights
        sha = "" if dummy else f"{zlib.crc32(name.encode()):08x}"
        weights = "dummy" if dummy else "real"
        return ProfiledLlm(spec=spec, weight_sha256=sha, weights=weights, dtype="float32")

    def max_context(self) -> int:
        """Return the longest sequence."""
        return MAX_CONTEXT

    def encode(self, prompt: str) -> tuple[int, ...]:
        """Return the UTF-8 bytes."""
        return tuple(prompt.encode())

    def prepare(self, point: TimingPoint) -> FakePoint:
        """Return the point."""
        self.hook(f"prepare {point.role} {point.batch} {point.tokens_per_sequence}")
        return FakePoint(self, point)

    def pass_s(self, point: TimingPoint) -> float:
        """Return the modelled seconds of one pass, with a little noise."""
        tokens = point.batch * point.tokens_per_sequence
        ideal = FIXED_S[point.role] + PER_TOKEN_S[point.role] * tokens
        ideal += PER_CONTEXT_TOKEN_S * point.batch * point.context
        drift = 1 + self.speed_change_per_s * self.clock.now_s()
        return ideal * drift * float(1 + NOISE * self._noise.uniform(-1, 1))

    def generate(
        self, prompts: Sequence[tuple[int, ...]], sampling: SamplingPoint
    ) -> list[Generation]:
        """Return random tokens that depend on prompt, temperature and seed alone."""
        self.hook(f"generate {sampling.temperature}")
        self.clock.advance(sampling.max_tokens * FIXED_S[Role.TARGET])
        return [
            Generation(prompt, tuple(map(int, _rng(prompt, sampling).integers(0, VOCAB, size))))
            for prompt in prompts
            for size in (sampling.max_tokens,)
        ]

    def trace(self, generations: Sequence[Generation], sampling: SamplingPoint) -> Trace:
        """Return acceptance from the same random source as :meth:`run_rounds`."""
        self.hook(f"trace {sampling.temperature}")
        lengths = [len(generation.generated_ids) for generation in generations]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        accepts = [_accepts(g.prompt_ids, len(g.generated_ids), sampling) for g in generations]
        if self.request.prompt_lookup is not None:
            accepted = np.concatenate([_runs(a) for a in accepts])
            proposed = np.full_like(accepted, MAX_DRAFT)
            return Trace("per_start", offsets, {"proposed": proposed, "accepted": accepted})
        probabilities = np.concatenate(accepts).astype(np.float32)
        arrays = {"accept_greedy": probabilities, "accept_probabilistic": probabilities}
        return Trace("per_token", offsets, dict(arrays))

    def run_rounds(
        self,
        prompts: Sequence[tuple[int, ...]],
        sampling: SamplingPoint,
        num_speculative_tokens: int,
        draft_sampling: DraftSampling | None,
    ) -> RoundsOutcome:
        """Walk through the same events that :meth:`trace` describes."""
        self.hook(f"rounds {num_speculative_tokens} {draft_sampling}")
        accepted: list[int] = []
        emitted = 0
        for prompt in prompts:
            runs = _runs(_accepts(prompt, sampling.max_tokens, sampling))
            position = 1
            while position < sampling.max_tokens:
                kept = min(int(runs[position]), num_speculative_tokens)
                accepted.append(kept)
                position += kept + 1
            emitted += min(position, sampling.max_tokens) - 1
        seconds = len(accepted) * FIXED_S[Role.TARGET] * (1 + 0.05 * num_speculative_tokens)
        baseline = len(prompts) * (sampling.max_tokens - 1)
        self.clock.advance(seconds + baseline * FIXED_S[Role.TARGET])
        per_position = tuple(
            sum(kept > rank for kept in accepted) for rank in range(num_speculative_tokens)
        )
        return RoundsOutcome(
            rounds=len(accepted),
            drafted=len(accepted) * num_speculative_tokens,
            accepted=sum(accepted),
            accepted_per_position=per_position,
            emitted=emitted,
            seconds=seconds,
            baseline_emitted=baseline,
            baseline_seconds=baseline * FIXED_S[Role.TARGET],
            identical_outputs=len(prompts) if sampling.temperature == 0 else None,
        )

    def memory(self) -> list[MemoryRecord]:
        """Return the made-up LLM's bytes."""
        record = MemoryRecord(role=Role.TARGET, weight_bytes=4e8, kv_bytes_per_token=1024)
        return [record]

    def close(self) -> None:
        """Do nothing."""


@dataclass
class FakePoint:
    """A prepared point: running it moves the backend's clock."""

    backend: FakeBackend
    point: TimingPoint
    cuda_graph: bool = False

    def run_block(self, passes: int) -> float:
        """Return the sum of modelled passes and let that time pass."""
        seconds = sum(self.backend.pass_s(self.point) for _ in range(passes))
        self.backend.clock.advance(seconds)
        return seconds

    def close(self) -> None:
        """Do nothing."""


def _rng(prompt: tuple[int, ...], sampling: SamplingPoint) -> np.random.Generator:
    return np.random.default_rng([sampling.seed, int(sampling.temperature * 1000), *prompt])


def _accepts(prompt: tuple[int, ...], size: int, sampling: SamplingPoint) -> NDArray[np.uint8]:
    """Return 1 where a draft is accepted: certain events, so trace and rounds agree exactly."""
    draws = _rng(prompt, sampling).random(size)
    return (draws < MEAN_ACCEPTANCE).astype(np.uint8)


def _runs(accepts: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the number of accepted drafts in a row from each position on, at most MAX_DRAFT."""
    runs = np.zeros(len(accepts), dtype=np.uint8)
    run = 0
    for position in range(len(accepts) - 1, -1, -1):
        run = min(run + 1, MAX_DRAFT) if accepts[position] else 0
        runs[position] = run
    return runs
