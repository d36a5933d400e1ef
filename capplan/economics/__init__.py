"""Dollars and tokens."""
