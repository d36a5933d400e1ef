"""Verdicts on pairs: what is compared, what each engine does, what must be known."""

from __future__ import annotations

from typing import Any

import pytest

from capplan.deploy.from_option import pair_config
from capplan.errors import UnknownIdError
from capplan.facts.catalog import load_catalog
from capplan.planning.pairing.engine_rules import ENGINES, Asked
from capplan.planning.pairing.inputs import Known, PairQuestion, Side
from capplan.planning.pairing.refusals import same_weights
from capplan.planning.pairing.report import judge
from capplan.planning.pairing.shelf import Shelf
from capplan.planning.pairing.suggestions import suggest, with_alternatives
from capplan.planning.pairing.vocabulary import compare_vocabularies
from capplan.schema.llm import HeadFacts, LlmSpec
from capplan.schema.pair import Evidence, PairReport, PairVerdict, Severity
from capplan.schema.pairing import Method
from capplan.schema.provenance import Kind, Source
from capplan.schema.tokenizer import TokenizerFacts

LLAMA_8B, LLAMA_1B = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-1B-Instruct"
QWEN_72B, QWEN_HALF_B = "Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"

CATALOG = load_catalog()
SHELF = Shelf(CATALOG.pairings, CATALOG.acceptance, CATALOG.llms)


def llm(name: str = "target", **facts: Any) -> LlmSpec:
    given: dict[str, Any] = {
        "id": name,
        "family": "llama",
        "params_total": 8e9,
        "layers": 32,
        "hidden": 4096,
        "heads": 32,
        "vocab_size": 32_000,
        "kv_bytes_per_token": 131_072.0,
        "max_context": 8192,
        "dtype": "bfloat16",
        "source": Source(kind=Kind.DERIVED, reference="made for a test"),
        **facts,
    }
    size = float(given["params_total"])
    given = {
        "params_active": size,
        "weight_bytes": 2 * size,
        "weight_bytes_active": 2 * size,
        **given,
    }
    return LlmSpec(**given)


def tokenizer(words: dict[int, str], added: tuple[int, ...] = ()) -> TokenizerFacts:
    return TokenizerFacts("tokenizer.json", "BPE", words, frozenset(added))


def numbered(count: int, *specials: str) -> TokenizerFacts:
    words = {i: f"t{i}" for i in range(count)}
    words |= {count + i: text for i, text in enumerate(specials)}
    return tokenizer(words, tuple(range(count, count + len(specials))))


def ask(target: Side, draft: Side, **question: Any) -> PairReport:
    return judge(target, draft, PairQuestion(**question), Known())


def listed(target: str, draft: str, **question: Any) -> PairReport:
    """Ask of ids of models_db; a head or lookup has no specification there."""
    specs = {item.id: item for item in CATALOG.llms}
    known = SHELF.known(target, draft, question.get("method"))
    return judge(
        Side(target, specs[target]),
        Side(draft, specs.get(draft)),
        PairQuestion(**question),
        known,
    )


def engines(report: PairReport) -> dict[str, bool | None]:
    return {answer.engine: answer.accepts for answer in report.engines}


def topics(report: PairReport, severity: Severity = Severity.MUST) -> set[str]:
    return {item.topic for item in report.findings if item.severity is severity}


def test_padding_of_qwen_is_no_mismatch_and_each_engine_is_answered_for() -> None:
    # vllm-project/vllm#7252 and #13849, QwenLM/Qwen3#326 and #466, mlc-ai/mlc-llm#3212
    report = listed(QWEN_72B, QWEN_HALF_B)
    assert report.verdict is PairVerdict.PADDED
    facts = report.vocabulary
    assert facts is not None
    assert (facts.target_size, facts.draft_size, facts.difference) == (152_064, 151_936, 128)
    # the largest id of Qwen2.5 is 151,664; of Qwen2 it was 151,645
    assert facts.meaningful_ids == 151_665
    assert "151,646 in Qwen2" in facts.meaningful_ids_source
    assert engines(report) == {
        "vllm==0.33": False,
        "sglang": False,
        "llama.cpp": True,  # allows a difference of 128 now
        "llama.cpp==2024-04": False,  # "difference 128, max allowed 100"
        "mlc-llm": False,
        "tensorrt-llm": None,
    }
    assert not report.works
    assert "Compatible tokenizer" in report.sentence
    assert "152,064" in report.sentence
    assert "151,936" in report.sentence


