from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from capplan.errors import (  # noqa: E402
    CheckpointError,
    DeviceError,
    PairingError,
    RequestError,
    UnknownIdError,
)
from capplan.schema.cells import Phase, Role  # noqa: E402
from capplan.schema.measured_setup import NgramDraft  # noqa: E402
from capplan.schema.pairing import Method  # noqa: E402
from profiler.backends.torch_local import TorchBackend  # noqa: E402
from profiler.protocol import LoadRequest, TimingPoint  # noqa: E402


def loaded(target: Path, draft: Path | None = None, **options: Any) -> TorchBackend:
    backend = TorchBackend()
    request = LoadRequest(str(target), str(draft) if draft else None, device="cpu", **options)
    backend.load(request)
    return backend


def test_a_loaded_pair_is_described_by_what_was_counted(tiny_pair: tuple[Path, Path]) -> None:
    backend = loaded(*tiny_pair)
    target = backend.target()
    # Per layer: q and o 32x32, k and v 16x32, three 48x32 projections, two norms of 32.
    layer = 2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32 + 2 * 32
    parameters = 3 * layer + 2 * 64 * 32 + 32
    assert target.spec.params_total == target.spec.params_active == parameters
    assert target.spec.weight_bytes == 4 * parameters
    # Three layers, two heads of eight numbers, key and value, four bytes each.
    assert target.spec.kv_bytes_per_token == 3 * 2 * 8 * 2 * 4
    assert (target.spec.vocab_size, target.spec.max_context) == (64, 256)
    assert (target.dtype, target.weights, len(target.weight_sha256)) == ("float32", "real", 64)
    draft = backend.draft()
    assert draft is not None
    assert draft.method is Method.DRAFT_MODEL
    assert draft.llm.spec.params_total == parameters - layer
    assert backend.max_context() == 256


def test_memory_tells_weights_cache_and_peak(tiny_pair: tuple[Path, Path]) -> None:
    target, draft = loaded(*tiny_pair).memory()
    assert (target.role, draft.role) == (Role.TARGET, Role.DRAFT)
    assert draft.kv_bytes_per_token == target.kv_bytes_per_token * 2 / 3
    assert target.peak_bytes is not None
    assert target.peak_bytes > target.weight_bytes > draft.weight_bytes


def test_a_lookup_draft_needs_no_second_llm(tiny_pair: tuple[Path, Path]) -> None:
    backend = loaded(tiny_pair[0], prompt_lookup=(2, 4))
    assert backend.draft() == NgramDraft(prompt_lookup_min=2, prompt_lookup_max=4)
    assert len(backend.memory()) == 1
    with pytest.raises(RequestError, match="no draft model"):
        backend.prepare(TimingPoint(Role.DRAFT, Phase.DECODE, 1, 1, 8))


def test_prompts_are_encoded_as_they_are_without_a_chat_template(
    tiny_pair: tuple[Path, Path],
) -> None:
    backend = loaded(tiny_pair[0])
    assert backend.encode("w3 w1 w4") == (3, 1, 4)
    assert backend.decode([3, 1, 4]) == "w3 w1 w4"


def test_a_chat_template_wraps_the_prompt(tmp_path: Path, tiny_llms: Any) -> None:
    tiny_llms.save_target(tmp_path)
    template = "{% for m in messages %}w7 {{ m['content'] }} {% endfor %}w8"
    (tmp_path / "chat_template.jinja").write_text(template, encoding="utf-8")
    assert loaded(tmp_path).encode("w3 w1") == (7, 3, 1, 8)


def test_a_draft_of_another_vocabulary_names_both_sizes(
    tmp_path: Path, tiny_pair: tuple[Path, Path], tiny_llms: Any
) -> None:
    other = tiny_llms.save_target(tmp_path / "other", vocab=48)
    with pytest.raises(PairingError, match=r"48 against 64") as caught:
        loaded(tiny_pair[0], other)
    assert "same family" in caught.value.remedy


def test_a_draft_with_other_words_for_the_same_ids_is_refused(
    tmp_path: Path, tiny_pair: tuple[Path, Path], tiny_llms: Any
) -> None:
    other = tiny_llms.save_target(tmp_path / "other")
    tiny_llms.save_tokenizer(other, 64, prefix="x")
    with pytest.raises(PairingError, match="64 of the target's 64 tokenizer entries differ"):
        loaded(tiny_pair[0], other)


def test_a_draft_and_a_lookup_exclude_each_other(tiny_pair: tuple[Path, Path]) -> None:
    with pytest.raises(RequestError, match="Both"):
        loaded(*tiny_pair, prompt_lookup=(1, 2))


def test_dummy_weights_need_a_configuration_only(
    tmp_path: Path, tiny_pair: tuple[Path, Path]
) -> None:
    config = tmp_path / "config.json"
    config.write_bytes((tiny_pair[0] / "config.json").read_bytes())
    real, dummy = loaded(tiny_pair[0]).target(), loaded(config, dummy_weights=True).target()
    assert (dummy.weights, dummy.weight_sha256) == ("dummy", "")
    assert dummy.spec.params_total == real.spec.params_total


