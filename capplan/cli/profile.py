"""``capplan profile``: measure a pairing on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from capplan.cli.profile_options import with_options
from capplan.cli.profile_server import asks_for_server, profile_server
from capplan.cli.profile_server_options import with_server_options
from capplan.cli.profile_verdict import refuse_damaged
from capplan.cli.progress import shown
from capplan.schema.pairing import Method

_LOOKUP_MIN, _LOOKUP_MAX = 2, 4
_DEMO_METHOD = "draft_model"
"""How the demo drafts unless told otherwise."""
_DRAFTERS = ("draft_model", "eagle", "eagle3", "dflash", "medusa")
"""Methods that take a checkpoint; the others draft without one."""
_PLAIN = (
    *("backend", "device", "dtype", "weights", "prompts", "seed"),
    *("tensor_parallel", "gpu_memory_utilization"),
    *("budget_minutes", "resume", "force", "output"),
)
"""Options that the request takes over as they are."""
_EXAMPLES = """\b
Examples:
  capplan profile --demo -o profile.json
  capplan profile --demo --method ngram --backend vllm -o profile-ngram.json
  capplan profile Qwen/Qwen3-8B --draft Qwen/Qwen3-0.6B -o profile.json
  capplan profile Qwen/Qwen3-8B --method eagle3 --draft ./head --backend vllm --length 3
  capplan profile ./llama-8b --method ngram --prompts chats.jsonl --temperature 0 --temperature 1
  capplan profile Qwen/Qwen3-8B --method ngram --prompts chats.json --prompts code.jsonl
  capplan profile Qwen/Qwen3-32B --draft Qwen/Qwen3-0.6B --weights dummy --budget-minutes 5
  capplan profile --demo -o profile.json --resume
  capplan profile Qwen/Qwen3-8B --server http://localhost:8000 --gpu l40s --rate 2
  capplan profile Qwen/Qwen3-8B --server http://localhost:8000 --observe 30
"""


@click.command("profile", epilog=_EXAMPLES)
@click.argument("target", required=False)
@with_options
@with_server_options
def command(target: str | None, **options: Any) -> None:
    """Measure cost ratios, acceptance, memory and power of TARGET on this machine.

    TARGET is a Hugging Face directory, an id in the local cache, or a .gguf file. Every finished
    cell is on disk at once: a run that was stopped goes on with --resume.
    """
    if asks_for_server(options):
        profile_server(target, options)
        return
    drafting = _drafting(target, options)
    from profiler.session import SessionRequest, Wishes, run_session

    wishes = Wishes(
        temperatures=tuple(sorted(set(options["temperatures"]))) or None,
        batches=tuple(sorted(set(options["batches"]))) or None,
        contexts=tuple(sorted(set(options["contexts"]))) or None,
        lengths=tuple(sorted(set(options["lengths"]))) or None,
        max_tokens=options["max_tokens"],
        requests_per_task=options["num_requests"],
    )
    request = SessionRequest(
        target=target,
        draft=drafting.draft,
        method=drafting.method,
        prompt_lookup=drafting.prompt_lookup,
        synthetic=options["rejection"] == "synthetic",
        wishes=wishes,
        **{k: options[k] for k in _PLAIN},
    )
    with shown() as show:
        stored = run_session(request, on_progress=show)
    from capplan.api.profiles import summarise_profile

    click.echo(summarise_profile(stored))
    if not stored.profile.complete:
        click.echo(f"Cells are missing ({request.output}); go on with --resume.", err=True)
    refuse_damaged(stored.profile)


@dataclass(frozen=True)
class _Drafting:
    """How drafts are made, as the options say it."""

    draft: str | None = None
    method: Method | None = None
    prompt_lookup: tuple[int, int] | None = None


def _drafting(target: str | None, options: dict[str, Any]) -> _Drafting:
    """Return how to draft; refuse what contradicts itself."""
    if (target is None) != options["demo"]:
        raise click.UsageError("Give a TARGET or --demo, one of the two.")
    draft, method = options["draft"], options["method"]
    if draft and method and method not in _DRAFTERS:
        raise click.UsageError(f"--draft and --method {method} exclude each other.")
    if method in _DRAFTERS and not draft and not (options["demo"] and method == "draft_model"):
        raise click.UsageError(f"--method {method} needs the checkpoint that drafts: --draft.")
    if method not in (None, "ngram", "draft_model") and options["backend"] == "torch":
        raise click.UsageError(f"--method {method} needs --backend vllm; torch knows ngram alone.")
    if options["demo"] and not draft and method is None:
        method = _DEMO_METHOD
    _refuse_engine_options(options)
    lookup = _lookup(options, is_lookup=method == "ngram")
    if lookup is not None:
        return _Drafting(None, Method.NGRAM, lookup)
    if method is None and draft:
        method = "draft_model"
    return _Drafting(draft, Method(method) if method else None)


def _refuse_engine_options(options: dict[str, Any]) -> None:
    """Refuse what only an engine understands where single passes are timed."""
    if options["backend"] != "torch":
        return
    asked = {
        "--tensor-parallel": options["tensor_parallel"] > 1,
        "--gpu-memory-utilization": options["gpu_memory_utilization"] is not None,
        "--rejection synthetic": options["rejection"] == "synthetic",
    }
    given = [name for name, is_given in asked.items() if is_given]
    if given:
        raise click.UsageError(f"{', '.join(given)} need --backend vllm.")


def _lookup(options: dict[str, Any], *, is_lookup: bool) -> tuple[int, int] | None:
    """Return (min, max) of prompt lookup, or None."""
    low, high = options["prompt_lookup_min"], options["prompt_lookup_max"]
    if not is_lookup and (low or high):
        raise click.UsageError("--prompt-lookup-min and -max need --method ngram.")
    if not is_lookup:
        return None
    high = high or max(_LOOKUP_MAX, low or 0)
    low = low or min(_LOOKUP_MIN, high)
    if low > high:
        raise click.UsageError(f"--prompt-lookup-min {low} exceeds --prompt-lookup-max {high}.")
    return low, high
