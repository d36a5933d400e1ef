"""``capplan facts resolve``: which GPU a device name, label or instance type means."""

from __future__ import annotations

import json
from typing import Any

import click

from capplan.facts import rendering
from capplan.facts.catalog import load_catalog
from capplan.facts.gpu_names import Answer, Unresolved
from capplan.facts.listing import Listing
from capplan.units import BYTES_PER_GIB

_EXAMPLES = """\b
Examples:
  capplan facts resolve "NVIDIA A100-SXM4-80GB MIG 3g.40gb"
  capplan facts resolve p4d.24xlarge Standard_NC80adis_H100_v5
  capplan facts resolve a100 --memory-mib 81920
"""

_HEADERS = (
    *("name", "GPU", "count", "form", "slice"),
    *("GB each", "GB in all", "GiB each", "GiB in all", "taken for"),
)


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
    help="How to print.",
)
@click.pass_context
def resolve(
    context: click.Context, names: tuple[str, ...], memory_mib: float | None, output: str
) -> None:
    """Say which GPU a name means; exit code 1 if one of them means none, or several.

    Names are those of drivers (nvidia-smi, PyTorch), of Kubernetes labels and resources, of
    cloud instance types, of MIG slices and virtual GPUs.
    """
    known = load_catalog().gpu_names
    answers = [(name, known.look_up(name, memory_mib)) for name in names]
    if output == "json":
        records = [_record(name, answer) for name, answer in answers]
        click.echo(json.dumps(records, indent=2, ensure_ascii=False))
    else:
        _print(answers)
    if any(isinstance(answer, Unresolved) for _, answer in answers):
        context.exit(1)


def _record(name: str, answer: Answer) -> dict[str, Any]:
    if isinstance(answer, Unresolved):
        return {
            "name": name,
            "resolved": False,
            "reason": answer.reason.value,
            "message": answer.message,
            "choices": list(answer.choices),
        }
    facts = answer.model_dump(mode="json")
    total = answer.total_memory_bytes
    return {
        "name": name,
        "resolved": True,
        **facts,
        "memory_gib": answer.memory_bytes / BYTES_PER_GIB,
        "total_memory_gb_nominal": answer.total_memory_gb_nominal,
        "total_memory_bytes": total,
        "total_memory_gib": total / BYTES_PER_GIB,
    }


def _print(answers: list[tuple[str, Answer]]) -> None:
    """Print a table of what was resolved; the rest, with its choices, to standard error."""
    rows = tuple(
        (
            name,
            answer.gpu,
            str(answer.count),
            answer.form_factor,
            f"{answer.slice.kind.value} {answer.slice.profile}" if answer.slice else "",
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
