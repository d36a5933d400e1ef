"""``capplan schema``: print the JSON Schema of a file format."""

from __future__ import annotations

import click

_EXAMPLES = """\b
Examples:
  capplan schema plan
  capplan schema profile > profile.schema.json
"""


@click.command("schema", epilog=_EXAMPLES)
@click.argument("name", type=click.Choice(["profile", "plan", "calibration"]))
def command(name: str) -> int:
    """Print the JSON Schema of profile, plan or calibration files."""
    from capplan.reporting.jsonout import json_schema_text

    click.echo(json_schema_text(name), nl=False)
    return 0
