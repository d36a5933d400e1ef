"""Published load sweeps simulated: the closed loops of serving_baseline.csv and throughput.csv.

Two kinds of sweeps. Plain serving of an LLM whose facts and GPU are known: the step is the sum of
terms of ``capplan.estimate.serving``, its factors fitted with this LLM on this GPU left out.
Speculation beside its own plain serving: the step is the sweep's plain step as published, times
one factor for drafting and verifying.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.pooling import PooledFit
from capplan.estimate.serving import ServingSetting, tpot_work, ttft_work
from capplan.estimate.serving_acceptance import NO_DRAFTS, accepted_from_conditional
from capplan.estimate.serving_clocks import PrefillTimes, StepClock, tabulated_clock
from capplan.estimate.serving_limits import EngineLimits
from capplan.estimate.serving_results import SimulatedLoad
from capplan.estimate.serving_simulation import simulate_load
from capplan.estimate.serving_traffic import traffic
from capplan.validation.rows import ThroughputRow
from capplan.validation.serving_rows import (
    ServingStep,
    fit_tpot,
    fit_ttft,
    machines_left_out,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BATCHED_TOKENS = 8192
"""vLLM's default for a server on GPUs of 70 GB and more (``engine/arg_utils.py``), which
InferenceX states, too."""
WAVES = 4
"""Requests simulated for each place; all but the first and the last stand for the rest."""
_ANSWER_TOKENS = 256
"""Where a sweep states no lengths and counts decoding alone."""


@dataclass(frozen=True)
class Client:
    """Who measured: all places are taken at once, and again whenever an answer ends.

    Attributes
    ----------
    waves
        Requests for each place; all are counted, the first among them.
    shortest
        Least length of a prompt or an answer, as a share of the stated one; drawn evenly.
    """

    waves: int
    shortest: float

    def drawn(self, tokens: float, count: int, seed: int) -> Integers:
        """Return lengths of so many prompts or answers."""
        random = np.random.default_rng([seed, count])
        return random.integers(int(tokens * self.shortest), int(tokens) + 1, count)

    def mean(self, values: Floats, places: int) -> float:
        """Return the mean over all waves, from those that were simulated."""
        first, between, last = np.split(values, [places, len(values) - places])
        rest = (self.waves - 2) * between.mean()
        return float((first.mean() + rest + last.mean()) / self.waves)


INFERENCEX = Client(waves=10, shortest=0.8)
"""``utils/bench_serving/benchmark_serving.py`` of SemiAnalysisAI/InferenceX, as its scripts call
it: ``--request-rate inf --num-prompts 10C --max-concurrency C --random-range-ratio 0.8``."""
GENAI_PERF = Client(waves=10, shortest=1.0)
"""``eval/benchmarks/genai_perf_runner.py`` of ai-dynamo/aiconfigurator: ``--request-count 10C``,
lengths without spread, after a warm-up."""


def client_of(setting: ServingSetting) -> Client:
    """Return who measured: InferenceX its dated rows of Llama-3.1-70B, NVIDIA the others."""
    return INFERENCEX if "Llama-3.1-70B" in setting.llm.id else GENAI_PERF


@dataclass(frozen=True)
class Point:
    """One row of a sweep; latencies in seconds, rates in tokens a second."""

    sweep: str
    concurrency: float
    label: str
    tpot_s: float | None
    ttft_s: float | None
    tokens_per_s: float | None
    simulated_tpot_s: float
    simulated_ttft_s: float
    simulated_tokens_per_s: float

    def anchored_on(self, anchor: Point) -> Point:
        """Return the point with every step scaled so that the anchor is met."""
        factor = anchor.factor
        return replace(
            self,
            simulated_tpot_s=self.simulated_tpot_s * factor,
            simulated_ttft_s=self.simulated_ttft_s * factor,
            simulated_tokens_per_s=self.simulated_tokens_per_s / factor,
        )

    @property
    def factor(self) -> float:
        """How much slower the steps are than simulated."""
        if self.tpot_s is not None:
            return self.tpot_s / self.simulated_tpot_s
        assert self.tokens_per_s is not None, "a row measures one of the two"
        return self.simulated_tokens_per_s / self.tokens_per_s


# ---- plain serving


def plain_points(steps: Sequence[ServingStep]) -> Iterator[Point]:
    """Simulate every scored row, its own LLM on its own GPU left out of the fit."""
    timed = [step for step in steps if step.tpot_s is not None]
    everything = fit_tpot(timed)
    for held, kept in machines_left_out(timed):
        fit = fit_tpot(kept, everything)
        outside_s = _outside_s(kept)
        for step in held:
            yield _plain_point(step, simulate_plain(step.setting, fit, outside_s))


def _outside_s(steps: Sequence[ServingStep]) -> float:
    """Return what a first token takes beside the engine's steps, from the rows of others."""
    known = [step for step in steps if step.ttft_s is not None]
    works = [ttft_work(step.setting, step.tpot_s or 0.0) for step in known]
    return fit_ttft(works, known).factor("first")


