"""Launch text for an engine version: settings, and the forms they are written in."""

from __future__ import annotations

from capplan.deploy.from_option import LaunchChoices, pair_config, settings_from_option
from capplan.deploy.migrate import Migration, migrate_command
from capplan.deploy.settings import Settings
from capplan.deploy.text import Form, LaunchText, write_launch
from capplan.deploy.versions import EngineVersion, parse_version

__all__ = [
    "EngineVersion",
    "Form",
    "LaunchChoices",
    "LaunchText",
    "Migration",
    "Settings",
    "migrate_command",
    "pair_config",
    "parse_version",
    "settings_from_option",
    "write_launch",
]
