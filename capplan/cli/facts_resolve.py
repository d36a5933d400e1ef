"""``capplan facts resolve``: which GPU a device name, label or instance type means."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from capplan.facts import rendering
from capplan.facts.catalog import load_catalog
from capplan.facts.gpu_names import Answer, Unresolved
from capplan.facts.listing import Listing
from capplan.schema.gpu import GpuSlice, SliceKind
from capplan.units import BYTES_PER_GIB

_EXAMPLES = """\b
Examples:
  capplan facts resolve "NVIDIA A100-SXM4-80GB MIG 3g.40gb"
  capplan facts resolve p4d.24xlarge Standard_NC80adis_H100_v5
  capplan facts resolve h100 --memory-mib 95830
  nvidia-smi --query-gpu=name,memory.total --format=csv,noheader | capplan facts resolve -
"""

_HEADERS = (
    *("name", "GPU", "count", "form", "slice"),
    *("GB each", "GB in all", "GiB each", "GiB in all", "taken for"),
)
_KINDS = {SliceKind.MIG: "MIG ", SliceKind.VGPU: "vGPU ", SliceKind.SHARED: ""}


@click.command("resolve", epilog=_EXAMPLES)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--memory-mib",
    type=click.FloatRange(min=0, min_open=True, max=1e9),
    help="Memory that the device reports: it decides between boards of one name.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to print; JSON is a list with an object for every name, in their order.",
)
@click.pass_context
def resolve(
    context: click.Context, names: tuple[str, ...], memory_mib: float | None, output: str
) -> None:
    """Say which GPU a name means; exit code 1 if one of them means none, or several.

    Names are those of drivers (nvidia-smi, PyTorch), of Kubernetes labels and resources, of
    cloud instance types, of MIG slices and virtual GPUs. NAME - reads them from standard input,
    one a line; a line may end in the memory, as nvidia-smi prints it.

    In JSON a name has name, gpu, count, form_factor, slice (kind, profile, compute_fraction;
    null for whole GPUs), memory_gb_each, memory_gb_total, memory_bytes_each and how. One that
    means no GPU, or several, has name, error, reason (ambiguous, unknown, contradiction) and
    choices.
    """
    known = load_catalog().gpu_names
    answers = [(name, known.look_up(name, memory_mib)) for name in _every(names)]
    if not answers:
        raise click.UsageError("No names on standard input.")
    if output == "json":
        records = [_record(name, answer) for name, answer in answers]
        click.echo(json.dumps(records, indent=2, ensure_ascii=False))
    else:
        _print(answers)
    if any(isinstance(answer, Unresolved) for _, answer in answers):
        context.exit(1)


def _every(names: tuple[str, ...]) -> list[str]:
    """Return the names, with the lines of standard input where ``-`` stands."""
    found: list[str] = []
    for name in names:
        if name != "-":
            found.append(name)
            continue
        lines = sys.stdin.buffer.read().decode("utf-8", "replace").splitlines()
        found.extend(line.strip() for line in lines if line.strip())
    return found


def _record(name: str, answer: Answer) -> dict[str, Any]:
    if isinstance(answer, Unresolved):
        return {
            "name": name,
            "error": answer.message,
            "reason": answer.reason.value,
            "choices": list(answer.choices),
        }
    return {
        "name": name,
        "gpu": answer.gpu,
        "count": answer.count,
        "form_factor": answer.form_factor,
        "slice": answer.slice.model_dump(mode="json") if answer.slice else None,
        "memory_gb_each": answer.memory_gb_nominal,
        "memory_gb_total": answer.total_memory_gb_nominal,
        "memory_bytes_each": round(answer.memory_bytes),
        "how": answer.how,
    }


def _slice(piece: GpuSlice | None) -> str:
    return f"{_KINDS[piece.kind]}{piece.profile}" if piece else ""


def _print(answers: list[tuple[str, Answer]]) -> None:
    """Print a table of what was resolved; the rest, with its choices, to standard error."""
    rows = tuple(
        (
            name,
            answer.gpu,
            str(answer.count),
            answer.form_factor,
            _slice(answer.slice),
            f"{answer.memory_gb_nominal:g}",
            f"{answer.total_memory_gb_nominal:g}",
            f"{answer.memory_bytes / BYTES_PER_GIB:,.1f}",
            f"{answer.total_memory_bytes / BYTES_PER_GIB:,.1f}",
            answer.how,
        )
        for name, answer in answers
        if not isinstance(answer, Unresolved)
    )
    if rows:
        click.echo(rendering.to_plain_table(Listing("names", _HEADERS, rows, ())))
    for _, answer in answers:
        if isinstance(answer, Unresolved):
            click.echo(f"{answer.message}\n  {answer.remedy}", err=True)
