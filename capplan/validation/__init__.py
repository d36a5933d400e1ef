"""Predicted against measured: estimates run over published measurements and are scored."""
