from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from profiler.backends.torch_generate import left_pad  # noqa: E402

PREFIX = [(3, 1, 4, 1, 5, 9, 2), (6, 5, 3), (5, 8, 9, 7, 9)]
NEW = [[11, 12, 13], [14, 15, 16], [17, 18, 19]]


def logits(llm: Any, rows: list[tuple[int, ...]], steps: list[int]) -> torch.Tensor:
    """Prefill padded rows, then feed the new tokens in pieces of the given sizes."""
    batch = left_pad(llm, rows)
    width = batch.ids.shape[1]
    cache = llm.new_cache(width + 3)
    llm.forward(batch.ids, cache, 1, batch.mask, batch.positions)
    new, out, done = llm.tensor(NEW[: len(rows)]), [], 0
    for size in steps:
        end = done + size
        mask = batch.mask
        if mask is not None:
            mask = torch.nn.functional.pad(mask, (0, end), value=True)
        positions = batch.positions[:, -1:] + 1 + torch.arange(done, end)
        out.append(llm.forward(new[:, done:end], cache, size, mask, positions))
        done = end
    return torch.cat(out, 1)


@pytest.fixture(scope="module")
def llama(tiny_pair: tuple[Path, Path], tiny_llms: Any) -> Any:
    return tiny_llms.load(tiny_pair[0])


@pytest.fixture(scope="module")
def windowed(tmp_path_factory: pytest.TempPathFactory, tiny_llms: Any) -> Any:
    from transformers import MistralConfig, MistralForCausalLM

    folder = tmp_path_factory.mktemp("windowed")
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=4,
        initializer_range=0.25,
    )
    MistralForCausalLM(config).save_pretrained(folder)
    return tiny_llms.load(folder)


@pytest.mark.parametrize("rows", [PREFIX, PREFIX[:1], [PREFIX[0], PREFIX[0]]])
@pytest.mark.parametrize("steps", [[3], [1, 1, 1], [1, 2]])
@pytest.mark.parametrize("name", ["llama", "windowed"])
@torch.inference_mode()
def test_attention_agrees_with_the_eager_formula(
    request: pytest.FixtureRequest, name: str, rows: list[tuple[int, ...]], steps: list[int]
) -> None:
    llm = request.getfixturevalue(name)
    grouped = logits(llm, rows, steps)
    llm.model.set_attn_implementation("eager")
    eager = logits(llm, rows, steps)
    llm.model.set_attn_implementation("capplan_grouped")
    torch.testing.assert_close(grouped, eager, atol=2e-5, rtol=1e-4)


@torch.inference_mode()
def test_tokens_verified_together_get_the_logits_of_single_steps(llama: Any) -> None:
    together, single = logits(llama, PREFIX, [3]), logits(llama, PREFIX, [1, 1, 1])
    torch.testing.assert_close(together, single, atol=2e-5, rtol=1e-4)


@torch.inference_mode()
def test_a_rewound_cache_has_forgotten(llama: Any) -> None:
    cache = llama.new_cache(12)
    first = llama.forward(llama.tensor([[3, 1, 4, 1]]), cache, 1)
    llama.forward(llama.tensor([[7, 7, 7]]), cache, 1)
    cache.rewind(3)
    assert cache.length == 3
    again = llama.forward(llama.tensor([[1]]), cache, 1)
    torch.testing.assert_close(again, first, atol=2e-5, rtol=1e-4)


@torch.inference_mode()
def test_selected_rows_go_on_as_before(llama: Any) -> None:
    cache = llama.new_cache(4)
    ids = llama.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    llama.forward(ids, cache, 1)
    cache.select(torch.tensor([2, 0]))
    kept = llama.forward(llama.tensor([[10], [11]]), cache, 1)
    alone = llama.new_cache(4)
    expected = llama.forward(llama.tensor([[7, 8, 9, 10], [1, 2, 3, 11]]), alone, 1)
    torch.testing.assert_close(kept, expected, atol=2e-5, rtol=1e-4)
