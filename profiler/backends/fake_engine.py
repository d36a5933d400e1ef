"""An engine without any LLM: deterministic text, rounds and step times, and a fault on demand.

It lets a run of an engine be tested in milliseconds. Its profiles carry the backend name ``fake``.
"""

from __future__ import annotations

import random
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from capplan.schema.cells import Role
from capplan.schema.measured_setup import (
    Backend as BackendRecord,
    Draft,
    EngineDraft,
    NgramDraft,
    ProfiledLlm,
)
from capplan.schema.pairing import Method
from capplan.schema.profile import EngineMemory, MemoryRecord
from profiler.backends.fake import FakeBackend, _nothing
from profiler.engine import (
    Configuration,
    EngineFacts,
    EngineRequest,
    EngineStep,
    Load,
    Served,
    ServedLoad,
    TokenIds,
)
from profiler.protocol import Generation, LoadRequest
from profiler.timing.clock import FakeClock

VOCAB = 256
STEP_S, PER_REQUEST_S, PER_DRAFT_S, PREFILL_S_PER_TOKEN = 0.010, 2e-4, 1e-3, 1e-5
PLAIN_NATS, NATS_SPREAD = -1.2, 0.3
ACCEPTED_SHARE = 0.6
KV_BYTES_PER_TOKEN = 1024.0


@dataclass
class FakeEngineFactory:
    """Starts engines that answer from formulas.

    Parameters
    ----------
    kind
        ``cpu``: engines may run side by side; ``cuda``: one at a time.
    corruption_nats
        What speculation above temperature 0 takes from the log-probability of each token.
    hook
        Called with a description before each piece of work; a test raises from it.
    """

    kind: str = "cpu"
    corruption_nats: float = 0.0
    hook: Callable[[str], None] = _nothing
    clock: FakeClock = field(default_factory=FakeClock)
    running: int = 0
    most_running: int = 0
    started: list[Configuration] = field(default_factory=list)
    _request: EngineRequest | None = None
    _llm: FakeBackend = field(default_factory=FakeBackend)

    def prepare(self, request: EngineRequest) -> None:
        """Remember the request."""
        self._request = request
        self._llm.load(LoadRequest(target=request.target))

    def warnings(self) -> tuple[str, ...]:
        """Return nothing: there is one version."""
        return ()

    def left_out(self) -> tuple[tuple[str, str], ...]:
        """Return nothing."""
        return ()

    def device_kind(self) -> str:
        """Return the kind it was made with."""
        return self.kind

    def record(self, facts: EngineFacts) -> BackendRecord:
        """Return name and version."""
        return BackendRecord(name="fake", version=facts.version, arguments=facts.arguments)

    def target(self) -> ProfiledLlm:
        """Return the invented target."""
        return self._llm.target()

    def draft(self) -> Draft | None:
        """Return the draft that was asked for."""
        assert self._request is not None, "prepare() comes first"
        method = self._request.method
        if method is None:
            return None
        if method is Method.NGRAM:
            return NgramDraft(prompt_lookup_min=2, prompt_lookup_max=4)
        if method is Method.DRAFT_MODEL:
            self._llm.load(LoadRequest(target="big", draft="small"))
            return self._llm.draft()
        return EngineDraft.model_validate({"method": method, "id": method.value})

    def memory(self) -> list[MemoryRecord]:
        """Return invented figures."""
        return [
            MemoryRecord(role=Role.TARGET, weight_bytes=1e8, kv_bytes_per_token=KV_BYTES_PER_TOKEN)
        ]

    def max_context(self) -> int:
        """Return the limit of the request."""
        assert self._request is not None, "prepare() comes first"
        return self._request.max_model_len

    def refusal(self, configuration: Configuration) -> str:
        """Refuse synthetic acceptance on a CPU, as vLLM does."""
        synthetic = configuration.synthetic_rates is not None
        return "no synthetic acceptance on a CPU" if synthetic and self.kind == "cpu" else ""

    def start(self, configuration: Configuration) -> FakeEngine:
        """Return an engine at once."""
        self.hook(f"start {configuration.num_speculative_tokens}")
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.started.append(configuration)
        return FakeEngine(self, configuration)


