"""Profiles: what one shows, as text."""

from __future__ import annotations

from pathlib import Path

from capplan.api.guide import profile_points
from capplan.errors import CapplanError
from capplan.profiles.store import StoredProfile, load_profile
from capplan.reporting.profile_text import render_profile


def summarise_profile(stored: StoredProfile | Path | str) -> str:
    """Return what a profile shows, as text: cost ratio, acceptance, actual beside projected."""
    if not isinstance(stored, StoredProfile):
        stored = load_profile(Path(stored))
    try:
        checklist = profile_points(stored)
    except CapplanError:
        checklist = ()  # an invalid profile: its text says why
    return render_profile(stored.profile, stored.arrays, checklist)
