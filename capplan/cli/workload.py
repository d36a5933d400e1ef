"""``capplan workload``: what was understood of workload files and traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from capplan.cli.examples import examples
from capplan.cli.numbers import RATE, TOKENS
from capplan.cli.output import deliver
from capplan.cli.workload_options import NamedShare, changed_by, named_columns

_EXAMPLES = examples(
    "workload chat.yaml",
    "workload AzureLLMInferenceTrace_conv.csv -o conv.yaml",
    "workload BurstGPT_1.csv --peak-window 1 --temperature 0.7 --cache-hit-rate 0.4",
    "workload week.json -o chat.yaml",
    "workload log.jsonl --column prompt=usage.in --column output=usage.out --time-unit ms",
    "workload chat.yaml code.yaml --format json",
)


@click.command("workload", epilog=_EXAMPLES)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--rate", type=RATE, help="Mean rate instead of the file's: 6/s, 300/min.")
@click.option("--peak-rate", type=RATE, help="Rate of the busiest minutes.")
@click.option(
    "--tokens-per-month",
    type=TOKENS,
    help="Output tokens a month instead of a rate: 2e9, 2B, 500M.",
)
@click.option("--temperature", type=click.FloatRange(0), help="Of sampling.")
@click.option("--task", help="What the requests are about.")
@click.option(
    "--task-share",
    "task_shares",
    multiple=True,
    type=NamedShare(),
    help="A task's share of the requests: code=0.6; may be repeated.",
)
@click.option(
    "--temperature-share",
    "temperature_shares",
    multiple=True,
    type=NamedShare(of_numbers=True),
    help="A temperature's share: 0.7=0.5; may be repeated.",
)
@click.option("--thinking-share", type=click.FloatRange(0, 1), help="Of requests that think.")
@click.option(
    "--cache-hit-rate",
    type=click.FloatRange(0, 1, max_open=True),
    help="Share of the prompt tokens that the prefix cache holds.",
)
@click.option(
    "--peak-window",
    type=click.Choice(["1", "5", "15"]),
    default="5",
    show_default=True,
    help="Minutes over which a peak is taken.",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="ROLE=NAME",
    help="Column of a trace: timestamp=, prompt= or output=.",
)
@click.option(
    "--time-unit", type=click.Choice(["s", "ms", "us", "ns"]), help="Of a trace's numeric times."
)
@click.option("--format", "fmt", type=click.Choice(["table", "json", "yaml"]))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write here; a .yaml file is a workload file, for --workload.",
)
def command(files: tuple[Path, ...], fmt: str | None, output: Path | None, **options: Any) -> None:
    """Show what FILES say of the load: workload files, traces, counters that Prometheus kept.

    Traces are CSV, JSON lines or Parquet with a time, prompt tokens and output tokens a request;
    the layouts of the Azure LLM inference, BurstGPT and Mooncake traces are known. Counters are
    the JSON answer of /api/v1/query_range about an engine's own metrics. Several files are several
    services on one fleet.
    """
    from capplan.api.workloads import services_of, understand
    from capplan.reporting.workload_text import render_workload
    from capplan.workloads.trace_file import TraceOptions
    from capplan.workloads.workload_file import workload_yaml

    report = understand(
        files,
        TraceOptions(named_columns(options["columns"]), options["time_unit"]),
        f"{options['peak_window']} min",
        changed_by(options),
    )
    fmt = fmt or _format_of(output)
    if fmt == "json":
        text = report.model_dump_json(indent=1) + "\n"
    elif fmt == "yaml":
        origin = ", ".join(path.name for path in files)
        text = workload_yaml(services_of(report), f"Made by capplan workload from {origin}")
    else:
        text = render_workload(report)
    if output is not None and fmt == "yaml":
        click.echo(render_workload(report), nl=False)
    deliver(text, output)


def _format_of(output: Path | None) -> str:
    suffix = output.suffix.lower() if output is not None else ""
    return {".yaml": "yaml", ".yml": "yaml", ".json": "json"}.get(suffix, "table")
