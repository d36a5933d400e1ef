"""Instance types: every one leads to a GPU, and prices say the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capplan.facts.catalog import load_catalog
from capplan.facts.checks import check_catalog
from capplan.facts.instances import InstanceKind

CATALOG = load_catalog()
NAMES = CATALOG.gpu_names


def test_every_row_has_a_source_and_a_gpu_of_the_catalogue() -> None:
    gpus = {gpu.id for gpu in CATALOG.gpus}
    assert len(NAMES.instances) > 200
    for instance in NAMES.instances:
        assert instance.gpu in gpus
        assert instance.source.reference
        assert instance.source.date or "undated" in instance.source.note


@pytest.mark.parametrize(
    ("name", "count", "gpu"),
    [
        ("p3dn.24xlarge", 8, "v100-sxm-32gb"),
        ("p4d.24xlarge", 8, "a100-sxm-40gb"),
        ("p4de.24xlarge", 8, "a100-sxm-80gb"),
        ("ml.p5.48xlarge", 8, "h100-sxm-80gb"),
        ("a2-megagpu-16g", 16, "a100-sxm-40gb"),
        ("a2-ultragpu-4g", 4, "a100-sxm-80gb"),
        ("a3-highgpu-2g", 2, "h100-sxm-80gb"),
        ("a4x-highgpu-4g", 4, "gb200"),
        ("g2-standard-24", 2, "l4"),
        ("STANDARD_NC48ADS_A100_V4", 2, "a100-pcie-80gb"),
        ("nc80adis_h100_v5", 2, "h100-nvl-94gb"),
        ("Standard_ND96isr_MI300X_v5", 8, "mi300x"),
        ("BM.GPU4.8", 8, "a100-sxm-40gb"),
        ("bm.gpu.a100-v2.8", 8, "a100-sxm-80gb"),
        ("VM.GPU.A10.2", 2, "a10"),
        ("gpu_8x_h100_sxm5", 8, "h100-sxm-80gb"),
        ("gpu_1x_gh200", 1, "gh200-96gb"),
    ],
)
def test_an_instance_has_its_gpus_whatever_the_case(name: str, count: int, gpu: str) -> None:
    instance = NAMES.instance(name)
    assert instance is not None
    assert (instance.gpu_count, instance.gpu) == (count, gpu)


def test_a_share_of_a_gpu_states_its_memory() -> None:
    shares = [i for i in NAMES.instances if i.slice]
    assert {i.gpu for i in shares} == {"a10", "l4", "rtx-pro-6000-server"}
    assert all(i.slice_memory_gb for i in shares)


def test_labels_are_matched_letter_by_letter() -> None:
    assert NAMES.instance("nvidia-a100-80gb") is not None
    assert NAMES.instance("NVIDIA-A100-80GB") is None
    assert {i.provider for i in NAMES.instances if i.kind is InstanceKind.LABEL} >= {"gcp"}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"gpu": "a100-sxm-80gb"}, "priced as 8 x a100-sxm-80gb, is 8 x a100-sxm-40gb"),
        ({"gpu_count": 4}, "priced as 4 x a100-sxm-40gb, is 8 x a100-sxm-40gb"),
        ({"instance": "p4z.24xlarge"}, "not in models_db/instances"),
    ],
)
def test_a_price_that_contradicts_the_instance_is_found(
    changed: dict[str, object], told: str
) -> None:
    price = next(p for p in CATALOG.prices if p.instance == "p4d.24xlarge")
    prices = (*CATALOG.prices, price.model_copy(update=changed))
    assert told in "\n".join(check_catalog(replace(CATALOG, prices=prices)))


def test_a_device_name_of_two_boards_is_found() -> None:
    twin = CATALOG.gpu("l4").model_copy(update={"id": "l4-twin", "chip_names": ("l4 twin",)})
    problems = "\n".join(check_catalog(replace(CATALOG, gpus=(*CATALOG.gpus, twin))))
    assert "its name 'NVIDIA L4' does not lead to it" in problems
