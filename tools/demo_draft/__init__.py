"""Text and training of the draft that capplan ships for its demo checkpoint."""
