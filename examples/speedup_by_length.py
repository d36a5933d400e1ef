"""The formulas on their own: speedup by length, from tokens a round and step times.

All inputs are made up, of the size of an 8B LLM with a small draft on one H100 at batch 1.

Run: python examples/speedup_by_length.py
"""

from __future__ import annotations

import numpy as np

from capplan.estimate.acceptance import decaying_rates, tokens_per_round_from_conditional
from capplan.estimate.speculation import guide_speedup, round_ratio

lengths = np.arange(1, 9)
decode_s, draft_pass_s, extra_token_s, overhead_s = 7.0e-3, 0.7e-3, 0.12e-3, 0.9e-3

tokens = tokens_per_round_from_conditional(decaying_rates(first=0.8, ratio=0.95, positions=8))
verify_s = decode_s + lengths * extra_token_s
ratio = round_ratio(lengths, draft_pass_s, verify_s, decode_s, overhead_s)
speedup = tokens[1:] / ratio
guide = guide_speedup((tokens[1:] - 1) / lengths, lengths, draft_pass_s / decode_s)
for n, tau, x, g in zip(lengths, tokens[1:], speedup, guide, strict=True):
    print(f"N={n}  tokens a round {tau:.2f}  speedup {x:.2f}x  guide's formula {g:.2f}x")
print(f"best N: {lengths[speedup.argmax()]}")
