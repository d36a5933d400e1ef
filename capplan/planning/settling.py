"""What a speedup that may lose hangs on, in words, and the command that would settle it."""

from __future__ import annotations

import shlex

from capplan.schema.pairing import Method
from capplan.schema.plan import PlanOption, SpreadCause, Tier

_ALSO_FROM = 0.2
"""Share of the uncertainty from which a second cause is named beside the first."""


def undecided(option: PlanOption) -> bool:
    """Whether the interval of the speedup holds 1: speculation may lose."""
    speculates = option.method is not Method.NONE
    return speculates and option.speedup.low < 1 < option.speedup.high


def speedup_text(option: PlanOption) -> str:
    """Return ``1.10x (0.60-1.50)``."""
    speedup = option.speedup
    return f"{speedup.mid:.2f}x ({speedup.low:.2f}-{speedup.high:.2f})"


def hangs_on(option: PlanOption) -> str:
    """Name what most of the uncertainty comes from, with its share."""
    named = sorted(option.speedup_spread.items(), key=lambda item: -item[1])[:2]
    said = [
        f"{_cause(cause, option)} ({share * 100:.0f} % of what is uncertain)"
        if at == 0
        else f"{_cause(cause, option)} ({share * 100:.0f} %)"
        for at, (cause, share) in enumerate(named)
        if at == 0 or share >= _ALSO_FROM
    ]
    return " and ".join(said) or "what was never measured of this pairing"


def settled_by(option: PlanOption) -> str:
    """Return the command that measures what the speedup hangs on."""
    target = shlex.quote(option.target)
    leading = max(option.speedup_spread.items(), key=lambda item: item[1], default=None)
    on_text = leading is not None and leading[0] is SpreadCause.ACCEPTANCE
    prompts = " --prompts FILE" if on_text else ""
    if option.method is Method.DRAFT_MODEL:
        draft = shlex.quote(option.draft or "")
        return f"capplan profile {target} --draft {draft}{prompts} -o profile.json"
    if option.method is Method.NGRAM:
        return f"capplan profile {target} --method ngram{prompts} -o profile.json"
    return f"capplan profile --server URL{prompts} -o profile.json"


def how_to_settle(option: PlanOption) -> str:
    """Return what to do about it: measure, or where that was done, measure better."""
    if option.tier is Tier.PROFILED:
        return f"measure longer, on an idle machine: {settled_by(option)}"
    return f"measure it with {settled_by(option)}"


def _cause(cause: SpreadCause, option: PlanOption) -> str:
    n, tp = option.num_speculative_tokens, option.tensor_parallel
    tokens = f"{n + 1} tokens of each request"
    apart = f" on {tp} GPUs, where launches do not shrink with the group" if tp > 1 else ""
    passes = "a draft pass costs" if n == 1 else f"drafting {n} tokens costs"
    said = {
        SpreadCause.ACCEPTANCE: "the tokens a round on your text",
        SpreadCause.DRAFT_PASSES: f"what {passes}{apart}",
        SpreadCause.EXPERTS: f"the experts that verifying {tokens} reads",
        SpreadCause.VERIFICATION: f"what verifying {tokens} costs",
        SpreadCause.EXCHANGE: f"what verifying {tokens} exchanges between {tp} GPUs",
        SpreadCause.ROUND: (
            "step times that scatter in the profile"
            if option.tier is Tier.PROFILED
            else "what a round costs beside its passes"
        ),
    }
    return said[cause]