def test_the_heterogeneous_option_lets_vllm_run_a_padded_pair_and_says_what_it_costs() -> None:
    report = listed(QWEN_72B, QWEN_HALF_B, heterogeneous_vocabulary=True)
    assert report.works
    said = next(item.text for item in report.findings if item.topic == "engine")
    assert "greedy" in said
    assert "V1 runner" in said


@pytest.mark.parametrize("engine", ["llama.cpp", "llama.cpp==b9000"])
def test_an_engine_that_tolerates_padding_runs_the_pair(engine: str) -> None:
    assert listed(QWEN_72B, QWEN_HALF_B, engine=engine).works


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        ("google/gemma-3-27b-it", "google/gemma-3-1b-it"),
        ("EleutherAI/pythia-12b", "EleutherAI/pythia-410m"),
        ("EleutherAI/pythia-6.9b", "EleutherAI/pythia-160m"),
    ],
)
def test_other_families_pad_too(target: str, draft: str) -> None:
    report = listed(target, draft)
    assert report.verdict is PairVerdict.PADDED
    assert not report.works


@pytest.mark.parametrize(
    ("target_size", "draft_size"), [(128_256, 32_000), (152_064, 32_002), (32_000, 128_256)]
)
def test_unrelated_vocabularies_are_refused_with_both_sizes(
    target_size: int, draft_size: int
) -> None:
    # vllm-project/vllm#8530 and #5203, ggml-org/llama.cpp#3812
    report = ask(
        Side("t", llm(vocab_size=target_size)),
        Side("d", llm("d", params_total=7e7, vocab_size=draft_size)),
    )
    assert report.verdict is PairVerdict.REFUSE
    assert not report.works
    assert f"{target_size:,}" in report.sentence
    assert f"{draft_size:,}" in report.sentence
    assert "mapping" not in report.sentence


def test_unrelated_vocabularies_run_on_vllm_only_through_the_mapping() -> None:
    sides = Side("t", llm(vocab_size=128_256)), Side("d", llm("d", params_total=7e7))
    assert not ask(*sides).works
    mapped = ask(*sides, heterogeneous_vocabulary=True)
    assert mapped.works
    assert "mapping of shared tokens" in mapped.sentence
    assert not ask(*sides, heterogeneous_vocabulary=True, engine="sglang").works


def test_llama_1b_drafts_for_llama_8b() -> None:
    report = listed(LLAMA_8B, LLAMA_1B)
    assert report.verdict is PairVerdict.IDENTICAL
    assert report.works
    assert report.vocabulary is not None
    assert report.vocabulary.evidence is Evidence.FAMILY
    assert "tokens not compared" in report.reason


def test_rows_of_the_output_layer_are_compared_not_the_trained_vocabulary() -> None:
    # tokenizer.vocab_size is 128,000 of 128,256 (NVIDIA/TensorRT-LLM#3615)
    ranks_only = TokenizerFacts(
        "tokenizer.model", "tiktoken", {i: f"t{i}" for i in range(1000)}, added_known=False
    )
    whole = numbered(1000, *(f"<|{i}|>" for i in range(256)))
    found = compare_vocabularies(
        llm(vocab_size=1256), llm(vocab_size=1256, params_total=1e9), whole, ranks_only
    )
    assert found.verdict is PairVerdict.IDENTICAL


def test_the_same_size_with_other_tokens_is_the_trap_that_vllm_does_not_catch() -> None:
    theirs = tokenizer({**{i: f"t{i}" for i in range(8)}, 8: "t9", 9: "t8"})
    report = ask(
        Side("t", llm(vocab_size=10), numbered(10)),
        Side("d", llm("d", vocab_size=10, params_total=1e9), theirs),
    )
    assert report.verdict is PairVerdict.REFUSE
    assert not report.works
    assert engines(report)["vllm==0.33"] is True
    assert engines(report)["sglang"] is False
    assert engines(report)["llama.cpp"] is False
    facts = report.vocabulary
    assert facts is not None
    assert facts.ids_that_differ == 2
    assert facts.share_equal == pytest.approx(0.8)
    assert facts.shared_texts == 10
    assert not any("mapping" in item.text for item in report.findings)  # vLLM would not map
    assert [(e.id, e.target, e.draft) for e in facts.examples] == [
        (8, "t8", "t9"),
        (9, "t9", "t8"),
    ]
    assert "2 of 10 ids" in report.sentence
    assert "8: 't8' / 't9'" in report.sentence