@dataclass
class FakeEngine:
    """Serves invented text."""

    factory: FakeEngineFactory
    configuration: Configuration
    facts: EngineFacts = field(init=False)

    def __post_init__(self) -> None:
        n = self.configuration.num_speculative_tokens
        memory = EngineMemory(
            num_speculative_tokens=n,
            model_bytes=1e8,
            kv_pool_bytes=1e9,
            kv_capacity_tokens=int(1e9 / KV_BYTES_PER_TOKEN),
            kv_block_tokens=16,
            max_model_len=self.factory.max_context(),
        )
        self.facts = EngineFacts(version="1", memory=memory, arguments={"device": "fake"})

    def encode(self, prompts: Sequence[str]) -> list[TokenIds]:
        """Take bytes for tokens."""
        return [tuple(prompt.encode()) for prompt in prompts]

    def serve(self, load: Load) -> ServedLoad:
        """Serve requests step by step, at most ``concurrency`` at once."""
        self.factory.hook(f"serve {self.configuration.num_speculative_tokens}")
        waiting = deque(enumerate(load.prompts))
        live: list[_Live] = []
        done: dict[int, Served] = {}
        steps: list[EngineStep] = []
        full = 0
        while waiting or live:
            while waiting and len(live) < load.concurrency:
                index, prompt = waiting.popleft()
                live.append(_Live(index, prompt, load, self.configuration))
            steps.append(self._step(live, done))
            full += steps[-1].is_whole and steps[-1].decoding == load.concurrency
            if load.max_steps is not None and full >= load.max_steps:
                break
        return ServedLoad(tuple(done[index] for index in sorted(done)), tuple(steps))

    def _step(self, live: list[_Live], done: dict[int, Served]) -> EngineStep:
        n, running = self.configuration.num_speculative_tokens, len(live)
        fresh = [one for one in live if not one.text]
        decoding = [one for one in live if one.text]
        context = sum(len(one.prompt) + len(one.text) for one in decoding)
        seconds = STEP_S + PER_REQUEST_S * running + PER_DRAFT_S * n
        seconds += PREFILL_S_PER_TOKEN * sum(len(one.prompt) for one in fresh)
        self.factory.clock.advance(seconds)
        for one in fresh:
            one.text.append(one.draw())
        accepted = [one.round() for one in decoding]
        for one in [one for one in live if one.finished]:
            done[one.index] = one.served()
            live.remove(one)
        return EngineStep(
            seconds=seconds,
            running=running,
            decoding=len(decoding),
            starting=len(fresh),
            context=context / len(decoding) if decoding else 0.0,
            emitted=sum(one.emitted[-1] for one in decoding),
            drafts=len(decoding) if n else 0,
            drafted=n * len(decoding),
            accepted=sum(accepted),
            accepted_per_position=tuple(sum(a > place for a in accepted) for place in range(n)),
        )

    def score(self, generations: Sequence[Generation]) -> list[tuple[float, ...]]:
        """Rate tokens by chance; corrupted ones carry their mark."""
        self.factory.hook("score")
        rated = []
        for one in generations:
            source = random.Random(zlib.crc32(bytes(t % VOCAB for t in one.generated_ids)))
            rated.append(
                tuple(
                    source.gauss(PLAIN_NATS, NATS_SPREAD)
                    + (self.factory.corruption_nats if token >= VOCAB else 0.0)
                    for token in one.generated_ids
                )
            )
        return rated

    def close(self) -> None:
        """Count it out."""
        self.factory.running -= 1


class _Live:
    """One request being served."""

    def __init__(
        self, index: int, prompt: TokenIds, load: Load, configuration: Configuration
    ) -> None:
        self.index, self.prompt = index, prompt
        self.text: list[int] = []
        self.emitted: list[int] = []
        self.accepted: list[int] = []
        self._length = configuration.num_speculative_tokens
        self._limit = load.max_tokens
        warm = load.temperature > 0
        self._mark = VOCAB if warm and self._length else 0
        own = load.seed if warm else 0
        rounds_key = zlib.crc32(bytes(prompt)) + self._length
        self._text_source = random.Random(zlib.crc32(bytes(prompt)) + own + self._mark)
        self._rounds_source = random.Random(rounds_key)

    @property
    def finished(self) -> bool:
        """Whether all tokens are written."""
        return len(self.text) >= self._limit

    def draw(self) -> int:
        """Return the next token; the text depends on prompt and seed alone."""
        return self._text_source.randrange(VOCAB) + self._mark

    def round(self) -> int:
        """Write the tokens of one step and return how many of them were drafted."""
        accepted = 0
        while accepted < self._length and self._rounds_source.random() < ACCEPTED_SHARE:
            accepted += 1
        room = min(accepted + 1, self._limit - len(self.text))
        self.text.extend(self.draw() for _ in range(room))
        self.emitted.append(room)
        self.accepted.append(accepted)
        return accepted

    def served(self) -> Served:
        """Return the finished request."""
        drafted = [self._length] * len(self.emitted) if self._length else []
        return Served(
            Generation(self.prompt, tuple(self.text)),
            tuple(self.emitted),
            tuple(drafted),
            tuple(self.accepted) if self._length else (),
        )
