"""``capplan recommend``: rank the ways to serve a load within a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from capplan.cli.money_options import money_options
from capplan.cli.numbers import RATE, TOKENS, UNITS_MS, USD_A_MONTH, GpuPrice, Number, Share
from capplan.cli.output import chosen_format, deliver_plan, output_options

_EXAMPLES = """\b
Examples:
  capplan recommend --target Qwen/Qwen3-32B --budget 20000 --rate 2
  capplan recommend --target llama-3.3-70b-instruct --budget 30000 --rate 6 \\
      --prompt-tokens 1500 --output-tokens 400 --slo-tpot 40ms \\
      --gpu h100-sxm-80gb -o plan.html
  capplan recommend --target qwen3-32b --budget 20000 --rate 2 --price-file prices.csv \\
      --purchase on-demand --purchase reserved --compare-api groq:qwen/qwen3-32b
  capplan recommend --target qwen3-32b --budget 20000 --workload chat.yaml
  capplan recommend --profile profile.json --gpu-price profile=0.10 --budget 200 \\
      --format json -o plan.json
"""

_MS = Number("duration", UNITS_MS)


@click.command("recommend", epilog=_EXAMPLES)
@click.option(
    "--budget",
    "budget_usd",
    type=USD_A_MONTH,
    required=True,
    help="USD a month, at most: 20000 or 20k.",
)
@click.option("--target", "targets", multiple=True, help="LLM to serve; may be repeated.")
@click.option("--draft", "drafts", multiple=True, help="Only these drafts.")
@click.option("--method", "methods", multiple=True, help="Only these methods (eagle3, ngram ...).")
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Profile to use; may be repeated.",
)
@click.option(
    "--calibration",
    "calibrations",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Constants of capplan calibrate for one GPU; may be repeated.",
)
@click.option("--gpu", "gpus", multiple=True, help="Only these GPUs (h100-sxm-80gb, l40s ...).")
@click.option("--provider", "providers", multiple=True, help="Only these providers.")
@click.option(
    "--purchase",
    "purchases",
    multiple=True,
    default=("on-demand",),
    show_default=True,
    type=click.Choice(["on-demand", "spot", "reserved"]),
    help="How capacity is bought.",
)
@click.option(
    "--tier",
    "tiers",
    multiple=True,
    default=("list", "secure"),
    show_default=True,
    help="Kinds of offers: list, secure, community, marketplace.",
)
@click.option(
    "--tp",
    "tensor_parallel",
    multiple=True,
    type=click.IntRange(1, 64),
    default=(1, 2, 4, 8),
    show_default=True,
    help="Tensor-parallel sizes.",
)
@click.option(
    "--gpu-price",
    "gpu_prices",
    multiple=True,
    type=GpuPrice(),
    help="Your price of one GPU: GPU=USD a GPU-hour; 'profile' is the profiled machine's.",
)
@money_options
@click.option(
    "--workload",
    "workload_file",
    type=click.Path(path_type=Path),
    help="Load from a workload file, a trace or what Prometheus counted (capplan workload shows "
    "it).",
)
@click.option("--rate", type=RATE, help="Requests: 6/s, 300/min.")
@click.option(
    "--tokens-per-month",
    "--output-tokens-per-month",
    "tokens_per_month",
    type=TOKENS,
    help="Output tokens a month: 2e9, 2B, 500M.",
)
@click.option(
    "--prompt-tokens",
    type=click.IntRange(1),
    default=1024,
    show_default=True,
    help="Of a request, on average.",
)
@click.option(
    "--output-tokens",
    type=click.IntRange(2),
    default=256,
    show_default=True,
    help="Of a request, on average.",
)
@click.option(
    "--temperature",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="Of sampling; acceptance falls with it.",
)
@click.option("--task", help="Use acceptance of this task where it is known.")
@click.option(
    "--utilisation",
    type=Share(above_zero=True),
    default="0.6",
    show_default=True,
    help="Planned share of each replica's largest throughput.",
)
@click.option(
    "--slo-tpot",
    type=_MS,
    help="Time per output token, at most: 40ms, 0.04s; a bare number is ms.",
)
@click.option(
    "--slo-ttft", type=_MS, help="Time to first token, at most: 2s, 800ms; a bare number is ms."
)
@click.option(
    "--max-n",
    type=click.IntRange(1, 16),
    default=8,
    show_default=True,
    help="Longest speculation length to consider.",
)
@click.option(
    "--assume-acceptance",
    type=click.FloatRange(0, 1),
    help="Acceptance a token where none is measured or published; yours to answer for.",
)
@output_options
@click.option(
    "--plan-json",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write the plan as JSON here, for report, breakeven and claims --on.",
)
def command(**options: Any) -> int:
    """Rank the ways to serve a load within a budget."""
    from capplan.api.plans import recommend, render
    from capplan.api.reports import Evidence
    from capplan.cli.price_notes import note_prices
    from capplan.cli.recommend_calibrations import note_unused_calibrations
    from capplan.cli.recommend_prices import chosen_catalog
    from capplan.cli.recommend_request import build_request
    from capplan.files import write_atomic
    from capplan.profiles.calibration_file import load_calibration
    from capplan.profiles.store import load_profile

    output: Path | None = options["output"]
    fmt = chosen_format(options["fmt"], output)
    profiles = [load_profile(path) for path in options["profiles"]]
    calibrations = [load_calibration(path) for path in options["calibrations"]]
    request = build_request(options, profiles)
    catalog = chosen_catalog(options["price_files"], only=options["price_file_only"])
    note_prices(catalog, request, options["price_files"])
    plan = recommend(request, profiles, catalog, calibrations=calibrations)
    note_unused_calibrations(plan, calibrations)
    if options["plan_json"] is not None:
        write_atomic(options["plan_json"], render(plan, "json"))
    if output is not None:
        click.echo(plan.verdict.sentence, err=True)
    deliver_plan(plan, fmt, output, evidence=Evidence(profiles, calibrations, catalog))
    return 0 if plan.verdict.feasible else 3