def test_two_tokenizers_of_one_size_are_told_apart_by_name() -> None:
    report = listed("mistralai/Mixtral-8x7B-Instruct-v0.1", "TinyLlama/TinyLlama-1.1B-Chat-v1.0")
    assert report.verdict is PairVerdict.REFUSE
    assert report.vocabulary is not None
    assert report.vocabulary.difference == 0
    assert "the same size, different tokens" in report.sentence
    assert "mistral v1 and llama2" in report.sentence
    assert engines(report) == {
        "vllm==0.33": True,
        "sglang": False,
        "llama.cpp": False,
        "mlc-llm": True,
        "tensorrt-llm": None,
    }


def test_a_padded_tail_beyond_the_tokenizer_is_harmless() -> None:
    found = compare_vocabularies(
        llm(vocab_size=152), llm(vocab_size=128, params_total=1e9), numbered(100), numbered(100)
    )
    assert found.verdict is PairVerdict.PADDED
    assert found.facts.evidence is Evidence.TOKENS
    assert found.facts.meaningful_ids == 100
    assert found.facts.difference == 24


def test_special_tokens_alone_may_differ() -> None:
    ours, theirs = numbered(100, "<|im_end|>"), numbered(100, "<|eot|>")
    report = ask(
        Side("t", llm(vocab_size=128), ours),
        Side("d", llm("d", vocab_size=128, params_total=1e9), theirs),
    )
    assert report.verdict is PairVerdict.SPECIAL_TOKENS_DIFFER
    assert report.works
    assert engines(report)["sglang"] is False
    assert "<|im_end|>" in report.reason


def test_a_trained_token_that_the_draft_lacks_is_no_padding() -> None:
    found = compare_vocabularies(
        llm(vocab_size=128), llm(vocab_size=128, params_total=1e9), numbered(120), numbered(100)
    )
    assert found.verdict is PairVerdict.REFUSE
    assert "20 ids only in the target" in found.reason


def test_where_only_sizes_are_known_the_report_says_so_and_how_to_know_more() -> None:
    report = ask(Side("t", llm()), Side("d", llm("d", params_total=1e9)))
    assert report.verdict is PairVerdict.IDENTICAL
    assert report.vocabulary is not None
    assert report.vocabulary.evidence is Evidence.SIZES
    assert "by size alone" in report.sentence
    assert any("tokenizer.json" in item.remedy for item in report.findings)


def test_sizes_that_are_close_prove_nothing_across_families() -> None:
    opt, neox = llm(family="opt", vocab_size=50_272), llm(family="gpt_neox", vocab_size=50_304)
    assert compare_vocabularies(opt, neox).verdict is PairVerdict.REFUSE
    dense, moe = llm(family="qwen2", vocab_size=151_936), llm(family="qwen2_moe", vocab_size=1)
    assert compare_vocabularies(dense, moe).verdict is PairVerdict.REFUSE
    moe = llm(family="qwen2_moe", vocab_size=152_064)
    assert compare_vocabularies(dense, moe).verdict is PairVerdict.PADDED


def head(**facts: Any) -> LlmSpec:
    given: dict[str, Any] = {"method": Method.EAGLE3, "target_hidden": 4096, **facts}
    return llm("head", params_total=4e8, layers=1, head=HeadFacts(**given))


def test_a_reduced_head_vocabulary_is_fine_and_its_meaning_is_told() -> None:
    target = Side("t", llm(vocab_size=128_256))
    report = ask(target, Side("h", head(draft_vocab_size=32_000)))
    assert report.method is Method.EAGLE3
    assert report.verdict is PairVerdict.REDUCED_HEAD
    assert report.works
    said = " ".join(item.text for item in report.findings if item.topic == "vocabulary")
    assert "32,000 of the target's 128,256" in said
    assert "never drafted" in said


