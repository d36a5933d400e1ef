"""A file that was edited, cut or scaled never crashes an importer, and shows."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from capplan.errors import CapplanError
from capplan.profiles.importers.document import document_from_text
from capplan.profiles.importers.registry import read_document
from capplan.schema.observation import Observation

DATA = Path(__file__).parents[3] / "data" / "imports"
JSON_FILES = sorted(path.name for path in DATA.iterdir() if path.suffix in {".json", ".jsonl"})
TEXT_FILES = sorted(
    path.name for path in DATA.iterdir() if path.suffix in {".csv", ".txt", ".log"}
)
STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=5),
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(min_value=-(10**400), max_value=10**400),
    st.just([]),
    st.just({}),
    st.just([1, "x", None]),
)
Path_ = tuple[Any, ...]


def documents(name: str) -> list[Any]:
    text = (DATA / name).read_text()
    return (
        [json.loads(line) for line in text.splitlines()]
        if name.endswith("l")
        else [json.loads(text)]
    )


def nodes(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    children: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    for key, child in children:
        yield (*path, key), child
        yield from nodes(child, (*path, key))


def changed(whole: Any, path: Path_, value: Any) -> Any:
    copied = copy.deepcopy(whole)
    parent = copied
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return copied


def without(whole: Any, path: Path_, renamed: str = "") -> Any:
    copied = copy.deepcopy(whole)
    parent = copied
    for key in path[:-1]:
        parent = parent[key]
    value = parent.pop(path[-1])
    if renamed and isinstance(parent, dict):
        parent[renamed] = value
    return copied


def read(values: list[Any]) -> list[Observation]:
    return read_document(document_from_text("\n".join(map(json.dumps, values)), "x"))


@settings(max_examples=120, deadline=None, derandomize=True)
@given(data=st.data())
def test_no_mutation_of_a_json_file_crashes(data: st.DataObject) -> None:
    values = documents(data.draw(st.sampled_from(JSON_FILES)))
    for _ in range(data.draw(st.integers(1, 3))):
        places = [path for path, _ in nodes(values)]
        if not places:
            return
        path = data.draw(st.sampled_from(places))
        how = data.draw(st.sampled_from(["drop", "rename", "replace"]))
        if how == "drop":
            values = without(values, path)
        elif how == "rename":
            values = without(values, path, "renamed")
        else:
            values = changed(values, path, data.draw(STRANGE))
    try:
        observations = read(values)
    except CapplanError:
        return
    for one in observations:
        assert one == Observation.model_validate(one.model_dump())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_no_cut_or_edit_of_a_text_file_crashes(data: st.DataObject) -> None:
    text = (DATA / data.draw(st.sampled_from(TEXT_FILES))).read_text()
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 200))
    text = text[:start] + data.draw(st.text(max_size=8)) + text[start + length :]
    try:
        observations = read_document(document_from_text(text, "x"))
    except CapplanError:
        return
    for one in observations:
        assert one == Observation.model_validate(one.model_dump())


def _content(observations: list[Observation]) -> list[dict[str, Any]]:
    """Return what was read, without what says where from and what follows from other fields."""
    left_out = {"flags", "format", "started_at"}
    found = [one.model_dump(exclude=left_out) for one in observations]
    for one in found:
        for name in ("mean_concurrency", "temperature"):
            one["load"].pop(name)
    return found


def _scalable(whole: Any) -> Iterator[tuple[Path_, float]]:
    for path, value in nodes(whole):
        if isinstance(value, int | float) and not isinstance(value, bool) and value:
            yield path, value


@pytest.mark.parametrize("name", JSON_FILES)
def test_a_figure_times_a_thousand_is_flagged(name: str) -> None:
    whole = documents(name)
    plain = read(whole)
    known = {(i, flag.check, flag.text) for i, one in enumerate(plain) for flag in one.flags}
    silent = []
    for path, value in _scalable(whole):
        observations = read(changed(whole, path, value * 1000))
        if _content(observations) == _content(plain):
            continue  # the field is not read, or has another one to stand in
        new = {
            (i, flag.check, flag.text) for i, one in enumerate(observations) for flag in one.flags
        }
        if not new - known:
            silent.append(path)
    assert silent == []


@pytest.mark.parametrize("name", ["vllm_bench_speculative.json", "inferencex_c64.json"])
def test_latencies_all_a_thousand_too_large_are_brought_back_and_that_is_said(name: str) -> None:
    (value,) = documents(name)
    keys = ("ttft", "tpot", "e2el", "itl")
    scaled = {
        key: number * 1000 if any(word in key for word in keys) else number
        for key, number in value.items()
    }
    (plain,), (found,) = read([value]), read([scaled])
    assert found.tpot_s is not None
    assert plain.tpot_s is not None
    assert found.tpot_s.typical == pytest.approx(plain.tpot_s.typical)
    assert "unit_found" in {flag.check for flag in found.flags}


def test_one_latency_in_another_unit_is_flagged_and_left_alone() -> None:
    (value,) = documents("vllm_bench_speculative.json")
    value["mean_ttft_ms"] *= 1000
    (found,) = read([value])
    assert found.ttft_s is not None
    assert found.ttft_s.mean == pytest.approx(35.5, rel=0.01)
    checks = {flag.check for flag in found.flags}
    assert "unit_found" not in checks
    assert {"end_to_end", "impossible_latency"} <= checks
    assert not found.usable_for("latency")


def test_a_unit_without_a_time_end_to_end_is_doubted_and_left() -> None:
    value = documents("vllm_bench_speculative.json")[0]
    in_seconds = {
        key: number / 1000 if key.endswith("_ms") and number else number
        for key, number in value.items()
        if "e2el" not in key
    }
    (found,) = read([in_seconds])
    assert "unit_doubtful" in {flag.check for flag in found.flags}
    assert found.tpot_s is not None
    assert found.tpot_s.mean == pytest.approx(in_seconds["mean_tpot_ms"] / 1000)
    for use in ("capacity", "latency", "step_time"):
        assert not found.usable_for(use)


def test_ten_thousand_tokens_a_second_of_one_request_are_no_latency() -> None:
    value = documents("vllm_bench_arrival_limited.json")[0]
    fast = {key: number / 1000 if "tpot_ms" in key else number for key, number in value.items()}
    (found,) = read([fast])
    assert any("tokens a second each" in flag.text for flag in found.flags)
    assert not found.usable_for("latency")
