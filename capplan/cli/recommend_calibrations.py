"""Calibrations that made no difference to a plan."""

from __future__ import annotations

from collections.abc import Iterable

import click

from capplan.profiles.calibration_file import StoredCalibration
from capplan.schema.plan import Plan, Tier


def note_unused_calibrations(plan: Plan, calibrations: Iterable[StoredCalibration]) -> None:
    """Say on standard error which calibrations no option shown rests on."""
    used = {option.gpu for option in plan.options if option.tier is Tier.ANCHORED}
    for stored in calibrations:
        gpu = stored.calibration.gpu
        if gpu not in used:
            click.echo(f"Note: no option on {gpu} is shown, so {stored.path} is unused.", err=True)
