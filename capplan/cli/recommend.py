"""``capplan recommend``: rank the ways to serve a load within a budget."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import click

from capplan.cli.output import chosen_format, deliver, output_options

_EXAMPLES = """\b
Examples:
  capplan recommend --target Qwen/Qwen3-32B --budget 20000 --rate 2
  capplan recommend --target llama-3.3-70b-instruct --budget 30000 --rate 6 \\
      --prompt-tokens 1500 --output-tokens 400 --slo-tpot 40ms --gpu h100 -o plan.html
  capplan recommend --profile profile.json --gpu-price profile=0.10 --budget 200 \\
      --format json -o plan.json
"""

_UNITS_MS = {"ms": 1.0, "s": 1000.0, "": 1.0}
_UNITS_PER_S = {"": 1.0, "/s": 1.0, "/m": 1 / 60, "/min": 1 / 60, "/h": 1 / 3600}


class _Number(click.ParamType[float]):
    """A positive finite number, with a unit if the parameter has units."""

    def __init__(self, name: str, units: dict[str, float] | None = None) -> None:
        self.name = name
        self._units = units or {"": 1.0}

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Parse ``40``, ``40ms``, ``0.04s``, ``6/s`` ..."""
        if isinstance(value, float | int):
            return float(value)
        match = re.fullmatch(r"\s*([-+0-9.,_eE]+|[-+]?nan|[-+]?inf)\s*([a-z/]*)\s*", value.lower())
        known = ", ".join(unit for unit in self._units if unit)
        if match is None or match[2] not in self._units:
            hint = f" (units: {known})" if known else ""
            self.fail(f"{value!r} is not a {self.name}{hint}", param, ctx)
        try:
            number = float(match[1].replace(",", "").replace("_", "")) * self._units[match[2]]
        except ValueError:
            self.fail(f"{value!r} is not a {self.name}", param, ctx)
        if not math.isfinite(number) or number <= 0:
            self.fail(f"{value!r} must be a positive, finite {self.name}", param, ctx)
        return number


class _GpuPrice(click.ParamType[tuple[str, float]]):
    """``gpu=usd_per_hour``."""

    name = "gpu=usd"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """Split at the last equals sign."""
        key, equals, usd = str(value).rpartition("=")
        if not equals or not key:
            self.fail(
                f"{value!r}: expected GPU=USD_PER_HOUR, as in h100-sxm-80gb=2.49", param, ctx
            )
        return key, _Number("price").convert(usd, param, ctx)


_USD = _Number("dollar amount")
_MS = _Number("duration", _UNITS_MS)
_RATE = _Number("rate", _UNITS_PER_S)


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
@click.option("--gpu", "gpus", multiple=True, help="Only these GPUs (h100-sxm-80gb, l40s ...).")
@click.option("--provider", "providers", multiple=True, help="Only these providers.")
@click.option(
    "--purchase",
    "purchases",
    multiple=True,
    default=("on-demand",),
    show_default=True,
    type=click.Choice(["on-demand", "spot"]),
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
    type=_GpuPrice(),
    help="Your price: GPU=USD an hour; 'profile' is the profiled machine.",
)
@click.option("--rate", type=_RATE, help="Requests: 6/s, 300/min.")
@click.option("--tokens-per-month", type=_Number("token count"), help="Output tokens a month.")
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
    from capplan.cli.recommend_request import build_request
    from capplan.files import write_atomic

    output: Path | None = options["output"]
    fmt = chosen_format(options["fmt"], output)
    profiles = [api.load_profile(path) for path in options["profiles"]]
    request = build_request(options, profiles)
    plan = api.recommend(request, profiles)
    if options["plan_json"] is not None:
        write_atomic(options["plan_json"], api.render(plan, "json"))
    if output is not None:
        click.echo(plan.verdict.sentence, err=True)
    deliver(api.render(plan, fmt), output)
    return 0 if plan.verdict.feasible else 3
