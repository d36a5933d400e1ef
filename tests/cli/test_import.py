"""``capplan import``: what is printed, written and said of files that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from capplan.profiles.store import load_profile
from capplan.schema.pairing import Method

Call = Callable[..., tuple[int, str, str]]
DATA = Path(__file__).parents[1] / "data" / "imports"
ARRIVALS = DATA / "vllm_bench_arrival_limited.json"


def metrics(drafts: int, accepted: int, tokens: int) -> str:
    names = {
        "spec_decode_num_drafts": drafts,
        "spec_decode_num_draft_tokens": 3 * drafts,
        "spec_decode_num_accepted_tokens": accepted,
        "generation_tokens": tokens,
        "prompt_tokens": 10 * drafts,
    }
    lines = []
    for name, value in names.items():
        lines.append(f"# TYPE vllm:{name} counter")
        lines.append(f'vllm:{name}_total{{engine="0",model_name="{TARGET}"}} {value}')
    return "\n".join(lines) + "\n"


TARGET = "Qwen/Qwen3-32B"


def test_rows_are_printed_with_their_flags_and_remedies_below(run: Call) -> None:
    code, out, err = run("import", ARRIVALS, DATA / "guidellm_v2.json")
    assert (code, err) == (0, "")
    rows, _, flags = out.partition("\n\n")
    assert "guidellm_v2.json [constant 4/s]" in rows
    assert "475.1" in rows
    (arrivals,) = [line for line in rows.splitlines() if ARRIVALS.name in line]
    assert arrivals.endswith("latency, step time")
    assert "#1 arrival_limited: 0.95 of 1 requests a second" in flags
    assert "Raise the rate" in flags
    assert "#2, #3 few_requests" in flags


def test_json_holds_every_observation_and_its_flags(run: Call) -> None:
    code, out, _ = run("import", ARRIVALS, "--format", "json", "--temperature", "0.7")
    document = json.loads(out)
    assert code == 0
    (one,) = document["observations"]
    assert one["load"]["temperature"] == 0.7
    assert one["output_tokens_per_s"] == pytest.approx(475.1, abs=0.01)
    assert {flag["check"] for flag in one["flags"]} == {"arrival_limited", "p99_of_few"}


def test_a_profile_is_written_and_planned_with(run: Call, tmp_path: Path) -> None:
    before, after = tmp_path / "before.prom", tmp_path / "after.prom"
    before.write_text(metrics(1000, 1500, 2600))
    after.write_text(metrics(10_000, 15_450, 25_900))
    file = tmp_path / "p.json"
    said = ("--draft", "Qwen3-0.6B", "--temperature", "0", "--gpu", "h100-sxm-80gb")
    code, out, err = run("import", before, after, *said, "-o", file)
    assert (code, err) == (0, f"Written to {file}\n"), out
    profile = load_profile(file).profile
    (window,) = profile.observations
    assert window.speculation is not None
    assert window.speculation.drafts == 9000
    assert window.speculation.accepted == 13_950
    assert (window.draft, window.method) == ("Qwen/Qwen3-0.6B", Method.DRAFT_MODEL)
    assert profile.backend.name == "import"
    assert profile.target.spec.id == TARGET
    device = profile.environment.device
    assert (device.kind, device.memory_bytes) == ("unknown", None)
    assert "H100" in device.name
    code, out, _ = run(
        *("recommend", "--profile", file, "--budget", "40000", "--rate", "1"),
        *("--draft", "Qwen/Qwen3-0.6B", "--temperature", "0", "--format", "json"),
    )
    assert code == 0
    plan = json.loads(out)
    sources = {
        option["acceptance"]["source"]["kind"]
        for option in plan["options"]
        if option["acceptance"]
    }
    assert sources == {"measured"}


def test_before_names_the_earlier_metrics(run: Call, tmp_path: Path) -> None:
    earlier, later = tmp_path / "z.prom", tmp_path / "a.prom"
    earlier.write_text(metrics(1000, 1500, 2600))
    later.write_text(metrics(10_000, 15_450, 25_900))
    code, out, _ = run("import", later, "--before", earlier, "--format", "json")
    assert code == 0
    assert json.loads(out)["observations"][0]["speculation"]["drafts"] == 9000
    code, out, err = run("import", ARRIVALS, "--before", earlier)
    assert code == 1
    assert "--before needs one file of metrics" in err


def test_one_bad_file_does_not_lose_the_others(run: Call, tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_text(ARRIVALS.read_text()[:400])
    other = tmp_path / "notes.json"
    other.write_text('{"hello": 1}')
    file = tmp_path / "p.json"
    code, out, err = run("import", cut, other, tmp_path / "none.json", ARRIVALS, "-o", file)
    assert code == 1
    assert "475.1" in out
    assert "truncated" in err
    assert "json with the fields hello" in err
    assert "Known: vllm bench serve JSON" in err
    assert "none.json" in err
    assert "Traceback" not in err
    assert load_profile(file).profile.target.spec.id == "openai/gpt-oss-120b"


def test_files_of_a_folder_that_are_no_results_are_left_out(run: Call, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(ARRIVALS.read_text())
    (tmp_path / "inputs.json").write_text('{"data": []}')
    code, out, err = run("import", tmp_path)
    assert code == 0
    assert "a.json" in out
    assert "Left out" in err
    assert "inputs.json" in err


def test_an_unknown_llm_is_printed_but_needs_a_name_to_be_kept(run: Call, tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    code, out, err = run("import", DATA / "genai_perf.json", "-o", file)
    assert code == 1
    assert "44,190.6" in out
    assert "'ensemble'" in err
    assert "--target" in err
    assert not file.exists()
    assert run("import", DATA / "genai_perf.json", "-o", file, "--target", TARGET)[0] == 0


def test_files_of_several_llms_are_not_thrown_together(run: Call, tmp_path: Path) -> None:
    files = (ARRIVALS, DATA / "inferencex_c64.json")
    file = tmp_path / "p.json"
    code, _, err = run("import", *files, "-o", file)
    assert code == 2
    assert "2 LLMs" in err
    code, _, _ = run("import", *files, "-o", file, "--target", "openai/gpt-oss-120b")
    assert code == 0
    profile = load_profile(file).profile
    flagged = [
        one.source
        for one in profile.observations
        if any(flag.check == "named_otherwise" for flag in one.flags)
    ]
    assert flagged == ["inferencex_c64.json"]


def test_the_same_files_make_the_same_id(run: Call, tmp_path: Path) -> None:
    ids = set()
    for name in ("a.json", "b.json"):
        run("import", ARRIVALS, "-o", tmp_path / name)
        ids.add(load_profile(tmp_path / name).profile.id)
    assert len(ids) == 1


@pytest.mark.parametrize("option", [("--method", "telepathy"), ("--temperature", "-1")])
def test_what_makes_no_sense_is_misuse(run: Call, option: tuple[str, str]) -> None:
    code, _, err = run("import", ARRIVALS, *option)
    assert code == 2
    assert option[1] in err


def test_a_gpu_that_nobody_knows_is_named(run: Call) -> None:
    code, _, err = run("import", ARRIVALS, "--gpu", "h9000")
    assert code == 1
    assert "h9000" in err
