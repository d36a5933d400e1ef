"""A popular guide, taken at its word: its claims audited, its rules applied to plans."""