def test_a_head_in_another_vocabulary_is_another_llms() -> None:
    other = head().model_copy(update={"vocab_size": 32_000})
    report = ask(Side("t", llm(vocab_size=128_256)), Side("h", other))
    assert report.verdict is PairVerdict.REFUSE
    assert not report.works
    rounded = head().model_copy(update={"vocab_size": 128_384})
    assert ask(Side("t", llm(vocab_size=128_256)), Side("h", rounded)).works


def test_a_reduced_head_of_a_target_with_another_vocabulary_is_refused() -> None:
    # vocab_size beside draft_vocab_size is the target's: a head of Llama-3.1-8B beside Qwen3-8B
    made_for_llama = head(draft_vocab_size=32_000).model_copy(update={"vocab_size": 128_256})
    assert ask(Side("llama", llm(vocab_size=128_256)), Side("h", made_for_llama)).works
    report = ask(Side("qwen", llm(vocab_size=151_936)), Side("h", made_for_llama))
    assert report.verdict is PairVerdict.REFUSE
    assert not report.works
    assert "ids of 128,256 tokens" in report.sentence
    assert "shapes agree" not in " ".join(item.text for item in report.findings)


def test_a_mapping_shares_what_vllm_counts_across_tokenizer_kinds() -> None:
    bpe = tokenizer({0: "a", 1: "\u0120b", 2: "c", 3: "beyond the rows"})
    pieces = tokenizer({0: "<unk>", 1: "a", 2: "\u2581b", 3: "d", 4: "beyond the rows"})
    facts = compare_vocabularies(
        llm(vocab_size=3), llm(vocab_size=5, params_total=1e9), bpe, pieces
    ).facts
    assert facts.shared_texts == 2  # "a" and " b"


@pytest.mark.parametrize(
    ("target", "draft", "question", "reason"),
    [
        (llm(), head(target_hidden=5120), {}, "hidden states of 5120"),
        (llm("org/A"), head(target_id="org/B"), {}, "trained for org/B"),
        (head(), llm(), {}, "is a drafting head"),
        (llm(), head(), {"method": Method.DRAFT_MODEL}, "cannot run as a draft model"),
        (llm(), head(), {"method": Method.MEDUSA}, "made for method eagle3, not medusa"),
        (llm(), llm("d", params_total=1e9), {"method": Method.EAGLE3}, "not a head"),
        (llm(), llm("d", params_total=9e9), {}, "must be the smaller"),
        (llm("same"), llm("same"), {}, "the target itself"),
    ],
)
def test_a_pair_that_cannot_be_is_refused_with_its_reason(
    target: LlmSpec, draft: LlmSpec, question: dict[str, Any], reason: str
) -> None:
    report = ask(Side(target.id, target), Side(draft.id, draft), **question)
    assert report.verdict is PairVerdict.REFUSE
    assert not report.works
    assert reason in report.sentence
    assert report.target_vocab_size == target.vocab_size


def test_a_head_without_proof_of_its_target_must_be_checked() -> None:
    report = ask(Side("./t", llm(), local=True), Side("./h", head(target_id="org/B"), local=True))
    assert report.works
    assert "head" in topics(report)


def test_a_head_of_models_db_is_refused_for_another_target() -> None:
    assert listed("Qwen/Qwen3-8B", "AngelSlim/Qwen3-8B_eagle3").works
    other = listed("Qwen/Qwen3-32B", "AngelSlim/Qwen3-8B_eagle3")
    assert other.verdict is PairVerdict.REFUSE
    assert "trained for Qwen/Qwen3-8B" in other.sentence


def test_a_quantised_copy_has_the_heads_of_its_original() -> None:
    assert same_weights("RedHatAI/Qwen3-8B-FP8-dynamic", "Qwen/Qwen3-8B")
    assert same_weights("x/Llama-3.1-8B-Instruct-AWQ-INT4", "meta-llama/Llama-3.1-8B-Instruct")
    assert not same_weights("Qwen/Qwen3-8B-Base", "Qwen/Qwen3-8B")
    assert not same_weights("Qwen/Qwen3-32B", "Qwen/Qwen3-8B")


