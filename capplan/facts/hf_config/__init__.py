"""Hugging Face ``config.json`` files to specs, read as plain JSON."""
