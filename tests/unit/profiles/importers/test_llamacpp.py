"""llama.cpp counts tokens and not rounds: a round gives its accepted tokens and one more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capplan.profiles.importers.document import document_from_text, open_document
from capplan.profiles.importers.registry import read_document

DATA = Path(__file__).parents[3] / "data" / "imports"


def read(text: str):
    return read_document(document_from_text(text, "x"))


def checks(observation):
    return {flag.check for flag in observation.flags}


def test_the_end_of_a_speculative_run_gives_its_rounds():
    (found,) = read_document(open_document(DATA / "llamacpp_speculative.txt"))
    counts = found.speculation
    assert counts.drafts == 673 - 526
    assert counts.acceptance_rate == pytest.approx(0.7205, abs=0.0005)
    assert counts.tokens_per_draft_round == pytest.approx(4.578, abs=0.001)
    assert found.output_tokens_per_s == pytest.approx(55.47, abs=0.01)
    assert found.tpot_s.mean == pytest.approx(12.132 / 673)
    assert not found.usable_for("capacity")


def test_requests_of_a_server_stay_apart_in_either_layout():
    (found,) = read_document(open_document(DATA / "llamacpp_server.log"))
    counts = found.speculation
    assert counts.by_request == ((220, 418), (40, 60))  # 639 - 1 - 418, and 101 - 1 - 60
    assert (counts.drafted, counts.accepted) == (750, 478)
    assert counts.num_speculative_tokens == 3
    assert counts.accepted_per_position == ()  # one of the two does not say
    assert found.ttft_s.mean == pytest.approx((1.51371 + 0.5) / 2)
    assert found.tpot_s.p50 == pytest.approx((31.9 / 638 + 0.04) / 2)
    assert found.output_tokens == 740
    assert "no_request_counts" not in checks(found)


def test_positions_are_counted_where_every_round_drafted_all():
    lines = (DATA / "llamacpp_server.log").read_text().splitlines(keepends=True)
    (found,) = read("".join(lines[:4]))
    assert found.speculation.accepted_per_position == pytest.approx((176, 143, 99))
    assert sum(found.speculation.accepted_per_position) == 418


def test_answers_hold_the_same_counts():
    timings = {
        "prompt_n": 20,
        "prompt_ms": 100.0,
        "predicted_n": 201,
        "predicted_ms": 3000.0,
        "draft_n": 300,
        "draft_n_accepted": 100,
    }
    answers = [{"choices": [], "timings": timings} for _ in range(3)]
    for text in (json.dumps(answers), "\n".join(map(json.dumps, answers))):
        (found,) = read(text)
        assert found.speculation.by_request == ((100, 100),) * 3
        assert found.speculation.num_speculative_tokens == 3
        assert found.tpot_s.mean == pytest.approx(0.015)
        assert found.usable_for("acceptance")


def test_a_server_without_drafts_gives_times_alone():
    timings = {"prompt_n": 9, "prompt_ms": 10.0, "predicted_n": 11, "predicted_ms": 100.0}
    (found,) = read(json.dumps({"timings": timings}))
    assert found.speculation is None
    assert found.tpot_s.mean == pytest.approx(0.01)
