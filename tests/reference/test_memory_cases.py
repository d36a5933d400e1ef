"""Memory of GPUs against what engines printed at their start."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from capplan.errors import RequestError
from capplan.estimate.activation import weight_scale
from capplan.estimate.kvcache import kv_bytes_per_gpu_token, kv_bytes_per_request
from capplan.estimate.kvpages import KvRules
from capplan.estimate.kvpool import Breakdown, PoolPoint, RequestBytes, fit_request_bytes
from capplan.estimate.memory import MemoryPlan, MemorySettings, plan_memory
from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.planning.memory_use import Subject, memory_use
from capplan.schema.cache import CacheLayers
from capplan.schema.llm import LlmSpec
from capplan.schema.memory import MemoryRequest, MemoryUse
from capplan.schema.pairing import Method
from capplan.schema.provenance import Kind, Source
from capplan.units import BYTES_PER_GIB, BYTES_PER_MIB

ENGINE = load_engine("vllm")
CATALOG = load_catalog()
H100_GIB = 79.18
SORTING = "0.11"
"""A version whose sampler sorts the logits, as the one of the start-ups did."""
HERE = Path(__file__).parent


@cache
def start_ups() -> tuple[dict[str, str], ...]:
    path = HERE.parent / "data/memory/h100_vllm.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def gib(values: object) -> float:
    return float(np.asarray(values)) / BYTES_PER_GIB


def llama_70b_fp8() -> LlmSpec:
    """Linear layers in fp8, embeddings and output layer in bf16."""
    whole = CATALOG.llm("meta-llama/Llama-3.3-70B-Instruct")
    outer = 2.0 * whole.vocab_size * whole.hidden
    size = whole.params_total - outer + 2.0 * outer
    return whole.model_copy(update={"weight_bytes": size, "weight_bytes_active": size})


def mistral_small() -> LlmSpec:
    """Counted from its configuration, vision tower included."""
    layer = 5120 * (2 * 32 * 128 + 2 * 8 * 128) + 3 * 5120 * 32768
    text = 40 * layer + 2 * 131072 * 5120
    vision = 24 * (4 * 1024**2 + 3 * 1024 * 4096) + 4096 * 1024 + 1024 * 5120 + 5120**2
    return CATALOG.llm("meta-llama/Llama-3.1-8B-Instruct").model_copy(
        update={
            "params_active": float(text),
            "weight_bytes": 2.0 * (text + vision),
            "layers": 40,
            "hidden": 5120,
            "vocab_size": 131072,
            "cache": CacheLayers.parse("40 full 8x256"),
        }
    )


def spec_of(model: str) -> LlmSpec:
    if "FP8-dynamic" in model:
        return llama_70b_fp8()
    return mistral_small() if "Mistral" in model else CATALOG.llm(model)


def allotted(row: dict[str, str], utilisation: float, *, measured: bool) -> MemoryPlan:
    llm, tp = spec_of(row["model"]), int(row["tp"])
    settings = MemorySettings(
        version=SORTING,
        utilisation=utilisation,
        max_num_seqs=1024,
        max_num_batched_tokens=8192,
        target_weight_scale=weight_scale(llm, ENGINE, "hopper", tp),
        activation_bytes=float(row["activation_gib"]) * BYTES_PER_GIB if measured else None,
        non_torch_bytes=float(row["non_torch_gib"]) * BYTES_PER_GIB if measured else None,
    )
    return plan_memory(llm, None, H100_GIB * BYTES_PER_GIB, tp, ENGINE, settings)


def reported(row: dict[str, str]) -> Breakdown:
    parts = (float(row[name]) for name in ("weights_gib", "activation_gib", "non_torch_gib"))
    sizes = [part * BYTES_PER_GIB for part in (*parts, float(row["kv_gib"]))]
    return Breakdown(H100_GIB * BYTES_PER_GIB, *sizes)


def names(row: dict[str, str]) -> str:
    return f"{row['model'].rsplit('/', 1)[-1]}-tp{row['tp']}-{row['max_model_len']}"


STARTED = [row for row in start_ups() if row["kv_gib"]]


@pytest.mark.parametrize("row", start_ups(), ids=names)
def test_weights_a_gpu_are_within_one_per_cent(row: dict[str, str]) -> None:
    weights = gib(allotted(row, 0.9, measured=True).target_weight_bytes)
    assert weights == pytest.approx(float(row["weights_gib"]), rel=0.01)


@pytest.mark.parametrize("row", STARTED, ids=names)
def test_the_pool_is_within_half_a_gib_where_the_activation_is_given(row: dict[str, str]) -> None:
    utilisation = round(reported(row).implied_utilisation, 2)
    pool = gib(allotted(row, utilisation, measured=True).kv_pool_bytes)
    assert pool == pytest.approx(float(row["kv_gib"]), abs=0.25)


@pytest.mark.parametrize("row", STARTED[:-1], ids=names)
def test_nothing_need_be_given_where_the_settings_are_known(row: dict[str, str]) -> None:
    utilisation = round(reported(row).implied_utilisation, 2)
    memory = allotted(row, utilisation, measured=False)
    assert gib(memory.activation_bytes) == pytest.approx(float(row["activation_gib"]), abs=0.015)
    assert gib(memory.kv_pool_bytes) == pytest.approx(float(row["kv_gib"]), abs=0.25)


def test_the_activation_peak_of_an_llm_left_out_is_foretold_to_a_hundredth_of_a_gib() -> None:
    rows = STARTED[:-1]
    specs = [spec_of(row["model"]) for row in rows]
    terms = np.array([[1024.0 * s.vocab_size, 8192.0 * s.hidden] for s in specs]) / BYTES_PER_GIB
    seen = np.array([float(row["activation_gib"]) for row in rows])
    whole = np.linalg.lstsq(terms, seen, rcond=None)[0]
    sorting = ENGINE.memory_for(SORTING)
    assert whole[0] == pytest.approx(sorting.activation_bytes_per_logit, rel=1e-3)
    assert whole[1] == pytest.approx(ENGINE.activation_bytes_per_hidden, rel=5e-2)
    families = [s.vocab_size for s in specs]
    for left_out in set(families):
        kept = np.array([size != left_out for size in families])
        fit = np.linalg.lstsq(terms[kept], seen[kept], rcond=None)[0]
        assert np.abs(terms[~kept] @ fit - seen[~kept]).max() < 0.02


def test_a_utilisation_that_the_parts_contradict_is_found() -> None:
    odd = [
        row for row in STARTED if not reported(row).agrees_with(float(row["utilisation_printed"]))
    ]
    assert [row["model"] for row in odd] == ["openai/gpt-oss-120b"]
    parts = reported(odd[0])
    assert parts.implied_utilisation == pytest.approx(0.95, abs=1e-3)
    assert parts.pool_at(0.9) / BYTES_PER_GIB == pytest.approx(-0.63, abs=0.01)


def use_on_h100(target: LlmSpec, **asked: object) -> MemoryUse:
    fields = {"target": target.id, "gpu": "h100-sxm-80gb", "engine_version": SORTING}
    request = MemoryRequest.model_validate(
        fields | {"gpu_memory_bytes": H100_GIB * BYTES_PER_GIB} | asked
    )
    subject = Subject(target, None, CATALOG.gpu("h100-sxm-80gb"), ENGINE)
    return memory_use(request, subject)


def test_70b_in_fp8_on_one_gpu_is_refused_with_what_is_left() -> None:
    use = use_on_h100(llama_70b_fp8(), max_model_len=16000)
    assert not use.fits
    assert gib(use.kv_pool_bytes) == pytest.approx(-1.44, abs=0.3)
    assert "leave -1." in use.verdict
    assert "--tp 2" in use.remedies


def test_32b_in_bf16_on_one_gpu_has_no_room_for_a_request_of_32000_tokens() -> None:
    target = CATALOG.llm("Qwen/Qwen3-32B")
    assert use_on_h100(target, max_model_len=16000).fits
    use = use_on_h100(target, max_model_len=32000)
    assert not use.fits
    # 32,000 x 262,144 bytes are 7.81 GiB, 4.45 are left
    assert gib(use.lacking_bytes) == pytest.approx(7.81 - 4.45, abs=0.05)


def apertus_8b() -> LlmSpec:
    """The shape that the source states; its weights are measured."""
    source = Source(kind=Kind.CITED, reference="swiss-ai/apertus-speculative-decoding @c85fd454")
    return CATALOG.llm("meta-llama/Llama-3.1-8B-Instruct").model_copy(
        update={
            "id": "Apertus-8B",
            "weight_bytes": 17.23 * BYTES_PER_GIB,
            "cache": CacheLayers.parse("32 full 8x256"),
            "source": source,
        }
    )


def eagle_head() -> LlmSpec:
    return apertus_8b().model_copy(
        update={
            "id": "head",
            "weight_bytes": 1.55 * BYTES_PER_GIB,
            "layers": 1,
            "cache": CacheLayers.parse("1 full 8x256"),
        }
    )


def apertus_memory(draft: LlmSpec | None) -> MemoryPlan:
    settings = MemorySettings(
        version=SORTING,
        utilisation=0.8,
        activation_bytes=1.63 * BYTES_PER_GIB,
        non_torch_bytes=0.24 * BYTES_PER_GIB,
        num_speculative_tokens=3 if draft is not None else 0,
    )
    return plan_memory(apertus_8b(), draft, 95.0 * BYTES_PER_GIB, 1, ENGINE, settings)


def test_a_head_takes_its_weights_and_a_layer_of_kv_from_the_pool() -> None:
    """swiss-ai/apertus-speculative-decoding, start-up @c85fd454 and report @23297ea3."""
    plain, drafted = apertus_memory(None), apertus_memory(eagle_head())
    assert float(plain.kv_bytes_per_token) == 131_072
    assert float(drafted.kv_bytes_per_token) == 135_168
    assert float(plain.printed_tokens(32768)) == pytest.approx(466_144, rel=0.005)
    assert float(plain.max_concurrency(32768)) == pytest.approx(14.23, rel=0.01)
    assert float(drafted.printed_tokens(32768)) == pytest.approx(439_072, rel=0.003)
    # without its layer of KV it would be 3 % too many
    forgotten = float(drafted.kv_pool_bytes) / 131_072
    assert forgotten == pytest.approx(1.033 * 439_072, rel=0.005)


def test_bytes_a_token_are_not_read_off_one_start_of_a_hybrid_llm() -> None:
    point = PoolPoint.from_log(50_000, 24.5 * BYTES_PER_GIB, 398_000)
    hybrid = CATALOG.llm("openai/gpt-oss-20b")
    for llm in (None, hybrid):
        with pytest.raises(RequestError, match="longest length"):
            fit_request_bytes([point], llm)
    # the same two figures give 4 to 93 KiB a token by which start one happens to read
    other = PoolPoint.from_log(500_000, 24.5 * BYTES_PER_GIB, 2_450_000)
    both = fit_request_bytes([point, other])
    assert both.pool_tokens(24.5 * BYTES_PER_GIB, 50_000) == pytest.approx(398_000, rel=1e-3)
    assert both.fixed_bytes > 2e9


def test_two_longest_lengths_give_the_fixed_part_and_the_slope() -> None:
    """vllm-project/vllm#51041 and #44376, GH200: 30,000 tokens need 6.66 GiB, 13,528 fit 5.44."""
    fit = fit_request_bytes(
        [PoolPoint(30_000, 6.66 * BYTES_PER_GIB), PoolPoint(13_528, 5.44 * BYTES_PER_GIB)]
    )
    assert fit.fixed_bytes / BYTES_PER_GIB == pytest.approx(4.44, rel=0.03)
    assert fit.bytes_per_token == pytest.approx(79_527, rel=0.03)


