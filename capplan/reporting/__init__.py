"""Plans to text, JSON, CSV and HTML."""
