"""One acceptance trace against running speculative decoding once for every N.

The trace side writes a text for each prompt once and scores it once per temperature; every N from
1 to 16 follows by replay. The rerun side decodes the same prompts speculatively once for every N,
batched like the trace's own generation. Both count compute the same way: CPU seconds of this
process, forward passes and tokens passed.

Run from the repository: python benchmarks/trace_vs_rerun.py (docs/method/trace-vs-rerun.md)
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from rerun_judged import Comparison, Compute, Counts, Outcome, judged
from rerun_table import as_text
from transformers import AutoModelForCausalLM, AutoTokenizer

from capplan.errors import CheckpointError
from capplan.estimate.acceptance import MAX_NUM_SPECULATIVE_TOKENS
from capplan.estimate.replay import ReplayCounts, replay_per_start, replay_per_token
from capplan.schema.cells import DraftSampling
from capplan.schema.measured_setup import NgramDraft
from profiler.backends.checkpoints import find_checkpoint
from profiler.backends.embedded import demo_checkpoint
from profiler.backends.speculative_batch import (
    BatchDrafter,
    BatchLookupDrafter,
    BatchModelDrafter,
    decode_batch,
)
from profiler.backends.torch_llm import TorchLlm
from profiler.backends.torch_loading import load_llm, quiet_transformers
from profiler.backends.torch_local import GENERATION_BATCH, TorchBackend
from profiler.prompts import PromptSet, embedded_prompts, load_prompts
from profiler.protocol import LoadRequest, SamplingPoint, Trace

LENGTHS = tuple(range(1, MAX_NUM_SPECULATIVE_TOKENS + 1))
TEMPERATURES = (0.0, 0.6, 1.0)
LOOKUP = NgramDraft(prompt_lookup_min=2, prompt_lookup_max=4)
STAND_IN_LAYERS = (0, 1, 29)
"""Of the demo target's 30, for a draft model where no trained one is at hand."""
REQUESTS, MAX_TOKENS = 12, 12
QUICK_REQUESTS, QUICK_MAX_TOKENS = 6, 10
RERUN_SEED, SEED_STEP = 1_000_003, 7_919
"""Reruns draw from other random streams than the trace: the two texts are independent."""

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Contest:
    """A backend that writes and traces, and the same LLMs for the decoder."""

    name: str
    backend: TorchBackend
    target: TorchLlm
    draft: TorchLlm | None
    mode: DraftSampling

    @classmethod
    def loaded(cls, name: str, target: str, draft: str | None, mode: DraftSampling) -> Contest:
        """Load a target with a draft model, or with lookup if there is none."""
        backend = TorchBackend()
        low_high = None if draft else (LOOKUP.prompt_lookup_min, LOOKUP.prompt_lookup_max)
        backend.load(LoadRequest(target, draft, prompt_lookup=low_high, device="cpu"))
        return cls(name, backend, _load(target), _load(draft) if draft else None, mode)

    def drafter(self, sampling: SamplingPoint, seeds: Sequence[int]) -> BatchDrafter:
        """Return a drafter for one rerun."""
        if self.draft is None:
            return BatchLookupDrafter(LOOKUP)
        return BatchModelDrafter(self.draft, sampling, seeds, self.mode)

    @contextmanager
    def metered(self) -> Iterator[Compute]:
        """Count what runs inside: CPU time, passes and tokens of either LLM."""
        spent = Compute()
        plain_forward = TorchLlm.forward

        def counting(llm: TorchLlm, ids: torch.Tensor, *rest: Any) -> torch.Tensor:
            role = "target" if llm.name == self.target.name else "draft"
            for what, amount in (("passes", 1), ("tokens", ids.numel())):
                key = f"{role}_{what}"
                setattr(spent, key, getattr(spent, key) + amount)
            return plain_forward(llm, ids, *rest)

        with patch.object(TorchLlm, "forward", counting):
            started_s = time.process_time()
            yield spent
            spent.cpu_s = time.process_time() - started_s


def _load(name: str) -> TorchLlm:
    return load_llm(find_checkpoint(name), torch.device("cpu"), torch.float32)


def replayed(trace: Trace, mode: DraftSampling, n: int) -> Counts:
    """Replay a trace of either kind at one N."""
    arrays = trace.arrays
    counts: ReplayCounts = (
        replay_per_start(arrays["proposed"], arrays["accepted"], trace.offsets, n)
        if trace.kind == "per_start"
        else replay_per_token(arrays[f"accept_{mode.value}"], trace.offsets, n)
    )
    return np.stack([counts.emitted, counts.rounds], axis=1)


def traced(
    contest: Contest, prompts: Sequence[Tokens], sampling: SamplingPoint, lengths: Sequence[int]
) -> tuple[dict[int, Counts], Compute]:
    """Write once, score once, replay every N."""
    with contest.metered() as spent:
        trace = contest.backend.trace(contest.backend.generate(prompts, sampling), sampling)
        counts = {n: replayed(trace, contest.mode, n) for n in lengths}
    return counts, spent


