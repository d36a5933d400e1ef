from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from capplan.schema.measured_setup import NgramDraft  # noqa: E402
from profiler.backends import torch_trace  # noqa: E402
from profiler.backends.torch_generate import generate  # noqa: E402
from profiler.backends.torch_sampling import distribution  # noqa: E402
from profiler.protocol import Generation, SamplingPoint  # noqa: E402

WARM = SamplingPoint(temperature=0.7, max_tokens=20, seed=3, top_p=0.95, top_k=40)
GREEDY = SamplingPoint(temperature=0, max_tokens=20, seed=3)


@pytest.fixture(scope="module")
def pair(tiny_pair: tuple[Path, Path], tiny_llms: Any) -> tuple[Any, Any]:
    return tiny_llms.load(tiny_pair[0]), tiny_llms.load(tiny_pair[1])


@torch.inference_mode()
def one_by_one(
    pair: tuple[Any, Any], generation: Generation, sampling: SamplingPoint
) -> tuple[list[float], list[float]]:
    """Score each token from scratch with transformers' eager attention, without a cache."""
    greedy, probabilistic = [], []
    for place, token in enumerate(generation.generated_ids):
        text = torch.tensor([generation.prompt_ids + generation.generated_ids[:place]])
        probs = []
        for llm in pair:
            llm.model.set_attn_implementation("eager")
            logits = llm.model(text, use_cache=False).logits[0, -1]
            llm.model.set_attn_implementation("capplan_grouped")
            probs.append(distribution(logits, sampling))
        greedy.append(float(logits.argmax() == token))
        probabilistic.append(min(1.0, float(probs[1][token] / probs[0][token])))
    return greedy, probabilistic


@pytest.mark.parametrize("budget_bytes", [torch_trace.LOGITS_BUDGET_BYTES, 4 * 64 * 5 * 3])
def test_the_trace_is_each_tokens_own_acceptance(
    pair: tuple[Any, Any], tiny_llms: Any, monkeypatch: pytest.MonkeyPatch, budget_bytes: int
) -> None:
    # The small budget scores three positions of five requests at a time.
    monkeypatch.setattr(torch_trace, "LOGITS_BUDGET_BYTES", budget_bytes)
    generations = generate(pair[0], tiny_llms.prompts(5), WARM, 5)
    trace = torch_trace.trace_draft_model(*pair, generations, WARM)
    assert trace.kind == "per_token"
    for index, generation in enumerate(generations):
        place = slice(trace.offsets[index], trace.offsets[index + 1])
        greedy, probabilistic = one_by_one(pair, generation, WARM)
        assert trace.arrays["accept_greedy"][place].tolist() == greedy
        np.testing.assert_allclose(
            trace.arrays["accept_probabilistic"][place], probabilistic, rtol=2e-3, atol=1e-5
        )


def test_at_temperature_0_both_kinds_of_draft_are_greedy(
    pair: tuple[Any, Any], tiny_llms: Any
) -> None:
    generations = generate(pair[0], tiny_llms.prompts(5), GREEDY, 5)
    trace = torch_trace.trace_draft_model(*pair, generations, GREEDY)
    greedy = trace.arrays["accept_greedy"]
    assert set(greedy.tolist()) == {0.0, 1.0}
    np.testing.assert_array_equal(greedy, trace.arrays["accept_probabilistic"])
    for index, generation in enumerate(generations):
        place = slice(trace.offsets[index], trace.offsets[index + 1])
        assert greedy[place].tolist() == one_by_one(pair, generation, GREEDY)[0]


def test_the_target_accepts_itself(pair: tuple[Any, Any], tiny_llms: Any) -> None:
    generations = generate(pair[0], tiny_llms.prompts(5), WARM, 5)
    trace = torch_trace.trace_draft_model(pair[0], pair[0], generations, WARM)
    assert trace.arrays["accept_probabilistic"].min() == pytest.approx(1, abs=1e-3)
    assert 0 < trace.arrays["accept_greedy"].mean() < 1


def test_texts_of_different_lengths_keep_their_places(
    pair: tuple[Any, Any], tiny_llms: Any
) -> None:
    whole = generate(pair[0], tiny_llms.prompts(3), WARM, 3)
    cut = [
        Generation(one.prompt_ids, one.generated_ids[:length])
        for one, length in zip(whole, (1, 20, 7), strict=True)
    ]
    trace = torch_trace.trace_draft_model(*pair, cut, WARM)
    assert np.diff(trace.offsets).tolist() == [len(one.generated_ids) for one in cut]
    full = torch_trace.trace_draft_model(*pair, whole, WARM)
    for index, one in enumerate(cut):
        got = trace.arrays["accept_probabilistic"][trace.offsets[index] :]
        expected = full.arrays["accept_probabilistic"][full.offsets[index] :]
        length = len(one.generated_ids)
        np.testing.assert_allclose(got[:length], expected[:length], rtol=2e-3, atol=1e-5)


def test_a_lookup_trace_tells_what_a_round_at_each_start_does() -> None:
    generation = Generation((1, 2, 3, 4, 1, 2), (3, 4, 9))
    draft = NgramDraft(prompt_lookup_min=2, prompt_lookup_max=3)
    trace = torch_trace.trace_lookup([generation, generation], draft)
    assert trace.kind == "per_start"
    assert trace.offsets.tolist() == [0, 3, 6]
    # Before 3: "1 2" was followed by 3 4 1 2. Before 4: "1 2 3" by 4 1 2 3. Before 9:
    # "2 3 4" by 1 2 3 4.
    assert trace.arrays["proposed"].tolist() == [4, 4, 4] * 2
    assert trace.arrays["accepted"].tolist() == [2, 1, 0] * 2
