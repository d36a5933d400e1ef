"""``capplan pair`` from the command line: exit codes, the first line, folders, JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import capplan
from capplan.cli.main import main
from capplan.schema.pair import PairReport, PairSuggestions

LLAMA_8B, LLAMA_1B = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-1B-Instruct"
PADDED = ("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct")

VLLM_FIELDS = {
    "method",
    "model",
    "num_speculative_tokens",
    "parallel_drafting",
    "use_heterogeneous_vocab",
}
"""Fields of vLLM 0.33's SpeculativeConfig that a pair may set; it rejects unknown ones."""


class Outcome:
    """What a run of the command line left behind."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def first(self) -> str:
        """The sentence that opens the answer, unwrapped."""
        return " ".join(self.out.split("\n\n")[0].split())


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> Outcome:
        monkeypatch.setattr("sys.argv", ["capplan", "pair", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        code = caught.value.code
        return Outcome(code if isinstance(code, int) else 1, captured.out, captured.err)

    return call


def checkpoint(folder: Path, vocab_size: int, layers: int, words: dict[str, int] | None) -> str:
    """Write a Llama-shaped configuration, with a tokenizer if words are given."""
    folder.mkdir()
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "vocab_size": vocab_size,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
    }
    (folder / "config.json").write_text(json.dumps(config))
    if words is not None:
        content = {"model": {"type": "BPE", "vocab": words}, "added_tokens": []}
        (folder / "tokenizer.json").write_text(json.dumps(content))
    return str(folder)


def words(count: int) -> dict[str, int]:
    return {f"word{number}": number for number in range(count)}


def test_a_pair_that_works_says_so_first_and_ends_with_a_config_to_launch(run: Any) -> None:
    outcome = run(LLAMA_8B, LLAMA_1B)
    assert outcome.code == 0
    assert outcome.first.startswith("Compatible, same vocabulary (128,256 tokens)")
    line = next(line for line in outcome.out.splitlines() if "--speculative-config" in line)
    config = json.loads(line.split("'")[1])
    assert config == {"method": "draft_model", "model": LLAMA_1B, "num_speculative_tokens": 4}
    assert f"capplan profile {LLAMA_8B} --draft {LLAMA_1B}" in " ".join(outcome.out.split())


def test_a_padded_pair_is_refused_on_vllm_and_runs_on_an_engine_that_tolerates_it(
    run: Any,
) -> None:
    refused = run(*PADDED)
    assert refused.code == 3
    assert "difference 128" in refused.first
    assert "refused by vllm==0.33" in refused.first
    assert "--speculative-config" not in refused.out
    assert "mismatch" not in refused.out.lower()
    assert run(*PADDED, "--engine", "llama.cpp").code == 0
    assert run(*PADDED, "--engine", "mlc-llm").code == 3


def test_the_heterogeneous_option_makes_a_padded_pair_launchable(run: Any) -> None:
    outcome = run(*PADDED, "--heterogeneous-vocab", "--format", "json")
    assert outcome.code == 0
    config = json.loads(outcome.out)["speculative_config"]
    assert config["use_heterogeneous_vocab"] is True
    assert set(config) <= VLLM_FIELDS


@pytest.mark.parametrize(("target_size", "draft_size"), [(128_256, 32_000), (152_064, 32_002)])
def test_unrelated_folders_are_refused_with_both_sizes(
    run: Any, tmp_path: Path, target_size: int, draft_size: int
) -> None:
    # The pairs of vllm-project/vllm#8530 and ggml-org/llama.cpp#3812, by their sizes.
    target = checkpoint(tmp_path / "target", target_size, 16, None)
    draft = checkpoint(tmp_path / "draft", draft_size, 2, None)
    outcome = run(target, draft)
    assert outcome.code == 3
    assert outcome.first.startswith("Refused")
    assert f"{target_size:,}" in outcome.first
    assert f"{draft_size:,}" in outcome.first


def test_two_folders_are_compared_token_by_token(run: Any, tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "target", 128, 16, words(100))
    same = checkpoint(tmp_path / "same", 128, 2, words(100))
    outcome = run(target, same)
    assert outcome.code == 0
    assert "100 tokens at the same ids" in outcome.first
    swapped = {**words(100), "word7": 8, "word8": 7}
    other = checkpoint(tmp_path / "other", 128, 2, swapped)
    outcome = run(target, other)
    assert outcome.code == 3
    assert "2 of 100 ids stand for other text (98.0% equal)" in outcome.first
    assert "first 7: 'word7' / 'word8'" in outcome.first


def test_padding_of_two_folders_is_proved_by_their_tokenizers(run: Any, tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "target", 128, 16, words(100))
    draft = checkpoint(tmp_path / "draft", 104, 2, words(100))
    outcome = run(target, draft, "--format", "json")
    report = PairReport.model_validate_json(outcome.out)
    assert outcome.code == 3
    assert report.verdict.value == "padded"
    assert report.vocabulary is not None
    assert report.vocabulary.difference == 24
    assert report.vocabulary.evidence.value == "tokens"


def test_json_has_the_answer_at_its_top(run: Any) -> None:
    answer = json.loads(run(*PADDED, "--format", "json").out)
    top = {key: answer[key] for key in list(answer)[:9]}
    assert top == {
        "schema_version": 1,
        "target": PADDED[0],
        "draft": PADDED[1],
        "method": "draft_model",
        "verdict": "padded",
        "usable": False,
        "engine": "vllm==0.33",
        "target_vocab_size": 152_064,
        "draft_vocab_size": 151_936,
    }
    assert answer["difference"] == 128
    assert {"topic", "severity", "text", "remedy", "source"} <= set(answer["findings"][0])
    refused = json.loads(run("qwen3-32b", "mtp", "--format", "json").out)
    assert refused["usable"] is False
    assert refused["target_vocab_size"] == 151_936


def test_an_ordinary_answer_fits_a_screen_and_says_nothing_twice(run: Any) -> None:
    lines = run("qwen3-32b", "qwen3-0.6b").out.splitlines()
    assert len(lines) <= 35
    assert all(len(line) <= 80 for line in lines if "--speculative-config" not in line)
    refused = run(*PADDED).out
    assert refused.count("difference 128") == 1
    assert refused.count("must be equal") == 1
    assert len(refused.splitlines()) <= 35


def test_a_suggestion_takes_three_lines_at_most(run: Any) -> None:
    out = run("qwen3-30b-a3b-instruct-2507").out
    block = out.split("\n\n")[1].splitlines()
    heads = [number for number, line in enumerate(block) if not line.startswith("    ")]
    ends = [*heads[1:], len(block)]
    assert heads[0] == 0
    assert all(end - start <= 3 for start, end in zip(heads, ends, strict=True))
    figures = [line for line in block if "tokens a round" in line]
    assert figures
    assert all("[SpecForge" in line and len(line) <= 80 for line in figures)  # its source


def test_a_refusal_offers_only_what_the_engine_runs(run: Any) -> None:
    out = " ".join(run("qwen2.5-7b-instruct", "qwen2.5-0.5b-instruct").out.split())
    assert "Qwen2.5-1.5B" not in out
    assert "No draft model and no head is known that vllm==0.33 runs" in out
    assert "AngelSlim/Qwen3-32B_eagle3" in run("qwen3-32b", "mtp").out


def test_an_unchecked_pair_does_not_pass_a_gate(run: Any) -> None:
    assert run(*PADDED, "--engine", "tensorrt-llm").code == 3


def test_a_broken_tokenizer_is_an_error_not_a_verdict(run: Any, tmp_path: Path) -> None:
    target = checkpoint(tmp_path / "target", 128, 16, words(100))
    draft = checkpoint(tmp_path / "draft", 128, 2, None)
    Path(draft, "tokenizer.json").write_text("{")
    outcome = run(target, draft)
    assert outcome.code == 1
    assert "tokenizer.json" in outcome.err
    assert "Traceback" not in outcome.err


def test_a_target_alone_gets_suggestions_with_sources(run: Any) -> None:
    outcome = run("qwen3-32b")
    assert outcome.code == 0
    assert "ways to draft for Qwen/Qwen3-32B on vllm==0.33" in outcome.first
    assert "AngelSlim/Qwen3-32B_eagle3" in outcome.out
    assert "Measure what has no figure: capplan profile" in outcome.out
    assert "Next: capplan pair Qwen/Qwen3-32B" in outcome.out
    assert all(len(line) <= 80 for line in outcome.out.splitlines())
    listed = run("qwen3-32b", "--format", "json")
    found = PairSuggestions.model_validate_json(listed.out)
    assert all(item.source for item in found.suggestions if item.listed)


def test_a_method_alone_filters_the_suggestions(run: Any) -> None:
    found = PairSuggestions.model_validate_json(
        run("qwen3-8b", "--method", "dflash", "--format", "json").out
    )
    assert {item.method.value for item in found.suggestions} == {"dflash"}


def test_a_target_of_which_only_pairings_are_known_still_gets_suggestions(run: Any) -> None:
    outcome = run("lmsys/vicuna-13b-v1.3")
    assert outcome.code == 0
    assert "EAGLE3-Vicuna1.3-13B" in outcome.out
    assert "nothing was compared" in " ".join(outcome.out.split())


def test_mtp_of_a_checkpoint_without_it_is_refused(run: Any) -> None:
    outcome = run("qwen3-8b", "--method", "mtp")
    assert outcome.code == 3
    assert "no MTP layers" in outcome.first
    assert run("qwen3.5-27b", "mtp").code == 0


def test_a_head_of_models_db_is_found_by_its_short_name(run: Any) -> None:
    outcome = run("qwen3-8b", "qwen3-8b_eagle3", "--gpu", "h100-sxm-80gb")
    assert outcome.code == 0
    assert "Published acceptance" in outcome.out
    assert "of a target step" in " ".join(outcome.out.split())


def test_a_cost_ratio_is_an_interval_that_holds_its_middle(run: Any) -> None:
    outcome = run("qwen3-32b", "qwen3-0.6b", "--gpu", "h100-sxm-80gb", "--format", "json")
    ratio = json.loads(outcome.out)["cost_ratio"]["ratio"]
    # far above 1/55 of the parameters
    assert 0.05 < ratio["low"] < ratio["mid"] < ratio["high"] < 0.5


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("qwen3-23b",), 1, "Qwen/Qwen3-32B"),
        (("qwen3-8b", "qwen3-06b"), 1, "Qwen/Qwen3-0.6B"),
        (("qwen3-8b", "qwen3-0.6b", "--engine", "vlm"), 1, "Did you mean vllm?"),
        (("qwen3-8b", "qwen3-0.6b", "--gpu", "h99"), 1, "h99"),
        (("qwen3-8b", "qwen3-0.6b", "--method", "psychic"), 2, "Known: draft_model"),
        (("qwen3-8b", "qwen3-0.6b", "--tp", "0"), 2, "--tp"),
        (("./no-such-folder", "qwen3-0.6b"), 1, "no-such-folder"),
        ((), 2, "TARGET"),
    ],
)
def test_what_cannot_be_answered_is_explained(
    run: Any, arguments: tuple[str, ...], code: int, says: str
) -> None:
    outcome = run(*arguments)
    assert outcome.code == code
    assert says in outcome.err
    assert outcome.out == ""
    assert "Traceback" not in outcome.err


def test_the_library_gives_the_same_answer() -> None:
    report = capplan.pair(LLAMA_8B, LLAMA_1B)
    assert isinstance(report, PairReport)
    assert report.works
    assert isinstance(capplan.pair(LLAMA_8B), PairSuggestions)


def test_names_with_control_characters_do_not_drive_the_terminal(run: Any, tmp_path: Path) -> None:
    hostile = {**words(99), "\x1b[31mred\x07": 99}
    target = checkpoint(tmp_path / "target", 128, 16, words(100))
    draft = checkpoint(tmp_path / "draft", 128, 2, hostile)
    outcome = run(target, draft)
    assert "\x1b" not in outcome.out
    assert "\x07" not in outcome.out
