"""``capplan load``: latencies, throughput and queue of a machine under arrivals at random."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from capplan.cli.examples import examples
from capplan.cli.length_options import deliver_value, plan_options, to_file_options

_EXAMPLES = examples(
    "load profile.json",
    "load profile.json --rate 2 --rate 4 --prompt-tokens 800 --output-tokens 200 --length 3",
    "load profile.json --length 0 --share 0.5 --share 0.95 --batch 64 --kv-tokens 120000",
    "load plan.json --option 2 --profile h100.json --format json -o load.json",
    "load plan.json --schedule 1-8:4,9-32:2,33-256:0 --prefix-hit 0.4",
)
_RANGE = re.compile(r"\s*(\d+)\s*-\s*(\d+)\s*:\s*(\d+)\s*")


class Schedule(click.ParamType[tuple[tuple[int, int, int], ...]]):
    """N by batch: ``1-8:4,9-32:2``."""

    name = "FIRST-LAST:N,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[int, int, int], ...]:
        """Parse ranges."""
        if isinstance(value, tuple):
            return value
        ranges = []
        for part in str(value).split(","):
            match = _RANGE.fullmatch(part)
            if match is None:
                self.fail(f"{part.strip()!r} is not FIRST-LAST:N, as in 1-8:4,9-32:2", param, ctx)
            ranges.append((int(match[1]), int(match[2]), int(match[3])))
        return tuple(ranges)


@dataclass(frozen=True)
class _Step:
    """Progress as the bar takes it."""

    done: int
    total: int
    label: str
    eta_seconds: float | None = None


@click.command("load", epilog=_EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--rate",
    "rates_per_s",
    multiple=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Requests a second at all replicas together; repeatable.",
)
@click.option(
    "--share",
    "shares",
    multiple=True,
    type=click.FloatRange(min=0, max=2, min_open=True),
    help="Of the capacity, instead of rates; repeatable. Default 0.3, 0.6, 0.9.",
)
@click.option(
    "--prompt-tokens",
    type=click.IntRange(min=1),
    help="Of every request. Default: drawn as the plan's workload states; a profile's mean.",
)
@click.option(
    "--output-tokens",
    type=click.IntRange(min=1),
    help="Of every request. Default: drawn as the plan's workload states; a profile's mean.",
)
@click.option(
    "--prefix-hit",
    "prefix_hit_share",
    type=click.FloatRange(0, 1, max_open=True),
    help="Share of every prompt that a prefix cache holds; default: the plan's own, else 0.",
)
@click.option(
    "--length",
    "num_speculative_tokens",
    type=click.IntRange(0, 16),
    help="Drafts a round; the plan's, or the profile's best.",
)
@click.option("--schedule", type=Schedule(), default=(), help="N by batch instead.")
@click.option(
    "--batch",
    "max_num_seqs",
    type=click.IntRange(1, 4096),
    help="Most requests at a time (max-num-seqs); the plan's, or the largest measured.",
)
@click.option(
    "--batched-tokens",
    "max_num_batched_tokens",
    type=click.IntRange(min=1),
    help="Tokens of a step (max-num-batched-tokens).",
)
@click.option("--kv-tokens", type=click.IntRange(min=1), help="Tokens that the KV pool holds.")
@click.option("--temperature", type=click.FloatRange(min=0), help="Of the traffic.")
@click.option("--task", help="Of the traffic, as the profile names it.")
@click.option(
    "--requests",
    type=click.IntRange(10, 1_000_000),
    default=2000,
    show_default=True,
    help="To simulate at each rate.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of all that is random.")
@plan_options
@to_file_options
def command(
    file: Path,
    rank: int | None,
    service: str | None,
    profiles: tuple[Path, ...],
    calibrations: tuple[Path, ...],
    fmt: str | None,
    output: Path | None,
    **wishes: Any,
) -> None:
    """Simulate a served load on the machine of a profile or plan FILE.

    Continuous batching step by step: prompts in chunks, KV cache and queue as vLLM keeps them,
    accepted drafts at random as traced, requests arriving at random (Poisson). Prints time to
    first token, time per output token, throughput and queue at each rate.
    """
    from capplan.api.serving import simulate_serving
    from capplan.api.serving_wishes import DEFAULT_SHARES, ServingWishes
    from capplan.cli.progress import shown
    from capplan.profiles.calibration_file import load_calibration
    from capplan.profiles.store import load_profile
    from capplan.reporting.load_text import render_load

    if wishes["rates_per_s"] and wishes["shares"]:
        raise click.UsageError("State the load once: --rate or --share.")
    if wishes["schedule"] and wishes["num_speculative_tokens"] is not None:
        raise click.UsageError("State the lengths once: --length or --schedule.")
    wishes["shares"] = wishes["shares"] or DEFAULT_SHARES
    with shown() as show:
        found = simulate_serving(
            file,
            ServingWishes(**wishes),
            rank=rank,
            service=service,
            profiles=[load_profile(path) for path in profiles],
            calibrations=[load_calibration(path) for path in calibrations],
            on_progress=lambda done, total, label: show(_Step(done, total, label)),
        )
    deliver_value(found, render_load(found), fmt, output)
