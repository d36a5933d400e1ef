"""A simulated load as text."""

from __future__ import annotations

from capplan.schema.serving_load import LoadAtRate, ServingLoad


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


def _cached(found: ServingLoad) -> str:
    if not found.prefix_hit_share:
        return ""
    return f", {found.prefix_hit_share:.0%} of every prompt cached"


def _row(one: LoadAtRate) -> str:
    tpot = f"{'-':>14}{'-':>7}{'-':>7}"
    if one.tpot is not None:
        tpot = f"{one.tpot.p50_ms:>14.1f}{one.tpot.p90_ms:>7.1f}{one.tpot.p99_ms:>7.1f}"
    ttft = f"{one.ttft.p50_ms:>12,.0f}{one.ttft.p90_ms:>8,.0f}{one.ttft.p99_ms:>9,.0f}"
    return (
        f"  {one.requests_per_s:>10.3g}{one.share_of_capacity:>6.0%}  {ttft}{tpot}"
        f"{one.output_tokens_per_s:>10,.0f}{one.utilisation:>6.0%}{one.mean_batch:>7.1f}"
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