def _plain_point(step: ServingStep, run: SimulatedLoad) -> Point:
    setting = step.setting
    client, places = client_of(setting), int(setting.concurrency)
    answers = (run.end_s - run.first_token_s) / (run.traffic.output_tokens - 1)
    ttft_s, tpot_s = client.mean(run.ttft_s, places), client.mean(answers, places)
    measured = None
    if step.ttft_s is not None and step.tpot_s is not None:
        measured = _loop_rate(setting, step.ttft_s, step.tpot_s)
    return Point(
        sweep=f"{setting.llm.id} {setting.bytes_per_param:g} B/param on "
        f"{setting.tensor_parallel:g} x {setting.gpu.id}",
        concurrency=setting.concurrency,
        label=step.label,
        tpot_s=step.tpot_s,
        ttft_s=step.ttft_s,
        tokens_per_s=measured,
        simulated_tpot_s=tpot_s,
        simulated_ttft_s=ttft_s,
        simulated_tokens_per_s=_loop_rate(setting, ttft_s, tpot_s),
    )


def _loop_rate(setting: ServingSetting, ttft_s: float, tpot_s: float) -> float:
    """Return output tokens a second of a closed loop: Little's law."""
    output_tokens = setting.output_tokens * (1.0 + client_of(setting).shortest) / 2.0
    request_s = ttft_s + (output_tokens - 1.0) * tpot_s
    return setting.concurrency * output_tokens / request_s


def simulate_plain(
    setting: ServingSetting, fit: PooledFit, outside_s: float, waves: int = WAVES
) -> SimulatedLoad:
    """Simulate the closed loop of a setting, as its client runs it, with the factors of a fit."""
    client, places = client_of(setting), int(setting.concurrency)
    count = waves * places
    load = traffic(
        count,
        client.drawn(setting.prompt_tokens, count, 0),
        client.drawn(setting.output_tokens, count, 1),
        concurrency=places,
    )
    longest = setting.prompt_tokens + setting.output_tokens
    # at least one request fits: the benchmark ran
    kv_tokens = max(setting.room * setting.context, longest + 32.0)
    limits = EngineLimits(places, BATCHED_TOKENS, int(kv_tokens), first_token_overhead_s=outside_s)
    return simulate_load(load, limits, fitted_clock(setting, fit), NO_DRAFTS)


def fitted_clock(setting: ServingSetting, fit: PooledFit) -> StepClock:
    """Return the clock of one setting: decoding by batch and context, prompts by the token."""

    def decode_s(batch: float, context: float) -> float:
        pure = replace(setting, concurrency=batch, prompt_tokens=0.0, output_tokens=2.0 * context)
        return float(fit.terms(tpot_work(pure)).sum())

    def round_seconds(batches: Integers, n: int, context: float) -> Floats:  # noqa: ARG001 - none drafts
        asked = np.unique(np.geomspace(1, batches[-1], 9).astype(int))
        seconds: Floats = np.interp(batches, asked, [decode_s(float(b), context) for b in asked])
        return seconds

    longest = setting.prompt_tokens + setting.output_tokens
    two = replace(setting, concurrency=2.0)  # one decodes, one brings a prompt an answer
    added_s = float(fit.terms(tpot_work(two)).sum()) - decode_s(2.0, setting.context)
    per_token_s = max(added_s, 0.0) * setting.output_tokens / setting.prompt_tokens
    return tabulated_clock(
        round_seconds,
        max_batch=int(setting.concurrency),
        lengths=(0,),
        contexts=(1.0, longest / 2.0 + 0.5, float(longest)),
        prefill=PrefillTimes(per_token_s, decode_s(1.0, 1.0)),
    )


