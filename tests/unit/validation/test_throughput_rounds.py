"""Rows of throughput.csv and rounds.csv as rounds whose machine is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capplan.estimate.round_cost import diluted
from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.resources import models_db_dir
from capplan.validation.folder import read_published
from capplan.validation.modes import datasheet
from capplan.validation.round_constants import PlannedRounds
from capplan.validation.round_rows import known_runs, timed_rounds
from capplan.validation.rows import PublishedRows, ThroughputRow
from capplan.validation.specs import Specs

CATALOG = load_catalog()
SPECS = Specs(CATALOG.llms, CATALOG.gpus, CATALOG.pairings)
ROWS = read_published(models_db_dir() / "published").sound()
PAIR = ThroughputRow(
    target="Llama-3.1-8B-Instruct", draft="EAGLE-3 head", method="EAGLE-3 chain", gpu="H100",
    tp=1, engine="vLLM 0.12", load_kind="concurrency", load=8, N=3, tau=2.8, baseline=800.0,
    spec=1400.0, unit="tok/s total", source_key="somebody",
)  # fmt: skip


def runs(*rows: ThroughputRow) -> tuple:  # type: ignore[type-arg]
    return known_runs(PublishedRows(throughput=rows), SPECS)


def test_a_pair_of_throughputs_is_a_run() -> None:
    (run,) = runs(PAIR)
    assert run.speedup == pytest.approx(1.75)
    assert run.machine.target.engine == "vllm"
    assert run.machine.target.batch == 8
    assert run.machine.prefill_s == 0


@pytest.mark.parametrize(
    "change",
    [{"tau": None}, {"load_kind": "QPS"}, {"tau": 1.5}, {"N": None}, {"gpu": "not stated"}],
    ids=["no tokens", "arrivals", "faster than its tokens", "no length", "no GPU"],
)
def test_what_cannot_be_estimated_is_left_out(change: dict) -> None:  # type: ignore[type-arg]
    assert runs(replace(PAIR, **change)) == ()


def test_others_prompts_dilute_a_round_and_too_many_hide_it() -> None:
    (some,) = runs(replace(PAIR, isl=512.0, osl=512.0))
    (many,) = runs(replace(PAIR, isl=8192.0, osl=32.0))
    assert 0 < some.machine.prefill_s < many.machine.prefill_s
    with_many = replace(ROWS, throughput=(replace(PAIR, isl=8192.0, osl=32.0),))
    sources = {row.source for row in datasheet.predict(with_many, SPECS)}
    assert "somebody" not in sources
    with_some = replace(ROWS, throughput=(replace(PAIR, isl=512.0, osl=512.0),))
    assert "somebody" in {row.source for row in datasheet.predict(with_some, SPECS)}


def test_a_diluted_round_is_what_the_two_times_a_token_give() -> None:
    step, prefill, tokens, ratio = 10e-3, 5e-3, 2.5, 1.6
    speedup = (step + prefill) / (step * ratio / tokens + prefill)
    (seen, rest) = diluted((1.0, ratio - 1.0), step, prefill, tokens)
    assert seen + rest == pytest.approx(tokens / speedup)


def test_a_run_that_two_files_print_counts_once() -> None:
    assert sum(run.source == "vllm_aa" for run in known_runs(ROWS, SPECS)) == 1


def test_timed_rounds_need_no_tokens() -> None:
    found = timed_rounds(ROWS, SPECS)
    assert [run.machine.target.batch for run in found] == [1, 8, 32, 64, 128]
    assert [run.round_ratio for run in found] == sorted(run.round_ratio for run in found)


def test_the_shipped_factors_are_the_fit_to_every_source() -> None:
    engine = load_engine("vllm")
    fitted = PlannedRounds.of(ROWS, SPECS, engine).constants(engine)
    assert fitted.values == pytest.approx(engine.rounds.values, rel=0.01)
    assert fitted.log_sd == pytest.approx(engine.rounds.log_sd, rel=0.01)


def test_a_source_left_out_changes_the_factors() -> None:
    engine = load_engine("vllm")
    planned = PlannedRounds.of(ROWS, SPECS, engine)
    assert planned.constants(engine, "specbundle").values != planned.constants(engine).values
