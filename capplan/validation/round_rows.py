"""Speculative runs whose machine is known well enough to be estimated from data sheets."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from capplan.estimate.decoding import decode_work
from capplan.estimate.kvcache import kv_known
from capplan.estimate.pooling import PooledFit
from capplan.estimate.round_cost import MachineRound
from capplan.validation.rows import PublishedRows, RoundRow, SpeedupRow, ThroughputRow
from capplan.validation.run_machines import (
    draft_setting,
    engine_named,
    engine_of,
    head_params,
    prompt_token_s,
    target_setting,
)
from capplan.validation.runs import throughput_speedup
from capplan.validation.specs import Specs

_MOST_PREFILL = 0.5
"""Of a plain step, in others' prompts, up to which a run tells what a round costs."""


@dataclass(frozen=True)
class KnownRun:
    """One run with what it takes to estimate its round."""

    source: str
    target: str
    machine: MachineRound
    tokens_per_round: float
    speedup: float
    label: str

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """What tells runs of two files apart: a run that both print is one."""
        machine = self.machine
        run = (machine.drafted, machine.target.batch, self.tokens_per_round)
        return (self.source, self.target, *run, round(self.speedup, 2))

    @property
    def round_ratio(self) -> float:
        """What the round cost in plain steps, as far as the speedup shows it."""
        return self.tokens_per_round / self.speedup

    def shows_its_round(self, decode: PooledFit) -> bool:
        """Whether decoding and not others' prompts takes the time: else it tests prefill."""
        step_s = decode.predict(decode_work(self.machine.target)).value
        return self.machine.prefill_s < _MOST_PREFILL * step_s


def known_runs(rows: PublishedRows, specs: Specs) -> tuple[KnownRun, ...]:
    """Return the runs whose target, GPU, batch, length and tokens a round are known."""
    found = [_run(row, engine_of(row.source_key), 0.0, specs) for row in rows.speedup]
    seen = {run.identity for run in found if run is not None}
    served = [_served(row, specs) for row in rows.throughput]
    found += [run for run in served if run is not None and run.identity not in seen]
    return tuple(run for run in found if run is not None)


def timed_rounds(rows: PublishedRows, specs: Specs) -> tuple[KnownRun, ...]:
    """Return the rounds that were timed beside a plain step, whatever they yielded."""
    found = [_timed(row, specs) for row in rows.rounds]
    return tuple(run for run in found if run is not None)


def _timed(row: RoundRow, specs: Specs) -> KnownRun | None:
    if not row.decode_ms or not row.round_ms:
        return None
    as_speedup = SpeedupRow(
        target=row.target,
        draft=row.draft,
        method=row.method,
        gpu=row.gpu,
        n_gpu=row.n_gpu,
        dtype=row.dtype,
        batch_size=row.batch,
        context=row.context,
        N=row.N,
        tau=1.0,
        measured_speedup=row.decode_ms / row.round_ms,
        source_key=row.source_key,
    )
    return _run(as_speedup, engine_of(row.source_key), 0.0, specs)


def _served(row: ThroughputRow, specs: Specs) -> KnownRun | None:
    """Return a pair of runs with and without speculation at one batch or concurrency.

    A speedup above the tokens of a round is no matter of decoding (a warm cache, another
    baseline), and arrivals a second leave the batch open.
    """
    speedup = throughput_speedup(row)
    at_once = row.load_kind in ("batch", "concurrency")
    if not at_once or not row.load or not row.tau or not speedup or speedup > row.tau:
        return None
    prompt, output = row.isl or 0.0, row.osl or 0.0
    prompts = 0.0
    if row.load_kind == "concurrency" and output:
        # a rate of all requests counts a request's own prompt, a time a token does not
        waiting = row.load if "total" in row.unit or "/GPU" in row.unit else row.load - 1.0
        prompts = waiting * prompt / output
    as_speedup = SpeedupRow(
        target=row.target,
        draft=row.draft,
        method=row.method,
        gpu=row.gpu,
        n_gpu=row.tp or row.n_gpu,
        dtype=row.dtype,
        task=row.task,
        batch_size=row.load,
        context=prompt + output / 2.0 if prompt else None,
        N=row.N,
        verify_tokens=row.verify_tokens,
        tau=row.tau,
        measured_speedup=speedup,
        source_key=row.source_key,
    )
    return _run(as_speedup, engine_named(row), prompts, specs)


def _run(row: SpeedupRow, engine: str, prompts: float, specs: Specs) -> KnownRun | None:
    """Return a run; ``prompts`` is how many prompt tokens are read for each token written."""
    llm, gpu = specs.llm(row.target), specs.gpu(row.gpu)
    if llm is None or gpu is None or not kv_known(llm):
        return None
    if not row.tau or not row.measured_speedup or not row.N or not row.batch_size:
        return None
    target = target_setting(row, llm, gpu, engine)
    draft = draft_setting(row, target, specs)
    head = None if draft is not None else head_params(row, llm, specs)
    if draft is None and head is None:
        return None
    machine = MachineRound(
        target=target,
        drafted=row.N,
        verified=row.verify_tokens or row.N + 1.0,
        head_params=head,
        draft=draft,
        deployment=row.source_key,
        prefill_s=prompts * prompt_token_s(target),
        tokens_per_round=row.tau,
    )
    label = f"{row.target} + {row.draft} N={row.N:g}, {row.task}, {row.gpu} B={row.batch_size:g}"
    return KnownRun(row.source_key, llm.id, machine, row.tau, row.measured_speedup, label)
