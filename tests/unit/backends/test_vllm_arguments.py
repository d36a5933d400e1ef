"""How vLLM is started: arguments, environment, versions. vLLM itself is not needed here."""

from __future__ import annotations

from importlib import metadata

import pytest

from capplan.errors import MissingPackageError, RequestError
from capplan.schema.cells import DraftSampling
from capplan.schema.pairing import Method
from profiler.backends import vllm_versions
from profiler.backends.vllm_arguments import engine_arguments, graph_ceiling
from profiler.backends.vllm_environment import engine_environment, openmp_library
from profiler.backends.vllm_versions import InstalledVllm, installed_vllm, require_vllm
from profiler.engine import PLAIN, Configuration, EngineRequest


def arguments(request: EngineRequest, configuration: Configuration, kind: str = "cuda"):
    return engine_arguments(
        request,
        configuration,
        target="/target",
        draft="/draft" if request.draft else None,
        dtype="bfloat16",
        kind=kind,
        max_model_len=1024,
    )


PAIR = EngineRequest(target="t", draft="d", method=Method.DRAFT_MODEL, max_num_seqs=64)


def test_a_plain_engine_has_no_word_of_speculation():
    made = arguments(PAIR, PLAIN)
    assert "speculative_config" not in made
    assert "per_request_spec_decode_metrics" not in made


def test_every_limit_is_written_out():
    made = arguments(PAIR, PLAIN)
    names = {"max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization"}
    assert names <= made.keys()
    assert made["disable_log_stats"] is False
    assert made["enable_prefix_caching"] is False


def test_a_step_holds_a_round_of_every_request_and_graphs_cover_it():
    made = arguments(PAIR.__class__(**{**PAIR.__dict__, "max_num_seqs": 4096}), Configuration(5))
    assert made["max_num_batched_tokens"] >= 4096 * 6
    small = arguments(PAIR, Configuration(5))
    assert small["compilation_config"]["max_cudagraph_capture_size"] >= 64 * 6


@pytest.mark.parametrize(
    ("tokens", "size"), [(1, 8), (40, 40), (42, 48), (255, 256), (256, 256), (257, 272)]
)
def test_capture_sizes_lie_on_the_engines_grid(tokens, size):
    assert graph_ceiling(tokens) == size


def test_the_method_is_always_written_out_and_the_draft_shares_the_targets_gpus():
    request = EngineRequest(target="t", draft="d", method=Method.DRAFT_MODEL, tensor_parallel=4)
    made = arguments(request, Configuration(3, DraftSampling.PROBABILISTIC))
    assert made["speculative_config"] == {
        "method": "draft_model",
        "num_speculative_tokens": 3,
        "model": "/draft",
        "draft_tensor_parallel_size": 4,
        "draft_sample_method": "probabilistic",
    }


def test_lookup_has_its_sizes_and_no_checkpoint():
    request = EngineRequest(target="t", method=Method.NGRAM, prompt_lookup=(2, 4))
    made = arguments(request, Configuration(4), kind="cpu")
    assert made["speculative_config"] == {
        "method": "ngram",
        "num_speculative_tokens": 4,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 4,
    }
    assert "gpu_memory_utilization" not in made


def test_synthetic_acceptance_gives_rates_a_position():
    made = arguments(PAIR, Configuration(2, DraftSampling.GREEDY, (0.8, 0.64)))
    config = made["speculative_config"]
    assert config["rejection_sample_method"] == "synthetic"
    assert config["synthetic_acceptance_rates"] == [0.8, 0.64]


def test_speculation_without_a_method_is_refused():
    with pytest.raises(RequestError, match="without a way to draft"):
        arguments(EngineRequest(target="t"), Configuration(2))


def test_the_user_s_own_environment_wins():
    own = {"OMP_NUM_THREADS": "7", "VLLM_CPU_KVCACHE_SPACE": "40", "PYTHONPATH": "/mine"}
    made = engine_environment(own, is_cpu=True, kv_cache_gib=1)
    assert made["OMP_NUM_THREADS"] == "7"
    assert made["VLLM_CPU_KVCACHE_SPACE"] == "40"
    assert made["PYTHONPATH"].endswith(":/mine")


def test_a_gpu_needs_none_of_what_a_cpu_does():
    made = engine_environment({}, is_cpu=False, kv_cache_gib=1)
    assert not {"LD_PRELOAD", "OMP_NUM_THREADS", "VLLM_CPU_KVCACHE_SPACE"} & made.keys()


def test_the_openmp_runtime_is_loaded_first_only_where_it_is_installed(tmp_path):
    assert openmp_library(str(tmp_path)) is None
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libiomp5.so").touch()
    assert openmp_library(str(tmp_path)) == tmp_path / "lib" / "libiomp5.so"


@pytest.mark.parametrize(
    ("version", "known", "medusa"),
    [("0.32.0", True, True), ("0.33.1+cu130", True, False), ("0.40", False, False)],
)
def test_versions_differ_in_what_they_can_do(version, known, medusa):
    found = InstalledVllm("vllm", version)
    assert found.is_known is known
    assert bool(found.warning) is not known
    assert found.supports(Method.MEDUSA) is medusa
    assert found.supports(Method.NGRAM)
    assert not found.supports(Method.NONE)


def with_installed(monkeypatch, versions):
    def version(name):
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(vllm_versions.metadata, "version", version)


@pytest.mark.parametrize("versions", [{}, {"vllm": "0.11.2"}])
def test_no_vllm_or_an_old_one_is_a_missing_package_with_its_install_line(monkeypatch, versions):
    with_installed(monkeypatch, versions)
    with pytest.raises(MissingPackageError) as caught:
        require_vllm()
    assert "capplan[vllm]" in caught.value.remedy


def test_either_distribution_will_do(monkeypatch):
    with_installed(monkeypatch, {"vllm-cpu": "0.32.0"})
    assert installed_vllm() == InstalledVllm("vllm-cpu", "0.32.0")
    with_installed(monkeypatch, {"vllm-cpu": "0.32.0", "vllm": "0.33.0"})
    assert require_vllm().distribution == "vllm"
