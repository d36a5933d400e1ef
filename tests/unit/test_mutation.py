"""The tool that plants faults: they are where they say, and they reach who imported the code."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOLS = Path(__file__).parents[2] / "tools"

CODE = '''
"""A text is left alone."""
from __future__ import annotations
from dataclasses import dataclass, field
from functools import cache, cached_property
from capplan.schema.quantity import Quantity

LIMIT = 3
HALF = round(0.5, 2)
EDGE = Quantity(low=1.0, mid=5.0, high=9.0)

@dataclass(frozen=True)
class Box:
    size: int = 2
    many: list[int] = field(default_factory=lambda: [7])

    @cached_property
    def twice(self) -> int:
        return 2 * self.size

@cache
def within(value: int, most: int = 5) -> bool:
    """A docstring, too: 1 < 2."""
    if value > 100:
        raise ValueError(f"{value + 1} is more than {100 - 1}")
    return value < most and value <= LIMIT
'''


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The modules of the tool, which import each other by name."""
    monkeypatch.syspath_prepend(str(TOOLS))
    names = ("mutation_operators", "mutation_grafting", "mutation_report", "mutation")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = ModuleType("tools")
    for name in names:
        if name != "mutation":
            setattr(found, name.removeprefix("mutation_"), __import__(name))
    return found


@pytest.fixture
def boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The code above as a module that is imported."""
    (tmp_path / "boxes.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "boxes", raising=False)
    return __import__("boxes")


def planted(tools: Any, boxes: ModuleType, name: str) -> bool:
    source = tools.operators.Source("boxes", Path(str(boxes.__file__)))
    (mutant,) = [one for one in source.mutants if one.id == name]
    fresh = tools.grafting.executed(boxes, source.compiled(mutant))
    return bool(tools.grafting.graft(boxes, fresh))


def test_every_fault_is_named_once_and_text_is_left_alone(tools: Any, boxes: ModuleType) -> None:
    source = tools.operators.Source("boxes", Path(str(boxes.__file__)))
    names = [one.id for one in source.mutants]
    assert len(set(names)) == len(names)
    assert "boxes: LIMIT = 3 -> LIMIT = 4" in names
    assert "boxes.Box: size: int = 2 -> size: int = 3" in names
    assert "boxes.within: value > 100 -> value >= 100" in names
    assert not any("frozen" in name or "value + 1" in name for name in names)


@pytest.mark.parametrize(
    ("name", "question", "before", "after"),
    [
        ("boxes: LIMIT = 3 -> LIMIT = 4", "within(4)", False, True),
        ("boxes.Box: size: int = 2 -> size: int = 3", "Box().size", 2, 3),
        ("boxes.Box.twice: return 2 * self.size -> return 2 / self.size", "Box().twice", 4, 1.0),
        (
            "boxes.within: value: int, most: int=5 -> value: int, most: int=6",
            "within.__wrapped__.__defaults__",
            (5,),
            (6,),
        ),
        (
            "boxes.within: return value < most and value <= LIMIT"
            " -> return value < most and value < LIMIT",
            "within(3)",
            True,
            False,
        ),
        (
            "boxes.Box: field(default_factory=lambda: [7]) -> field(default_factory=lambda: [8])",
            "Box().many",
            [7],
            [8],
        ),
        (
            "boxes: EDGE = Quantity(low=1.0, mid=5.0, high=9.0)"
            " -> EDGE = Quantity(low=1.0, mid=6.0, high=9.0)",
            "boxes.EDGE.mid",
            5.0,
            6.0,
        ),
    ],
)
def test_a_fault_reaches_code_that_is_imported(
    tools: Any, boxes: ModuleType, name: str, question: str, before: Any, after: Any
) -> None:
    held = {"Box": boxes.Box, "within": boxes.within, "boxes": boxes}
    assert eval(question, held) == before
    assert planted(tools, boxes, name)
    boxes.within.cache_clear()
    assert eval(question, held) == after


def test_a_fault_that_makes_the_same_value_is_not_planted(tools: Any, boxes: ModuleType) -> None:
    assert not planted(tools, boxes, "boxes: HALF = round(0.5, 2) -> HALF = round(0.5, 3)")


def test_what_unchanged_code_has_computed_is_forgotten(
    tools: Any, boxes: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools.grafting, "_depends", lambda module: module == "boxes")
    one = boxes.Box(3)
    assert (one.twice, boxes.within(1)) == (6, True)
    remembered = tools.grafting.Remembered.now()
    assert planted(tools, boxes, "boxes.Box.twice: return 2 * self.size -> return 2 / self.size")
    assert one.twice == 6
    remembered.forget()
    assert one.twice == 2 / 3
    assert boxes.within.cache_info().currsize == 0


def test_names_of_faults_do_not_change_when_code_moves(
    tools: Any, boxes: ModuleType, tmp_path: Path
) -> None:
    source = tools.operators.Source("boxes", Path(str(boxes.__file__)))
    moved = tmp_path / "moved.py"
    moved.write_text("\n\n# a comment\n" + CODE)
    again = tools.operators.Source("boxes", moved)
    assert [one.id for one in again.mutants] == [one.id for one in source.mutants]


def test_the_interval_of_a_share_is_wilsons(tools: Any) -> None:
    # Newcombe 1998, table I: 81 of 263, and 0 of 20
    assert tools.report.wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert tools.report.wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)


def test_a_fault_that_no_test_reaches_counts_as_not_noticed(tools: Any) -> None:
    fates = ["killed"] * 6 + ["timeout", "survived", "unreached", "same"]
    results = [
        tools.report.Result(f"{n}", "capplan.economics.cost", 40, fate, "1 of 1")
        for n, fate in enumerate(fates)
    ]
    table = tools.report.shown(results, {"7": "the same value"})
    assert "| economics | 40 | 9 | 6 | 1 | 0 | 1 | 1 | 77.8%" in table
    assert "| 87.5% |" in table
    assert "- unreached: `8`" in table
    assert "`7`" not in table


def test_every_equivalent_fault_can_still_be_planted(tools: Any) -> None:
    """An entry whose code was moved or changed would excuse nothing, silently."""
    tool = __import__("mutation")
    entries = tomllib.loads(tool.EQUIVALENT.read_text(encoding="utf-8"))["equivalent"]
    packages = {entry.split(".")[1] for entry in entries}
    planted = {mutant.id for package in packages for _, mutant in tool.population(package)}
    assert [entry for entry in entries if entry not in planted] == []
