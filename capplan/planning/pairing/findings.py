"""What to know of a pair beside its vocabulary: one small rule a topic, each with its source."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from capplan.planning.pairing.engine_findings import mtp, parallel, quantisation, runner
from capplan.planning.pairing.engine_rules import VLLM
from capplan.planning.pairing.inputs import BUILT_IN, HEADS, LOOKUPS, PairFacts
from capplan.schema.pair import Finding, Severity
from capplan.schema.pairing import Method

MUST, KNOW = Severity.MUST, Severity.KNOW
_GUIDE_LEAST, _GUIDE_MOST = 1 / 10, 1 / 3

Rule = Callable[[PairFacts], Iterator[Finding]]


def findings_of(pair: PairFacts) -> tuple[Finding, ...]:
    """Return every finding, the pressing ones first."""
    found = [finding for rule in RULES for finding in rule(pair)]
    return tuple(sorted(found, key=lambda finding: finding.severity is not MUST))


def size_rule(pair: PairFacts) -> Iterator[Finding]:
    """Hold the guide's 1/10 to 1/3 against what draft passes were measured to cost."""
    if pair.method is not Method.DRAFT_MODEL or pair.draft is None:
        return
    share = pair.draft.params_total / pair.target.params_total
    inside = "inside" if _GUIDE_LEAST <= share <= _GUIDE_MOST else "outside"
    yield Finding(
        topic="size",
        severity=KNOW,
        text=f"The draft has 1/{1 / share:.0f} of the target's parameters, {inside} the guide's "
        "1/10 to 1/3. Parameters do not decide, the measured cost ratio does: a draft pass took "
        "12.5 % of a 70B target's and 37.5 % of an 8B's, and acceptance must exceed it.",
        source="arXiv:2601.11580; arXiv:2211.17192",
    )
    if pair.draft.weight_bytes_active >= pair.target.weight_bytes_active:
        yield Finding(
            topic="size",
            severity=MUST,
            text=f"One draft pass reads {pair.draft.weight_bytes_active / 1e9:.1f} GB of weights, "
            f"a target step {pair.target.weight_bytes_active / 1e9:.1f} GB: at one request the "
            "draft is no cheaper than what it saves.",
            remedy="Choose a smaller draft: a mixture of experts reads only its active weights.",
        )


def cost(pair: PairFacts) -> Iterator[Finding]:
    """Give the data-sheet estimate of the cost ratio, where a GPU was named."""
    estimate = pair.cost_ratio
    if estimate is None:
        return
    ratio = estimate.ratio
    yield Finding(
        topic="size",
        severity=MUST if ratio.low >= 1 else KNOW,
        text=f"Data-sheet estimate for one request at {estimate.context:,} tokens on "
        f"{estimate.tensor_parallel} x {estimate.gpu}: a draft pass costs {ratio.mid:.2f} "
        f"({ratio.low:.2f}-{ratio.high:.2f}) of a target step.",
        remedy="Engines launch draft passes at very different cost: profile the pair.",
        source="models_db/engines/vllm.yaml",
    )


def context(pair: PairFacts) -> Iterator[Finding]:
    """Compare how far target and draft can see."""
    limit = pair.target.max_context
    if limit is not None and pair.context is not None and pair.context > limit:
        yield Finding(
            topic="context",
            severity=MUST,
            text=f"{pair.context:,} tokens were asked for; the target ends at {limit:,}.",
            remedy="Lower --context, or extend the target's RoPE as its authors describe.",
        )
    reach = pair.draft.max_context if pair.draft is not None else None
    if limit is None or reach is None or reach >= limit:
        return
    needed = pair.context or limit
    severity = MUST if needed > reach else KNOW
    yield (
        _short_head(reach, limit, severity)
        if pair.method in HEADS
        else _short_draft(pair, reach, limit, severity)
    )


def _short_draft(pair: PairFacts, reach: int, limit: int, severity: Severity) -> Finding:
    on_vllm = pair.engine == VLLM
    happens = (
        f"vLLM's V2 runner lowers the target's max_model_len to {reach:,}"
        if on_vllm
        else "beyond its limit the draft guesses badly, or the engine refuses longer requests"
    )
    return Finding(
        topic="context",
        severity=severity,
        text=f"The draft ends at {reach:,} tokens, the target at {limit:,}: {happens}.",
        remedy=f"Serve at most {reach:,} tokens a request, take a draft that sees further, or "
        "VLLM_USE_V2_MODEL_RUNNER=0: V1 stops drafting there."
        if on_vllm
        else f"Serve at most {reach:,} tokens a request, or take a draft that sees further.",
        engine=pair.engine if on_vllm else "",
        source="vLLM 0.33.0, config/vllm.py" if on_vllm else "",
    )


def _short_head(reach: int, limit: int, severity: Severity) -> Finding:
    return Finding(
        topic="context",
        severity=severity,
        text=f"The head's configuration ends at {reach:,} tokens, the target's at {limit:,}. "
        "vLLM 0.33 raises the limit and runs, but acceptance falls beyond what a head was trained "
        "on: an EAGLE-3 head of Qwen3-8B gave 2.30 tokens a round at 2k and 1.09 at 16k.",
        remedy="Measure acceptance at your context lengths; prompt lookup does not mind length.",
        source="vllm-project/vllm#48894; vllm-project/speculators#684",
    )


def memory(pair: PairFacts) -> Iterator[Finding]:
    """Say what the draft takes from the memory that requests would have had."""
    draft = pair.draft
    if draft is None:
        return
    share = draft.weight_bytes / pair.target.weight_bytes
    size = f"{draft.weight_bytes / 1e9:.2f} GB, {100 * share:.1f} %"
    text = f"The draft takes {size} of the target's weights"
    ours, theirs = pair.target.kv_bytes_per_token, draft.kv_bytes_per_token
    if ours and theirs:
        text += (
            f"; KV cache a token grows {(ours + theirs) / ours:.3f}x "
            f"({ours:,.0f} + {theirs:,.0f} bytes)"
        )
    yield Finding(topic="memory", severity=KNOW, text=f"{text}.", source=draft.source.reference)


def licence(pair: PairFacts) -> Iterator[Finding]:
    """Name both licences; an unknown one is said to be unknown."""
    ours = pair.target.licence or "unknown"
    if pair.method in LOOKUPS or pair.draft_id == BUILT_IN:
        return
    theirs = pair.draft.licence if pair.draft is not None else ""
    theirs = theirs or (pair.pairing.licence if pair.pairing is not None else "") or "unknown"
    unknown = "unknown" in (ours, theirs)
    yield Finding(
        topic="licence",
        severity=KNOW,
        text=f"Licences: target {ours}, draft {theirs}.",
        remedy="Read the model card of each before you serve it." if unknown else "",
    )


RULES: tuple[Rule, ...] = (
    context,
    parallel,
    mtp,
    quantisation,
    size_rule,
    cost,
    memory,
    runner,
    licence,
)
"""Rules in the order in which their findings are read."""
