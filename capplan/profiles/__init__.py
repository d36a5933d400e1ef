"""Profile files to schema values, and back."""
