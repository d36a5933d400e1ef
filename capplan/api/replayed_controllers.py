"""Length controllers replayed on the same requests: a row of the answer each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from capplan.estimate.adaptive import LengthTimes, plan_lengths
from capplan.estimate.controller_gains import (
    Order,
    Streams,
    feedback_gain,
    gain_of,
    serve_confident,
)
from capplan.estimate.controllers import (
    FeedbackRule,
    RoundClock,
    Served,
    best_fixed,
    fixed,
    scheduled,
)
from capplan.estimate.traced_requests import TracedRequests
from capplan.estimate.variable_length import clairvoyant
from capplan.schema.cells import DraftSampling
from capplan.schema.schedule import ControllerResult

CONTROLLERS = ("fixed", "guide", "schedule", "confidence", "clairvoyant")
GUIDE_LENGTH = 5
"""The single length that the guide compares its controller with."""
DEFAULT_STREAM = 2000


@dataclass(frozen=True)
class SimulationWishes:
    """What to replay.

    Attributes
    ----------
    controllers
        Of :data:`CONTROLLERS`; all by default.
    load
        Share of time by requests at once; every measured batch alike by default.
    temperatures
        Those to keep; all that were traced by default.
    order
        Requests mixed, task after task, or from cold to hot.
    stream
        Requests served in a replay.
    rule
        Settings of the guide's controller.
    draft_sampling
        How a draft model proposes.
    max_num_speculative_tokens
        Largest N of everything but the guide's rule, which has its own.
    seed
        Of orders and resamples.
    """

    controllers: tuple[str, ...] = CONTROLLERS
    load: Mapping[int, float] | None = None
    temperatures: tuple[float, ...] = ()
    order: Order = "mixed"
    stream: int = DEFAULT_STREAM
    rule: FeedbackRule = field(default_factory=FeedbackRule)
    draft_sampling: DraftSampling = DraftSampling.GREEDY
    max_num_speculative_tokens: int = 10
    seed: int = 0


class Replay:
    """Every controller on the same requests, clock and streams."""

    def __init__(
        self, requests: TracedRequests, clock: RoundClock, wishes: SimulationWishes
    ) -> None:
        self.requests, self.clock, self.wishes = requests, clock, wishes
        self.longest = min(wishes.max_num_speculative_tokens, requests.longest)
        self.best, self.best_served = best_fixed(requests, clock, self.longest)
        self.streams = Streams.drawn(requests, wishes.stream, wishes.order, wishes.seed)
        self.five = (
            fixed(requests, clock, GUIDE_LENGTH) if requests.longest >= GUIDE_LENGTH else None
        )

    def results(self) -> list[ControllerResult]:
        """Replay the controllers asked for, in a fixed order."""
        ways: dict[str, Callable[[], list[ControllerResult]]] = {
            "fixed": self._fixed,
            "guide": self._guide,
            "schedule": self._schedule,
            "confidence": self._confidence,
            "clairvoyant": self._clairvoyant,
        }
        return [
            result for name in CONTROLLERS if name in self.wishes.controllers
            for result in ways[name]()
        ]  # fmt: skip

    def notes(self) -> tuple[str, ...]:
        """Say what limits the replay."""
        found = []
        if self.requests.texts is None:
            found.append(
                f"An engine ran these rounds with N = {self.requests.longest}: shorter lengths "
                "are counted in the same rounds, longer ones are not known."
            )
        if self.requests.count < self.wishes.rule.interval_requests:
            found.append(
                f"{self.requests.count} requests were traced; the stream of "
                f"{self.wishes.stream} repeats them."
            )
        return tuple(found)

    def _result(self, name: str, detail: str, served: Served) -> ControllerResult:
        rounds = float(served.rounds.sum())
        over_five = None
        if self.five is not None:
            over_five = gain_of(served, self.five, self.clock, self.streams)
        return ControllerResult(
            name=name,
            detail=detail,
            tokens_per_round=float(served.emitted.sum()) / rounds if rounds else None,
            mean_length=float(served.drafted.sum()) / rounds if rounds else None,
            gain_over_best_fixed=gain_of(served, self.best_served, self.clock, self.streams),
            gain_over_five=over_five,
        )

    def _fixed(self) -> list[ControllerResult]:
        lengths = dict.fromkeys(
            n for n in (self.best, GUIDE_LENGTH, 0) if n <= self.requests.longest
        )
        return [
            self._result(
                f"fixed N = {n}" if n else "no speculation",
                "best single length" if n == self.best else "",
                fixed(self.requests, self.clock, n),
            )
            for n in lengths
        ]

    def _guide(self) -> list[ControllerResult]:
        rule = self.wishes.rule
        settings = (
            f"start {rule.initial}, {rule.least} to {rule.most}, target "
            f"{rule.target_rate:g}, every {rule.interval_requests} requests"
        )
        if self.requests.longest < rule.least:
            return [_refused(
                "guide", settings, f"only N up to {self.requests.longest} was traced; "
                "profile with a larger N, or with the torch backend, whose traces hold all",
            )]  # fmt: skip
        run = feedback_gain(self.requests, self.clock, rule, self.streams)
        path = ", ".join(str(n) for n in run.path[:8])
        over_five = None
        if self.five is not None:
            over_five = run.over(self.five, self.clock, self.streams)
        return [
            ControllerResult(
                name="guide",
                detail=f"{settings}; N went {path}" + (" ..." if len(run.path) > 8 else ""),
                tokens_per_round=run.tokens_per_round,
                mean_length=run.mean_length,
                gain_over_best_fixed=run.over(self.best_served, self.clock, self.streams),
                gain_over_five=over_five,
            )
        ]

    def _schedule(self) -> list[ControllerResult]:
        """Choose N for each batch of the load on the same requests."""
        clock, lengths = self.clock, np.arange(self.longest + 1)
        weight = np.ones(self.requests.count)
        served = [fixed(self.requests, clock, int(n)) for n in lengths]
        token_s = np.stack(
            [weight @ one.seconds / float(one.emitted.sum()) for one in served], axis=1
        )
        times = LengthTimes(clock.batches, lengths, token_s, clock.tax)
        chosen = plan_lengths(times, clock.load, merge_loss=0.0).chosen
        pairs = zip(clock.batches.tolist(), chosen.tolist(), strict=True)
        detail = "N by requests at once: " + ", ".join(f"{b}: {n}" for b, n in pairs)
        return [self._result("schedule", detail, scheduled(self.requests, clock, chosen))]

    def _confidence(self) -> list[ControllerResult]:
        texts = self.requests.texts
        if texts is None or texts.confidence is None:
            why = (
                "a lookup has no confidence in what it finds"
                if texts is not None and texts.is_lookup
                else "the draft's own probability of its proposals was not traced; profile the "
                "pairing again with the torch backend"
            )
            return [_refused("confidence", "stop when the draft is unsure", why)]
        served, thresholds = serve_confident(self.requests, self.clock, self.longest)
        shown = " and ".join(f"{t:g}" for t in sorted(set(thresholds)))
        detail = f"stops below {shown}, chosen on the other half of the requests"
        return [self._result("confidence", detail, served)]

    def _clairvoyant(self) -> list[ControllerResult]:
        served = clairvoyant(self.requests, self.clock, self.longest, self.wishes.seed)
        detail = "knows what will be accepted: the bound"
        return [self._result("clairvoyant", detail, served)]


def _refused(name: str, detail: str, why: str) -> ControllerResult:
    return ControllerResult(name=name, detail=detail, refused=why)
