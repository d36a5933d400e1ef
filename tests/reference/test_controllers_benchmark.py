"""The benchmark of length controllers: kept traces are read back, kept gains are what the audit
reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from capplan.facts.published import load_controller_replays
from capplan.schema.quantity import Quantity
from capplan.schema.schedule import ControllerResult

Scripts = Callable[[str], ModuleType]


@pytest.fixture
def demo(benchmark_script: Scripts) -> ModuleType:
    return benchmark_script("controllers_demo_pair")


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Two requests of 4 and 3 tokens at temperature 0, the same texts fully accepted at 0.8."""
    lengths = (0, 1, 3, 6, 10)
    arrays = {
        "task": np.array(["code", "maths"]),
        "pass_s": np.array([0.1, 0.2]),
        "verify_s": np.array([[1.0 + 0.1 * n for n in lengths], [2.0 + 0.2 * n for n in lengths]]),
    }
    for name, accept in (("0", [0, 1, 0, 1, 0, 0, 0]), ("0.8", [1] * 7)):
        arrays[f"{name}/offsets"] = np.array([0, 4, 7])
        arrays[f"{name}/accept_greedy"] = np.array(accept, dtype=np.float32)
        arrays[f"{name}/draft_confidence"] = np.linspace(0.1, 0.7, 7, dtype=np.float32)
    np.savez(tmp_path / "pair.npz", **arrays)
    return tmp_path / "pair.npz"


def test_kept_traces_are_read_back(demo: ModuleType, kept: Path) -> None:
    pair = demo.read_demo_pair(kept)
    assert pair.requests.count == 4
    cold, warm = pair.at((0.0,)), pair.at((0.8,))
    # at 0.8 all is accepted: three and two tokens in one round each, as N = 2 emits up to three
    assert warm.counts[2].rounds.tolist() == [1.0, 1.0]
    assert warm.counts[2].emitted.tolist() == [3.0, 2.0]
    # at 0 the first request keeps its second token, refuses the third: rounds from 1 and 3
    assert cold.counts[1].rounds.tolist() == [2.0, 2.0]
    assert cold.texts.confidence[0].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert cold.texts.confidence[1, :3].tolist() == pytest.approx([0.5, 0.6, 0.7])
    assert cold.task.tolist() == ["code", "maths"]


def test_a_round_takes_its_drafts_and_its_verification(demo: ModuleType, kept: Path) -> None:
    clock = demo.read_demo_pair(kept).clock({4: 1.0})
    assert clock.batches.tolist() == [4]
    # 2 + 0.2 n for the verification, lengths between those timed included, and 0.2 a draft
    assert clock.round_s[0].tolist() == pytest.approx([2.0 + 0.4 * n for n in range(11)])


def test_kept_gains_are_what_the_audit_reads(benchmark_script: Scripts, tmp_path: Path) -> None:
    def result(name: str, five: Quantity | None) -> ControllerResult:
        best = Quantity(low=-0.2, mid=-0.15, high=-0.1)
        return ControllerResult(
            name=name, detail="", tokens_per_round=2.0, mean_length=2.34,
            gain_over_best_fixed=best, gain_over_five=five,
        )  # fmt: skip

    replayed = benchmark_script("controllers_replayed")
    five = Quantity(low=0.01, mid=0.02, high=0.03)
    replays = [
        replayed.Replayed("pair", "with five", 24, 1, [result("guide", five)]),
        replayed.Replayed("pair", "without", 24, 1, [result("guide", None)]),
    ]
    replayed.keep(replays, tmp_path / "kept.csv", "2026-11-30")
    first, second = load_controller_replays(tmp_path)
    assert first.over_five == five
    assert (first.over_best.mid, first.guide_n, first.best_n) == (-0.15, 2.3, 1)
    assert second.over_five is None
