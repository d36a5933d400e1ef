"""Traces of the demo pair for replaying length controllers, with what its rounds take.

The demo target writes on the shipped prompts at each temperature and is scored with its trained
draft; passes of both are timed on one processor thread, in processor time, which neighbours on the
machine do not lengthen. Kept in one file, because writing takes minutes and replaying seconds.

Run from the repository: ``python benchmarks/controllers.py --demo FILE.npz``
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from capplan.schema.cells import Phase, Role
from profiler.backends.checkpoints import find_checkpoint
from profiler.backends.embedded import demo_checkpoint
from profiler.backends.embedded_draft import demo_draft
from profiler.backends.torch_generate import generate
from profiler.backends.torch_llm import TorchLlm
from profiler.backends.torch_loading import load_llm, quiet_transformers
from profiler.backends.torch_timing import TorchPoint
from profiler.backends.torch_trace import trace_draft_model
from profiler.prompts import embedded_prompts
from profiler.protocol import SamplingPoint, TimingPoint

TEMPERATURES = (0.0, 0.8)
REQUESTS_A_TASK, MAX_TOKENS = 4, 48
TOGETHER = 12
"""Requests that write side by side."""
BATCHES = (1, 4)
LENGTHS = (0, 1, 3, 6, 10)
"""Drafts a round whose verification is timed; those between follow on straight lines."""
CONTEXT = 128
REPEATS = 7


def make_traces(file: Path) -> None:
    """Write, score and time, and keep everything in ``file``."""
    # One thread, so that processor time is the time that the work takes.
    torch.set_num_threads(1)
    with quiet_transformers():
        target, draft = (
            load_llm(find_checkpoint(str(folder)), torch.device("cpu"), torch.float32)
            for folder in (demo_checkpoint(), demo_draft())
        )
    kept = time_passes(target, draft)
    by_task = embedded_prompts().by_task
    texts = [
        (task, p.text) for task, prompts in by_task.items() for p in prompts[:REQUESTS_A_TASK]
    ]
    prompts = [_encode(target, text) for _, text in texts]
    for temperature in TEMPERATURES:
        sampling = SamplingPoint(temperature=temperature, max_tokens=MAX_TOKENS, seed=0)
        written = generate(target, prompts, sampling, TOGETHER)
        trace = trace_draft_model(target, draft, written, sampling)
        kept[f"{temperature:g}/offsets"] = trace.offsets
        kept |= {f"{temperature:g}/{name}": array for name, array in trace.arrays.items()}
        kept["task"] = np.array([task for task, _ in texts])
        np.savez(file, **kept)
        accepted = trace.arrays["accept_greedy"].mean()
        print(f"temperature {temperature:g}: {accepted:.3f} of greedy drafts fit", flush=True)


def time_passes(target: TorchLlm, draft: TorchLlm) -> dict[str, NDArray[np.generic]]:
    """Return seconds of a draft pass, and of verifications by batch and drafts."""
    verify_s = [[_pass_s(target, Role.TARGET, batch, n + 1) for n in LENGTHS] for batch in BATCHES]
    pass_s = [_pass_s(draft, Role.DRAFT, batch, 1) for batch in BATCHES]
    print(f"draft pass {pass_s}, verification {verify_s} s", flush=True)
    return {"verify_s": np.array(verify_s), "pass_s": np.array(pass_s)}


def _pass_s(llm: TorchLlm, role: Role, batch: int, tokens: int) -> float:
    phase = Phase.DECODE if tokens == 1 else Phase.VERIFY
    point = TorchPoint(llm, TimingPoint(role, phase, batch, tokens, CONTEXT))
    spent = []
    for _ in range(REPEATS):
        start = time.process_time()
        point.run_block(1)
        spent.append(time.process_time() - start)
    point.close()
    # What others on the machine do can only lengthen it.
    return min(spent)


def _encode(llm: TorchLlm, text: str) -> tuple[int, ...]:
    assert llm.tokenizer is not None, "the demo checkpoint has one"
    chat = [{"role": "user", "content": text}]
    ids = llm.tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    return tuple(ids)
