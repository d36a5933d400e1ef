"""Three tiers of drafting on three real LLMs: what the composition foretells and what is measured.

The target is capplan's demo checkpoint, the smallest its trained draft. The middle one is the
target without some of its layers, or, with ``--middle-layers``, what
``tools/train_demo_middle.py`` trained. Every prompt is decoded in every way in turn: plain, with
either draft alone, the middle LLM alone with the small draft, and with three tiers. Predictions
use the ways with fewer tiers only. Times are seconds of one processor thread. No engine runs
three tiers: nothing here can be deployed.

Run from the repository: ``python benchmarks/three_tiers.py [--quick] [--format json]``
(docs/method/three-tiers.md)
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import torch
from three_tiers_compared import Outcome, outcome_of
from three_tiers_llms import load_three, prompts_of
from three_tiers_runs import decode_all

SETTINGS = ((2, 1), (4, 2), (6, 3))
"""Drafts a round of the target, and of the middle LLM."""
QUICK_SETTINGS = ((4, 2),)
PROMPTS, MAX_TOKENS = 12, 32
QUICK_PROMPTS, QUICK_MAX_TOKENS = 3, 16
LEFT_OUT = 4
"""Layers of the target's 30 that the middle LLM goes without if none was trained."""


def text_of(found: Outcome) -> str:
    """Return the outcome as a page of Markdown."""
    ratios = ", ".join(f"{name} {ratio:.2f}" for name, ratio in found.pass_ratios.items())
    first = ", ".join(f"{who} {rate * 100:.0f} %" for who, rate in found.accepted_first.items())
    fewer = ", ".join(f"{name} {ratio:.2f}" for name, ratio in found.token_ratios.items())
    lines = [
        found.note,
        "",
        f"Middle LLM: {found.middle} ({found.middle_layers} layers). {found.prompts} prompts, "
        f"{found.tokens} tokens at temperature 0; texts of all ways "
        f"{'are identical' if found.identical_texts else 'DIFFER'}.",
        f"A pass over one of the target: {ratios}. First draft kept: {first}.",
        f"Time of a token over a plain step: {fewer}.",
        "",
        "| N, inner | tokens a round | inner tokens a round | drafted token / plain step "
        "| token / plain step | over best with fewer tiers | surplus foretold |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.num_speculative_tokens}, {row.inner_num_speculative_tokens} "
        f"| {row.outer_tokens[0]:.2f} / {row.outer_tokens[1]:.2f} "
        f"| {row.inner_tokens[0]:.2f} ({row.inner_tokens_cut:.2f}) / {row.inner_tokens[1]:.2f} "
        f"| {row.draft_token_ratio[0]:.3f} / {row.draft_token_ratio[1]:.3f} "
        f"| {row.token_ratio[0]:.2f} ({row.token_ratio_cut:.2f}) / {row.token_ratio[1]:.2f} "
        f"| {row.gain * 100:+.0f} % ({row.gain_low * 100:+.0f} to {row.gain_high * 100:+.0f}), "
        f"{row.best_fewer} | {row.surplus_tokens:+.2f} |"
        for row in found.rows
    ]
    lines += ["", "Foretold / measured; in brackets with the pair's last round cut to N."]
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one setting, few prompts")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--middle-layers", type=Path, help="layers of tools/train_demo_middle.py")
    parser.add_argument(
        "--left-out", type=int, default=LEFT_OUT, help="layers of the target (%(default)s)"
    )
    parser.add_argument("--prompts", type=int, help=f"({PROMPTS})")
    parser.add_argument("--max-tokens", type=int, help=f"a prompt ({MAX_TOKENS})")
    return parser.parse_args()


def main() -> None:
    """Decode, compose, print."""
    given = arguments()
    # One thread, so that processor time is the time that the work takes.
    torch.set_num_threads(1)
    settings = QUICK_SETTINGS if given.quick else SETTINGS
    count = given.prompts or (QUICK_PROMPTS if given.quick else PROMPTS)
    max_tokens = given.max_tokens or (QUICK_MAX_TOKENS if given.quick else MAX_TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        llms, middle = load_three(given.middle_layers, given.left_out, Path(folder))
        measured = decode_all(llms, settings, prompts_of(llms[0], count), max_tokens)
    found = outcome_of(llms, settings, measured, middle)
    print(json.dumps(asdict(found), indent=2) if given.format == "json" else text_of(found))
    if not found.identical_texts:
        sys.exit("Texts differ: speculation must not change what is written.")


if __name__ == "__main__":
    main()
