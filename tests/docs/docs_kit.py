"""The folder in which a page's commands run: what its reader would have at hand."""

from __future__ import annotations

import csv
import io
import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from docs_shell import run

from capplan.profiles.store import save_profile
from capplan.schema.cells import Role

ROOT = Path(__file__).parents[2]
_DATA = ROOT / "tests" / "data"
_RESULTS = {
    "bench.json": _DATA / "imports" / "vllm_bench_speculative.json",
    "results/bench.json": _DATA / "imports" / "vllm_bench_speculative.json",
    "before.prom": _DATA / "metrics" / "vllm-70b-before.prom",
    "after.prom": _DATA / "metrics" / "vllm-70b-after.prom",
}
_TASKS = {"chat": 0.35, "code": 0.75, "notes": 0.55}
_REQUESTS, _TOKENS = 16, 60
_BATCHES = (1, 4, 16, 64)
_DAYS, _REQUESTS_A_DAY = 9, 240
_LOAD = """\
requests_per_s: 2
prompt_tokens: 1500
output_tokens: 400
arrival:
  hour_of_day: [2, 1, 1, 1, 1, 2, 3, 5, 8, 10, 11, 11, 10, 10, 11, 11, 10, 9, 8, 7, 6, 5, 4, 3]
"""
_RENTED = (
    "capplan recommend --target Qwen/Qwen3-32B --gpu h100-sxm-80gb --budget 20000 "
    "--workload load.yaml --plan-json plan.json"
)
_PROFILED = (
    "capplan recommend --profile profile.json --gpu-price profile=2 --budget 5000 --rate 20 "
    "--prompt-tokens 200 --output-tokens 100 --plan-json plan-of-profile.json"
)
OF_THE_PROFILE = ("docs/comparing-prompts.md", "docs/how-to/cost-gate-in-ci.md")
"""Pages whose ``plan.json`` is of the pair that their profiles are of."""


def make_kit(folder: Path, synthetic: Any, answers: Any) -> Path:
    """Fill a folder: profiles of a toy pair, real results of other tools, a plan, a trace."""
    for name, source in _RESULTS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(source, folder / name)
    shutil.copytree(ROOT / "examples" / "data", folder / "examples" / "data")
    for name, slower in (("profile", 1.0), ("monday", 1.0), ("friday", 1.01), ("tonight", 1.0)):
        _write_profile(synthetic, folder / f"{name}.json", name, slower)
    (folder / "my-gpu.csv").write_text(_gpu(), encoding="utf-8")
    (folder / "conv.csv").write_text(_trace(), encoding="utf-8")
    (folder / "week.json").write_text(_counters(answers), encoding="utf-8")
    (folder / "load.yaml").write_text(_LOAD, encoding="utf-8")
    for command in (_RENTED, _PROFILED):
        ran = run(command, folder)
        assert ran.exit_code == 0, ran.printed
    for name, source in (("old", "plan"), ("new", "plan"), ("p", "profile")):
        shutil.copy(folder / f"{source}.json", folder / f"{name}.json")
    return folder


def page_folder(kit: Path, page: str, folder: Path) -> Path:
    """Copy the kit for one page, with the plan that it is about."""
    shutil.copytree(kit, folder)
    if page in OF_THE_PROFILE:
        shutil.copy(folder / "plan-of-profile.json", folder / "plan.json")
    return folder


def _write_profile(synthetic: Any, path: Path, name: str, slower: float) -> None:
    rng = np.random.default_rng(3)
    cells, arrays = [], {}
    for index, (task, accept) in enumerate(_TASKS.items()):
        each = np.clip(accept + 0.05 * rng.standard_normal(_REQUESTS), 0.02, 0.98)
        flat = np.repeat(each, _TOKENS).astype(np.float32)
        cells.append(synthetic.acceptance_cell(_REQUESTS, _TOKENS, task=task))
        arrays[f"acceptance/{index}/offsets"] = np.arange(_REQUESTS + 1) * _TOKENS
        arrays[f"acceptance/{index}/prompt_tokens"] = np.full(_REQUESTS, 1000)
        arrays[f"acceptance/{index}/accept_greedy"] = flat
        arrays[f"acceptance/{index}/accept_probabilistic"] = flat
    base, _ = synthetic.profile(acceptance=tuple(cells), id=name)
    steps = [
        *synthetic.timing(Role.TARGET, synthetic.TARGET_TIMES, _BATCHES),
        *synthetic.timing(Role.DRAFT, synthetic.DRAFT_TIMES, _BATCHES, (1, 2)),
    ]
    timing = tuple(
        cell.model_copy(update={"seconds": tuple(s * slower for s in cell.seconds)})
        for cell in steps
    )
    save_profile(path, base.model_copy(update={"timing": timing}), arrays)


def _trace() -> str:
    """Return nine days of requests in the layout of the public Azure traces."""
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for day in range(_DAYS):
        for index in range(_REQUESTS_A_DAY):
            minute = index * 24 * 60 // _REQUESTS_A_DAY
            at = f"2026-11-{2 + day:02d} {minute // 60:02d}:{minute % 60:02d}:00.0000000"
            lines.append(f"{at},{500 + 7 * index},{50 + index}")
    return "\n".join(lines) + "\n"


def _counters(answers: Any) -> str:
    """Return the same days as a server's counters, looked at every five minutes."""
    rows = list(csv.DictReader(io.StringIO(_trace())))
    times = [datetime.fromisoformat(row["TIMESTAMP"][:19] + "+00:00") for row in rows]
    seconds = np.array([time.timestamp() for time in times])
    looks = np.arange(seconds[0], seconds[-1] + 301, 300)
    ended = np.searchsorted(seconds, looks)
    found = [answers.series("vllm:request_success_total", ended, looks)]
    for column, name in (("ContextTokens", "prompt"), ("GeneratedTokens", "generation")):
        tokens = np.array([int(row[column]) for row in rows])
        metric = f"vllm:request_{name}_tokens"
        found.append(
            answers.series(f"{metric}_sum", np.array([0, *tokens.cumsum()])[ended], looks)
        )
        found.append(answers.series(f"{metric}_count", ended, looks))
        for bound in (50, 100, 200, 500, 1000, 2000, 5000):
            within = np.array([0, *(tokens <= bound).cumsum()])[ended]
            found.append(answers.series(f"{metric}_bucket", within, looks, le=str(bound)))
        found.append(answers.series(f"{metric}_bucket", ended, looks, le="+Inf"))
    asked = np.array([0, *(500.0 for _ in rows)]).cumsum()[ended]
    found.append(answers.series("vllm:prefix_cache_queries_total", asked, looks))
    found.append(answers.series("vllm:prefix_cache_hits_total", asked * 0.4, looks))
    return json.dumps(answers.matrix(*found))


def _gpu() -> str:
    """Return a file of one GPU, as a contributor would write it: a known one under a new name."""
    with (ROOT / "models_db" / "gpus" / "gpus.csv").open(encoding="utf-8", newline="") as file:
        row = next(row for row in csv.DictReader(file) if row["id"] == "h100-sxm-80gb")
    row |= {"id": "my-gpu-80gb", "name": "My GPU 80GB", "chip_names": "my gpu", "device_names": ""}
    text = io.StringIO()
    writer = csv.DictWriter(text, list(row), lineterminator="\n")
    writer.writeheader()
    writer.writerow(row)
    return text.getvalue()
