"""``capplan memory``: what fits on a GPU as the engine allots it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import click

from capplan.cli.numbers import TokenCount
from capplan.schema.memory import VERSION, KvDtype
from capplan.schema.pairing import Method
from capplan.units import BYTES_PER_GIB

_EXAMPLES = """\b
Examples:
  capplan memory Qwen/Qwen3-32B --gpu h100-sxm-80gb --tp 2
  capplan memory Qwen/Qwen3-8B --gpu l40s --draft Qwen/Qwen3-0.6B -n 4 \\
      --prompt-tokens 1500 --output-tokens 400
  capplan memory ./my-checkpoint --gpu h100-sxm-80gb --max-model-len 32768 --kv-dtype fp8
  capplan memory gpt-oss-120b --gpu h100-sxm-80gb --gpu-memory-gib 79.18 \\
      --activation-gib 7.38 --engine-version 0.11 --utilisation 0.95 --context 16K
"""

_MEASURED = {
    "gpu_memory": "What CUDA hands out of the GPU, as the engine prints it (a/b GiB: b).",
    "weights": "What loading took of one GPU, draft included.",
    "activation": "Measured peak activation.",
    "non_torch": "Measured memory outside torch.",
    "cuda_graph": "Measured memory of CUDA graphs, where the engine sets it aside.",
    "kv_pool": "What the engine printed as available for KV; the parts are held against it.",
    "kv_cache_memory": "Pool asked of the engine outright (its --kv-cache-memory-bytes).",
}
_FIELDS = {"weights": "weight"}
"""Fields of the request that are not named as their option."""


def _measured_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that replace estimates by measured values."""
    for name, text in reversed(_MEASURED.items()):
        flag = f"--{name.replace('_', '-')}-gib"
        command = click.option(flag, type=click.FloatRange(min=0), help=text)(command)
    return command


def _version(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not VERSION.fullmatch(value):
        raise click.BadParameter(f"{value!r} is no version such as 0.11 or 0.33.0.")
    return value


@click.command("memory", epilog=_EXAMPLES)
@click.argument("target")
@click.option("--gpu", required=True, help="GPU id (capplan facts gpus).")
@click.option(
    "--tp",
    "tensor_parallel",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="GPUs that share one replica.",
)
@click.option("--draft", help="Draft or head: id or directory.")
@click.option(
    "--draft-tp",
    "draft_tensor_parallel",
    type=click.IntRange(min=1),
    help="GPUs that share the draft; as the target by default.",
)
@click.option(
    "--method",
    type=click.Choice([method.value for method in Method]),
    help="How drafts are made; draft_model where --draft names an LLM.",
)
@click.option(
    "-n",
    "--num-speculative-tokens",
    type=click.IntRange(min=1),
    help="Tokens drafted a round; 1 where a draft is given.",
)
@click.option("--probabilistic-drafts", is_flag=True, help="The engine keeps the draft's logits.")
@click.option(
    "--utilisation",
    "--gpu-memory-utilization",
    "utilisation",
    type=click.FloatRange(0, 1, min_open=True),
    help="Share of the GPU for the engine; the version's default.",
)
@click.option(
    "--max-model-len",
    "--context",
    "max_model_len",
    type=TokenCount(),
    help="Longest request; the checkpoint's own limit by default, which is often too long.",
)
@click.option("--max-num-seqs", type=click.IntRange(min=1), help="The engine's by default.")
@click.option("--max-num-batched-tokens", type=TokenCount(), help="The engine's by default.")
@click.option(
    "--kv-dtype",
    type=click.Choice(get_args(KvDtype)),
    default="auto",
    show_default=True,
    help="Of the KV cache; auto is what the checkpoint asks for, else 16 bits.",
)
@click.option(
    "--prefix-caching/--no-prefix-caching",
    default=None,
    help="Matters to LLMs with states only, which take a page more; the version's default.",
)
@click.option("--prompt-tokens", type=click.IntRange(min=1), help="Of the workload.")
@click.option("--output-tokens", type=click.IntRange(min=1), help="Of the workload.")
@click.option(
    "--engine-version",
    metavar="X.Y",
    callback=_version,
    help="Version of vLLM; 0.33 by default.",
)
@_measured_options
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to print.",
)
def command(fmt: str, **options: Any) -> int:
    """Say what fits on a GPU as the engine allots it, and by how much it does not.

    TARGET is an id or the directory of a checkpoint. Exit code 3 where it does not fit.
    """
    from pydantic import ValidationError

    from capplan.api.memory import plan_memory
    from capplan.reporting.memory_text import render_memory
    from capplan.schema.memory import MemoryRequest

    for name in _MEASURED:
        size_gib = options.pop(f"{name}_gib")
        options[f"{_FIELDS.get(name, name)}_bytes"] = (
            None if size_gib is None else size_gib * BYTES_PER_GIB
        )
    try:
        request = MemoryRequest(**_drafting(options))
    except ValidationError as error:
        raise click.UsageError("; ".join(item["msg"] for item in error.errors())) from error
    use = plan_memory(request)
    click.echo(
        use.model_dump_json(indent=2) if fmt == "json" else render_memory(use), nl=fmt == "json"
    )
    return 0 if use.fits else 3


def _drafting(options: dict[str, Any]) -> dict[str, Any]:
    """Complete method and length where a draft is given without them."""
    method, length = options.pop("method"), options.pop("num_speculative_tokens")
    if options["draft"] is not None or method not in (None, Method.NONE.value):
        length = length or 1
    elif length is not None:
        raise click.UsageError("-n drafts with nothing: add --draft or --method.")
    return options | {
        "method": method or Method.NONE.value,
        "num_speculative_tokens": length or 0,
    }
