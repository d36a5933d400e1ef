"""Read any schema version of a profile; nothing else knows old versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from capplan.errors import ProfileFormatError, ProfileVersionError
from capplan.schema.profile import PROFILE_SCHEMA_VERSION

Document = dict[str, Any]


def _to_2(document: Document) -> Document:
    """Version 2 only adds: engine rounds, losslessness, observations, the engine's memory."""
    return {**document, "schema_version": 2}


_STEPS: Mapping[int, Callable[[Document], Document]] = {1: _to_2}
"""Version -> the function that turns its document into that of the next version."""


def migrate(document: Document, name: str) -> Document:
    """Bring a profile document to the present schema version.

    Parameters
    ----------
    document
        The parsed JSON object.
    name
        File name for messages.

    Raises
    ------
    ProfileFormatError
        If the document carries no usable version.
    ProfileVersionError
        If a newer capplan wrote it.
    """
    version = document.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ProfileFormatError(
            f"{name} is not a capplan profile: schema_version is {version!r}, "
            f"expected a number from 1 to {PROFILE_SCHEMA_VERSION}.",
            "Give a file that `capplan profile -o FILE` wrote.",
        )
    if version > PROFILE_SCHEMA_VERSION:
        raise ProfileVersionError(
            f"{name} has schema version {version}; this capplan reads up to "
            f"{PROFILE_SCHEMA_VERSION}.",
            "Upgrade capplan, or take the profile again with this version.",
        )
    for step in range(version, PROFILE_SCHEMA_VERSION):
        document = _STEPS[step](document)
    return document
