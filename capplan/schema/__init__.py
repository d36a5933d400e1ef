"""Frozen values that every stage exchanges."""
