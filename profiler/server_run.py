"""What loading a server and watching it share: its metrics, its facts, and what is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capplan.profiles.server_http import get_metrics
from capplan.schema.observation import Observation
from profiler.backends.live_facts import ServerFacts
from profiler.backends.live_ledger import ServerLedger
from profiler.backends.live_observation import described
from profiler.backends.live_windows import WindowRecorder
from profiler.prompts import PromptSet
from profiler.schedule import Progress
from profiler.server_request import ServerRequest

OnProgress = Callable[[Progress], None]


@dataclass
class ServerRun:
    """One session with one server, whichever way it is profiled."""

    request: ServerRequest
    prompts: PromptSet
    facts: ServerFacts
    ledger: ServerLedger
    on_progress: OnProgress

    def __post_init__(self) -> None:
        self.recorder = WindowRecorder(self._metrics, str(self.request.address))

    def _metrics(self) -> str:
        request = self.request
        return get_metrics(
            request.address, api_key=request.api_key, timeout_s=request.answer_timeout_s
        )

    def of_model(self, windows: Sequence[Observation]) -> list[Observation]:
        """Keep the windows of the model that is asked; all where metrics name none."""
        named = [window for window in windows if window.model == self.facts.model]
        return named or list(windows)

    def described(self, seen: Observation) -> Observation:
        """Add what the server and the request tell beside the counters."""
        return described(seen, self.facts, self.request.draft, self.request.device)

    def note_losses(self) -> None:
        """Write what the recorder lost, each loss once."""
        self.ledger.skip(self.recorder.lost)
        self.recorder.lost.clear()

    def speculation_length(self) -> int:
        """Return the speculation length seen, 0 without speculation."""
        counts = [seen.speculation for seen in self.ledger.profile.observations]
        lengths = [c.num_speculative_tokens for c in counts if c is not None]
        return max([n for n in lengths if n is not None], default=0)

    def remember_cache(self) -> None:
        """Record the KV capacity that the server tells."""
        memory = self.facts.engine_memory(self.speculation_length())
        if memory is not None:
            self.ledger.update(engine_memory=(memory,))