def test_a_fixed_part_makes_the_printed_pool_depend_on_the_longest_length() -> None:
    """DGX Spark pair: 3,300 B a token and 3.2e9 a request in 24.5 GiB; it printed 398,000."""
    layout = RequestBytes(3.2e9, 3300.0)
    assert layout.pool_tokens(24.5 * BYTES_PER_GIB, 50_000) == pytest.approx(391_000, rel=0.01)
    assert layout.pool_tokens(24.5 * BYTES_PER_GIB, 500_000) == pytest.approx(2_450_000, rel=0.15)


def test_one_start_is_enough_where_every_layer_keeps_every_token() -> None:
    point = PoolPoint.from_log(32_768, 56.9 * BYTES_PER_GIB, 466_144)
    fit = fit_request_bytes([point], apertus_8b())
    assert fit.fixed_bytes == 0
    assert fit.bytes_per_token == pytest.approx(131_072, rel=1e-3)


def test_windowed_layers_do_not_grow_with_the_context() -> None:
    """ollama/ollama#16480: gpt-oss-120b, two sequences of 131,072 tokens, 9,216 + 90 MiB."""
    llm = CATALOG.llm("openai/gpt-oss-120b")
    # llama.cpp keeps the window and a batch of 1,024 in cells of 256: 1,280 a sequence
    rules = KvRules(block_tokens=256, in_flight_tokens=1024, spare_blocks=0)
    both = 2 * float(kv_bytes_per_request(llm, 131_072, 1, rules)) / BYTES_PER_MIB
    full = 2 * float(kv_bytes_per_gpu_token(llm, 1)) * 131_072 / BYTES_PER_MIB
    assert full == 9216
    assert both - full == pytest.approx(90, rel=1e-6)
    assert both < 18_432 / 1.9
    # vLLM's own rule while decoding: within a fifth of what llama.cpp keeps for less batch
    assert float(kv_bytes_per_request(llm, 131_072, 1)) < 1.01 * 9216 / 2 * BYTES_PER_MIB


