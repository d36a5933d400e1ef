"""Serving latencies of capplan and of aiconfigurator-core on the same published rows, in one run.

Run with the extra ``aic`` installed: ``python benchmarks/against_aiconfigurator.py``

capplan never saw the LLM on the GPU of a row it predicts (leave one pair out); aiconfigurator uses
its operator tables as shipped, of which these rows may be part. Its time per output token is that
of a decode step and, each time another request brings a prompt, the surplus of a mixed step.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.datasheet_step import DatasheetStep, HardwareGroup
from capplan.estimate.serving import tpot_work
from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.resources import models_db_dir
from capplan.units import MS_PER_S
from capplan.validation.folder import read_published
from capplan.validation.serving_rows import (
    ServingStep,
    fit_tpot,
    machines_left_out,
    serving_steps,
)
from capplan.validation.specs import Specs

REPEATS = 3
CHUNK_TOKENS = 8192
"""Prompt tokens a step, the engine's default on these GPUs."""
MODELS = {
    ("meta-llama/Llama-3.1-70B-Instruct", 2.0): "meta-llama/Meta-Llama-3.1-70B",
    ("meta-llama/Llama-3.1-70B-Instruct", 1.0): "nvidia/Llama-3.1-70B-Instruct-FP8",
    ("Qwen/Qwen3-32B", 2.0): "Qwen/Qwen3-32B",
    ("Qwen/Qwen3-32B", 1.0): "Qwen/Qwen3-32B-FP8",
}
SYSTEMS = {
    "h100-sxm-80gb": "h100_sxm",
    "h200-sxm-141gb": "h200_sxm",
    "b200-sxm-180gb": "b200_sxm",
}


@cache
def engine_handle(model: str, system: str, tensor_parallel: int) -> Any:
    """Compile the peer's model of one LLM on one GPU group; None where it has no tables."""
    engine = importlib.import_module("aiconfigurator_core.sdk.engine")
    try:
        return engine.EngineHandle.compile(model, system, "vllm", tp_size=tensor_parallel)
    except Exception as error:  # noqa: BLE001 - a peer's own error types, reported and counted
        print(f"not predicted by aiconfigurator: {model} on {tensor_parallel} x {system}: {error}")
        return None


def peer_tpot_s(step: ServingStep) -> float | None:
    """Return aiconfigurator's time per output token, None where it has no answer."""
    s = step.setting
    model = MODELS.get((s.llm.id, s.bytes_per_param))
    system = SYSTEMS.get(s.gpu.id)
    handle = model and system and engine_handle(model, system, int(s.tensor_parallel))
    if not handle:
        return None
    batch, prompt, output = int(s.concurrency), int(s.prompt_tokens), int(s.output_tokens)
    decode = handle.decode_step_latency(gen_tokens=batch, isl=prompt + output // 2, osl=2)
    chunk = min(prompt, CHUNK_TOKENS)
    mixed = handle.mixed_step_latency(chunk, batch, prompt, output)
    steps_with_prompt = (batch - 1) / output * prompt / chunk
    return float((decode + steps_with_prompt * max(0.0, mixed - decode)) / MS_PER_S)


def own_tpot(steps: list[ServingStep]) -> dict[str, float]:
    """Return capplan's prediction by row, each from fits that left its LLM x GPU out."""
    everything = fit_tpot(steps)
    found: dict[str, float] = {}
    for held, kept in machines_left_out(steps):
        fit = fit_tpot(kept, everything)
        for step in held:
            found[step.label] = fit.predict(tpot_work(step.setting)).value
    return found


def rate(evaluate: Callable[[], int]) -> float:
    """Return evaluations a second, the best of a few repeats."""
    best = 0.0
    for _ in range(REPEATS):
        begin = time.perf_counter()
        count = evaluate()
        best = max(best, count / (time.perf_counter() - begin))
    return best


def own_rate(steps: list[ServingStep], batches: int) -> float:
    """Return capplan's decode steps a second, so many batches a call (plans ask for grids)."""
    engine = load_engine("vllm")
    models = [
        (
            DatasheetStep(
                s.llm, HardwareGroup.of([(s.gpu, int(s.tensor_parallel))], engine), engine
            ),
            s,
        )
        for s in (step.setting for step in steps)
    ]
    load = np.arange(1.0, batches + 1.0)

    def evaluate() -> int:
        return sum(model.seconds(load, 1, s.prompt_tokens).size for model, s in models)

    return rate(evaluate)


def peer_rate(steps: list[ServingStep]) -> float:
    """Return aiconfigurator's decode steps a second, its tables being loaded and compiled."""
    compiled = [
        (handle, int(s.concurrency), int(s.prompt_tokens))
        for s in (step.setting for step in steps)
        if (model := MODELS.get((s.llm.id, s.bytes_per_param))) is not None
        and (handle := engine_handle(model, SYSTEMS[s.gpu.id], int(s.tensor_parallel)))
    ]

    def evaluate() -> int:
        for handle, batch, prompt in compiled:
            for _ in range(20):
                handle.decode_step_latency(gen_tokens=batch, isl=prompt, osl=2)
        return 20 * len(compiled)

    return rate(evaluate)


def summary(name: str, predicted: NDArray[np.float64], measured: NDArray[np.float64]) -> str:
    """Return error and bias as a line."""
    error = predicted / measured - 1.0
    return (
        f"{name:<28} mean error {np.abs(error).mean():6.1%}  median "
        f"{np.median(np.abs(error)):6.1%}  bias {error.mean():+6.1%}"
    )


def main() -> int:
    """Print both errors on the rows that both answer, and both speeds."""
    try:
        importlib.import_module("aiconfigurator_core")
    except ImportError:
        print("aiconfigurator-core is missing; install it with: pip install 'capplan[aic]'")
        return 1
    catalog = load_catalog()
    specs = Specs(catalog.llms, catalog.gpus, catalog.pairings)
    published = read_published(models_db_dir() / "published").sound()
    steps = [s for s in serving_steps(published, specs) if s.tpot_s is not None]
    own = own_tpot(steps)
    vllm = [step for step in steps if step.scored]
    both = [(step, answer) for step in vllm if (answer := peer_tpot_s(step)) is not None]
    measured = np.array([step.tpot_s for step, _ in both], dtype=float)
    print(f"\n{len(both)} of {len(vllm)} vLLM rows answered by both, time per output token:")
    print(summary("capplan, pair left out", np.array([own[s.label] for s, _ in both]), measured))
    print(summary("aiconfigurator-core", np.array([answer for _, answer in both]), measured))
    stored = {
        row.id: row.aiconfigurator_0_12_tpot_ms / MS_PER_S
        for row in published.serving_baseline
        if row.engine == "vllm" and row.aiconfigurator_0_12_tpot_ms and row.tpot_ms
    }
    known = [
        (stored[row.id], row.tpot_ms / MS_PER_S, own[step.label])
        for row, step in zip(
            (r for r in published.serving_baseline if r.engine == "vllm"), vllm, strict=True
        )
        if row.id in stored and row.tpot_ms
    ]
    theirs, measured, ours = (np.array(column) for column in zip(*known, strict=True))
    print(f"\n{len(known)} rows with the full aiconfigurator's own published prediction:")
    print(summary("capplan, pair left out", ours, measured))
    print(summary("aiconfigurator 0.12.0", theirs, measured))
    print("\ndecode steps a second, everything loaded:")
    print(f"capplan, 1,000 a call  {own_rate(vllm, 1000):>12,.0f}")
    print(f"capplan, one a call    {own_rate(vllm, 1):>12,.0f}")
    print(f"aiconfigurator-core    {peer_rate(vllm):>12,.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