def test_mtp_is_refused_of_a_checkpoint_without_mtp_layers() -> None:
    report = listed("Qwen/Qwen3-8B", "(built-in)")
    assert report.verdict is PairVerdict.REFUSE
    assert "no MTP layers" in report.sentence
    assert listed("Qwen/Qwen3.5-27B", "(built-in)").works


def test_mtp_beyond_its_layers_runs_and_is_told_to_fall() -> None:
    one = listed("Qwen/Qwen3.5-27B", "(built-in)", num_speculative_tokens=3)
    assert one.works
    assert "mtp" in topics(one, Severity.KNOW)
    two = ask(Side("t", llm(mtp_layers=2)), Side("(built-in)"), num_speculative_tokens=3)
    assert not two.works
    assert "not a multiple of the 2 MTP layers" in two.sentence


def test_a_draft_that_a_guide_invented_is_refused() -> None:
    report = listed("meta-llama/Llama-4-Scout-17B-16E-Instruct", "meta-llama/Llama-4-1B")
    assert report.verdict is PairVerdict.REFUSE
    assert "never published" in report.sentence


def test_qwen3_named_special_tokens_that_qwen2_5_has_not() -> None:
    report = listed("Qwen/Qwen3-32B", QWEN_HALF_B)
    assert report.verdict is PairVerdict.SPECIAL_TOKENS_DIFFER
    assert report.works
    facts = report.vocabulary
    assert facts is not None
    assert facts.only_in_target == 4
    assert [(e.id, e.target) for e in facts.examples if e.draft is None] == [
        (151_665, "<tool_response>"),
        (151_666, "</tool_response>"),
        (151_667, "<think>"),
        (151_668, "</think>"),
    ]
    assert "tokenizer_config.json" in report.reason
    assert engines(report)["sglang"] is False
    assert engines(report)["llama.cpp"] is False
    assert "vocabulary" in topics(report)
    padded = listed("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-0.6B", engine="llama.cpp")
    assert padded.verdict is PairVerdict.PADDED
    assert padded.usable is False
    assert listed("Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B").verdict is PairVerdict.IDENTICAL


def test_gemma_4_renamed_the_turns_of_gemma_3() -> None:
    report = listed("google/gemma-4-31B-it", "google/gemma-3-1b-it")
    assert report.verdict is PairVerdict.SPECIAL_TOKENS_DIFFER
    assert "the other tokens were not compared" in report.reason


def test_a_distilled_llama_keeps_the_vocabulary_and_renames_its_turns() -> None:
    report = listed("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", LLAMA_1B)
    assert report.verdict is PairVerdict.SPECIAL_TOKENS_DIFFER
    assert report.vocabulary is not None
    assert report.vocabulary.ids_that_differ == 7
    assert report.difference == 0
    same = "deepseek-ai/DeepSeek-R1-Distill-Llama-8B"
    assert (
        listed("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", same).verdict is PairVerdict.IDENTICAL
    )


def test_coders_are_padded_as_their_general_siblings_are() -> None:
    # vllm-project/vllm#10913 and #13849: 32B or 7B with the 0.5B of the same line
    for size in ("7B", "32B"):
        report = listed(f"Qwen/Qwen2.5-Coder-{size}-Instruct", "Qwen/Qwen2.5-Coder-0.5B-Instruct")
        assert report.verdict is PairVerdict.PADDED
        assert report.difference == 128
        assert report.usable is False


def test_chat_tokens_added_to_one_side_are_told_beside_the_padding() -> None:
    # A fine-tune of 32,002 rows ends its turns with tokens that the base of 32,000 has not.
    tuned = numbered(32_000, "<|im_end|>", "<|im_start|>")
    sides = (
        Side("t", llm(vocab_size=32_002), tuned),
        Side("d", llm("d", vocab_size=32_000, params_total=1e9), numbered(32_000)),
    )
    report = ask(*sides)
    assert report.verdict is PairVerdict.PADDED
    said = [i.text for i in report.findings if i.topic == "vocabulary" and i.severity == "must"]
    assert any("2 special tokens differ" in text for text in said)
    # llama.cpp compares the rows that both have; there all texts agree
    assert ask(*sides, engine="llama.cpp").works


