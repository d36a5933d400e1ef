"""Options of ``capplan profile``, by family."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def _finite(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
    """Refuse NaN and infinity, which every range check lets through."""
    values = value if isinstance(value, tuple) else (value,)
    if any(v is not None and not math.isfinite(v) for v in values):
        raise click.BadParameter("must be a finite number")
    return value


def _device(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    name, _, number = value.partition(":")
    if value in ("auto", "cpu", "cuda") or (name == "cuda" and number.isdigit()):
        return value
    raise click.BadParameter(f"{value!r} is none of auto, cpu, cuda, cuda:N")


METHODS = ("draft_model", "ngram", "eagle", "eagle3", "mtp", "suffix", "dflash", "medusa")
"""Ways to draft, by vLLM's names."""

_OPTIONS = {
    "what drafts": (
        click.option("--draft", metavar="D", help="Smaller LLM that drafts: directory, id, GGUF."),
        click.option(
            "--method",
            type=click.Choice(METHODS),
            help="How to draft. Default: draft_model with --draft. All but ngram need vllm.",
        ),
        click.option("--prompt-lookup-min", type=click.IntRange(1), help="Default 2."),
        click.option("--prompt-lookup-max", type=click.IntRange(1), help="Default 4."),
    ),
    "how it runs": (
        click.option("--demo", is_flag=True, help="Profile the embedded LLM (no TARGET)."),
        click.option(
            "--backend",
            default="torch",
            show_default=True,
            help="What runs it: torch, vllm.",
        ),
        click.option(
            "--tensor-parallel",
            type=click.IntRange(1),
            default=1,
            show_default=True,
            help="GPUs that share the LLM (vllm).",
        ),
        click.option(
            "--gpu-memory-utilization",
            type=click.FloatRange(0, 1, min_open=True),
            callback=_finite,
            help="Share of the GPU that the engine takes (vllm). Default 0.9.",
        ),
        click.option(
            "--rejection",
            type=click.Choice(["standard", "synthetic"]),
            default="standard",
            help="synthetic: also time rounds accepted by chance (vllm on a GPU).",
        ),
        click.option(
            "--weights",
            type=click.Choice(["real", "dummy"]),
            default="real",
            help="dummy: random weights, only times are measured.",
        ),
        click.option(
            "--device", default="auto", callback=_device, help="auto, cpu, cuda, cuda:N."
        ),
        click.option("--dtype", default="auto", help="auto, bfloat16, float16, float32."),
        click.option(
            "--seed", type=int, default=0, show_default=True, help="Of sampling and dummy weights."
        ),
    ),
    "how much": (
        click.option(
            "--prompts",
            type=click.Path(path_type=Path),
            multiple=True,
            help="Text, JSON lines, ShareGPT or Spec-Bench file. Repeatable: a task each.",
        ),
        click.option(
            "--temperature",
            "temperatures",
            type=click.FloatRange(0),
            multiple=True,
            callback=_finite,
            help="Repeatable. Default 0 and 0.8.",
        ),
        click.option("--max-tokens", type=click.IntRange(2), help="Tokens written a request."),
        click.option("--num-requests", type=click.IntRange(1), help="Requests a task."),
        click.option(
            "--length",
            "lengths",
            type=click.IntRange(1, 16),
            multiple=True,
            help="Drafts a round to run; repeatable.",
        ),
        click.option(
            "--batch",
            "batches",
            type=click.IntRange(1),
            multiple=True,
            help="Requests at once to time; repeatable.",
        ),
        click.option(
            "--context",
            "contexts",
            type=click.IntRange(1),
            multiple=True,
            help="Context length to time, in tokens; repeatable.",
        ),
        click.option(
            "--budget-minutes",
            type=click.FloatRange(0, min_open=True),
            callback=_finite,
            help="Stop in good order after this time.",
        ),
    ),
    "the file": (
        click.option("--resume", is_flag=True, help="Go on with an unfinished profile."),
        click.option("--force", is_flag=True, help="Overwrite."),
        click.option(
            "-o",
            "--output",
            type=click.Path(path_type=Path, dir_okay=False),
            default=Path("profile.json"),
            show_default=True,
        ),
    ),
}


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add every option to a command."""
    for family in reversed(_OPTIONS.values()):
        for option in reversed(family):
            function = option(function)
    return function
