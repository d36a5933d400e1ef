"""``capplan facts check``: whether a file of facts keeps the rules of models_db."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from capplan.cli.terminal import say_error

_EXAMPLES = """\b
Examples:
  capplan facts check                  all facts that capplan ships
  capplan facts check my-gpu.csv       a new file, as if it lay in models_db already
"""


@click.command("check", epilog=_EXAMPLES)
@click.argument("file", required=False, type=click.Path(path_type=Path))
def command(file: Path | None) -> None:
    """Check facts: rows, units, sources, dates, ids that must exist, figures that contradict.

    FILE is a CSV file with the columns of one family (gpus, models, pairings, acceptance, prices,
    claims): the header tells which. Exit code 1 if anything is wrong.
    """
    from capplan.facts.catalog import load_catalog
    from capplan.facts.contribution import check_all, check_file

    catalog = load_catalog()
    checked = check_all(catalog) if file is None else check_file(file, catalog)
    for problem in checked.problems:
        say_error(problem)
    if checked.problems:
        click.echo(f"{len(checked.problems)} problem(s) in {checked.facts} facts.", err=True)
        sys.exit(1)
    if file is None:
        click.echo(f"{checked.facts} facts, no problem.")
    else:
        count = f"{checked.facts} fact" + ("" if checked.facts == 1 else "s")
        click.echo(f"{count}, no problem. Put the file into models_db/{checked.family}/.")
