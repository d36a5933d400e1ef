"""Launch text for an engine version."""
