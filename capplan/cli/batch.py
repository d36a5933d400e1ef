"""``capplan batch``: many profiles and plans, on this machine or on a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

_HELP = """\
Run the profiles and plans of the file JOBS (YAML or JSON).

Each job is a process of its own: retried if it was killed or lost its machine, ended with all
its children at its time limit. Run the same command again to go on: what is finished stays.
Exit code 1 if a job failed, 3 if none did but a plan found nothing that fits.

Options in JOBS are those of capplan profile and capplan recommend; profiles run first:

\b
  defaults:
    recommend: {budget: 20k, slo-tpot: 40ms}
  jobs:
    - name: qwen-h100
      gpu-type: H100
      profile: {target: Qwen/Qwen3-32B, draft: Qwen/Qwen3-0.6B, backend: vllm}
    - name: chat
      recommend: {profile: "job:qwen-h100", rate: 6/s}
    - name: support
      timeout-minutes: 5
      recommend: {target: qwen3-32b, rate: 90/min, prompt-tokens: 3000}
"""
_EXAMPLES = """\b
Examples:
  capplan batch jobs.yaml
  capplan batch jobs.yaml -o fleet --gpus 0,1 --timeout-minutes 60
  capplan batch services.yaml --workers 8 --format json
  capplan batch jobs.yaml --executor ray --address 10.0.0.1:6379 --wait-minutes 15
"""


def _above_zero(default: float) -> dict[str, Any]:
    return {
        "type": click.FloatRange(0, 60 * 24 * 30, min_open=True),
        "default": default,
        "show_default": True,
    }


@click.command("batch", help=_HELP, epilog=_EXAMPLES)
@click.argument("jobs", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("capplan-batch"),
    show_default=True,
    help="Folder of the results; a job finished there is not run again.",
)
@click.option(
    "--executor",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="local: a process a GPU here. ray: a cluster that is up.",
)
@click.option("--gpus", default="all", show_default=True, help="local: all, none, or 0,1.")
@click.option(
    "--workers", type=click.IntRange(1, 1024), help="local: plans at once. Default: one a core."
)
@click.option("--address", help="ray: the head's HOST:PORT. Default: this machine's cluster.")
@click.option("--timeout-minutes", help="Of one attempt of a job.", **_above_zero(120))
@click.option("--wait-minutes", help="For a machine that a job needs (ray).", **_above_zero(10))
@click.option(
    "--retries",
    type=click.IntRange(0, 100),
    default=1,
    show_default=True,
    help="Attempts after the first, where one was killed, lost, stopped or unlucky.",
)
@click.option("--force", is_flag=True, help="Run finished jobs again, from nothing.")
@click.option(
    "--format", "fmt", type=click.Choice(["table", "json"]), default="table", show_default=True
)
def command(jobs: Path, fmt: str, **options: Any) -> int:
    """Run the jobs of a file and tell what became of each."""
    from capplan.api.batch import run_batch
    from capplan.cli.batch_check import check_options
    from capplan.cli.batch_text import event_line, summary
    from capplan.jobs.jobfile import load_jobs

    _refuse_of_other_executor(options)
    check_options(load_jobs(jobs), str(jobs))
    result = run_batch(
        jobs, on_event=lambda event: click.echo(event_line(event), err=True), **options
    )
    text = result.model_dump_json(indent=1) + "\n" if fmt == "json" else summary(result)
    sys.stdout.write(text)
    return result.exit_code


def _refuse_of_other_executor(options: dict[str, Any]) -> None:
    """Refuse options that the executor chosen would not heed."""
    is_ray = options["executor"] == "ray"
    given = {
        "--gpus": is_ray and options["gpus"] != "all",
        "--workers": is_ray and options["workers"] is not None,
        "--address": not is_ray and options["address"] is not None,
    }
    unheeded = [flag for flag, is_given in given.items() if is_given]
    if unheeded:
        raise click.UsageError(
            f"{', '.join(unheeded)} means nothing to --executor {options['executor']}."
        )
