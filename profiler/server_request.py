"""What to ask of a live server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from capplan.profiles.server_http import ANSWER_TIMEOUT_S, ServerAddress
from capplan.schema.llm import LlmSpec
from capplan.schema.measured_setup import Backend, Device, Draft, ProfiledLlm
from capplan.schema.profile import Profile
from profiler.backends.live_facts import ServerFacts
from profiler.backends.live_http import Ask, ServedLlm
from profiler.backends.live_load import Level
from profiler.environment import describe
from profiler.ledger import begun_profile
from profiler.prompts import PromptSet
from profiler.request import Answer

DEFAULT_PLACES = (1, 4, 16)
"""Without --rate or --concurrency: rates that keep so many requests in flight, by Little's law."""
_DTYPE = "as served"
"""A server does not tell; engines run float32 checkpoints in 16 bits unless told otherwise."""
_UNKNOWN_DEVICE = Device(kind="unknown", name="unknown")


@dataclass(frozen=True)
class ServerRequest:
    """What to ask of which server, and where to write it."""

    address: ServerAddress
    output: Path
    target: LlmSpec
    draft: Draft | None = None
    device: Device = _UNKNOWN_DEVICE
    served_model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    observe_minutes: float | None = None
    """Only watch, for so long; None puts load on the server."""
    interval_s: float = 5.0
    rates_per_s: tuple[float, ...] = ()
    concurrencies: tuple[int, ...] = ()
    temperatures: tuple[float, ...] = (0.0,)
    top_p: float = 1.0
    max_requests: int = 200
    max_seconds: float = 300.0
    """Both bound all levels together; what was sent may still end within the time-out."""
    max_tokens: int = 128
    timeout_s: float = 120.0
    """Of one request for text, from connecting to the last byte."""
    idle_s: float = 60.0
    """Longest silence within an answer that has begun."""
    answer_timeout_s: float = ANSWER_TIMEOUT_S
    """Of one look at the metrics, or at what the server says of itself."""
    wait_for_server_s: float = 60.0
    """How long a level waits for a server that went away."""
    prompts: Path | Sequence[Path] | None = None
    thinking: bool | None = None
    check_text: bool = True
    seed: int = 0
    resume: bool = False
    force: bool = False

    def begun(self, prompts: PromptSet, facts: ServerFacts) -> Profile:
        """Return the profile of a server before its first window."""
        told = {"url": str(self.address), "served_model": facts.model, **facts.arguments()}
        return begun_profile(
            request=self.identity(prompts),
            environment=describe(self.device),
            backend=Backend(name="server", version=facts.version or "unknown", arguments=told),
            target=ProfiledLlm(
                spec=self.target, dtype=_DTYPE, quantisation=self.target.quantisation
            ),
            draft=self.draft,
        )

    def asks(self, prompts: PromptSet, temperature: float) -> list[Ask]:
        """Return the requests, tasks taking turns."""
        rows = [[(task, p.text) for p in ps] for task, ps in prompts.by_task.items()]
        longest = max(map(len, rows))
        mixed = [row[i] for i in range(longest) for row in rows if i < len(row)]
        return [
            Ask(
                prompt=text,
                temperature=temperature,
                max_tokens=self.max_tokens,
                seed=self.seed + number,
                top_p=self.top_p,
                thinking=self.thinking,
                task=task,
            )
            for number, (task, text) in enumerate(mixed)
        ]

    def levels(self, alone_s: float) -> list[Level]:
        """Return the ladder: as asked for, else rates for a few requests in flight."""
        asked = [Level(rate_per_s=rate) for rate in self.rates_per_s]
        asked += [Level(concurrency=places) for places in self.concurrencies]
        return asked or [Level(rate_per_s=places / alone_s) for places in DEFAULT_PLACES]

    def served(self, model: str) -> ServedLlm:
        """Return what requests are sent to."""
        return ServedLlm(self.address, model, self.api_key, self.timeout_s, self.idle_s)

    def identity(self, prompts: PromptSet) -> dict[str, Answer]:
        """Return what must be equal for a run to go on."""
        return {
            "server": str(self.address),
            "target": self.target.id,
            "observe": self.observe_minutes is not None,
            "rates_per_s": self.rates_per_s,
            "concurrencies": self.concurrencies,
            "temperatures": self.temperatures,
            "top_p": self.top_p,
            "max_requests": self.max_requests,
            "max_tokens": self.max_tokens,
            "prompts_sha256": prompts.sha256,
            "thinking": self.thinking,
            "seed": self.seed,
        }
