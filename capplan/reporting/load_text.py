"""A simulated load as text."""

from __future__ import annotations

from capplan.schema.serving_load import LoadAtRate, ServingLoad, SimulatedLengths

_SHOWN_CORRELATION = 0.05
"""Less is what a thousand independent pairs have by chance."""
_WHOLE, _NEARLY = 1.0 - 1e-9, 0.999


def render_load(found: ServingLoad) -> str:
    """Return what was simulated, the table by rate and what to know beside it."""
    drafted = f" + {found.draft} ({found.method})" if found.draft else ""
    lines = [
        f"{found.target}{drafted}, {found.origin}",
        f"{_lengths(found)}; {_engine(found)}",
        f"Requests of {found.mean_prompt_tokens:,.0f} + {found.mean_output_tokens:,.0f} tokens on "
        f"average{_cached(found)}; {found.requests:,} simulated at each rate, seed {found.seed}.",
        f"Capacity: {found.capacity_requests_per_s:.3g} requests/s, "
        f"{found.capacity_output_tokens_per_s:,.0f} output tokens/s.",
        *_request_lengths(found),
        "",
        f"  {'requests/s':>10}{'load':>6}  {'TTFT ms: p50':>12}{'p90':>8}{'p99':>9}"
        f"{'TPOT ms: p50':>14}{'p90':>7}{'p99':>7}"
        f"{'tokens/s':>10}{'busy':>6}{'batch':>7}{'queue':>7}",
        *(_row(one) for one in found.rates),
        "",
    ]
    lines.extend(_beyond(one) for one in found.rates if not one.is_stable)
    lines.extend(_preempted(one) for one in found.rates if one.preemptions)
    lines.extend(f"Note: {note}" for note in found.notes)
    return "\n".join(lines).rstrip("\n") + "\n"


def _lengths(found: ServingLoad) -> str:
    ranges = found.lengths
    if len(ranges) > 1:
        return "N by batch " + ", ".join(f"{first}-{last}: {n}" for first, last, n in ranges)
    n = ranges[0][2]
    if n == 0:
        return "No speculation"
    return f"N = {n}, {found.tokens_per_round:.2f} tokens a round"


def _engine(found: ServingLoad) -> str:
    replicas = f"{found.replicas} replicas, each " if found.replicas > 1 else ""
    return (
        f"{replicas}{found.max_num_seqs} requests at a time, {found.max_num_batched_tokens:,} "
        f"tokens a step, KV pool of {found.kv_tokens:,} tokens"
    )


def _request_lengths(found: ServingLoad) -> list[str]:
    """Return the quantiles of the lengths; nothing where all requests are alike."""
    sides = (("prompts", found.prompt_lengths), ("answers", found.output_lengths))
    if all(side.longest_tokens <= side.mean_tokens for _, side in sides):
        prompts, answers = (side.origin for _, side in sides)
        return [f"One length for all prompts ({prompts}) and one for all answers ({answers})."]
    wide = max(len(f"{name}, {side.origin}") for name, side in sides)
    heads = "".join(f"{name:>9}" for name in ("mean", "p50", "p90", "p99", "longest"))
    lines = [f"Lengths in tokens:{' ' * max(wide - 16, 0)}{heads}"]
    lines.extend(_length_row(f"{name}, {side.origin}", side, wide) for name, side in sides)
    if abs(found.length_correlation) >= _SHOWN_CORRELATION:
        lines.append(f"  correlation of the two {found.length_correlation:+.2f}")
    return lines


def _length_row(name: str, side: SimulatedLengths, wide: int) -> str:
    figures = (side.mean_tokens, side.p50_tokens, side.p90_tokens, side.p99_tokens)
    cells = "".join(f"{value:>9,.0f}" for value in (*figures, side.longest_tokens))
    return f"  {name:<{max(wide, 16)}}{cells}"


def _cached(found: ServingLoad) -> str:
    if not found.prefix_hit_share:
        return ""
    return f", {_share(found.prefix_hit_share)} of every prompt cached"


def _share(value: float) -> str:
    """Return a share for a narrow column; only the whole is 100%."""
    text = f"{value:.0%}"
    return text if text != "100%" or value >= _WHOLE else f"{min(value, _NEARLY):.1%}"


def _row(one: LoadAtRate) -> str:
    tpot = f"{'-':>14}{'-':>7}{'-':>7}"
    if one.tpot is not None:
        tpot = f"{one.tpot.p50_ms:>14.1f}{one.tpot.p90_ms:>7.1f}{one.tpot.p99_ms:>7.1f}"
    ttft = f"{one.ttft.p50_ms:>12,.0f}{one.ttft.p90_ms:>8,.0f}{one.ttft.p99_ms:>9,.0f}"
    return (
        f"  {one.requests_per_s:>10.3g}{_share(one.share_of_capacity):>6}  {ttft}{tpot}"
        f"{one.output_tokens_per_s:>10,.0f}{_share(one.utilisation):>6}{one.mean_batch:>7.1f}"
        f"{one.mean_queue:>7.1f}"
    )


def _beyond(one: LoadAtRate) -> str:
    return (
        f"At {one.requests_per_s:.3g} requests/s more arrives than is served: the queue grows for "
        "as long as that lasts, and these latencies with it."
    )


def _preempted(one: LoadAtRate) -> str:
    return (
        f"At {one.requests_per_s:.3g} requests/s the KV cache runs full: {one.preemptions} "
        "requests of a replica are thrown out and computed again."
    )
