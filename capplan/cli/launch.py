"""``capplan launch``: from a plan to the engine, and old commands made new."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from capplan.cli.numbers import TokenCount
from capplan.cli.output import deliver

if TYPE_CHECKING:
    from capplan.deploy.text import LaunchText

_EXAMPLES = """\b
Examples:
  capplan launch plan.json
  capplan launch plan.json --engine vllm==0.32 --as python -o serve.py
  capplan launch plan.json --option 2 --as kubernetes -o serve.yaml
  capplan launch plan.json --target-path /models/target --draft-path /models/draft
  capplan launch plan.json --service chat
  capplan launch plan.json --lengths '[[1,16,3],[17,64,1],[65,256,0]]'
  capplan launch --migrate 'vllm serve a/b --speculative-model c/d --num-speculative-tokens 5'
"""


@click.command("launch", epilog=_EXAMPLES)
@click.argument(
    "plan_file", metavar="[PLAN.json]", required=False, type=click.Path(path_type=Path)
)
@click.option(
    "--engine",
    help="Engine with its version: vllm==0.33, the default, or vllm==0.32, that on a CPU.",
)
@click.option(
    "--as",
    "form",
    type=click.Choice(["command", "python", "kubernetes"]),
    default="command",
    show_default=True,
    help="What to write: a shell command, a Python file, or manifests.",
)
@click.option("--option", "rank", type=click.IntRange(1), help="Which option of the plan.")
@click.option("--best", is_flag=True, help="The recommended option, which is the default.")
@click.option("--service", help="Of several services: the replicas that serve this one alone.")
@click.option("--target-path", help="Load the target from here instead of the plan's id.")
@click.option("--draft-path", help="Load the draft from here.")
@click.option("--lengths", help="Lengths by batch: [[first batch, last batch, N], ...].")
@click.option(
    "--draft-sampling",
    type=click.Choice(["greedy", "probabilistic"]),
    help="How drafts are drawn. Default: as the plan's acceptance was counted, else greedy.",
)
@click.option("--max-model-len", type=TokenCount(), help="Longest request to serve, in tokens.")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True)
@click.option("--migrate", metavar="COMMAND", help="Rewrite this old command instead.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write here instead of to the terminal.",
)
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The text alone, or with the settings it is made of.",
)
def command(
    plan_file: Path | None,
    engine: str | None,
    form: str,
    rank: int | None,
    best: bool,
    service: str | None,
    target_path: str | None,
    draft_path: str | None,
    lengths: str | None,
    draft_sampling: str | None,
    max_model_len: int | None,
    port: int,
    migrate: str | None,
    output: Path | None,
    fmt: str,
) -> int:
    """Write what starts an option of PLAN.json on an engine, or rewrite an old command.

    Nothing is run. Whatever the engine has a default for and the plan rests on is spelled out;
    known troubles stand on comment lines. Every form is fed to that version's own parser and
    configuration in the tests of capplan. Services on replicas of their own have a text each, with
    a comment that names them.

    --migrate takes a command of any age for vLLM's server, rewrites what the version does not
    take any more, and says why for each change; what it does not know it keeps and says so.

    Exit code 0: an answer. 3: the plan has no option. 1 or 2: an error.
    """
    if (plan_file is None) == (migrate is None):
        raise click.UsageError("Give either a plan file or --migrate COMMAND.")
    if best and rank not in (None, 1):
        raise click.UsageError("Give either --best or --option.")
    if migrate is not None:
        return _migrate(migrate, engine, output, fmt)
    assert plan_file is not None
    from typing import cast

    from capplan.api.launching import launch
    from capplan.api.part_launching import launch_parts
    from capplan.deploy.lengths import parse_lengths
    from capplan.reporting.plan_file import load_plan
    from capplan.schema.pairing import DraftSampleMethod

    plan = load_plan(plan_file)
    if not plan.options:
        click.echo(f"Nothing to launch: {plan.verdict.sentence} {plan.verdict.needed}", err=True)
        return 3
    chosen: dict[str, Any] = {
        "engine": engine,
        "form": form,
        "rank": rank or 1,
        "draft_sampling": cast("DraftSampleMethod | None", draft_sampling),
        "max_model_len": max_model_len,
        "port": port,
    }
    of_one = {
        "--target-path": target_path,
        "--draft-path": draft_path,
        "--lengths": lengths,
    }
    if service is None and plan.fleet is not None and len(plan.fleet.parts) > 1:
        _all_parts_take(form, of_one)
        texts = launch_parts(plan, **chosen)
        deliver(_as_list(texts) if fmt == "json" else _joined(texts, form), output)
        return 0
    text = launch(
        plan,
        service=service,
        target_path=target_path,
        draft_path=draft_path,
        lengths=parse_lengths(lengths) if lengths is not None else (),
        **chosen,
    )
    deliver(text.model_dump_json(indent=2) + "\n" if fmt == "json" else text.text, output)
    return 0


def _all_parts_take(form: str, of_one: dict[str, str | None]) -> None:
    """Refuse what is of one server where several are started."""
    stated = [flag for flag, value in of_one.items() if value is not None]
    if form == "python":
        stated.insert(0, "--as python")
    if stated:
        raise click.UsageError(
            f"{stated[0]} is for one server, and the plan's services are on several sets of "
            "replicas: add --service NAME."
        )


def _joined(texts: Sequence[LaunchText], form: str) -> str:
    """Return one text; manifests are documents of one file."""
    between = "---\n" if form == "kubernetes" else "\n"
    return between.join(text.text for text in texts)


def _as_list(texts: Sequence[LaunchText]) -> str:
    return json.dumps([text.model_dump(mode="json") for text in texts], indent=2) + "\n"


def _migrate(old: str, engine: str | None, output: Path | None, fmt: str) -> int:
    from capplan.api.launching import migrate
    from capplan.deploy.migrate_text import render_migration

    migration = migrate(old, engine=engine) if engine else migrate(old)
    as_json = fmt == "json"
    deliver(
        migration.model_dump_json(indent=2) + "\n" if as_json else render_migration(migration),
        output,
    )
    return 0