def rerun(
    contest: Contest, prompts: Sequence[Tokens], sampling: SamplingPoint, n: int
) -> tuple[Counts, Compute]:
    """Speculate for real at one N."""
    first = RERUN_SEED + sampling.seed + SEED_STEP * n * len(prompts)
    seeds = [first + SEED_STEP * index for index in range(len(prompts))]
    batch = GENERATION_BATCH["cpu"]
    with contest.metered() as spent:
        done = []
        for start in range(0, len(prompts), batch):
            part = slice(start, start + batch)
            drafter = contest.drafter(sampling, seeds[part])
            done += decode_batch(contest.target, drafter, prompts[part], sampling, seeds[part], n)
    # The first token comes from the prefill, not from a round.
    counts = [(len(one.generated) - 1, one.counts.rounds) for one in done]
    return np.array(counts, dtype=float), spent


def compete(
    contest: Contest,
    prompts: Sequence[Tokens],
    temperatures: Sequence[float],
    lengths: Sequence[int],
    max_tokens: int,
    say: Callable[[str], None],
) -> Outcome:
    """Count every temperature and N both ways."""
    outcome = Outcome(contest.name)
    for temperature in temperatures:
        sampling = SamplingPoint(temperature, max_tokens, seed=round(1000 * temperature))
        foretold, outcome.trace_cost[temperature] = traced(contest, prompts, sampling, lengths)
        outcome.rerun_cost[temperature] = Compute()
        for n in lengths:
            counts, spent = rerun(contest, prompts, sampling, n)
            outcome.rerun_cost[temperature] += spent
            outcome.comparisons.append(Comparison(temperature, n, foretold[n], counts))
            say(f"{contest.name}, temperature {temperature:g}, N={n}: {spent.cpu_s:.0f} s")
    return outcome


def trained_draft() -> Path | None:
    """Return the embedded draft model, if this version has one."""
    if importlib.util.find_spec("profiler.backends.embedded_draft") is None:
        return None
    module = importlib.import_module("profiler.backends.embedded_draft")
    try:
        return Path(module.demo_draft())
    except CheckpointError as error:
        _progress(f"{error.message} A stand-in takes its place.")
        return None


def stand_in(target: str, folder: Path) -> Path:
    """Write some of the target's own layers as a draft model, untrained."""
    with quiet_transformers():
        llm = AutoModelForCausalLM.from_pretrained(target, use_safetensors=True)
        llm.model.layers = torch.nn.ModuleList(llm.model.layers[i] for i in STAND_IN_LAYERS)
        llm.config.num_hidden_layers = len(STAND_IN_LAYERS)
        llm.config.layer_types = None
        llm.save_pretrained(folder)
        AutoTokenizer.from_pretrained(target).save_pretrained(folder)
    return folder


def contests(options: argparse.Namespace, target: str, folder: Path) -> Iterator[Contest]:
    """Load one draft after the other."""
    mode = DraftSampling(options.draft_sampling)
    for wish in options.draft or ["ngram", "demo"]:
        if wish == "ngram":
            low, high = LOOKUP.prompt_lookup_min, LOOKUP.prompt_lookup_max
            yield Contest.loaded(f"n-gram lookup, {low} to {high} tokens", target, None, mode)
            continue
        draft, name = wish, Path(wish).name
        if wish == "demo":
            trained = trained_draft()
            name = f"layers {STAND_IN_LAYERS} of the target" if trained is None else trained.name
            draft = str(trained or stand_in(target, folder))
        yield Contest.loaded(f"{name}, {mode.value}", target, draft, mode)


def spread_over_tasks(prompts: PromptSet, count: int) -> list[str]:
    """Return the shortest prompts of every task in turn: reading prompts is most of the time."""
    tasks = [sorted(task, key=lambda one: len(one.text)) for task in prompts.by_task.values()]
    longest = max(map(len, tasks))
    turns = [task[i].text for i in range(longest) for task in tasks if i < len(task)]
    return turns[:count]


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--draft", action="append", help="ngram, demo or a folder; may be repeated")
    add("--draft-sampling", choices=[m.value for m in DraftSampling], default="probabilistic")
    add("--target", help="a folder or cached id (default: the demo checkpoint)")
    add("--prompts", help="a prompts file (default: the shipped ones)")
    add("--requests", type=int)
    add("--max-tokens", type=int)
    add("--temperature", type=float, action="append")
    add("--format", choices=["text", "json"], default="text")
    add("--quick", action="store_true", help="few requests and short texts")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print, and return 0 if both promises hold."""
    options = parsed(arguments)
    usual = (QUICK_REQUESTS, QUICK_MAX_TOKENS) if options.quick else (REQUESTS, MAX_TOKENS)
    requests, max_tokens = options.requests or usual[0], options.max_tokens or usual[1]
    target = options.target or str(demo_checkpoint())
    texts = load_prompts(options.prompts) if options.prompts else embedded_prompts()
    results = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for contest in contests(options, target, folder):
            prompts = [contest.backend.encode(t) for t in spread_over_tasks(texts, requests)]
            temperatures = options.temperature or TEMPERATURES
            traced(contest, prompts[:2], SamplingPoint(0.0, 2, 0), [1])  # first passes allocate
            outcome = compete(contest, prompts, temperatures, LENGTHS, max_tokens, _progress)
            results.append(judged(outcome))
            contest.backend.close()
            if options.format == "text":
                print(as_text(results[-1]), flush=True)
    if options.format == "json":
        print(json.dumps({"max_tokens": max_tokens, "drafts": results}, indent=1))
    return 0 if all(one["agree"] and one["cheap_enough"] for one in results) else 1


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
