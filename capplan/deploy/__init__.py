"""Launch text for an engine version: settings, and the forms they are written in."""
