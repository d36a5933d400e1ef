"""Clocks, blocks and calibration."""
