"""The command line: parse, one call of the library, print."""

from __future__ import annotations

from capplan.cli.main import main

__all__ = ["main"]