def test_llama_cpp_compares_from_id_five_on_within_the_rows_of_both() -> None:
    ours = numbered(100, "<a>")
    renamed = tokenizer({**ours.tokens, 1: "<s>", 2: "</s>"}, (1, 2, 100))
    marked = TokenizerFacts("x", "BPE", ours.tokens, frozenset({1, 2, 100}))
    early = ask(
        Side("t", llm(vocab_size=128), marked),
        Side("d", llm("d", vocab_size=128, params_total=1e9), renamed),
        engine="llama.cpp",
    )
    assert early.verdict is PairVerdict.SPECIAL_TOKENS_DIFFER
    assert early.works
    late = ask(
        Side("t", llm(vocab_size=128), ours),
        Side("d", llm("d", vocab_size=128, params_total=1e9), numbered(100, "<b>")),
        engine="llama.cpp",
    )
    assert late.usable is False


def test_special_tokens_alone_tell_what_sizes_do_not() -> None:
    def specials(*texts: str) -> TokenizerFacts:
        named = {32 + i: text for i, text in enumerate(texts)}
        return TokenizerFacts("c", "special tokens", named, frozenset(named), trained_known=False)

    target, draft = llm(vocab_size=64), llm("d", vocab_size=64, params_total=1e9)
    same = compare_vocabularies(target, draft, specials("<a>"), specials("<a>"))
    assert same.verdict is PairVerdict.IDENTICAL
    assert same.facts.evidence is Evidence.SIZES
    assert "1 special tokens agree" in same.reason
    other = compare_vocabularies(target, draft, specials("<a>"), specials("<b>"))
    assert other.verdict is PairVerdict.SPECIAL_TOKENS_DIFFER
    assert other.facts.ids_that_differ == 1


def test_one_size_in_two_families_is_no_proof() -> None:
    report = ask(
        Side("t", llm(family="mistral")), Side("d", llm("d", family="llama", params_total=1e9))
    )
    assert "by size alone" in report.sentence
    assert "mistral and llama" in report.reason
    assert "vocabulary" in topics(report)


def test_added_tokens_beyond_the_rows_are_named_with_their_side() -> None:
    beyond = numbered(100, "<pad>")
    report = ask(
        Side("t", llm(vocab_size=100), numbered(100)),
        Side("small", llm("small", vocab_size=100, params_total=1e9), beyond),
    )
    said = [item.text for item in report.findings if "has ids up to 100" in item.text]
    assert len(said) == 1
    assert "small" in said[0]


def test_a_head_for_the_same_shape_starts_and_is_told_to_guess_worse() -> None:
    report = listed("Qwen/Qwen3-30B-A3B-Instruct-2507", "Tengyunw/qwen3_30b_moe_eagle3")
    assert report.works
    said = next(item for item in report.findings if item.topic == "head")
    assert said.severity is Severity.MUST
    assert "trained on Qwen/Qwen3-30B-A3B" in said.text


@pytest.mark.parametrize(
    ("question", "usable"),
    [
        ({"context": 8192}, False),
        ({"context": 2048}, True),
        ({"context": 8192, "heterogeneous_vocabulary": True}, True),
        ({"context": 8193, "heterogeneous_vocabulary": True}, False),
        ({"context": 8192, "engine": "llama.cpp"}, True),
    ],
)
def test_requests_longer_than_the_pair_serves_are_refused(
    question: dict[str, Any], usable: bool
) -> None:
    # The V2 runner lowers the limit to the draft's 2,048; V1, which mapping takes, does not.
    draft = llm("d", params_total=1e9, max_context=2048)
    report = ask(Side("t", llm(max_context=8192)), Side("d", draft), **question)
    assert report.usable is usable
    assert ("were asked for" in report.sentence) is not usable


def test_mapping_takes_a_runner_that_wants_one_parallel_size() -> None:
    sides = Side("t", llm()), Side("d", llm("d", params_total=1e9))
    asked = {"tensor_parallel": 2, "draft_tensor_parallel": 1}
    assert ask(*sides, **asked).works
    assert ask(*sides, **asked, heterogeneous_vocabulary=True).usable is False


