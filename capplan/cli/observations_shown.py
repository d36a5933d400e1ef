"""Observations of a served load on a terminal: a table, and the flags below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from capplan.schema.observation import Observation


def show_observations(observations: Sequence[Observation]) -> None:
    """Print one row a window or level, then what must not be concluded from them."""
    from capplan.cli.facts_output import show_listing
    from capplan.facts.listing import Listing
    from capplan.reporting.observation_table import HEADERS, flag_lines, observation_rows

    if not observations:
        return
    show_listing(Listing("observations", HEADERS, observation_rows(observations), ()), "table")
    lines = list(flag_lines(observations))
    if lines:
        click.echo("\n" + "\n".join(lines))
    click.echo()
