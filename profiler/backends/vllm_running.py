"""An engine that is up: what is asked of its worker, and what its answers mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from capplan.errors import EngineError
from profiler.backends.vllm_process import START_TIMEOUT_S, WorkerProcess
from profiler.engine import EngineFacts, EngineStep, Load, Served, ServedLoad, TokenIds
from profiler.protocol import Generation


@dataclass(frozen=True)
class Patience:
    """How long an engine is waited for before it counts as hung; seconds."""

    start_s: float = START_TIMEOUT_S
    request_s: float = 600.0
    """Beside the time for its tokens: the first request may compile kernels, on a busy machine."""
    per_token_s: float = 5.0
    """Far above any engine's."""
    per_scored_token_s: float = 0.5
    """Scoring is one prefill: many tokens a step."""
    idle_s: float = 600.0
    """Without a step; the worker tells every few seconds that it still makes some."""


PATIENCE = Patience()


@dataclass(frozen=True)
class VllmEngine:
    """Implements :class:`profiler.engine.RunningEngine` over a worker process."""

    process: WorkerProcess
    facts: EngineFacts
    patience: Patience = PATIENCE

    def encode(self, prompts: Sequence[str]) -> list[TokenIds]:
        """Tokenise user prompts through the chat template, if there is one."""
        question = {"op": "encode", "prompts": list(prompts)}
        answer = self.process.ask(question, self.patience.request_s)
        with understood(self.process, "tokens"):
            return [tuple(map(int, ids)) for ids in answer["ids"]]

    def serve(self, load: Load) -> ServedLoad:
        """Serve requests, as many at once as the load allows."""
        tokens = len(load.prompts) * load.max_tokens
        answer = self.process.ask(
            {
                "op": "serve",
                "prompts": [list(prompt) for prompt in load.prompts],
                "concurrency": load.concurrency,
                "max_steps": load.max_steps,
                "sampling": {
                    "temperature": load.temperature,
                    "top_p": load.top_p,
                    "top_k": load.top_k,
                    "max_tokens": load.max_tokens,
                    "seed": load.seed,
                    "ignore_eos": load.ignore_eos,
                },
            },
            self.patience.request_s + self.patience.per_token_s * tokens,
            idle_s=self.patience.idle_s,
        )
        with understood(self.process, "steps"):
            return ServedLoad(
                tuple(_served(load.prompts, one) for one in answer["requests"]),
                tuple(_step(one) for one in answer["steps"]),
            )

    def score(self, generations: Sequence[Generation]) -> list[tuple[float, ...]]:
        """Return the log-probability, in nats, that the target gives to each generated token."""
        tokens = sum(len(one.prompt_ids) + len(one.generated_ids) for one in generations)
        answer = self.process.ask(
            {
                "op": "score",
                "sequences": [[list(g.prompt_ids), list(g.generated_ids)] for g in generations],
            },
            self.patience.request_s + self.patience.per_scored_token_s * tokens,
        )
        with understood(self.process, "log-probabilities"):
            return [tuple(map(float, values)) for values in answer["log_probs"]]

    def close(self) -> None:
        """Stop the engine and everything it started."""
        self.process.close()


@contextmanager
def understood(process: WorkerProcess, what: str) -> Iterator[None]:
    """Turn an answer of another shape than agreed into an error of the engine, and end it."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, AttributeError) as error:
        process.kill()
        raise EngineError(
            f"The engine answered with {what} that cannot be read ({type(error).__name__}).",
            "Check that the engine runs by itself; another version of it may answer as it should.",
        ) from error


def _figure(value: Any) -> float:
    """Return a finite number that is not negative, which times and lengths are."""
    number = float(value)
    if not math.isfinite(number) or number < 0:
        raise ValueError
    return number


def _served(prompts: Sequence[TokenIds], answer: Mapping[str, Any]) -> Served:
    return Served(
        Generation(prompts[answer["index"]], tuple(answer["ids"])),
        tuple(answer["emitted_per_step"]),
        tuple(answer["drafted"]),
        tuple(answer["accepted"]),
    )


def _step(answer: Mapping[str, Any]) -> EngineStep:
    counted = answer["counted"]
    return EngineStep(
        seconds=_figure(answer["seconds"]),
        running=int(answer["running"]),
        decoding=int(answer["decoding"]),
        starting=int(answer["starting"]),
        context=_figure(answer["context"]),
        emitted=int(answer["emitted"]),
        drafts=answer.get("drafts", 0) if counted else None,
        drafted=answer.get("drafted", 0) if counted else None,
        accepted=answer.get("accepted", 0) if counted else None,
        accepted_per_position=tuple(answer.get("accepted_per_position", ())),
    )
