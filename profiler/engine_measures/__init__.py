"""How one point of an engine is measured, and what of a profile was measured already."""
