"""Names found in the world, each with the answer that was decided before it was looked up."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from capplan.errors import FactsError
from capplan.facts.catalog import load_catalog
from capplan.facts.gpu_names import Reason, Unresolved
from capplan.facts.gpu_names.words import cut_off, take_count, take_memory
from capplan.facts.instances import load_instances
from capplan.schema.gpu import GpuIdentity

TABLE = Path(__file__).parents[2] / "data" / "gpu_names" / "wild_names.csv"
NAMES = load_catalog().gpu_names
MIB = 2**20

with TABLE.open(encoding="utf-8", newline="") as lines:
    ROWS = list(csv.DictReader(lines))


def test_the_table_is_wide() -> None:
    assert len(ROWS) > 600
    assert len({row["source"] for row in ROWS}) > 20
    assert sum(row["answer"] == "refuse" for row in ROWS) > 150


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_a_name_of_the_world_gets_its_answer(row: dict[str, str]) -> None:
    answer = NAMES.look_up(row["name"])
    if row["answer"] in ("ask", "refuse"):
        assert isinstance(answer, Unresolved), answer
        assert (answer.reason is Reason.AMBIGUOUS) is (row["answer"] == "ask")
        assert len(answer.choices) > 0 or row["answer"] == "refuse"
        return
    assert isinstance(answer, GpuIdentity), answer
    assert (answer.gpu, answer.count) == (row["answer"], int(row["count"]))
    assert (answer.slice is not None) is (row["slice"] == "yes")


@pytest.mark.parametrize(
    ("line", "gpu", "mib"),
    [
        ("NVIDIA A100-SXM4-40GB, 40536 MiB", "a100-sxm-40gb", 40_536),
        ("0, NVIDIA H100 80GB HBM3, 81559 MiB", "h100-sxm-80gb", 81_559),
        ("NVIDIA H20, 143771 MiB", "h20-sxm-141gb", 143_771),
        ("NVIDIA GeForce RTX 4060 Ti, 16380", "rtx-4060-ti-16gb", 16_380),
        ("NVIDIA A100-SXM..., 81920 MiB", "a100-sxm-80gb", 81_920),
    ],
)
def test_the_memory_at_the_end_of_a_line_decides(line: str, gpu: str, mib: int) -> None:
    answer = NAMES.look_up(line)
    assert isinstance(answer, GpuIdentity), answer
    assert (answer.gpu, answer.memory_bytes) == (gpu, mib * MIB)


def test_memory_given_beside_the_name_wins_over_that_of_the_line() -> None:
    answer = NAMES.look_up("NVIDIA H20, 97871 MiB", 143_771)
    assert isinstance(answer, GpuIdentity)
    assert answer.gpu == "h20-sxm-141gb"


def test_a_card_with_twice_the_memory_is_not_the_card_of_its_name() -> None:
    answer = NAMES.look_up("NVIDIA GeForce RTX 4090, 49140 MiB")
    assert isinstance(answer, Unresolved)
    assert answer.reason is Reason.CONTRADICTION
    assert "49,140 MiB" in answer.message


def test_a_name_cut_off_by_a_table_is_asked_for_whole() -> None:
    answer = NAMES.look_up("NVIDIA A100-SXM...")
    assert isinstance(answer, Unresolved)
    assert "cut off" in answer.message
    assert set(answer.choices) == {"a100-sxm-40gb", "a100-sxm-80gb"}
    assert cut_off("NVIDIA A100-SXM4-80GB") is None


@pytest.mark.parametrize(
    ("name", "count", "rest"),
    [
        ("8x H100", 8, "h100"),
        ("H100x8", 8, "h100"),
        ("L40Sx4", 4, "l40s"),
        ("A100 (x8)", 8, "a100"),
        ("H100 (8x)", 8, "h100"),
        ("H100*2", 2, "h100"),
        ("8 H200", 8, "h200"),
        ("80 GB H100", 1, "80 gb h100"),
        ("A100X", 1, "a100x"),
        ("RTX 4090", 1, "rtx 4090"),
        ("MX150", 1, "mx150"),
        ("H100:0", 1, "h100:0"),
    ],
)
def test_only_a_count_is_taken_for_one(name: str, count: int, rest: str) -> None:
    assert take_count(name) == (count, rest)


@pytest.mark.parametrize("name", ["RTX 4090", "NVIDIA L4", "A100 80", "L4, 24 GB", "RTX 6000"])
def test_a_model_number_is_not_taken_for_memory(name: str) -> None:
    assert take_memory(name) == (name, None)


@pytest.mark.parametrize(
    "name", ["n3-H100x0", "n3-H100x17", "n3-H100x", "1H100.80S.V", "H100--80G"]
)
def test_a_pattern_needs_a_count_that_a_machine_can_have(name: str) -> None:
    assert NAMES.instance(name) is None


def test_a_pattern_without_its_count_is_a_bad_row(tmp_path: Path) -> None:
    header = "provider,instance,kind,gpu,gpu_count,slice,slice_memory_gb,source,as_of,note"
    path = tmp_path / "mine.csv"
    path.write_text(f"{header}\nme,box-h100,pattern,h100-sxm-80gb,1,,,mine,,\n", encoding="utf-8")
    with pytest.raises(FactsError, match="exactly one #"):
        load_instances(path)


def test_a_size_that_no_board_has_is_named() -> None:
    answer = NAMES.look_up("h100-380")
    assert isinstance(answer, Unresolved)
    assert "none of its boards has 380 GB" in answer.message
