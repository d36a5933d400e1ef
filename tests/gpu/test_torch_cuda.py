"""The torch backend on a CUDA device: the same functions as on a CPU, and what is CUDA's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from capplan.errors import DeviceError  # noqa: E402
from capplan.schema.cells import DraftSampling, Phase, Role  # noqa: E402
from profiler.backends.torch_generate import generate, left_pad  # noqa: E402
from profiler.backends.torch_local import TorchBackend  # noqa: E402
from profiler.backends.torch_timing import TorchPoint  # noqa: E402
from profiler.backends.torch_trace import trace_draft_model  # noqa: E402
from profiler.protocol import LoadRequest, SamplingPoint, TimingPoint  # noqa: E402

GREEDY = SamplingPoint(temperature=0, max_tokens=24, seed=0)
WARM = SamplingPoint(temperature=0.8, max_tokens=24, seed=5)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, tiny_llms: Any) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("cuda")
    # Heads of 64 numbers, which the flash kernels take.
    target = tiny_llms.save_target(folder / "target", hidden_size=256, initializer_range=0.1)
    return target, tiny_llms.save_draft(target, folder / "draft")


@pytest.fixture
def backend(folders: tuple[Path, Path]) -> TorchBackend:
    backend = TorchBackend()
    backend.load(LoadRequest(*map(str, folders)))
    return backend


def test_auto_means_cuda_and_bfloat16(backend: TorchBackend) -> None:
    arguments = backend.record().arguments
    assert (arguments["device"], arguments["dtype"]) == ("cuda:0", "bfloat16")
    target = backend.memory()[0]
    assert target.peak_bytes is not None
    assert target.peak_bytes >= target.weight_bytes


def test_a_device_beyond_the_last_is_refused(folders: tuple[Path, Path]) -> None:
    with pytest.raises(DeviceError, match="cuda:99"):
        TorchBackend().load(LoadRequest(str(folders[0]), device="cuda:99"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("padded", [False, True])
@torch.inference_mode()
def test_attention_agrees_with_the_eager_formula(
    folders: tuple[Path, Path], tiny_llms: Any, dtype: torch.dtype, padded: bool
) -> None:
    llm = tiny_llms.load(folders[0], "cuda", dtype)
    rows = tiny_llms.prompts(4) if padded else [(3, 1, 4, 1, 5)] * 4
    outcomes = []
    for attention in ("capplan_grouped", "eager"):
        llm.model.set_attn_implementation(attention)
        batch = left_pad(llm, rows)
        cache = llm.new_cache(batch.ids.shape[1] + 5)
        llm.forward(batch.ids, cache, 1, batch.mask, batch.positions)
        mask = batch.mask
        if mask is not None:
            mask = torch.nn.functional.pad(mask, (0, 5), value=True)
        positions = batch.positions[:, -1:] + 1 + torch.arange(5, device=llm.device)
        new = llm.tensor([[7, 8, 9, 10, 11]] * 4)
        outcomes.append(llm.forward(new, cache, 5, mask, positions).float().softmax(-1))
    # bfloat16 keeps 8 bits: probabilities of two kernels differ in the second digit.
    tolerance = 1e-4 if dtype is torch.float32 else 5e-2
    torch.testing.assert_close(outcomes[0], outcomes[1], atol=tolerance, rtol=0)


@pytest.mark.parametrize(
    ("phase", "batch", "new", "context"),
    [(Phase.DECODE, 1, 1, 128), (Phase.DECODE, 8, 1, 1), (Phase.VERIFY, 4, 5, 128)],
)
def test_decoding_and_verification_run_inside_a_graph(
    folders: tuple[Path, Path],
    tiny_llms: Any,
    phase: Phase,
    batch: int,
    new: int,
    context: int,
) -> None:
    llm = tiny_llms.load(folders[0], "cuda", torch.bfloat16)
    point = TorchPoint(llm, TimingPoint(Role.TARGET, phase, batch, new, context))
    assert point.cuda_graph
    graphed, eager = point.run_block(50), _without_graph(point)
    assert 0 < graphed < eager  # so small an LLM is bound by its launches
    point.close()


def _without_graph(point: TorchPoint) -> float:
    point._graph = None
    return point.run_block(50)


@torch.inference_mode()
def test_a_replayed_graph_writes_the_states_of_an_eager_pass(
    folders: tuple[Path, Path], tiny_llms: Any
) -> None:
    llm = tiny_llms.load(folders[0], "cuda", torch.float32)
    point = TorchPoint(llm, TimingPoint(Role.TARGET, Phase.VERIFY, 2, 3, 16))
    layer = point._cache.layers[-1]
    point._pass()
    eager = layer.keys[:, :, 16:].clone()
    layer.keys[:, :, 16:].zero_()
    point.run_block(1)
    torch.testing.assert_close(layer.keys[:, :, 16:], eager)


def test_prefill_runs_without_a_graph(folders: tuple[Path, Path], tiny_llms: Any) -> None:
    llm = tiny_llms.load(folders[0], "cuda", torch.bfloat16)
    point = TorchPoint(llm, TimingPoint(Role.TARGET, Phase.PREFILL, 2, 128, 0))
    assert not point.cuda_graph
    assert point.run_block(2) > 0


def test_a_point_that_does_not_fit_is_an_explained_error(backend: TorchBackend) -> None:
    with pytest.raises(DeviceError, match="Not enough memory"):
        backend.prepare(TimingPoint(Role.TARGET, Phase.DECODE, 4096, 1, 4_000_000))
    # And the device is usable afterwards.
    assert backend.prepare(TimingPoint(Role.TARGET, Phase.DECODE, 1, 1, 16)).run_block(1) > 0


def test_float32_text_and_trace_equal_the_cpus(folders: tuple[Path, Path], tiny_llms: Any) -> None:
    prompts = tiny_llms.prompts(6)
    texts, traces = [], []
    for device in ("cpu", "cuda"):
        pair = [tiny_llms.load(folder, device) for folder in folders]
        generations = generate(pair[0], prompts, WARM, 6)
        texts.append([one.generated_ids for one in generations])
        traces.append(trace_draft_model(pair[0], pair[1], generations, WARM))
    assert texts[0] == texts[1]
    for name, array in traces[0].arrays.items():
        np.testing.assert_allclose(array, traces[1].arrays[name], rtol=5e-3, atol=1e-4)


def test_speculation_keeps_the_text_in_float32(folders: tuple[Path, Path], tiny_llms: Any) -> None:
    backend = TorchBackend()
    backend.load(LoadRequest(*map(str, folders), dtype="float32"))
    prompts = tiny_llms.prompts(4)
    outcome = backend.run_rounds(prompts, GREEDY, 3, DraftSampling.GREEDY)
    assert outcome.identical_outputs == len(prompts)
    assert min(outcome.seconds, outcome.baseline_seconds) > 0
    warm = replace(WARM, max_tokens=12)
    assert backend.run_rounds(prompts, warm, 3, DraftSampling.PROBABILISTIC).accepted > 0


def test_dummy_weights_are_made_on_the_device(folders: tuple[Path, Path]) -> None:
    backend = TorchBackend()
    backend.load(LoadRequest(str(folders[0]), dummy_weights=True))
    target = backend.target()
    assert (target.weights, target.dtype) == ("dummy", "bfloat16")
    assert backend.prepare(TimingPoint(Role.TARGET, Phase.DECODE, 2, 1, 64)).cuda_graph
