"""``capplan claims``: every figure of a popular guide, audited."""

from __future__ import annotations

import sys

import click

from capplan.reporting.audit_text import AUDIT_FORMATS
from capplan.schema.audit import ClaimVerdict

_EXAMPLES = """\b
Examples:
  capplan claims
  capplan claims --topic cost
  capplan claims --verdict "does not exist" --format csv
  capplan claims --format markdown > guide-audit.md
"""


@click.command("claims", epilog=_EXAMPLES)
@click.option("--topic", help="Only this topic: formula, pairs, 4xA100, tasks, cost, rules ...")
@click.option(
    "--verdict",
    type=click.Choice([verdict.value for verdict in ClaimVerdict]),
    help="Only claims with this verdict.",
)
@click.option(
    "--format",
    "fmt",
    type=click.Choice(AUDIT_FORMATS),
    default="table",
    show_default=True,
    help="How to print.",
)
def command(topic: str | None, verdict: str | None, fmt: str) -> int:
    """Audit a popular guide: each figure reproduced, or what speaks against it."""
    from capplan import api
    from capplan.reporting.audit_text import render_audit

    chosen = api.audit_guide(topic=topic, verdict=ClaimVerdict(verdict) if verdict else None)
    sys.stdout.write(render_audit(chosen, fmt))
    return 0
