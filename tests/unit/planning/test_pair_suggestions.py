"""Shelves of made LLMs: what is suggested without a name to go by, and what a pair costs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from capplan.errors import UnknownIdError
from capplan.estimate.datasheet_step import DatasheetStep, HardwareGroup
from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.planning.pairing.cost import DEFAULT_CONTEXT, estimate_cost_ratio
from capplan.planning.pairing.inputs import Known, PairQuestion, Side
from capplan.planning.pairing.report import judge
from capplan.planning.pairing.shelf import Shelf
from capplan.planning.pairing.suggestions import suggest, with_alternatives
from capplan.schema.llm import HeadFacts, LlmSpec
from capplan.schema.pair import PairReport, PairSuggestion, PairSuggestions, PairVerdict, Severity
from capplan.schema.pairing import AcceptanceFact, Method, Pairing
from capplan.schema.provenance import Kind, Source

SOURCE = Source(kind=Kind.CITED, reference="made for a test", date="2026-01-02")
GPU = load_catalog().gpu("h100-sxm-80gb")
ENGINE = load_engine("vllm")


def llm(name: str, billions: float = 8.0, **facts: Any) -> LlmSpec:
    given: dict[str, Any] = {
        "id": name,
        "family": "toy",
        "params_total": billions * 1e9,
        "params_active": billions * 1e9,
        "weight_bytes": billions * 2e9,
        "weight_bytes_active": billions * 2e9,
        "layers": 32,
        "hidden": 4096,
        "heads": 32,
        "vocab_size": 32_000,
        "kv_bytes_per_token": 131_072.0,
        "dtype": "bfloat16",
        "source": SOURCE,
    }
    return LlmSpec(**{**given, **facts})


TARGET, SMALL = llm("org/target"), llm("org/small", 1.0, kv_bytes_per_token=32_768.0)


def pairing(draft: str, method: Method = Method.DRAFT_MODEL, **fields: Any) -> Pairing:
    given: dict[str, Any] = {"target": TARGET.id, "draft": draft, "method": method}
    return Pairing(source=SOURCE, **{**given, **fields})


def suggested(shelf: Shelf, target: Side | None = None, **question: Any) -> PairSuggestions:
    return suggest(target or Side(TARGET.id, TARGET), shelf, PairQuestion(**question))


def by_draft(found: PairSuggestions) -> dict[str, PairSuggestion]:
    return {item.draft: item for item in found.suggestions}


def ask(draft: LlmSpec, target: LlmSpec = TARGET, **known: Any) -> PairReport:
    return judge(Side(target.id, target), Side(draft.id, draft), PairQuestion(), Known(**known))


def test_of_a_target_known_by_name_alone_its_pairings_are_listed_unjudged() -> None:
    fact = AcceptanceFact(
        target=TARGET.id,
        draft="org/head",
        method=Method.EAGLE3,
        task="chat",
        num_speculative_tokens=3,
        tokens_per_round=2.5,
        definition="bonus included",
        source=SOURCE,
    )
    rows = [
        pairing("org/head", Method.EAGLE3, draft_params=3e8, licence="mit"),
        pairing("org/small"),
        pairing("org/never", exists=False),
    ]
    found = suggested(Shelf(rows, [fact], [SMALL]), Side(TARGET.id))
    assert set(by_draft(found)) == {"org/head", "org/small", "org/never"}
    head = by_draft(found)["org/head"]
    assert head.usable
    assert (head.draft_params, head.licence, head.measure) == (3e8, "mit", "")
    assert head.acceptance[0].highest == 2.5
    assert "nothing was compared" in head.sentence
    assert by_draft(found)["org/small"].measure.startswith("capplan profile org/target --draft")
    never = by_draft(found)["org/never"]
    assert (never.usable, never.verdict) == (False, PairVerdict.REFUSE)
    assert found.notes[0].startswith("The figures of org/target are not all known")


def test_without_a_tokenizers_name_size_and_family_make_a_relative() -> None:
    others = [
        llm("org/other-size", 1.0, vocab_size=32_064),
        llm("org/other-family", 1.0, family="unlike"),
        llm("org/large", 3.0),
    ]
    found = by_draft(suggested(Shelf((), (), [TARGET, SMALL, *others])))
    # 3 of 8 billion are more than a third
    assert set(found) == {"org/small", "ngram"}
    assert found["org/small"].sentence == "identical, by size alone, tokens not compared."


def test_padded_drafts_are_told_from_mismatches() -> None:
    small = llm("org/small", 1.0, vocab_size=31_936)
    found = suggested(Shelf([pairing(small.id)], (), [small]))
    assert by_draft(found)[small.id].sentence == "padded embedding, difference 64."
    assert any(note.startswith("Padded drafts (1) are no mismatch") for note in found.notes)


def test_what_stops_the_engine_is_said_not_what_it_compares() -> None:
    shelf = Shelf([pairing(SMALL.id)], (), [SMALL])
    stopped = by_draft(suggested(shelf, tensor_parallel=3))[SMALL.id]
    assert stopped.usable is False
    assert stopped.sentence.endswith("32 attention heads, which tensor parallelism 3 does not "
                                     "divide.")  # fmt: skip
    medusa = Shelf([pairing("org/heads", Method.MEDUSA)], (), [])
    removed = by_draft(suggested(medusa))["org/heads"]
    assert removed.sentence.startswith("Medusa heads were removed in 0.33")


def test_a_pair_that_runs_is_offered_no_other_and_one_that_does_not_is() -> None:
    found = suggested(Shelf([pairing(SMALL.id)], (), [SMALL]))
    works = ask(SMALL)
    assert with_alternatives(works, found) is works
    other = ask(llm("org/other", 1.0, vocab_size=50_000))
    assert not other.usable
    steps = with_alternatives(other, found).next_steps
    assert steps == (
        "vllm==0.33 runs for org/target: org/small (draft_model).",
        "All of them: capplan pair org/target",
    )


def test_a_name_without_figures_cannot_be_judged() -> None:
    for target, draft, unknown in (
        (Side("org/name"), Side(SMALL.id, SMALL), "org/name"),
        (Side(TARGET.id, TARGET), Side("org/nobody"), "org/nobody"),
    ):
        with pytest.raises(UnknownIdError, match=f"figures of {unknown}"):
            judge(target, draft, PairQuestion(), Known())


@pytest.mark.parametrize(
    ("named", "warned"),
    [(TARGET.id, False), ("else/Target-FP8", False), ("org/fine-tune", True), ("", True)],
)
def test_a_head_that_names_its_target_proves_it(named: str, warned: bool) -> None:
    facts = HeadFacts(method=Method.EAGLE3, target_hidden=4096, target_id=named)
    head = llm("./head", 0.3, head=facts, layers=1)
    # a folder's name says nothing of its weights, so a head for another id is not refused there
    local = Side(TARGET.id, TARGET, local=True)
    report = judge(local, Side(head.id, head), PairQuestion(), Known())
    said = [item for item in report.findings if item.topic == "head"]
    assert bool(said) is warned
    assert all(item.severity is Severity.MUST for item in said)
    assert not warned or not named or f"It names {named}." in said[0].text


def test_kv_that_is_not_known_is_not_counted() -> None:
    known = next(item for item in ask(SMALL).findings if item.topic == "memory")
    assert "KV cache a token grows 1.250x (131,072 + 32,768 bytes)" in known.text
    unknown = ask(SMALL.model_copy(update={"kv_bytes_per_token": None}))
    found = next(item for item in unknown.findings if item.topic == "memory")
    assert found.text == "The draft takes 2.00 GB, 12.5 % of the target's weights."


def test_the_cost_ratio_is_a_draft_pass_over_a_target_step() -> None:
    found = estimate_cost_ratio(TARGET, SMALL, GPU, 2, None, ENGINE)
    assert found is not None
    assert (found.gpu, found.tensor_parallel, found.context) == (GPU.id, 2, DEFAULT_CONTEXT)
    group = HardwareGroup.of([(GPU, 2)], ENGINE)
    step_s = DatasheetStep(TARGET, group, ENGINE).seconds(1, 1, 1024).item()
    pass_s = DatasheetStep(SMALL, group, ENGINE).seconds(1, 1, 1024).item() - ENGINE.request_s
    assert found.target_step_ms == pytest.approx(step_s * 1e3)
    # the factor of a pass and its launch, as plans have them: means of log-normal distributions
    rounds = ENGINE.rounds
    factor = rounds.values["draft"] * math.exp(rounds.log_sd["draft"] ** 2 / 2)
    mid_s = factor * pass_s + ENGINE.draft_pass_s.mid
    assert found.draft_pass_ms.mid == pytest.approx(mid_s * 1e3)
    assert found.ratio.mid == pytest.approx(mid_s / step_s)
    further_s = math.hypot(
        pass_s * (rounds.values["draft"] * math.exp(1.96 * rounds.log_sd["draft"]) - factor),
        ENGINE.draft_pass_s.high - ENGINE.draft_pass_s.mid,
    )
    assert found.ratio.high == pytest.approx((mid_s + further_s) / step_s)
    assert found.ratio.low < found.ratio.mid


def test_a_longer_context_costs_both_and_what_keeps_unknown_bytes_is_not_estimated() -> None:
    short, long = (
        estimate_cost_ratio(TARGET, SMALL, GPU, 1, context, ENGINE) for context in (0, 100_000)
    )
    assert short is not None
    assert long is not None
    assert long.context == 100_000
    assert long.target_step_ms > short.target_step_ms
    assert long.draft_pass_ms.mid > short.draft_pass_ms.mid
    bare = SMALL.model_copy(update={"kv_bytes_per_token": None})
    assert estimate_cost_ratio(TARGET, bare, GPU, 1, None, ENGINE) is None
    assert estimate_cost_ratio(bare, SMALL, GPU, 1, None, ENGINE) is None


def test_an_estimate_of_the_cost_presses_only_where_no_draft_could_be_cheaper() -> None:
    cheap = estimate_cost_ratio(TARGET, SMALL, GPU, 1, None, ENGINE)
    assert cheap is not None
    assert cheap.ratio.low < 1
    dear = replace_ratio(cheap, 1.5)
    for estimate, severity in ((cheap, Severity.KNOW), (dear, Severity.MUST)):
        report = ask(SMALL, cost_ratio=estimate)
        said = next(item for item in report.findings if "Data-sheet estimate" in item.text)
        assert said.severity is severity
        assert f"costs {estimate.ratio.mid:.2f} " in said.text
        assert "at 1,024 tokens on 1 x h100-sxm-80gb" in said.text


def replace_ratio(estimate: Any, factor: float) -> Any:
    ratio = estimate.ratio.scaled(factor / estimate.ratio.low)
    return estimate.model_copy(update={"ratio": ratio})