def test_a_small_pair_fits_80_gb_and_the_old_engines_mistake_is_said() -> None:
    """vllm-project/vllm#22624: Qwen3-1.7B + 0.6B ran out of memory on A800 80 GB at 0.9."""
    target, draft = CATALOG.llm("Qwen/Qwen3-1.7B"), CATALOG.llm("Qwen/Qwen3-0.6B")
    assert gib(target.weight_bytes) == pytest.approx(3.2137, rel=0.02)
    subject = Subject(target, draft, CATALOG.gpu("a100-sxm-80gb"), ENGINE)
    asked = MemoryRequest(
        target=target.id,
        draft=draft.id,
        gpu="a100-sxm-80gb",
        method=Method.DRAFT_MODEL,
        num_speculative_tokens=4,
        utilisation=0.9,
        engine_version="0.8",
    )
    old = memory_use(asked, subject)
    new = memory_use(asked.model_copy(update={"engine_version": None}), subject)
    assert old.fits
    assert new.fits
    assert "before the draft is counted" in old.notes[0]
    # the draft keeps as many bytes a token as the target: half the card is the most
    assert "--utilisation 0.51" in old.notes[0]
    assert new.notes == ()


def test_a_draft_that_is_not_split_fills_the_first_gpu() -> None:
    """vllm-project/vllm#9995: Llama-3.1-70B on four GPUs with an 8B draft on one of them."""
    target = CATALOG.llm("meta-llama/Llama-3.1-70B-Instruct")
    draft = CATALOG.llm("meta-llama/Llama-3.1-8B-Instruct")
    capacity = H100_GIB * BYTES_PER_GIB
    split = plan_memory(target, draft, capacity, 4, ENGINE)
    whole = plan_memory(
        target, draft, capacity, 4, ENGINE, MemorySettings(draft_tensor_parallel=1)
    )
    assert gib(whole.draft_weight_bytes) == pytest.approx(15.0, rel=0.05)
    assert gib(split.draft_weight_bytes) == pytest.approx(15.0 / 4, rel=0.05)
    # its KV lies there whole as well
    assert float(whole.kv_bytes_per_token) == 327_680 / 4 + 131_072
    assert float(whole.printed_tokens(8192)) < 0.6 * float(split.printed_tokens(8192))


def test_a_latent_vector_lies_whole_on_every_gpu() -> None:
    """DeepSeek-V2-Lite: 27 layers of 512 + 64 values; a layout padded to 640 held 34,560 bytes."""
    llm = CATALOG.llm("deepseek-ai/DeepSeek-V3").model_copy(
        update={"cache": CacheLayers.parse("27 latent 1x576"), "layers": 27}
    )
    one, eight = (float(kv_bytes_per_gpu_token(llm, tp)) for tp in (1, 8))
    assert one == eight == 31_104
    assert one == pytest.approx(34_560, rel=0.12)
