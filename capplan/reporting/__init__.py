"""Plans to text, JSON, CSV and HTML."""

from __future__ import annotations

from capplan.reporting.render import FORMATS, Format, render

__all__ = ["FORMATS", "Format", "render"]