# ---- speculation beside plain serving


def speculative_points(rows: Sequence[ThroughputRow]) -> Iterator[Point]:
    """Simulate sweeps that state plain and speculative tokens a second and tokens a round."""
    for name, sweep in speculative_sweeps(rows).items():
        loads = np.array([row.load or 0.0 for row in sweep])
        step_s = loads / np.array([row.baseline or 0.0 for row in sweep])
        for row in sweep:
            yield _speculative_point(name, row, loads, step_s)


def speculative_sweeps(rows: Sequence[ThroughputRow]) -> dict[str, list[ThroughputRow]]:
    """Group usable rows: at least three loads of one pairing, length and task."""
    found: dict[str, list[ThroughputRow]] = {}
    for row in rows:
        if why_unused(row) is None:
            name = f"{row.source_key}: {row.target} + {row.draft}, {row.task}"
            found.setdefault(name, []).append(row)
    return {
        name: sorted(sweep, key=lambda row: row.load or 0.0)
        for name, sweep in found.items()
        if len(sweep) > 2
    }


def why_unused(row: ThroughputRow) -> str | None:
    """Say why a row cannot be simulated; None where it can."""
    if row.quality != "ok":
        return f"quality {row.quality}"
    if row.load_kind != "concurrency":
        return f"load is stated as {row.load_kind}: no closed loop"
    if not row.unit.startswith("tok/s"):
        return f"measures {row.unit}"
    if "in+out" in row.unit or "incl. prefill" in row.unit:
        return "counts prompts with the output, lengths not stated or prefill-bound"
    if row.baseline is None or row.spec is None:
        return "no plain serving beside it"
    if row.tau is None:
        return "tokens a round not stated: what the drafts gave is not known"
    return None


def _speculative_point(name: str, row: ThroughputRow, loads: Floats, step_s: Floats) -> Point:
    n, tau, places = int(row.N or 0), float(row.tau or 1.0), int(row.load or 1)
    # all positions alike: only the mean counts for a rate
    rate = _rate_of(tau, n)

    def round_seconds(batches: Integers, length: int, context: float) -> Floats:  # noqa: ARG001 - as published
        seconds: Floats = np.interp(batches, loads, step_s)
        return seconds

    clock = tabulated_clock(
        round_seconds, max_batch=places, lengths=(n,), contexts=(0.0, 1.0),
        prefill=PrefillTimes(0.0),
    )  # fmt: skip
    load = traffic(WAVES * places, 1, _ANSWER_TOKENS, concurrency=places)
    limits = EngineLimits(
        places, BATCHED_TOKENS, places * 2 * _ANSWER_TOKENS, num_speculative_tokens=n
    )
    run = simulate_load(load, limits, clock, accepted_from_conditional([rate] * n))
    per_s = run.steady_requests_per_s() * _ANSWER_TOKENS
    return Point(
        sweep=name,
        concurrency=float(places),
        label=f"{name}, C={places}",
        tpot_s=None,
        ttft_s=None,
        tokens_per_s=row.spec,
        simulated_tpot_s=float(run.tpot_s.mean()),
        simulated_ttft_s=float(run.ttft_s.mean()),
        simulated_tokens_per_s=per_s,
    )


def _rate_of(tau: float, n: int) -> float:
    from capplan.estimate.acceptance import alpha_from_tokens_per_round

    return alpha_from_tokens_per_round(min(tau, n + 1.0), n)
