"""What a plain decode step does at a data sheet's rates, and what it shares with others."""

from __future__ import annotations

import math

import numpy as np
import pytest

from capplan.errors import RequestError
from capplan.estimate.decoding import (
    FACTORS,
    DecodeSetting,
    decode_work,
    engine_family,
    half_precision_flops,
)
from capplan.estimate.merged_traffic import merged
from capplan.estimate.pooling import Factor, Work, fit_pooled
from capplan.facts.catalog import load_catalog
from capplan.schema.cache import CacheLayers
from capplan.schema.lengths import EmpiricalLength
from capplan.schema.services import NamedWorkload, Services
from capplan.schema.workload import Workload

CATALOG = load_catalog()
H100 = CATALOG.gpu("h100-sxm-80gb")
LLM = CATALOG.llm("meta-llama/Llama-3.1-8B-Instruct").model_copy(
    update={"cache": CacheLayers.parse("10 full 8x256"), "layers": 10, "params_active": 4e9,
            "params_total": 4e9, "experts": None, "experts_per_token": None}
)  # fmt: skip


def setting(**changes: object) -> DecodeSetting:
    values: dict[str, object] = {
        "llm": LLM, "gpu": H100, "engine": "vLLM 0.33 --flag", "machine": "board",
        "bytes_per_param": 2.0, "tensor_parallel": 4.0, "batch": 8.0, "context": 1000.0,
    }  # fmt: skip
    return DecodeSetting(**(values | changes))  # type: ignore[arg-type]


def test_amounts_by_hand() -> None:
    amounts = dict(zip((f.name for f in FACTORS), decode_work(setting()).amounts, strict=True))
    kv = 8 * 10 * 8 * 256 * 2 * 1000 / 4
    assert amounts == {
        "layer": 10.0,
        "exchange": 10 * 2.0,
        "weights": pytest.approx(4e9 * 2 / (4 * H100.memory_bytes_per_s)),
        "kv": pytest.approx(kv / H100.memory_bytes_per_s),
        "flops": pytest.approx(8 * 2 * 4e9 / (4 * H100.bf16_flops_per_s)),
        "request": 8.0,
    }


@pytest.mark.parametrize(
    ("size", "name"),
    [(2.0, "16 bit"), (1.6, "16 bit"), (1.5, "8 bit"), (1.0, "8 bit"), (0.8, "4 bit"),
     (0.5, "4 bit")],
)  # fmt: skip
def test_weights_share_what_their_number_format_has_in_common(size: float, name: str) -> None:
    groups = [group for group, _ in decode_work(setting(bytes_per_param=size)).groups[2]]
    assert ("format", name) in groups
    assert ("format", "vLLM 0.33 --flag", name) in groups
    assert ("memory", "vLLM 0.33 --flag", "hbm") in groups


def test_an_engine_is_one_family_in_all_its_versions() -> None:
    groups = decode_work(setting()).groups
    assert all(groups[term][0][0] == ("family", "vllm") for term in range(6))
    assert engine_family("SGLang 0.5") == "sglang"
    assert engine_family("") == ""
    gddr = CATALOG.gpu("l40s-48gb")
    assert ("memory", "x", "gddr") in [
        group for group, _ in decode_work(setting(engine="x", gpu=gddr)).groups[2]
    ]


def test_a_gpu_before_bf16_counts_with_fp16_and_none_is_invented() -> None:
    assert half_precision_flops(H100) == H100.bf16_flops_per_s
    assert half_precision_flops(CATALOG.gpu("t4")) == 65e12
    bare = H100.model_copy(update={"bf16_flops_per_s": 0.0, "fp16_flops_per_s": None})
    with pytest.raises(RequestError, match="neither a bf16 nor an fp16 rate"):
        half_precision_flops(bare)


def test_a_fit_may_begin_from_one_that_knew_less() -> None:
    factors = [Factor("a", 1.0, 2.0)]
    one = Work((1.0,), (((("g",), 0.5),),))
    other = Work((1.0,), (((("h",), 0.5),),))
    before = fit_pooled(factors, [one], [3.0])
    both = fit_pooled(factors, [one, other], [3.0, 6.0], start=before)
    afresh = fit_pooled(factors, [one, other], [3.0, 6.0])
    for group in (("g",), ("h",), ("k",)):
        assert both.factor("a", group) == pytest.approx(afresh.factor("a", group), rel=1e-4)
    assert both.factor("a", ("g",)) < both.factor("a", ("h",))
    # a group never measured adds its whole spread to the error
    seen = both.predict(one).relative_se
    unseen = both.predict(Work((1.0,), (((("k",), 0.5),),))).relative_se
    assert unseen > math.hypot(0.5, 0.04) > seen
    assert both.predict(Work((0.0,), ((),))).value == 0.0
    assert both.predict(one, scatter=0.0).relative_se < seen
    low, high = both.predict(one).interval(1.96)
    assert high / low == pytest.approx(math.exp(2 * 1.96 * seen))


def test_services_of_equal_and_of_other_lengths_are_steps() -> None:
    loads = [Workload(requests_per_s=rate, prompt_tokens=tokens)
             for rate, tokens in ((1.0, 100), (2.0, 300), (1.0, 100))]  # fmt: skip
    named = tuple(NamedWorkload(name=str(n), workload=load) for n, load in enumerate(loads))
    lengths = merged(Services(services=named)).prompt_lengths
    assert isinstance(lengths, EmpiricalLength)
    assert lengths.tokens == (100.0, 100.0, 300.0, 300.0)
    assert lengths.probabilities[1] == pytest.approx(0.5)
    assert lengths.mean_tokens == pytest.approx(200.0)
    assert np.isclose(lengths.probabilities[2] - lengths.probabilities[1], 1e-9)
