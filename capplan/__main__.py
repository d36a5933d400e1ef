"""``python -m capplan``."""

from capplan.cli import main

main()
