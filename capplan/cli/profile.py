"""``capplan profile``: measure a pairing on this machine."""

from __future__ import annotations

from typing import Any

import click

from capplan.cli.profile_options import with_options
from capplan.cli.progress import shown

_LOOKUP_MIN, _LOOKUP_MAX = 2, 4
_PLAIN = (
    *("draft", "backend", "device", "dtype", "weights", "prompts", "seed"),
    *("budget_minutes", "resume", "force", "output"),
)
"""Options that the request takes over as they are."""
_EXAMPLES = """\b
Examples:
  capplan profile --demo -o profile.json
  capplan profile Qwen/Qwen3-8B --draft Qwen/Qwen3-0.6B -o profile.json
  capplan profile ./llama-8b --method ngram --prompts chats.jsonl --temperature 0 --temperature 1
  capplan profile Qwen/Qwen3-32B --draft Qwen/Qwen3-0.6B --weights dummy --budget-minutes 5
  capplan profile --demo -o profile.json --resume
"""


@click.command("profile", epilog=_EXAMPLES)
@click.argument("target", required=False)
@with_options
def command(target: str | None, **options: Any) -> None:
    """Measure cost ratios, acceptance, memory and power of TARGET on this machine.

    TARGET is a Hugging Face directory, an id in the local cache, or a .gguf file. Every finished
    cell is on disk at once: a run that was stopped goes on with --resume.
    """
    lookup = _lookup(target, options)
    from profiler.session import SessionRequest, Wishes, run_session

    wishes = Wishes(
        temperatures=tuple(sorted(set(options["temperatures"]))) or None,
        batches=tuple(sorted(set(options["batches"]))) or None,
        contexts=tuple(sorted(set(options["contexts"]))) or None,
        max_tokens=options["max_tokens"],
        requests_per_task=options["num_requests"],
    )
    request = SessionRequest(
        target=target, prompt_lookup=lookup, wishes=wishes, **{k: options[k] for k in _PLAIN}
    )
    with shown() as show:
        stored = run_session(request, on_progress=show)
    from capplan.api.profiles import summarise_profile

    click.echo(summarise_profile(stored))
    if not stored.profile.complete:
        click.echo(f"Cells are missing ({request.output}); go on with --resume.", err=True)


def _lookup(target: str | None, options: dict[str, Any]) -> tuple[int, int] | None:
    """Return (min, max) of prompt lookup, or None; refuse what contradicts itself."""
    if (target is None) != options["demo"]:
        raise click.UsageError("Give a TARGET or --demo, one of the two.")
    if options["draft"] and options["method"]:
        raise click.UsageError("--draft and --method ngram exclude each other.")
    low, high = options["prompt_lookup_min"], options["prompt_lookup_max"]
    is_lookup = options["method"] == "ngram" or (options["demo"] and not options["draft"])
    if not is_lookup and (low or high):
        raise click.UsageError("--prompt-lookup-min and -max need --method ngram.")
    if not is_lookup:
        return None
    high = high or max(_LOOKUP_MAX, low or 0)
    low = low or min(_LOOKUP_MIN, high)
    if low > high:
        raise click.UsageError(f"--prompt-lookup-min {low} exceeds --prompt-lookup-max {high}.")
    return low, high
