"""Search over candidates."""
