"""Faults that reading and fuzzing found in readers, each as a fact that was once false."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from capplan.deploy.lengths import parse_lengths
from capplan.errors import FactsError, ProfileFormatError, RequestError, WorkloadError
from capplan.facts.price_file_rows import read_price_rows
from capplan.profiles.store import load_profile, save_profile
from capplan.workloads.trace_file import read_trace
from profiler.prompts import load_prompts


def test_a_year_that_nanoseconds_do_not_hold_is_no_other_year(tmp_path: Path) -> None:
    rows = "".join(f"{time},5,6\n" for time in ("9999-01-01 00:00:00", "20260101", "2026"))
    (tmp_path / "t.csv").write_text(f"timestamp,isl,osl\n2026-01-01 00:00:00,1,2\n{rows}")
    with pytest.raises(WorkloadError, match="2 of 4 rows are bad"):  # 20260101 is an ISO date
        read_trace(tmp_path / "t.csv")


def test_a_list_in_place_of_every_number_makes_no_table(tmp_path: Path) -> None:
    line = '{"timestamp": 1, "prompt_tokens": [5], "output_tokens": [6]}\n'
    (tmp_path / "t.jsonl").write_text(line * 3)
    with pytest.raises(WorkloadError, match="rows are bad"):
        read_trace(tmp_path / "t.jsonl")


def test_half_of_a_character_in_a_name_is_shown_as_none(tmp_path: Path) -> None:
    line = '{"time\\ud800stamp": 1, "prompt_tokens": 5, "output_tokens": 6}\n'
    (tmp_path / "t.jsonl").write_text(line)
    assert read_trace(tmp_path / "t.jsonl").columns[0] == "time?stamp"
    (tmp_path / "t.jsonl").write_text('{"\\ud800": 1}\n')
    with pytest.raises(WorkloadError) as caught:
        read_trace(tmp_path / "t.jsonl")
    assert str(caught.value).encode()


def test_a_price_list_is_found_by_its_key_not_by_the_word(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(
        '{"note": {"prices": [7]},\n "pri\\u0063es":\n  [{"gpu": "l4", "usd_per_gpu_hour": 1.10}]}'
    )
    (row,) = read_price_rows(tmp_path / "p.json")
    assert (row.line, row.cells["usd_per_gpu_hour"]) == (3, "1.10")


def test_a_speaker_may_be_anything(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('[{"messages": [{"role": ["user"], "content": "x"}]}]')
    (tmp_path / "q.json").write_text('[{"messages": [{"role": "user", "content": "x"}]}]')
    with pytest.raises(Exception, match="none of its 1 conversations"):
        load_prompts(tmp_path / "p.json")
    assert load_prompts(tmp_path / "q.json").tasks == ("custom",)


@pytest.mark.parametrize("text", ["[" * 100_000, "[[1,2," + "9" * 5000 + "]]"])
def test_lengths_of_anything_are_explained(text: str) -> None:
    with pytest.raises(RequestError, match="not JSON"):
        parse_lengths(text)


def test_a_cell_of_a_megabyte_in_a_price_file_is_explained(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("gpu,usd_per_gpu_hour\nl4," + "1" * 10**6 + "\n")
    with pytest.raises(FactsError, match=r"p\.csv:2: cannot be read"):
        list(read_price_rows(tmp_path / "p.csv"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"offsets": [0, 5, 3]}, "offsets does not part 2 requests"),
        ({"offsets": [0, 3, 99]}, "is not a probability for each of 99 tokens"),
        ({"offsets": [0.0, 3.0, 6.0]}, "offsets does not part"),
        ({"offsets": [[0, 3, 6]]}, "offsets does not part"),
        ({"accept_greedy": [0.5] * 5}, "accept_greedy is not a probability for each of 6"),
        ({"accept_greedy": [7.0] * 6}, "accept_greedy leaves 0 to 1"),
        ({"accept_probabilistic": None}, "accept_probabilistic is not there"),
        ({"prompt_tokens": [-1, 5]}, "prompt_tokens is not a count"),
    ],
)
def test_arrays_that_are_not_the_traces_of_a_profile_are_refused(
    tmp_path: Path, synthetic, change: dict[str, object], said: str
) -> None:

    profile, _ = synthetic.profile(requests=2, tokens_each=3)
    arrays = {
        "offsets": [0, 3, 6],
        "accept_greedy": [0.5] * 6,
        "accept_probabilistic": [0.25] * 6,
        **change,
    }
    named = {
        f"acceptance/0/{name}": np.array(values)
        for name, values in arrays.items()
        if values is not None
    }
    save_profile(tmp_path / "p.json", profile, named)
    if not said:
        assert load_profile(tmp_path / "p.json").arrays
        return
    with pytest.raises(ProfileFormatError, match=said):
        load_profile(tmp_path / "p.json")


def test_traces_without_arrays_are_refused(tmp_path: Path, synthetic) -> None:
    profile, _ = synthetic.profile(requests=2, tokens_each=3)
    save_profile(tmp_path / "p.json", profile, {})
    with pytest.raises(ProfileFormatError, match="acceptance/0/offsets is not there"):
        load_profile(tmp_path / "p.json")