def test_what_nobody_checked_is_neither_yes_nor_no() -> None:
    report = listed(QWEN_72B, QWEN_HALF_B, engine="tensorrt-llm")
    assert report.usable is None
    assert not report.works
    assert "unchecked on tensorrt-llm" in report.sentence


def test_swapped_arguments_are_noticed() -> None:
    assert "swapped" in listed(LLAMA_1B, LLAMA_8B).sentence


def test_advice_names_only_what_the_engine_runs() -> None:
    for target, draft in (
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct"),
        ("Qwen/Qwen3-32B", "(built-in)"),
    ):
        found = suggest(Side(target, CATALOG.llm(target)), SHELF, PairQuestion())
        steps = " ".join(with_alternatives(listed(target, draft), found).next_steps)
        runs = {item.draft for item in found.suggestions if item.works}
        refused = {item.draft for item in found.suggestions if not item.works}
        assert not any(name in steps for name in refused)
        named = any(name in steps for name in runs - {"ngram"})
        assert named or "No draft model and no head is known" in steps


def test_drafts_of_another_generation_are_not_suggested_as_the_same() -> None:
    found = suggest(Side("Qwen/Qwen3-32B", CATALOG.llm("Qwen/Qwen3-32B")), SHELF, PairQuestion())
    assert not any("Qwen2.5" in item.draft for item in found.suggestions)


def test_medusa_needs_an_older_vllm() -> None:
    report = listed(LLAMA_8B, "nvidia/Llama-3.1-8B-Medusa-FP8")
    assert not report.works
    assert "engine" in topics(report)


def test_what_the_launch_text_cannot_say_the_engine_rule_refuses() -> None:
    facts = compare_vocabularies(llm(), llm()).facts
    for method in Method:
        if method is not Method.NONE:
            accepted = ENGINES["vllm"].answer(Asked(method, facts)).accepts
            assert accepted == bool(pair_config(method, "d", 3)), method


@pytest.mark.parametrize(
    ("question", "works", "text"),
    [
        ({"tensor_parallel": 4}, False, "14 attention heads"),
        ({"tensor_parallel": 2, "draft_tensor_parallel": 1}, True, "ignored on V2"),
        ({"tensor_parallel": 2, "draft_tensor_parallel": 3}, False, "neither 1 nor"),
        ({"tensor_parallel": 2}, True, "all-reduces"),
    ],
)
def test_tensor_parallelism_is_held_against_what_vllm_starts(
    question: dict[str, Any], works: bool, text: str
) -> None:
    # Qwen2.5-0.5B has 14 heads: 2 divides them, 4 does not.
    target = llm(family="qwen2", vocab_size=151_936)
    draft = llm("d", family="qwen2", vocab_size=151_936, params_total=5e8, heads=14)
    report = ask(Side("t", target), Side("d", draft), **question)
    assert report.works is works
    assert any(text in item.text for item in report.findings if item.topic == "tensor_parallel")


@pytest.mark.parametrize(
    ("context", "severity"), [(None, Severity.MUST), (4096, Severity.MUST), (2000, Severity.KNOW)]
)
def test_a_draft_that_ends_early_lowers_the_targets_limit(
    context: int | None, severity: Severity
) -> None:
    draft = llm("d", params_total=1e9, max_context=2048)
    report = ask(Side("t", llm()), Side("d", draft), context=context)
    said = [item for item in report.findings if item.topic == "context"]
    assert [item.severity for item in said] == [severity]
    assert "lowers the target's max_model_len to 2,048" in said[0].text


def test_a_head_beyond_its_trained_length_is_warned_of() -> None:
    draft = head(draft_vocab_size=16_000).model_copy(update={"max_context": 2048})
    said = [i for i in ask(Side("t", llm()), Side("h", draft)).findings if i.topic == "context"]
    assert "acceptance falls" in said[0].text
    assert said[0].source


def test_the_size_rule_is_stated_with_what_measurement_says_of_it() -> None:
    report = listed("Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B")
    assert report.params_ratio == pytest.approx(54.97, abs=0.01)
    said = next(item for item in report.findings if item.topic == "size")
    assert "outside the guide's 1/10 to 1/3" in said.text
    assert "measured cost ratio" in said.text


