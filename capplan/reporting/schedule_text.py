"""A length schedule as text."""

from __future__ import annotations

import json

from capplan.schema.quantity import Quantity
from capplan.schema.schedule import LengthSchedule


def render_schedule(found: LengthSchedule) -> str:
    """Return verdict, engine setting, table by batch and what to know beside it."""
    lines = [
        f"{found.target} + {found.draft} ({found.method}), {found.origin}",
        "",
        *_verdict(found),
        "",
        *_setting(found),
        "",
        *_by_batch(found),
        *_by_context(found),
        *_graphs(found),
        *(f"Note: {note}" for note in found.notes),
    ]
    return "\n".join(lines) + "\n"


def length_words(n: int) -> str:
    """Return ``N = 3``, or ``no speculation``."""
    return f"N = {n}" if n else "no speculation"


def signed(gain: Quantity) -> str:
    """Return ``+3.1 % (+1.2 to +5.0)``."""
    low, mid, high = (round(x * 100, 1) + 0.0 for x in (gain.low, gain.mid, gain.high))
    return f"{mid:+.1f} % ({low:+.1f} to {high:+.1f})"  # + 0.0: no -0.0


def _verdict(found: LengthSchedule) -> list[str]:
    what = "the schedule" if found.recommended == "schedule" else length_words(found.best_fixed)
    lines = [
        f"Run {what}: {found.reason}.",
        f"Schedule over the best single length ({length_words(found.best_fixed)}): "
        f"{signed(found.gain)} tokens/s, 95 % interval.",
    ]
    if found.tax_paid > 0:
        before = f"{found.gain_before_tax * 100:+.1f} %"
        lines.append(f"Before the tax of its own N = 0: {before}.")
    lines.append(
        f"Load: {found.load}; mean {found.mean_batch:.3g} at once, "
        f"{found.context_tokens:,} tokens in each cache."
    )
    return lines


def _setting(found: LengthSchedule) -> list[str]:
    if not found.num_speculative_tokens:
        return ["No range drafts: start the engine without speculation."]
    ranges = json.dumps([list(one) for one in found.ranges], separators=(",", ":"))
    return [
        "In --speculative-config:",
        f'  "num_speculative_tokens":{found.num_speculative_tokens},'
        f'"num_speculative_tokens_per_batch_size":{ranges}',
    ]


def _by_batch(found: LengthSchedule) -> list[str]:
    lines = ["  at once   load    N   ms a token   without   single length"]
    lines.extend(
        f"  {row.batch:>7}  {row.load_share:>5.0%}  {row.num_speculative_tokens:>3}"
        f"  {row.tpot_ms:>11.4g}  {row.plain_tpot_ms:>8.4g}  {row.fixed_tpot_ms:>14.4g}"
        for row in found.at_batch
    )
    return lines


def _by_context(found: LengthSchedule) -> list[str]:
    if not found.at_context:
        return []
    lines = [
        "",
        "By context (the engine looks at the batch alone; plan for the usual one):",
    ]
    for row in found.at_context:
        ranges = ", ".join(f"{first}-{last}: {n}" for first, last, n in row.ranges)
        lines.append(
            f"  {row.context_tokens:>7,} tokens  {ranges}; over {length_words(row.best_fixed)} "
            f"{row.gain * 100:+.1f} %"
        )
    return lines


def _graphs(found: LengthSchedule) -> list[str]:
    if not found.graph_edges:
        return [""]
    edges = ", ".join(f"{length_words(e.num_speculative_tokens)}: {e.largest_batch}"
                      for e in found.graph_edges)  # fmt: skip
    return [
        "",
        f"CUDA graphs reach {found.captured_tokens:,} tokens a step; largest batch: {edges}.",
    ]
