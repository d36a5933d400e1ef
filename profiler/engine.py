"""What an inference engine must offer: it serves requests, times its own steps, scores text.

An engine is measured whole. It drafts, verifies, samples and schedules in one step, so the parts
that :mod:`profiler.protocol` times one by one cannot be had; its steps and counters can.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from capplan.errors import EngineError
from capplan.schema.cells import DraftSampling
from capplan.schema.measured_setup import Backend as BackendRecord, Draft, ProfiledLlm
from capplan.schema.pairing import Method
from capplan.schema.profile import EngineMemory, MemoryRecord
from profiler.protocol import Generation

TokenIds = tuple[int, ...]
GPU_MEMORY_UTILIZATION = 0.9
"""Share of a GPU that an engine takes unless asked otherwise; said to it in so many words."""


@dataclass(frozen=True)
class Configuration:
    """One way to start the engine: plain, or with N drafts a round."""

    num_speculative_tokens: int = 0
    """0 decodes plainly."""
    draft_sampling: DraftSampling | None = None
    """None for plain decoding and for lookup drafts."""
    synthetic_rates: tuple[float, ...] | None = None
    """Drafts are accepted by chance at these rates a position, whatever they say."""


PLAIN = Configuration()


@dataclass(frozen=True)
class EngineRequest:
    """What to serve and how; the configurations differ in nothing but speculation."""

    target: str
    target_id: str | None = None
    draft: str | None = None
    draft_id: str | None = None
    method: Method | None = None
    """None serves the target alone."""
    prompt_lookup: tuple[int, int] | None = None
    """(min, max) of n-gram drafts."""
    device: str = "auto"
    dtype: str = "auto"
    tensor_parallel: int = 1
    max_num_seqs: int = 16
    max_model_len: int = 1024
    gpu_memory_utilization: float = GPU_MEMORY_UTILIZATION
    seed: int = 0


@dataclass(frozen=True)
class Load:
    """Requests to serve, at most ``concurrency`` at once; one that ends makes room for the next.

    Requests stop at the end of their text or after ``max_tokens``. ``ignore_eos`` is for timing
    alone: what an LLM writes past the end of its text says nothing about acceptance.
    """

    prompts: Sequence[TokenIds]
    concurrency: int
    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    ignore_eos: bool = False
    max_steps: int | None = None
    """Stop, and drop what is unfinished, after so many steps of a full batch."""


@dataclass(frozen=True)
class EngineStep:
    """One step of the engine, as its caller sees it: from one set of outputs to the next."""

    seconds: float
    running: int
    """Requests in the engine."""
    decoding: int
    """Requests that got tokens and had some before."""
    starting: int
    """Requests that got their first token, which their prefill made."""
    context: float
    """Mean tokens of the decoding requests before the step."""
    emitted: int
    """Tokens that the decoding requests got."""
    drafts: int | None = None
    """Requests that had a draft verified; None if the engine did not say."""
    drafted: int | None = None
    accepted: int | None = None
    accepted_per_position: tuple[int, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether every request in the engine decoded, and none was prefilled."""
        return self.starting == 0 and self.decoding == self.running > 0


@dataclass(frozen=True)
class Served:
    """One finished request."""

    generation: Generation
    emitted_per_step: tuple[int, ...]
    """Tokens of each decode step; the prefill's own token is not among them."""
    drafted: tuple[int, ...] = ()
    """Drafts verified in each step that had any, in order."""
    accepted: tuple[int, ...] = ()


@dataclass(frozen=True)
class ServedLoad:
    """What serving a load showed."""

    requests: tuple[Served, ...] = ()
    """In the order of the prompts; without those that ``max_steps`` dropped."""
    steps: tuple[EngineStep, ...] = ()


@dataclass(frozen=True)
class EngineFacts:
    """What an engine says of itself once it is up."""

    version: str
    memory: EngineMemory
    arguments: dict[str, str] = field(default_factory=dict)
    cuda_graphs: bool = False


class RunningEngine(Protocol):
    """An engine in one configuration; it lives in a process of its own."""

    @property
    def facts(self) -> EngineFacts:
        """What it said of itself when it came up."""

    def encode(self, prompts: Sequence[str]) -> list[TokenIds]:
        """Tokenise user prompts through the chat template, if there is one."""

    def serve(self, load: Load) -> ServedLoad:
        """Serve requests, as many at once as the load allows."""

    def score(self, generations: Sequence[Generation]) -> list[tuple[float, ...]]:
        """Return the log-probability, in nats, that the target gives to each generated token."""

    def close(self) -> None:
        """Stop the engine and everything it started."""


class EngineFactory(Protocol):
    """Starts an engine in any configuration of one request."""

    def prepare(self, request: EngineRequest) -> None:
        """Find the checkpoints and check what was asked for, before anything is started."""

    def warnings(self) -> tuple[str, ...]:
        """Return what the user should know: an engine version nobody tried, for example."""

    def device_kind(self) -> str:
        """Return ``cuda`` or ``cpu``."""

    def record(self, facts: EngineFacts) -> BackendRecord:
        """Return name, version and exact arguments."""

    def target(self) -> ProfiledLlm:
        """Return the target as it is served."""

    def draft(self) -> Draft | None:
        """Return the draft."""

    def memory(self) -> list[MemoryRecord]:
        """Return weights and KV bytes a token of target and draft."""

    def max_context(self) -> int:
        """Return the longest sequence that target and draft were made for."""

    def left_out(self) -> tuple[tuple[str, str], ...]:
        """Return what this engine could measure elsewhere and not here, each with the reason."""

    def refusal(self, configuration: Configuration) -> str:
        """Return why a configuration cannot be started here, or nothing."""

    def start(self, configuration: Configuration) -> RunningEngine:
        """Start a fresh engine. Errors are ``capplan.errors`` with a remedy."""


class EnginePool:
    """The engines that are up, by configuration."""

    def __init__(self, factory: EngineFactory, *, beside: bool) -> None:
        self._factory = factory
        self._up: dict[Configuration, RunningEngine] = {}
        self.beside = beside
        """Whether the plain engine may stay up while another one runs."""

    def get(self, configuration: Configuration) -> RunningEngine:
        """Return a running engine; what must make room for it is stopped first."""
        if configuration not in self._up:
            for other in list(self._up):
                if not (self.beside and PLAIN in (other, configuration)):
                    self.stop(other)
            self._up[configuration] = self._factory.start(configuration)
        return self._up[configuration]

    def is_up(self, configuration: Configuration) -> bool:
        """Whether an engine runs."""
        return configuration in self._up

    def stop(self, configuration: Configuration) -> None:
        """Stop an engine, if it is up."""
        engine = self._up.pop(configuration, None)
        if engine is not None:
            engine.close()

    def close(self) -> None:
        """Stop them all."""
        for configuration in list(self._up):
            with suppress(EngineError):
                self.stop(configuration)
