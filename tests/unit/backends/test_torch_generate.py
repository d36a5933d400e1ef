from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from profiler.backends.torch_generate import generate, left_pad  # noqa: E402
from profiler.protocol import SamplingPoint  # noqa: E402

GREEDY = SamplingPoint(temperature=0, max_tokens=24, seed=0)
WARM = SamplingPoint(temperature=0.8, max_tokens=24, seed=5)


@pytest.fixture(scope="module")
def llm(tiny_pair: tuple[Path, Path], tiny_llms: Any) -> Any:
    return tiny_llms.load(tiny_pair[0])


def texts(llm: Any, prompts: list[tuple[int, ...]], sampling: SamplingPoint, batch: int) -> list:
    return [one.generated_ids for one in generate(llm, prompts, sampling, batch)]


@pytest.mark.parametrize("sampling", [GREEDY, WARM, replace(WARM, top_p=0.9, top_k=20)])
def test_a_text_does_not_depend_on_its_batch(
    llm: Any, tiny_llms: Any, sampling: SamplingPoint
) -> None:
    prompts = tiny_llms.prompts(12)
    alone = texts(llm, prompts, sampling, 1)
    assert texts(llm, prompts, sampling, 12) == alone
    assert texts(llm, prompts, sampling, 5) == alone


def test_greedy_text_is_what_transformers_own_loop_writes(llm: Any, tiny_llms: Any) -> None:
    for generation in generate(llm, tiny_llms.prompts(6), GREEDY, 6):
        prompt = torch.tensor([generation.prompt_ids])
        llm.model.set_attn_implementation("eager")
        theirs = llm.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=24,
            do_sample=False,
            pad_token_id=0,
        )
        llm.model.set_attn_implementation("capplan_grouped")
        assert generation.generated_ids == tuple(theirs[0, prompt.shape[1] :].tolist())


def test_the_same_seed_gives_the_same_text_and_another_one_does_not(
    llm: Any, tiny_llms: Any
) -> None:
    prompts = tiny_llms.prompts(6)
    assert texts(llm, prompts, WARM, 4) == texts(llm, prompts, WARM, 4)
    assert texts(llm, prompts, WARM, 4) != texts(llm, prompts, replace(WARM, seed=6), 4)


def test_a_text_ends_with_its_first_end_token(llm: Any, tiny_llms: Any) -> None:
    hot = SamplingPoint(temperature=5, max_tokens=64, seed=0)
    written = texts(llm, tiny_llms.prompts(16), hot, 16)
    assert all(63 not in text[:-1] for text in written)
    ended = [text for text in written if text[-1] == 63]
    assert len(ended) >= 3
    assert all(len(text) == 64 for text in written if text not in ended)


def test_one_token_needs_the_prefill_only(llm: Any, tiny_llms: Any) -> None:
    one = replace(GREEDY, max_tokens=1)
    prompts = tiny_llms.prompts(5)
    assert texts(llm, prompts, one, 5) == [text[:1] for text in texts(llm, prompts, GREEDY, 5)]


def test_no_prompts_give_no_texts(llm: Any) -> None:
    assert generate(llm, [], GREEDY, 8) == []


def test_rows_of_one_length_need_no_mask(llm: Any) -> None:
    assert left_pad(llm, [(1, 2), (3, 4)]).mask is None
    padded = left_pad(llm, [(1, 2, 3), (4,)])
    assert padded.ids.tolist() == [[1, 2, 3], [0, 0, 4]]
    assert padded.mask is not None
    assert padded.mask.tolist() == [[True] * 3, [False, False, True]]
    assert padded.positions.tolist() == [[0, 1, 2], [0, 0, 0]]
