"""Entry point: finds commands lazily and turns errors into exit codes."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module

import click

import capplan
from capplan.cli.terminal import guarded, say_error
from capplan.errors import CapplanError, Interrupted

_COMMANDS = {
    "batch": "Run many profiles and plans, here or on a Ray cluster; go on where a run ended.",
    "breakeven": "Compare a plan's monthly bill with what a hosted API would charge.",
    "calibrate": "Fit an engine's constants on a GPU to profiles taken there.",
    "claims": "Audit a popular guide: each figure reproduced, or what speaks against it.",
    "cost": "Turn a price an hour into a month's bill and dollars a million tokens.",
    "diff": "Say what changed between two profiles or two plans, and whether a plan stands.",
    "doctor": "Say what is installed, which GPUs are seen and which backends would work.",
    "import": "Read result files of other tools; what they do not allow to conclude is flagged.",
    "facts": "Look up GPUs, LLMs, pairings and prices, with their sources.",
    "launch": "Write what starts a plan's option on an engine, or rewrite an old command.",
    "load": "Simulate a served load: latencies, throughput and queue at each rate.",
    "prices": "List, check and refresh what GPUs cost.",
    "pair": "Say whether a draft can work for a target, or what could.",
    "memory": "Say what fits on a GPU as the engine allots it, and by how much it does not.",
    "profile": "Measure cost ratios, acceptance, memory and power on this machine.",
    "prompts": "Compare sets of prompts on one profile, and what each is worth in dollars.",
    "recommend": "Rank the ways to serve a load within a budget.",
    "report": "Render a plan file as HTML, table, CSV, JSON or FOCUS-shaped rows.",
    "simulate": "Replay ways to choose the draft length on traced requests.",
    "validate": "Compare estimates with published measurements: error, bias, sign, coverage.",
    "workload": "Show what a workload file or a trace of requests says of the load.",
    "what-if": "Ask what a plan becomes: sensitivity, growth, autoscaling, spares, spot, terms.",
    "watch": "Show a live server's acceptance, tokens a round, speedup and alarms.",
    "schedule": "Compute draft lengths by batch for vLLM, and by how much they beat one length.",
    "schema": "Print the JSON Schema of profile, plan and calibration files.",
}

_MODULES = {"import": "import_results", "what-if": "what_if"}
"""Where a command's module is called otherwise: a keyword or a hyphen is in no module name."""

_EXAMPLES = """\b
Examples:
  capplan profile --demo -o profile.json
  capplan recommend --target Qwen/Qwen3-32B --budget 20000 --rate 2
  capplan facts show h100-sxm-80gb
"""


class _LazyGroup(click.Group):
    """Imports a command's module only when it is used: ``capplan --help`` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"capplan.cli.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


@click.group(
    cls=_LazyGroup,
    epilog=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 99},
)
@click.version_option(capplan.__version__, prog_name="capplan")
def cli() -> None:
    """Plan speculative decoding: which draft, what length, how many GPUs, what it costs."""


def _fail(error: CapplanError) -> None:
    say_error(f"Error: {error.message}", error.remedy)
    sys.exit(error.exit_code)


def main() -> None:
    """Run the command line. Exit codes: 0 answer, 1 error, 2 misuse, 3 no feasible plan."""
    with guarded():
        try:
            _main()
        except Exception:  # noqa: BLE001 - a defect; its text is shown as guarded as any other
            traceback.print_exc()
            sys.exit(1)


def _main() -> None:
    try:
        exit_code = cli.main(prog_name="capplan", standalone_mode=False)
    except CapplanError as error:
        _fail(error)
    except click.exceptions.Abort:
        _fail(Interrupted("Interrupted.", "Nothing half-written was left behind."))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    else:
        sys.exit(exit_code if isinstance(exit_code, int) else 0)
