"""What is to be minded about a window of counters apart from its speculation."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.profiles.counter_checks import ALL_USES
from capplan.profiles.engine_counters import EngineWindow
from capplan.schema.observation import Flag

_EDGE_SHARE = 0.1


def window_flags(window: EngineWindow) -> Iterator[Flag]:
    """Yield what is to be minded about a window apart from its speculation."""
    if len(window.engines) > 1:
        yield Flag(
            check="several_engines",
            text=f"{len(window.engines)} engines are added up; rates are of all of them together.",
        )
    if window.output_tokens == 0:
        yield Flag(
            check="no_traffic",
            text="Not one token was generated.",
            remedy="Observe while the server works.",
            unusable_for=ALL_USES,
        )
    completed, first = window.counters.get("completed"), window.counts.get("ttft")
    if completed and first and abs(completed - first) > _EDGE_SHARE * max(completed, first):
        yield Flag(
            check="requests_across_edges",
            text=f"{first:g} requests began and {completed:g} ended well: latencies of whole "
            "requests are of other requests than the tokens.",
            remedy="Observe longer.",
        )
    if window.software == "tgi" and window.tpot_s is not None:
        yield Flag(
            check="tpot_with_prompt",
            text="TGI divides all of a request's time in the engine by its tokens: the prompt's "
            "pass is in the time per token, most of all where outputs are short.",
            remedy="Measure TPOT with a client.",
        )
    if failed := window.counters.get("failed"):
        yield Flag(check="failed_requests", text=f"{failed:g} requests were aborted or failed.")
    if preemptions := window.counters.get("preemptions"):
        yield Flag(
            check="preemptions",
            text=f"{preemptions:g} preemptions: the KV pool was too small for this load, and "
            "requests were computed twice.",
            remedy="Lower the concurrency, or give the KV pool more memory.",
        )
