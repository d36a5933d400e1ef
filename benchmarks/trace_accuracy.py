"""Does one trace foretell what a decoder really does? On the demo LLM, for every length.

At temperature 0 the replay must give the decoder's own counts. Above it, two checks: replayed over
the text that the decoder itself wrote, and over text written without speculation, whose tokens per
round must agree within the sampling error of both.

Run from the repository, about ten minutes on two cores: python benchmarks/trace_accuracy.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from capplan.estimate.replay import ReplayCounts, replay_per_start, replay_per_token
from capplan.estimate.uncertainty import Z_95, ratio_of_sums
from capplan.schema.cells import DraftSampling
from capplan.schema.measured_setup import NgramDraft
from profiler.backends.checkpoints import find_checkpoint
from profiler.backends.embedded import demo_checkpoint
from profiler.backends.speculative import Drafter, LookupDrafter, ModelDrafter, begin, decode
from profiler.backends.torch_llm import TorchLlm
from profiler.backends.torch_loading import load_llm
from profiler.backends.torch_local import TorchBackend
from profiler.prompts import embedded_prompts
from profiler.protocol import Generation, LoadRequest, SamplingPoint, Trace

LENGTHS = (1, 2, 4, 8)
LAYERS_LEFT_OUT = 1
LOOKUP = (2, 4)


@dataclass(frozen=True)
class Pair:
    """A backend that writes and traces, and the same LLMs for the decoder."""

    backend: TorchBackend
    target: TorchLlm
    draft: TorchLlm | None

    @classmethod
    def loaded(cls, target: Path, draft: Path | None) -> Pair:
        """Load a target with a draft model, or with lookup."""
        backend = TorchBackend()
        lookup = LOOKUP if draft is None else None
        backend.load(LoadRequest(str(target), str(draft) if draft else None, prompt_lookup=lookup))
        return cls(backend, load(target), load(draft) if draft else None)


def load(folder: Path) -> TorchLlm:
    """Load one LLM as the backend does."""
    return load_llm(find_checkpoint(str(folder)), torch.device("cpu"), torch.float32)


def shortened(target: Path, folder: Path) -> Path:
    """Write the target without its last layers: a draft model honestly made here."""
    llm = AutoModelForCausalLM.from_pretrained(target, use_safetensors=True)
    llm.model.layers = llm.model.layers[:-LAYERS_LEFT_OUT]
    llm.config.num_hidden_layers -= LAYERS_LEFT_OUT
    llm.config.layer_types = None
    llm.save_pretrained(folder)
    AutoTokenizer.from_pretrained(target).save_pretrained(folder)
    return folder


def replayed(trace: Trace, mode: DraftSampling | None, n: int) -> ReplayCounts:
    """Replay a trace of either kind."""
    if mode is None:
        arrays = trace.arrays
        return replay_per_start(arrays["proposed"], arrays["accepted"], trace.offsets, n)
    return replay_per_token(trace.arrays[f"accept_{mode.value}"], trace.offsets, n)


def new_drafter(pair: Pair, sampling: SamplingPoint, mode: DraftSampling | None) -> Drafter:
    """Return the drafter of one request."""
    if pair.draft is None or mode is None:
        return LookupDrafter(NgramDraft(prompt_lookup_min=LOOKUP[0], prompt_lookup_max=LOOKUP[1]))
    return ModelDrafter(pair.draft, sampling, mode)


def speculated(
    pair: Pair,
    prompts: Sequence[tuple[int, ...]],
    sampling: SamplingPoint,
    mode: DraftSampling | None,
    n: int,
) -> tuple[list[Generation], np.ndarray]:
    """Decode for real; return the texts and (rounds, emitted) of each request."""
    texts, counts = [], []
    for index, prompt in enumerate(prompts):
        own = SamplingPoint(sampling.temperature, sampling.max_tokens, sampling.seed + 31 * index)
        state = begin(pair.target, new_drafter(pair, own, mode), prompt, own, n)
        text = decode(state, n)
        texts.append(Generation(tuple(prompt), tuple(text)))
        counts.append((state.counts.rounds, len(text) - 1))
    return texts, np.array(counts, dtype=float)


def compare(
    pair: Pair,
    name: str,
    prompts: Sequence[tuple[int, ...]],
    sampling: SamplingPoint,
    mode: DraftSampling | None,
    lengths: Sequence[int],
) -> None:
    """Print one line a length."""
    backend = pair.backend
    plain = backend.trace(backend.generate(prompts, sampling), sampling)
    for n in lengths:
        texts, counts = speculated(pair, prompts, sampling, mode, n)
        decoder, decoder_se = ratio_of_sums(counts[:, 1], counts[:, 0])
        foretold = replayed(plain, mode, n)
        traced, traced_se = ratio_of_sums(foretold.emitted, foretold.rounds)
        own = replayed(backend.trace(texts, sampling), mode, n)
        own_ratio = own.emitted.sum() / own.rounds.sum()
        half = Z_95 * traced * traced_se
        both = Z_95 * np.hypot(traced * traced_se, decoder * decoder_se)
        print(
            f"{name:24s} T={sampling.temperature:<3g} N={n}  trace {traced:.3f} +-{half:.3f}  "
            f"decoder {decoder:.3f}  off {traced / decoder - 1:+.1%} "
            f"({'within' if abs(traced - decoder) <= both else 'OUTSIDE'} the interval of both)  "
            f"own text {own_ratio:.3f} ({own_ratio / decoder - 1:+.2%})  {len(prompts)} requests",
            flush=True,
        )


def main() -> None:
    """Lookup and draft model, temperature 0 and 0.8."""
    target = demo_checkpoint()
    texts = [p.text for prompts in embedded_prompts().by_task.values() for p in prompts]
    cold = SamplingPoint(temperature=0.0, max_tokens=32, seed=0)
    warm = SamplingPoint(temperature=0.8, max_tokens=32, seed=0)

    lookup = Pair.loaded(target, None)
    prompts = [lookup.backend.encode(text) for text in texts]
    compare(lookup, "n-gram lookup", prompts[::4], cold, None, LENGTHS)
    compare(lookup, "n-gram lookup", prompts[::2], warm, None, LENGTHS)

    with tempfile.TemporaryDirectory() as folder:
        draft = shortened(target, Path(folder))
        pair = Pair.loaded(target, draft)
        compare(pair, "draft model, greedy", prompts[::8], cold, DraftSampling.GREEDY, LENGTHS)
        for mode in DraftSampling:
            name = f"draft model, {mode.value}"
            compare(pair, name, prompts[::4], warm, mode, (2, 4))


if __name__ == "__main__":
    main()
