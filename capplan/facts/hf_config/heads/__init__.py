"""Drafting heads (EAGLE, EAGLE-3, P-EAGLE, DFlash, DSpark, Medusa) as configurations have them.

``kinds`` tells a head from an LLM and names its kind; ``read`` counts it, one function a kind.
A new kind needs a word in ``kinds`` and a function in ``read``.
"""
