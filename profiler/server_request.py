"""What to ask of a live server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from capplan.profiles.server_http import ServerAddress
from capplan.schema.llm import LlmSpec
from capplan.schema.profile import Device, Draft
from profiler.prompts import PromptSet
from profiler.request import Answer

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
    prompts: Path | Sequence[Path] | None = None
    thinking: bool | None = None
    check_text: bool = True
    seed: int = 0
    resume: bool = False
    force: bool = False

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
