"""Profile large pairings with random weights on a borrowed device and say what was found.

Called by tools/device_check.sh. Every profile is taken by ``capplan profile`` in a process of its
own, so that a crash or a hang of one leaves the others; whatever a run finished is on disk.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from device_findings import findings

from capplan.errors import CapplanError
from capplan.profiles.store import load_profile

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = Path(__file__).resolve().parent / "configs"
TOTAL_MINUTES = 7.0
SMOKE_MINUTES = 0.4
START_UP_S = 60.0
"""Importing torch, building the LLMs and writing the last cell, beyond the budget."""
TESTS_SHARE = 0.2


@dataclass(frozen=True)
class Run:
    """One profile to take; empty batches and contexts mean the defaults of a CUDA device."""

    target: str
    draft: str | None
    share: float
    """Part of the time given to it."""
    batches: tuple[int, ...] = ()
    contexts: tuple[int, ...] = ()

    @property
    def file_name(self) -> str:
        """Name of the profile file."""
        return f"{self.target.rpartition('/')[2].lower()}.json"


RUNS = (
    Run("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B", share=0.29),
    Run("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-1B-Instruct", share=0.29),
    Run("Qwen/Qwen3-30B-A3B", None, 0.17, batches=(1, 8, 32, 128), contexts=(1024, 4096)),
)
SMALLER = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "head_dim": 16,
    "vocab_size": 512,
}
"""Replaces the sizes of a configuration for ``--smoke``: everything runs, nothing is learnt."""
SMOKE_BATCHES, SMOKE_CONTEXTS = (1, 4), (16, 64)


def write_smaller_configs(folder: Path) -> None:
    """Write every configuration with toy sizes."""
    for path in CONFIGS.glob("*/*/config.json"):
        config = json.loads(path.read_text(encoding="utf-8"))
        config |= {key: value for key, value in SMALLER.items() if key in config}
        copy = folder / path.relative_to(CONFIGS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(json.dumps(config, indent=2), encoding="utf-8")


def command(run: Run, output: Path, minutes: float, *, smoke: bool) -> list[str]:
    """Return the command line that takes a profile."""
    line = [sys.executable, "-m", "capplan", "profile", run.target, "--weights", "dummy"]
    line += ["--draft", run.draft] if run.draft else []
    for batch in SMOKE_BATCHES if smoke else run.batches:
        line += ["--batch", str(batch)]
    for context in SMOKE_CONTEXTS if smoke else run.contexts:
        line += ["--context", str(context)]
    line += ["--device", "cpu" if smoke else "cuda", "--budget-minutes", f"{minutes:.3f}"]
    return [*line, "--force", "-o", str(output)]


def execute(line: list[str], folder: Path, timeout_s: float) -> dict[str, Any]:
    """Run a command and return what became of it; output is kept for the reader."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        # One thread: toy passes on a CPU gain nothing by more, and a GPU host needs none.
        "OMP_NUM_THREADS": "1",
    }
    start_s = time.monotonic()
    try:
        done = subprocess.run(
            line,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        kept = (error.stdout or b"").decode(errors="replace")
        exit_code, output = None, f"{kept}\nstopped after {timeout_s:.0f} s"
    else:
        exit_code, output = done.returncode, done.stdout
    return {
        "exit_code": exit_code,
        "seconds": round(time.monotonic() - start_s, 1),
        "output_tail": output.strip().splitlines()[-12:],
    }


def take(run: Run, out: Path, configs: Path, minutes: float, *, smoke: bool) -> dict[str, Any]:
    """Take one profile and read it back."""
    output = out / run.file_name
    budget = minutes * run.share
    # The folder of the configurations is the working directory: a target's path is then its id.
    line = command(run, output, budget, smoke=smoke)
    outcome = {"target": run.target, "draft": run.draft, "profile": output.name}
    outcome |= execute(line, configs, budget * 60 + START_UP_S)
    try:
        profile = load_profile(output).profile
    except CapplanError as error:
        return outcome | {"readable": False, "error": str(error)}
    config = json.loads((configs / run.target / "config.json").read_text(encoding="utf-8"))
    tied = bool(config["tie_word_embeddings"])
    return outcome | {"readable": True, **findings(profile, tied_embeddings=tied)}


def gpu_tests(timeout_s: float) -> dict[str, Any]:
    """Run the tests that need a CUDA device; only the files that hold some are imported."""
    files = sorted(
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if "mark.gpu" in path.read_text(encoding="utf-8")
    )
    if not files:
        return {"exit_code": None, "output_tail": ["no test is marked gpu"]}
    line = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", *files]
    return execute(line, ROOT, timeout_s)


def as_text(summary: dict[str, Any]) -> str:
    """Return the summary for people."""
    lines: list[str] = []
    for run in summary["runs"]:
        title = " + ".join(filter(None, (run["target"], run["draft"])))
        lines += ["", f"{title}  (exit code {run['exit_code']}, {run['seconds']} s)"]
        lines += _run_lines(run) if run["readable"] else [f"  no profile: {run['error']}"]
        if run["exit_code"] != 0:
            lines += [f"  | {line}" for line in run["output_tail"]]
    tests = summary["gpu_tests"]
    lines += ["", f"tests marked gpu: exit code {tests['exit_code']}"]
    lines += [f"  | {line}" for line in tests["output_tail"][-6:]]
    return "\n".join(lines).strip()


def _run_lines(run: dict[str, Any]) -> list[str]:
    lines = [
        f"  {run['device']}, {run['backend']}: {run['timing_cells']} cells, "
        f"{run['cells_in_cuda_graphs']} in CUDA graphs, {run['verdict']}, "
        f"{'complete' if run['complete'] else 'cut short'}, {len(run['skipped'])} left out"
    ]
    lines += [f"  {reason}" for reason in dict.fromkeys(run["reasons"])]
    if decode := run["decode"]:
        reached = decode["times_the_limit"]
        against = "bandwidth unknown" if reached is None else f"{reached:.2f}x bytes/bandwidth"
        lines.append(
            f"  decode, batch 1, context {decode['context']}: {decode['seconds'] * 1e3:.3f} ms, "
            f"{decode['bytes_per_s_reached'] / 1e9:,.0f} GB/s; {against} "
            f"(wanted: at most {decode['wanted_at_most']})"
        )
    if reads := run["context_reads"]:
        by_tokens = ", ".join(
            f"q={q}: {m:.2f}" for q, m in sorted(reads["multiplicity_by_tokens"].items())
        )
        lines.append(f"  {reads['answer']} (mu {reads['mu']:.3f}; times read {by_tokens})")
    lines += _table("cost ratio", run["cost_ratio"], "cost_ratio")
    lines += _table("verify/decode", run["verify_over_decode"], "ratio")
    lines += _table("watts", run["power"], "watts")
    errors = {role: e for role, e in run["fit_held_out_error"].items() if e is not None}
    lines += [f"  fit of the {role}: {error:.1%} held-out" for role, error in errors.items()]
    return lines


def _table(name: str, rows: list[dict[str, float]], value: str) -> list[str]:
    """Lay rows out: one line a context (if there are several), within it one group a batch."""
    lines: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        context = f", context {row['context']:g}" if "context" in row else ""
        group = lines.setdefault(context, {}).setdefault(f"B{row['batch']:g}", [])
        width = f"q{row['tokens']:g} " if "tokens" in row else ""
        group.append(f"{width}{row[value]:.3g}")
    return [
        f"  {name}{context}: " + "; ".join(f"{b} {' '.join(cells)}" for b, cells in groups.items())
        for context, groups in sorted(lines.items())
    ]


def passed(summary: dict[str, Any]) -> bool:
    """Whether every profile can be read and no GPU test failed (5: none was selected)."""
    readable = all(run["readable"] for run in summary["runs"])
    return readable and summary["gpu_tests"]["exit_code"] in {0, 5, None}


def main() -> int:
    """Take the profiles, run the tests, print and write the summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, help="for everything together")
    parser.add_argument("--smoke", action="store_true", help="toy sizes on a CPU")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    minutes = options.minutes or (SMOKE_MINUTES if options.smoke else TOTAL_MINUTES)
    configs = CONFIGS
    if options.smoke:
        configs = out / "configs"
        write_smaller_configs(configs)
    summary: dict[str, Any] = {"schema_version": 1, "smoke": options.smoke, "runs": []}
    for run in RUNS:
        print(f"profiling {run.target} ...", flush=True)
        summary["runs"].append(take(run, out, configs, minutes, smoke=options.smoke))
        _write(out, summary | {"gpu_tests": {"exit_code": None, "output_tail": ["not yet run"]}})
    summary["gpu_tests"] = gpu_tests(minutes * 60 * TESTS_SHARE)
    _write(out, summary)
    print(as_text(summary))
    return 0 if passed(summary) else 1


def _write(out: Path, summary: dict[str, Any]) -> None:
    (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    (out / "summary.txt").write_text(as_text(summary) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
