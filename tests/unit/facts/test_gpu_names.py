"""Names of GPUs lead to exactly the board they name; nothing is guessed."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from capplan.errors import UnknownIdError
from capplan.facts.catalog import load_catalog
from capplan.facts.gpu_names import (
    Reason,
    Unresolved,
    gpu_id_from_device_name,
    identify_gpu,
    load_gpu_names,
)
from capplan.facts.gpu_names.boards import MEMORY_TOLERANCE, fits_reported
from capplan.schema.gpu import GpuIdentity, SliceKind

DATA = Path(__file__).parents[2] / "data" / "gpu_names"
NAMES = load_catalog().gpu_names
MIB, GIB = 2**20, 2**30


def rows(file: str) -> list[dict[str, str]]:
    with (DATA / file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def refused(name: str, memory_mib: float | None = None) -> Unresolved:
    answer = NAMES.look_up(name, memory_mib)
    assert isinstance(answer, Unresolved), answer
    return answer


def found(name: str, memory_mib: float | None = None) -> GpuIdentity:
    answer = NAMES.look_up(name, memory_mib)
    assert isinstance(answer, GpuIdentity), answer
    return answer


@pytest.mark.parametrize("row", rows("device_names.csv"), ids=lambda row: row["name"])
def test_a_drivers_name_finds_one_board_and_its_memory_wins(row: dict[str, str]) -> None:
    reported = float(row["memory_mib"]) if row["memory_mib"] else None
    identity = found(row["name"], reported)
    assert (identity.gpu, identity.count, identity.slice) == (row["gpu"], 1, None)
    assert identity.memory_gb_nominal == float(row["memory_gb"])
    if reported is not None:
        assert identity.memory_bytes == reported * MIB


@pytest.mark.parametrize("row", rows("cloud_names.csv"), ids=lambda row: row["name"])
def test_a_clouds_name_gives_board_count_and_memory(row: dict[str, str]) -> None:
    identity = found(row["name"])
    count, each = int(row["count"]), float(row["memory_gb_each"])
    assert (identity.gpu, identity.count) == (row["gpu"], count)
    assert identity.memory_gb_nominal == each
    assert identity.total_memory_gb_nominal == count * each


def test_an_nd96asr_v4_has_320_gb_and_not_the_40_of_a_misprinted_table() -> None:
    assert found("ND96asr_v4").total_memory_gb_nominal == 320


@pytest.mark.parametrize(
    ("name", "gpu", "form"),
    [
        ("NVIDIA H100 PCIe", "h100-pcie-80gb", "PCIe"),
        ("NVIDIA H100 NVL", "h100-nvl-94gb", "NVL"),
        ("NVIDIA H200", "h200-sxm-141gb", "SXM5"),
        ("NVIDIA H200 NVL", "h200-nvl-141gb", "NVL"),
        ("NVIDIA GH200 480GB", "gh200-96gb", "Superchip"),
        ("NVIDIA GH200 144G HBM3e", "gh200-144gb", "Superchip"),
        ("NVIDIA H20-3e", "h20-sxm-141gb", "SXM5"),
        ("NVIDIA B300 SXM6 AC", "b300-sxm-288gb", "SXM6"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada", "PCIe"),
        ("Quadro RTX 6000", "quadro-rtx-6000", "PCIe"),
        ("NVIDIA RTX A6000", "rtx-a6000", "PCIe"),
        ("A100-SXM4-40GB", "a100-sxm-40gb", "SXM4"),
        ("Tesla V100-SXM2-32GB", "v100-sxm-32gb", "SXM2"),
        ("Tesla T4", "t4", "PCIe"),
        ("AMD Instinct MI300X", "mi300x", "OAM"),
        ("AMD_Instinct_MI300X_OAM", "mi300x", "OAM"),
        ("nvidia.com/gpu.product=NVIDIA-A100-80GB-PCIe", "a100-pcie-80gb", "PCIe"),
        ("GPU 0: NVIDIA L40S (UUID: GPU-5f1c)", "l40s", "PCIe"),
        ("h100 sxm", "h100-sxm-80gb", "SXM5"),
        ("H100NVL", "h100-nvl-94gb", "NVL"),
        ("RTX4090", "rtx-4090", "PCIe"),
        ("4090", "rtx-4090", "PCIe"),
        ("B200 192GB", "b200-sxm-180gb", "SXM6"),
        ("H200-141GB", "h200-sxm-141gb", "SXM5"),
        ("nvidia-tesla-a100", "a100-sxm-40gb", "SXM4"),
        ("cloud.google.com/gke-accelerator=nvidia-a100-80gb", "a100-sxm-80gb", "SXM4"),
        ("gpu.nvidia.com/class=A100_NVLINK_80GB", "a100-sxm-80gb", "SXM4"),
        ("karpenter.k8s.aws/instance-gpu-name=h100", "h100-sxm-80gb", "SXM5"),
    ],
)
def test_names_labels_and_shorthand_keep_the_form_factor(name: str, gpu: str, form: str) -> None:
    identity = found(name)
    assert (identity.gpu, identity.form_factor, identity.slice) == (gpu, form, None)


@pytest.mark.parametrize(
    ("name", "count", "gpu"),
    [
        ("8x A100 80GB SXM", 8, "a100-sxm-80gb"),
        ("4 x L40S", 4, "l40s"),
        ("1x H100 (80 GB SXM5)", 1, "h100-sxm-80gb"),
        ("L4:2", 2, "l4"),
        ("8xH200", 8, "h200-sxm-141gb"),
    ],
)
def test_a_count_in_the_name_is_kept(name: str, count: int, gpu: str) -> None:
    identity = found(name)
    assert (identity.count, identity.gpu) == (count, gpu)


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("a100", {"a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm-40gb", "a100-sxm-80gb"}),
        ("NVIDIA-A100-80GB", {"a100-pcie-80gb", "a100-sxm-80gb"}),
        ("A100-40", {"a100-pcie-40gb", "a100-sxm-40gb"}),
        ("h100", {"h100-nvl-94gb", "h100-pcie-80gb", "h100-sxm-80gb"}),
        ("NVIDIA-H100-80GB", {"h100-pcie-80gb", "h100-sxm-80gb"}),
        ("GH200", {"gh200-96gb", "gh200-144gb"}),
        (
            "RTX 6000",
            {
                *("quadro-rtx-6000", "rtx-6000-ada", "rtx-pro-6000-max-q"),
                *("rtx-pro-6000-server", "rtx-pro-6000-workstation"),
            },
        ),
        ("karpenter.k8s.aws/instance-gpu-name=a100", {"a100-sxm-40gb", "a100-sxm-80gb"}),
    ],
)
def test_an_ambiguous_name_asks_with_every_choice(name: str, choices: set[str]) -> None:
    answer = refused(name)
    assert answer.reason is Reason.AMBIGUOUS
    assert set(answer.choices) == choices
    assert all(choice in answer.remedy for choice in choices)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx-4090"),
        ("NVIDIA GeForce RTX 5090 D", "rtx-5090"),
        ("RTX5090D", "rtx-5090"),
        ("NVIDIA GeForce RTX 4070 SUPER", "rtx-4070-12gb"),
        ("NVIDIA GeForce RTX 3060 Ti", "rtx-3060-12gb"),
        ("NVIDIA RTX 6000D", "rtx-6000-ada"),
        ("NVIDIA A100X", "a100-sxm-80gb"),
        ("Tesla V100-FHHL-16GB", "v100-pcie-16gb"),
        ("NVIDIA-B100", "b200-sxm-180gb"),
        ("GeForce A100", "a100-sxm-80gb"),
        ("AMD H100", "h100-sxm-80gb"),
        ("P100", "p100-pcie-16gb"),
        ("NVIDIA L20X", "l20"),
        ("p5.96xlarge", "p5.48xlarge"),
        ("Standard_NC128ads_A100_v4", "Standard_NC96ads_A100_v4"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, near: str) -> None:
    answer = refused(name)
    assert answer.reason is Reason.UNKNOWN
    assert near in answer.choices


@pytest.mark.parametrize("name", ["", "  ", "NVIDIA", "cpu", "AMD EPYC 7763 64-Core", "GPU", "x"])
def test_what_names_no_gpu_is_unknown(name: str) -> None:
    assert refused(name).reason is Reason.UNKNOWN
    assert gpu_id_from_device_name(name) is None


@pytest.mark.parametrize(
    ("name", "memory_mib", "told"),
    [
        ("NVIDIA-L40-40GB", None, "48 GB"),
        ("H100 96GB", None, "94 GB"),
        ("H100 SXM5 94GB", None, "h100-sxm-80gb (80 GB, SXM5)"),
        ("L4 SXM", None, "PCIe"),
        ("H100 80GB", 40_960, "40,960 MiB"),
        ("NVIDIA A40", 5_000, "5,000 MiB"),
        ("NVIDIA GeForce RTX 4080", 12_282, "12,282 MiB"),
        ("NVIDIA A100-SXM4-80GB", 40_960, "40,960 MiB"),
    ],
)
def test_what_contradicts_itself_or_the_device_is_said_so(
    name: str, memory_mib: float | None, told: str
) -> None:
    answer = refused(name, memory_mib)
    assert answer.reason is Reason.CONTRADICTION
    assert told in answer.message


@pytest.mark.parametrize(
    ("name", "memory_mib", "gpu"),
    [
        ("h100", 95_830, "h100-nvl-94gb"),
        ("NVIDIA H20", 97_871, "h20-sxm-96gb"),
        ("NVIDIA H20", 143_771, "h20-sxm-141gb"),
        ("GH200", 97_871, "gh200-96gb"),
        ("NVIDIA GeForce RTX 4060 Ti", 16_380, "rtx-4060-ti-16gb"),
        ("a100 sxm", 40_536, "a100-sxm-40gb"),
    ],
)
def test_the_devices_memory_tells_boards_of_one_name_apart(
    name: str, memory_mib: float, gpu: str
) -> None:
    identity = found(name, memory_mib)
    assert (identity.gpu, identity.memory_bytes) == (gpu, memory_mib * MIB)


def test_memory_narrows_an_ambiguous_name_and_does_not_guess_the_rest() -> None:
    assert set(refused("a100", 81_920).choices) == {"a100-pcie-80gb", "a100-sxm-80gb"}


def test_a_reported_size_counts_within_seven_percent_of_a_known_one() -> None:
    gpu = load_catalog().gpu("h100-sxm-80gb")
    sizes = (81_559 * (1 - MEMORY_TOLERANCE), 81_559 * (1 + MEMORY_TOLERANCE))
    assert fits_reported(gpu, sizes[1] - 1)
    assert not fits_reported(gpu, sizes[1] * 1.08)
    assert not fits_reported(gpu, 80e9 / MIB * (1 - MEMORY_TOLERANCE) - 1)


@pytest.mark.parametrize(
    ("name", "gpu", "fraction", "gib"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100-sxm-40gb", 1 / 7, 40_536 / 8 / 1024),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", "a100-sxm-80gb", 3 / 7, 81_251 / 2 / 1024),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "h100-sxm-80gb", 1 / 7, 81_559 / 8 / 1024),
        ("NVIDIA H100 80GB HBM3 MIG 7g.80gb", "h100-sxm-80gb", 1, 81_559 / 1024),
        ("NVIDIA A100 80GB PCIe MIG 1c.3g.40gb", "a100-pcie-80gb", 1 / 7, 80_994 / 2 / 1024),
        ("NVIDIA A30 MIG 2g.12gb", "a30", 2 / 4, 24_258 / 2 / 1024),
        ("nvidia.com/mig-3g.47gb", "h100-nvl-94gb", 3 / 7, 46.38),
        ("h100 MIG 1g.12gb", "h100-nvl-94gb", 1 / 7, 10.75),
    ],
)
def test_a_mig_slice_keeps_its_share_of_compute_and_memory(
    name: str, gpu: str, fraction: float, gib: float
) -> None:
    identity = found(name)
    assert identity.gpu == gpu
    assert identity.slice is not None
    assert identity.slice.kind is SliceKind.MIG
    assert identity.slice.compute_fraction == pytest.approx(fraction)
    assert identity.memory_bytes / GIB == pytest.approx(gib, rel=1e-3)


def test_a_mig_resource_alone_asks_which_gpu_it_is_cut_from() -> None:
    choices = refused("nvidia.com/mig-1g.5gb").choices
    assert set(choices) == {"a100-pcie-40gb", "a100-sxm-40gb"}
    assert len(refused("nvidia.com/mig-1g.10gb.me").choices) > 4


def test_a_mig_profile_that_the_gpu_does_not_have_is_refused_with_those_that_do() -> None:
    answer = refused("NVIDIA A100-SXM4-40GB MIG 3g.40gb")
    assert answer.reason is Reason.CONTRADICTION
    assert "a100-sxm-80gb" in answer.choices


@pytest.mark.parametrize(
    ("name", "gpu", "gib", "fraction"),
    [
        ("GRID A100-10C", "a100-pcie-40gb", 10, None),
        ("NVIDIA A100-4C", "a100-pcie-40gb", 4, None),
        ("NVIDIA A40-48Q", "a40", 46_068 / 1024, None),
        ("GRID A100D-1-20C", "a100-pcie-80gb", 20, 1 / 7),
        ("NVIDIA-H100XM-80C", "h100-sxm-80gb", 81_559 / 1024, None),
        ("NVIDIA RTX6000-Ada-24Q", "rtx-6000-ada", 24, None),
        ("Standard_NV6ads_A10_v5", "a10", 4, None),
        ("g6f.4xlarge", "l4", 12, None),
    ],
)
def test_a_virtual_gpu_keeps_its_frame_buffer(
    name: str, gpu: str, gib: float, fraction: float | None
) -> None:
    identity = found(name)
    assert identity.gpu == gpu
    assert identity.slice is not None
    assert identity.slice.kind is SliceKind.VGPU
    assert identity.memory_bytes / GIB == pytest.approx(gib)
    assert identity.slice.compute_fraction == (fraction and pytest.approx(fraction))


def test_a_virtual_gpu_larger_than_its_board_is_refused() -> None:
    assert refused("NVIDIA A10-48Q").reason is Reason.CONTRADICTION


def test_a_shared_node_label_is_flagged() -> None:
    identity = found("NVIDIA-H100-80GB-HBM3-SHARED")
    assert identity.gpu == "h100-sxm-80gb"
    assert identity.slice is not None
    assert identity.slice.kind is SliceKind.SHARED
    both = found("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED")
    assert both.slice is not None
    assert both.slice.profile == "1g.10gb time-shared"


@pytest.mark.parametrize("memory_mib", [9_984, 81_559])
def test_a_slice_may_report_its_own_memory_or_that_of_the_gpu_around_it(memory_mib: int) -> None:
    identity = found("NVIDIA H100 80GB HBM3 MIG 1g.10gb", memory_mib)
    assert identity.memory_bytes / MIB == pytest.approx(9_984, rel=0.03)


def test_a_slice_that_reports_another_size_is_refused() -> None:
    answer = refused("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 20_000)
    assert answer.reason is Reason.CONTRADICTION


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "a part of a GPU, 1g.10gb of h100-sxm-80gb"),
        ("GRID A100-10C", "never planned as the whole"),
        ("NVIDIA-L4-SHARED", "time-shared of l4"),
        ("p4d.24xlarge", "8 x a100-sxm-40gb"),
        ("g6.xlarge", "1 x l4"),
        ("8x H200", "8 x h200-sxm-141gb"),
        ("a100", "ambiguous: 4 ids"),
    ],
)
def test_a_plan_takes_only_one_whole_gpu(typed: str, told: str) -> None:
    with pytest.raises(UnknownIdError) as caught:
        load_catalog().gpu(typed)
    assert told in caught.value.message
    assert "-" in caught.value.remedy


def test_an_instance_given_as_a_gpu_is_answered_with_the_gpu_to_name() -> None:
    with pytest.raises(UnknownIdError) as caught:
        load_catalog().gpu("p4d.24xlarge")
    assert "--gpu a100-sxm-40gb" in caught.value.remedy


def test_identify_raises_where_look_up_answers() -> None:
    assert identify_gpu("NVIDIA L4").gpu == "l4"
    with pytest.raises(UnknownIdError) as caught:
        identify_gpu("a100")
    assert "a100-sxm-80gb" in caught.value.remedy


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA H100",
        "p4d.24xlarge",
    ],
)
def test_a_device_that_is_no_whole_known_gpu_has_no_id(name: str) -> None:
    assert gpu_id_from_device_name(name) is None


def test_a_gpu_without_bf16_is_known_and_not_planned() -> None:
    catalog = load_catalog()
    assert "bf16" in catalog.gpu("Tesla T4").not_planned_because
    assert catalog.gpu("l4").not_planned_because == ""


def test_a_catalogue_without_instances_still_knows_its_boards(tmp_path: Path) -> None:
    names = load_gpu_names(tmp_path, load_catalog().gpus)
    assert isinstance(names.look_up("NVIDIA L4"), GpuIdentity)
    assert isinstance(names.look_up("p4d.24xlarge"), Unresolved)


@pytest.mark.parametrize(
    "name",
    [
        "cpu",
        "CPU",
        "x86 CPU",
        "Intel(R) Xeon(R) Platinum 8480+",
        "Intel(R) Core(TM) i9-13900K",
        "AMD EPYC 9654 96-Core Processor",
        "AMD Ryzen 9 7950X",
        "Neoverse-N1",
        "graviton4",
    ],
)
def test_a_processor_is_to_be_measured_and_no_gpu_is_offered_for_it(name: str) -> None:
    answer = refused(name)
    assert (answer.reason, answer.choices) == (Reason.UNKNOWN, ())
    assert f"{name!r} is a processor" in answer.message
    assert "capplan profile TARGET -o cpu.json" in answer.remedy
    assert "--profile cpu.json" in answer.remedy


@pytest.mark.parametrize("name", ["xeonphi", "score i9", "RTX 4091"])
def test_other_unknown_names_are_not_taken_for_processors(name: str) -> None:
    assert "processor" not in refused(name).message
