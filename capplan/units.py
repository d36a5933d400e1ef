"""Conversions, in one place. Every name elsewhere carries its unit."""

from __future__ import annotations

HOURS_PER_MONTH = 730.0
"""Hours in a billing month (8,760 / 12), the convention of cloud price pages."""

SECONDS_PER_MINUTE = 60.0
SECONDS_PER_HOUR = 3600.0
SECONDS_PER_MONTH = HOURS_PER_MONTH * SECONDS_PER_HOUR
BYTES_PER_GB = 1e9
BYTES_PER_GIB = float(2**30)
BYTES_PER_MIB = float(2**20)
MS_PER_S = 1e3
US_PER_S = 1e6
TOKENS_PER_MILLION = 1e6
