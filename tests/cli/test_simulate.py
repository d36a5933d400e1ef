"""``capplan simulate``: ways to choose the length, replayed on traces."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capplan
from capplan.profiles.store import save_profile

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def traced(tmp_path: Path, synthetic: Any) -> Callable[..., Path]:
    def save(share: float, *, confident: bool = False) -> Path:
        found, arrays = synthetic.profile(requests=30, tokens_each=60)
        rng = np.random.default_rng(0)
        for name, values in dict(arrays).items():
            if "accept_" in name:
                arrays[name] = (rng.random(len(values)) < share).astype(np.float32)
        if confident:
            hits = arrays["acceptance/0/accept_greedy"]
            noise = 0.2 * rng.standard_normal(len(hits))
            arrays["acceptance/0/draft_confidence"] = np.clip(
                0.3 + 0.4 * hits + noise, 0, 1
            ).astype(np.float32)
        path = tmp_path / f"{share:g}-{confident}.json"
        save_profile(path, found, arrays)
        return path

    return save


def replayed(run: Call, *arguments: object) -> tuple[dict[str, Any], dict[str, Any]]:
    code, out, err = run("simulate", *arguments, "--format", "json")
    assert code == 0, err
    found = json.loads(out)
    return found, {one["name"]: one for one in found["controllers"]}


def test_nothing_beats_the_bound_and_nothing_fixed_beats_the_best(
    run: Call, traced: Callable[..., Path]
) -> None:
    found, by_name = replayed(run, traced(0.75, confident=True))
    bound = by_name["clairvoyant"]["gain_over_best_fixed"]["mid"]
    for one in found["controllers"]:
        assert one["gain_over_best_fixed"]["mid"] <= bound + 1e-12
    best = by_name[f"fixed N = {found['best_fixed']}"]["gain_over_best_fixed"]
    assert best == {"low": 0.0, "mid": 0.0, "high": 0.0}
    assert by_name["no speculation"]["gain_over_best_fixed"]["high"] < 0
    assert by_name["schedule"]["gain_over_best_fixed"]["mid"] >= 0


def test_the_guides_controller_beats_its_own_yardstick_and_not_the_best_length(
    run: Call, traced: Callable[..., Path]
) -> None:
    # few drafts are accepted: going down from 5 gains, as any shorter fixed length would
    found, by_name = replayed(run, traced(0.45), "--controller", "guide", "--controller", "fixed")
    assert found["best_fixed"] < 5
    guide = by_name["guide"]
    assert guide["gain_over_five"]["low"] > 0
    assert guide["gain_over_best_fixed"]["mid"] < 0


def test_confidence_that_was_not_traced_is_refused_with_the_way_to_get_it(
    run: Call, traced: Callable[..., Path]
) -> None:
    _, by_name = replayed(run, traced(0.7), "--controller", "confidence")
    assert "torch backend" in by_name["confidence"]["refused"]
    _, by_name = replayed(run, traced(0.7, confident=True), "--controller", "confidence")
    assert by_name["confidence"]["gain_over_best_fixed"]["low"] > 0


def test_a_lookup_has_no_confidence(tmp_path: Path, synthetic: Any, run: Call) -> None:
    path = tmp_path / "ngram.json"
    save_profile(path, *synthetic.profile(draft="ngram"))
    _, by_name = replayed(run, path)
    assert "lookup" in by_name["confidence"]["refused"]
    assert by_name["clairvoyant"]["gain_over_best_fixed"]["mid"] > 0


def test_settings_of_the_guides_controller_are_heard(
    run: Call, traced: Callable[..., Path]
) -> None:
    path = traced(0.7)
    _, by_name = replayed(
        run, path, "--controller", "guide", "--target-rate", 0, "--interval", 50, "--most", 7
    )
    assert "N went 5, 6, 7, 7" in by_name["guide"]["detail"]


@pytest.mark.parametrize("order", ["mixed", "by-task", "hotter"])
def test_every_order_is_served(run: Call, traced: Callable[..., Path], order: str) -> None:
    code, out, _ = run("simulate", traced(0.7), "--order", order, "--stream", 300)
    assert code == 0
    assert f"300 served, {order}" in out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--load", "64:1"), 2, "largest batch measured is 16"),
        (("--temperature", "0.5"), 1, "traced: 0"),
        (("--initial", "11"), 2, "not so"),
        (("--controller", "magic"), 2, "magic"),
    ],
)
def test_what_cannot_be_replayed_is_explained(
    run: Call, traced: Callable[..., Path], arguments: tuple[str, ...], code: int, words: str
) -> None:
    got, out, err = run("simulate", traced(0.7), *arguments)
    assert got == code
    assert out == ""
    assert words in err


def test_profiles_of_two_pairings_are_not_mixed(
    run: Call, traced: Callable[..., Path], tmp_path: Path, synthetic: Any
) -> None:
    other = tmp_path / "ngram.json"
    save_profile(other, *synthetic.profile(draft="ngram"))
    code, _, err = run("simulate", traced(0.7), other)
    assert code == 1
    assert "different pairings" in err


def test_two_profiles_of_one_pairing_are_pooled(traced: Callable[..., Path]) -> None:
    both = capplan.simulate([traced(0.7), traced(0.5)])
    assert both.requests == 60


def test_the_library_refuses_a_controller_that_does_not_exist(
    traced: Callable[..., Path],
) -> None:
    with pytest.raises(capplan.CapplanError, match="magic"):
        capplan.simulate(traced(0.7), capplan.SimulationWishes(controllers=("magic",)))
