"""Numbers to a sentence and a remedy."""
