"""``capplan import``: read what other tools measured, and say what it does not allow."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from capplan.cli.terminal import say_error

if TYPE_CHECKING:
    from capplan.api.imports import ImportedResults
    from capplan.profiles.importers.reading import Known

_EXAMPLES = """\b
Examples:
  capplan import bench-c32.json
  capplan import results/ --target Qwen/Qwen3-8B --draft Qwen/Qwen3-0.6B --temperature 0 \\
      -o imported.json
  capplan import after.prom --before before.prom --format json
  capplan recommend --profile imported.json --budget 20000 --rate 2
"""
_PATH = click.Path(path_type=Path)


@click.command("import", epilog=_EXAMPLES)
@click.argument("files", nargs=-1, required=True, type=_PATH)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the observations as a profile, for recommend --profile.",
)
@click.option("--target", default="", help="LLM that was served, where the files do not say.")
@click.option("--draft", default="", help="What drafted: an LLM, a head, ngram or mtp.")
@click.option("--method", default="", help="How it drafted (draft_model, eagle3, mtp, ngram ...).")
@click.option(
    "--num-speculative-tokens",
    type=click.IntRange(min=1),
    help="N, where only the tokens of a round are printed.",
)
@click.option("--temperature", type=click.FloatRange(min=0), help="Temperature of the requests.")
@click.option("--gpu", default="", help="GPU that served (h100-sxm-80gb, l40s ...).")
@click.option("--gpu-count", type=click.IntRange(min=1), help="How many of them.")
@click.option("--before", type=_PATH, help="Prometheus text taken before the one in FILES.")
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to print.",
)
def command(files: tuple[Path, ...], **options: Any) -> int:
    """Read result files of other tools; folders and patterns will do.

    vllm bench, SGLang, GuideLLM, AIPerf, genai-perf, inference-perf, InferenceX, llmperf,
    trtllm-bench, server logs and Prometheus text are known by their content. Figures are compared
    with each other; what contradicts itself or was not made for a use is flagged, never mended.
    Two files of Prometheus text are a window, the earlier first. The exit code is 1 if a file
    could not be read; the others are printed and written all the same.
    """
    from capplan.api.imports import import_results

    results = import_results(files, before=options["before"], known=_known(options))
    _show(results, options["fmt"])
    for name, error in results.left_out.items():
        click.echo(f"Left out {name}: {error.message}", err=True)
    for name, failure in results.failures.items():
        say_error(f"Error: {name}: {failure.message}", failure.remedy)
    if options["output"] is not None and results.observations:
        _write(results, options)
    return 0 if results.observations and not results.failures else 1


def _known(options: dict[str, Any]) -> Known:
    from capplan.api.imported_profile import gpu_name
    from capplan.profiles.importers.reading import Known
    from capplan.schema.pairing import Method

    method = options["method"]
    if method and method not in {one.value for one in Method}:
        known = ", ".join(one.value for one in Method)
        raise click.UsageError(f"--method {method}: choose one of {known}.")
    return Known(
        method=Method(method) if method else None,
        num_speculative_tokens=options["num_speculative_tokens"],
        temperature=options["temperature"],
        gpu=gpu_name(options["gpu"]) if options["gpu"] else "",
        gpu_count=options["gpu_count"],
    )


def _show(results: ImportedResults, fmt: str) -> None:
    from capplan.cli.facts_output import show_listing
    from capplan.facts.listing import Listing
    from capplan.reporting.observation_table import HEADERS, flag_lines, observation_rows

    if fmt == "json":
        document = {
            "schema_version": 1,
            "observations": [one.model_dump(mode="json") for one in results.observations],
            "failures": {name: str(error) for name, error in results.failures.items()},
        }
        sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
        return
    if not results.observations:
        return
    show_listing(Listing("observations", HEADERS, observation_rows(results.observations), ()), fmt)
    lines = list(flag_lines(results.observations))
    if lines:
        click.echo("\n" + "\n".join(lines))


def _write(results: ImportedResults, options: dict[str, Any]) -> None:
    from capplan.api.imported_profile import profile_of_results
    from capplan.profiles.store import save_profile
    from capplan.schema.pairing import Method

    profile = profile_of_results(
        results,
        target=options["target"],
        draft=options["draft"],
        method=Method(options["method"]) if options["method"] else None,
    )
    save_profile(options["output"], profile, {})
    click.echo(f"Written to {options['output']}", err=True)
