"""Processes killed on purpose, and what they left behind."""