def test_dummy_weights_come_in_the_type_asked_for(tiny_pair: tuple[Path, Path]) -> None:
    backend = loaded(tiny_pair[0], dummy_weights=True, dtype="bfloat16")
    assert backend.target().spec.weight_bytes == 2 * backend.target().spec.params_total
    assert backend.prepare(TimingPoint(Role.TARGET, Phase.VERIFY, 2, 3, 16)).run_block(1) > 0


def test_dummy_weights_of_a_quantised_configuration_are_refused(
    tmp_path: Path, tiny_pair: tuple[Path, Path]
) -> None:
    config = json.loads((tiny_pair[0] / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8"}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(CheckpointError, match="quantised"):
        loaded(tmp_path, dummy_weights=True)


def test_experts_that_a_token_does_not_meet_are_not_active(tmp_path: Path) -> None:
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_local_experts=4,
        num_experts_per_tok=1,
    )
    MixtralForCausalLM(config).save_pretrained(tmp_path)
    spec = loaded(tmp_path).target().spec
    one_expert = 2 * 3 * 16 * 24  # two layers, three projections
    assert (spec.experts, spec.experts_per_token) == (4, 1)
    assert spec.params_total - spec.params_active == 3 * one_expert
    assert spec.weight_bytes_active == 4 * spec.params_active


def test_a_gguf_file_gives_the_logits_of_the_checkpoint_it_was_made_from(
    tmp_path: Path, tiny_pair: tuple[Path, Path], tiny_llms: Any
) -> None:
    pytest.importorskip("gguf")
    pytest.importorskip("accelerate")
    original = tiny_llms.load(tiny_pair[0])
    path = tiny_llms.save_gguf(tmp_path, tiny_pair[0])
    backend = loaded(path)
    assert backend.target().quantisation == "gguf F32"
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    with torch.inference_mode():
        expected = original.forward(ids, original.new_cache(5), 5)
        from_gguf = tiny_llms.load(path)
        got = from_gguf.forward(ids, from_gguf.new_cache(5), 5)
    torch.testing.assert_close(got, expected)


def test_a_converted_gguf_keeps_its_logits(
    tmp_path: Path, tiny_pair: tuple[Path, Path], tiny_llms: Any
) -> None:
    pytest.importorskip("gguf")
    pytest.importorskip("accelerate")
    from profiler.backends.torch_convert import gguf_to_folder

    gguf_to_folder(tiny_llms.save_gguf(tmp_path, tiny_pair[0]), tmp_path / "converted")
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    logits = []
    with torch.inference_mode():
        for folder in (tiny_pair[0], tmp_path / "converted"):
            llm = tiny_llms.load(folder)
            logits.append(llm.forward(ids, llm.new_cache(5), 5))
    torch.testing.assert_close(logits[0], logits[1])


def test_an_architecture_whose_state_cannot_be_set_back_is_refused(
    tmp_path: Path, tiny_llms: Any
) -> None:
    tiny_llms.save_target(tmp_path, layers=1)
    llm = tiny_llms.load(tmp_path)
    llm.text_config.layer_types = ["linear_attention"]
    from profiler.backends.torch_loading import _check_layers

    with pytest.raises(CheckpointError, match="linear_attention"):
        _check_layers(llm)


def test_weights_of_an_unknown_architecture_are_explained(tmp_path: Path, tiny_llms: Any) -> None:
    tiny_llms.save_target(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["model_type"] = "not-yet-invented"
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(CheckpointError, match="not-yet-invented"):
        loaded(tmp_path)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_cuda_asked_for_and_absent(tiny_pair: tuple[Path, Path]) -> None:
    with pytest.raises(DeviceError, match="sees 0 CUDA devices") as caught:
        TorchBackend().load(LoadRequest(str(tiny_pair[0]), device="cuda"))
    assert "--device cpu" in caught.value.remedy


@pytest.mark.parametrize("options", [{"device": "tpu"}, {"dtype": "int3"}])
def test_an_unknown_device_or_type_is_a_misuse(
    tiny_pair: tuple[Path, Path], options: dict[str, str]
) -> None:
    with pytest.raises(RequestError, match="Unknown"):
        TorchBackend().load(LoadRequest(str(tiny_pair[0]), **options))


def test_an_unknown_draft_is_found_out_before_the_target_is_loaded(
    tiny_pair: tuple[Path, Path],
) -> None:
    backend = TorchBackend()
    with pytest.raises(UnknownIdError, match="nobody/draft"):
        backend.load(LoadRequest(str(tiny_pair[0]), "nobody/draft"))
    with pytest.raises(RequestError, match="No target"):
        backend.target()


@pytest.mark.parametrize("package", ["torch", "transformers", "safetensors"])
def test_a_missing_package_is_named_with_its_install_line(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import profiler.backends.torch_local"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert f"needs the package {package}" in done.stderr
    assert "pip install 'capplan[profile]'" in done.stderr


def test_backends_can_be_listed_without_torch() -> None:
    code = "import sys, profiler.backends.embedded as e; print(e and 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
