"""One trace pass tells what a rerun for every N tells, for an eighth of the compute: the benchmark
that shows it on the demo LLM, here on tiny ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from capplan.schema.cells import DraftSampling  # noqa: E402
from capplan.schema.measured_setup import NgramDraft  # noqa: E402
from profiler.backends.speculative import (  # noqa: E402
    Drafter,
    LookupDrafter,
    ModelDrafter,
    begin,
    decode,
)
from profiler.backends.speculative_batch import (  # noqa: E402
    BatchLookupDrafter,
    BatchModelDrafter,
    decode_batch,
)
from profiler.protocol import SamplingPoint  # noqa: E402

LOOKUP = NgramDraft(prompt_lookup_min=1, prompt_lookup_max=3)


@pytest.fixture(scope="module")
def benchmark(benchmark_script: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_script("trace_vs_rerun")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, tiny_llms: Any) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("rerun")
    target = tiny_llms.save_target(folder / "target")
    return target, tiny_llms.save_draft(target, folder / "draft")


@pytest.fixture
def run(
    benchmark: ModuleType,
    folders: tuple[Path, Path],
    tiny_llms: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., dict[str, Any]]:
    """Run the script as a user does and return its only draft's result."""
    words = [" ".join(f"w{token}" for token in prompt) for prompt in tiny_llms.prompts(8)]
    (tmp_path / "prompts.txt").write_text("\n".join(words), encoding="utf-8")

    def with_draft(*arguments: str) -> dict[str, Any]:
        places = ["--target", str(folders[0]), "--prompts", str(tmp_path / "prompts.txt")]
        code = benchmark.main(["--quick", "--format", "json", *places, *arguments])
        (result,) = json.loads(capsys.readouterr().out)["drafts"]
        assert code == (0 if result["agree"] and result["cheap_enough"] else 1)
        return dict(result)

    return with_draft


def check_promise(result: dict[str, Any]) -> None:
    assert len(result["rows"]) == 3 * 16
    assert result["agree"]
    cold = [row for row in result["rows"] if row["temperature"] == 0]
    assert all(row["identical"] and row["difference"] == 0 for row in cold)
    # Time of a tiny LLM is all overhead, so that passes and tokens are held to the promise here.
    for cost in result["cost"].values():
        assert cost["target_pass_ratio"] >= 8
        assert cost["target_token_ratio"] >= 8
        assert min(cost["trace"]["cpu_s"], cost["rerun"]["cpu_s"]) > 0


def test_lookup_agrees_and_costs_an_eighth(run: Callable[..., dict[str, Any]]) -> None:
    check_promise(run("--draft", "ngram"))


def test_a_draft_model_agrees_and_costs_an_eighth(
    run: Callable[..., dict[str, Any]], folders: tuple[Path, Path]
) -> None:
    result = run("--draft", str(folders[1]))
    check_promise(result)
    # The draft is neither useless nor perfect, so there was something to disagree on.
    assert all(1.2 < row["trace"]["mid"] < 5 for row in result["rows"])
    assert any(not row["identical"] for row in result["rows"])


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("kind", ["lookup", "greedy", "probabilistic"])
def test_side_by_side_each_request_gets_the_text_that_it_gets_alone(
    folders: tuple[Path, Path], tiny_llms: Any, kind: str, temperature: float
) -> None:
    target, draft = map(tiny_llms.load, folders)
    prompts, seeds, n = tiny_llms.prompts(5), [3, 14, 15, 92, 65], 5
    together = SamplingPoint(temperature, max_tokens=12, seed=0)

    def alone(sampling: SamplingPoint) -> Drafter:
        if kind == "lookup":
            return LookupDrafter(LOOKUP)
        return ModelDrafter(draft, sampling, DraftSampling(kind))

    batch = (
        BatchLookupDrafter(LOOKUP)
        if kind == "lookup"
        else BatchModelDrafter(draft, together, seeds, DraftSampling(kind))
    )
    done = decode_batch(target, batch, prompts, together, seeds, n)
    for prompt, seed, request in zip(prompts, seeds, done, strict=True):
        own = SamplingPoint(temperature, max_tokens=12, seed=seed)
        state = begin(target, alone(own), prompt, own, n)
        assert decode(state, n) == request.generated
        assert state.counts == request.counts


def planted(benchmark: ModuleType, seed: int, bias: float) -> Any:
    """Return an outcome whose reruns emit ``1 + bias`` times what the trace foretells a round."""
    rng = np.random.default_rng(seed)
    outcome = benchmark.Outcome("planted")
    outcome.trace_cost[1.0] = benchmark.Compute(1.0, 1, 1, 1, 1)
    outcome.rerun_cost[1.0] = benchmark.Compute(9.0, 9, 9, 9, 9)
    of_request = rng.normal(0, 0.1, 24)  # prompts differ, for both sides alike

    def side(tokens_a_round: float) -> Any:
        emitted = np.full(24, 40.0)
        noisy = tokens_a_round * np.exp(of_request + rng.normal(0, 0.08, 24))
        return np.stack([emitted, emitted / noisy], axis=1)

    traced = side(1.5)
    for n in range(1, 17):
        rerun = side(1.5 * (1 + bias))
        outcome.comparisons.append(benchmark.Comparison(1.0, n, traced, rerun))
    return outcome


def test_the_verdict_finds_a_bias_of_a_tenth(benchmark: ModuleType) -> None:
    found = sum(not benchmark.judged(planted(benchmark, s, 0.1))["agree"] for s in range(10))
    assert found == 10


def test_the_verdict_rarely_cries_wolf(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["rerun_judged"], "SIGN_DRAWS", 2000)
    alarms = sum(not benchmark.judged(planted(benchmark, s, 0.0))["agree"] for s in range(100))
    # 5 in 100 are meant; more than 11 would have a chance of 0.4 %.
    assert alarms <= 11
