"""The trace says how sure the draft was of its likeliest token, where a controller could ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from profiler.backends import torch_trace  # noqa: E402
from profiler.backends.torch_generate import generate  # noqa: E402
from profiler.protocol import SamplingPoint  # noqa: E402


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_confidence_is_the_drafts_largest_probability_without_temperature(
    tiny_pair: tuple[Path, Path], tiny_llms: Any, temperature: float
) -> None:
    target, draft = (tiny_llms.load(path) for path in tiny_pair)
    sampling = SamplingPoint(temperature=temperature, max_tokens=6, seed=3)
    generations = generate(target, tiny_llms.prompts(3), sampling, 3)
    trace = torch_trace.trace_draft_model(target, draft, generations, sampling)
    found = trace.arrays["draft_confidence"]
    for index, generation in enumerate(generations):
        expected = []
        for place in range(len(generation.generated_ids)):
            text = torch.tensor([generation.prompt_ids + generation.generated_ids[:place]])
            draft.model.set_attn_implementation("eager")
            with torch.inference_mode():
                logits = draft.model(text, use_cache=False).logits[0, -1]
            draft.model.set_attn_implementation("capplan_grouped")
            expected.append(float(logits.softmax(-1).max()))
        start, end = trace.offsets[index : index + 2]
        assert found[start:end].tolist() == pytest.approx(expected, rel=2e-3)