def test_a_draft_that_reads_more_than_a_sparse_target_must_be_known() -> None:
    report = listed("Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-4B")
    assert "size" in topics(report)


def test_the_kv_of_both_is_counted() -> None:
    report = listed("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B")
    said = next(item.text for item in report.findings if item.topic == "memory")
    assert "1.778x" in said  # SpecDecode-Bench, arXiv:2601.11580, measured 1.77


def test_a_quantised_target_warns_draft_models_and_heads_differently() -> None:
    target = llm(quantisation="awq 4 bit")
    model = ask(Side("t", target), Side("d", llm("d", params_total=1e9)))
    trained = ask(Side("t", target), Side("h", head()))
    said = {
        report.method: next(i.text for i in report.findings if i.topic == "quantisation")
        for report in (model, trained)
    }
    assert "does not pass" in said[Method.DRAFT_MODEL]
    assert "lose acceptance" in said[Method.EAGLE3]


def test_an_unknown_licence_is_said_to_be_unknown() -> None:
    report = listed("Qwen/Qwen3-8B", "AngelSlim/Qwen3-8B_eagle3")
    said = next(item for item in report.findings if item.topic == "licence")
    assert "draft unknown" in said.text
    assert said.remedy


def test_published_acceptance_comes_as_a_range_with_its_source() -> None:
    report = listed("Qwen/Qwen3-8B", "AngelSlim/Qwen3-8B_eagle3")
    (figure,) = report.acceptance
    assert figure.lowest <= figure.highest
    assert figure.tasks == 4
    assert figure.sources


def test_lookup_needs_no_vocabulary_of_its_own() -> None:
    report = listed("Qwen/Qwen3-8B", "ngram")
    assert report.method is Method.NGRAM
    assert report.verdict is PairVerdict.IDENTICAL
    assert report.works


def test_an_unknown_engine_names_the_known_ones() -> None:
    with pytest.raises(UnknownIdError) as caught:
        listed("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B", engine="vlm")
    assert "vllm" in caught.value.remedy


def test_another_version_of_vllm_is_not_vouched_for() -> None:
    report = listed("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B", engine="vllm==0.30")
    assert "engine" in topics(report)


def test_suggestions_begin_with_what_works_and_was_measured() -> None:
    target = Side("Qwen/Qwen3-8B", CATALOG.llm("Qwen/Qwen3-8B"))
    found = suggest(target, SHELF, PairQuestion())
    assert found.works
    assert found.suggestions[0].acceptance
    order = [bool(item.acceptance) for item in found.suggestions if item.works]
    assert order == sorted(order, reverse=True)
    by_draft = {item.draft: item for item in found.suggestions}
    assert by_draft["ngram"].works
    assert by_draft["Qwen/Qwen3-0.6B"].listed
    assert "Qwen/Qwen2.5-0.5B-Instruct" not in by_draft  # four special tokens are not its own
    assert all(item.acceptance or item.measure for item in found.suggestions)


def test_suggestions_flag_ids_that_do_not_exist_and_offer_built_in_layers() -> None:
    scout = "meta-llama/Llama-4-Scout-17B-16E-Instruct"
    found = suggest(Side(scout, CATALOG.llm(scout)), SHELF, PairQuestion())
    assert [item.draft for item in found.suggestions if not item.exists] == [
        "meta-llama/Llama-4-1B"
    ]
    assert not found.suggestions[-1].exists
    qwen = Side("Qwen/Qwen3.5-35B-A3B", CATALOG.llm("Qwen/Qwen3.5-35B-A3B"))
    drafts = {item.draft for item in suggest(qwen, SHELF, PairQuestion()).suggestions}
    assert "(built-in)" in drafts


def test_every_pairing_of_models_db_is_judged() -> None:
    # Data and rules agree: what exists is refused only for a reason that was looked at.
    refused = set()
    specs = {item.id for item in CATALOG.llms}
    for row in CATALOG.pairings:
        if row.target in specs and row.exists:
            report = listed(row.target, row.draft, method=row.method)
            if report.verdict is PairVerdict.REFUSE:
                refused.add((row.target, row.draft))
    assert not refused
