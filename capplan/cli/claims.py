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
  capplan claims --on profile.json
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
@click.option(
    "--on",
    "path",
    type=click.Path(exists=True, dir_okay=False),
    help="Apply the guide's checklist to this plan or profile instead.",
)
def command(topic: str | None, verdict: str | None, fmt: str, path: str | None) -> int:
    """Audit a popular guide: each figure reproduced, or what speaks against it."""
    from capplan.api.guide import audit_guide, guide_points
    from capplan.reporting.appendix import render_points
    from capplan.reporting.audit_text import render_audit

    if path is not None:
        if topic or verdict or fmt not in ("table", "json"):
            raise click.UsageError("--on goes with --format table or json alone.")
        sys.stdout.write(render_points(guide_points(path), fmt))
        return 0
    chosen = audit_guide(topic=topic, verdict=ClaimVerdict(verdict) if verdict else None)
    sys.stdout.write(render_audit(chosen, fmt))
    return 0
