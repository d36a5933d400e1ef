"""Replayed length controllers as text."""

from __future__ import annotations

from capplan.reporting.schedule_text import signed
from capplan.schema.quantity import Quantity
from capplan.schema.schedule import ControllerResult, Simulation


def render_simulation(found: Simulation) -> str:
    """Return the table of controllers and what limits it."""
    temperatures = ", ".join(f"{t:g}" for t in found.temperatures)
    best = f"N = {found.best_fixed}" if found.best_fixed else "no speculation"
    lines = [
        f"{found.target} + {found.draft} ({found.method}): {found.requests} traced requests at "
        f"temperature {temperatures}; {found.stream:,} served, {found.order}",
        f"Load: {found.load}. Best single length: {best}. Gains in tokens/s, 95 % interval.",
        "",
        f"  {'controller':<15}{'N':>6}{'tokens':>8}  {'over best single':<27}over N = 5",
    ]
    for one in found.controllers:
        lines.append(_row(one))
        lines.extend([f"  {'':<15}{one.detail}"] if one.detail else [])
    lines.extend(f"Note: {note}" for note in found.notes)
    return "\n".join(lines) + "\n"


def _row(one: ControllerResult) -> str:
    if one.refused:
        return f"  {one.name:<15}not replayed: {one.refused}"
    length = f"{one.mean_length:.1f}" if one.mean_length is not None else ""
    tokens = f"{one.tokens_per_round:.2f}" if one.tokens_per_round is not None else ""
    gains = f"{_gain(one.gain_over_best_fixed):<27}{_gain(one.gain_over_five)}"
    return f"  {one.name:<15}{length:>6}{tokens:>8}  {gains}".rstrip()


def _gain(gain: Quantity | None) -> str:
    if gain is None:
        return "-"
    if gain.low == gain.high == 0:
        return "same"
    return signed(gain)
