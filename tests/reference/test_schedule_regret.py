"""Lengths chosen without the published sweeps lose at most 1 % against the best measured ones."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from capplan.resources import models_db_dir
from capplan.validation.folder import read_published
from capplan.validation.schedule_sweeps import OFF, Sweep, sweeps

SOURCES = ("vllm_adaptive", "vllm20780", "angelslim", "specdecode_bench")


@cache
def found() -> tuple[Sweep, ...]:
    return sweeps(read_published(models_db_dir() / "published"))


def of(source: str) -> list[Sweep]:
    return [sweep for sweep in found() if sweep.source == source]


def test_every_source_has_its_sweeps() -> None:
    assert {source: len(of(source)) for source in SOURCES} == {
        "vllm_adaptive": 6,
        "vllm20780": 2,
        "angelslim": 30,
        "specdecode_bench": 40,
    }
    assert all(sweep.choices[0] == OFF for sweep in found())


@pytest.mark.parametrize("source", SOURCES)
def test_the_schedule_loses_at_most_one_per_cent(source: str) -> None:
    assert np.mean([sweep.regret for sweep in of(source)]) <= 0.01


def test_single_loads_that_lose_more_are_those_the_method_page_names() -> None:
    worse = {(s.source, s.case) for s in found() if s.regret > 0.025}
    assert worse == {
        ("vllm_adaptive", "1 at once"),
        ("angelslim", "GSM8K, 64 at once"),
        ("angelslim", "LiveCodeBench, 64 at once"),
        ("angelslim", "Math500, 64 at once"),
    }


def test_one_length_for_all_loads_would_lose_more() -> None:
    by_load = of("vllm_adaptive")
    measured = np.stack([sweep.measured for sweep in by_load])
    lost = 1 - measured / measured.max(axis=1, keepdims=True)
    chosen = np.mean([sweep.regret for sweep in by_load])
    assert chosen < lost.mean(axis=0).min() / 2
