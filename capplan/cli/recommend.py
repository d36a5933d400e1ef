"""``capplan recommend``: rank the ways to serve a load within a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from capplan.cli.money_options import money_options
from capplan.cli.numbers import UNITS_MS, UNITS_PER_S, GpuPrice, Number
from capplan.cli.output import chosen_format, deliver, output_options

_EXAMPLES = """\b
Examples:
  capplan recommend --target Qwen/Qwen3-32B --budget 20000 --rate 2
  capplan recommend --target llama-3.3-70b-instruct --budget 30000 --rate 6 \\
      --prompt-tokens 1500 --output-tokens 400 --slo-tpot 40ms --gpu h100 -o plan.html
  capplan recommend --target qwen3-32b --budget 20000 --rate 2 --price-file prices.csv \\
      --purchase on-demand --purchase reserved --compare-api groq:qwen/qwen3-32b
  capplan recommend --profile profile.json --gpu-price profile=0.10 --budget 200 \\
      --format json -o plan.json
"""

_USD = Number("dollar amount")
_MS = Number("duration", UNITS_MS)
_RATE = Number("rate", UNITS_PER_S)


@click.command("recommend", epilog=_EXAMPLES)
@click.option("--budget", "budget_usd", type=_USD, required=True, help="USD a month, at most.")
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
    help="Your price: GPU=USD an hour; 'profile' is the profiled machine.",
)
@money_options
@click.option("--rate", type=_RATE, help="Requests: 6/s, 300/min.")
@click.option("--tokens-per-month", type=Number("token count"), help="Output tokens a month.")
@click.option("--prompt-tokens", type=click.IntRange(1), default=1024, show_default=True)
@click.option("--output-tokens", type=click.IntRange(2), default=256, show_default=True)
@click.option("--temperature", type=click.FloatRange(0), default=0.0, show_default=True)
@click.option("--task", help="Use acceptance of this task where it is known.")
@click.option(
    "--utilisation",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.6,
    show_default=True,
    help="Planned share of each replica's largest throughput.",
)
@click.option("--slo-tpot", type=_MS, help="Time per output token, at most: 40ms.")
@click.option("--slo-ttft", type=_MS, help="Time to first token, at most: 2s.")
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
    help="Also write the plan as JSON here, for launch, diff and report.",
)
def command(**options: Any) -> int:
    """Rank the ways to serve a load within a budget."""
    from capplan import api
    from capplan.cli.recommend_calibrations import note_unused_calibrations
    from capplan.cli.recommend_prices import chosen_catalog, note_unused_prices
    from capplan.cli.recommend_request import build_request
    from capplan.files import write_atomic

    output: Path | None = options["output"]
    fmt = chosen_format(options["fmt"], output)
    profiles = [api.load_profile(path) for path in options["profiles"]]
    calibrations = [api.load_calibration(path) for path in options["calibrations"]]
    request = build_request(options, profiles)
    catalog = chosen_catalog(options["price_files"], only=options["price_file_only"])
    note_unused_prices(catalog, request, options["price_files"])
    plan = api.recommend(request, profiles, catalog, calibrations=calibrations)
    note_unused_calibrations(plan, calibrations)
    if options["plan_json"] is not None:
        write_atomic(options["plan_json"], api.render(plan, "json"))
    if output is not None:
        click.echo(plan.verdict.sentence, err=True)
    deliver(api.render(plan, fmt), output)
    return 0 if plan.verdict.feasible else 3
