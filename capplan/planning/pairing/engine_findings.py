"""What vLLM demands of a pair: parallel sizes, MTP layers, quantisation, runners."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.planning.pairing.engine_rules import VLLM
from capplan.planning.pairing.inputs import LOOKUPS, PairFacts
from capplan.schema.pair import Finding, Severity
from capplan.schema.pairing import Method

MUST, KNOW = Severity.MUST, Severity.KNOW
_QUANTISED_REMEDY = "Measure acceptance on the quantised target itself before you rely on it."


def blocking(pair: PairFacts) -> str:
    """Return why vLLM would not start with these parallel sizes and lengths; empty if it would."""
    if pair.engine != VLLM:
        return ""
    reasons = (_bad_heads(pair), _bad_draft_tp(pair), _bad_mtp_length(pair), _too_long(pair))
    return next(filter(None, reasons), "")


def _bad_heads(pair: PairFacts) -> str:
    for llm in (pair.target, pair.draft):
        if llm is not None and llm.heads and llm.heads % pair.tensor_parallel:
            return (
                f"{llm.id} has {llm.heads} attention heads, which tensor parallelism "
                f"{pair.tensor_parallel} does not divide"
            )
    return ""


def _bad_draft_tp(pair: PairFacts) -> str:
    asked = pair.draft_tensor_parallel
    if asked == 1 < pair.tensor_parallel and pair.heterogeneous_vocabulary:
        return (
            "mapping vocabularies takes the V1 runner, which refuses draft_tensor_parallel_size 1 "
            f"beside the target's {pair.tensor_parallel}"
        )
    if asked is None or asked in (1, pair.tensor_parallel):
        return ""
    return (
        f"draft_tensor_parallel_size {asked} is neither 1 nor the target's {pair.tensor_parallel}"
    )


def _bad_mtp_length(pair: PairFacts) -> str:
    length, layers = pair.num_speculative_tokens, pair.target.mtp_layers
    if pair.method is not Method.MTP or not layers or not length or length % layers == 0:
        return ""
    return f"num_speculative_tokens {length} is not a multiple of the {layers} MTP layers"


def _too_long(pair: PairFacts) -> str:
    """Return why the requests asked for do not fit what vLLM would serve."""
    limit, asked = pair.target.max_context, pair.context
    if asked is None:
        return ""
    if limit is not None and asked > limit:
        return f"{asked:,} tokens were asked for, the target ends at {limit:,}"
    reach = pair.draft.max_context if pair.draft is not None else None
    # the V1 runner, which mapping takes, stops drafting beyond the draft's reach instead
    shortened = pair.method is Method.DRAFT_MODEL and not pair.heterogeneous_vocabulary
    if shortened and reach is not None and asked > reach:
        return f"{asked:,} tokens were asked for, and with this draft the limit falls to {reach:,}"
    return ""


def quantisation(pair: PairFacts) -> Iterator[Finding]:
    """Say what a quantised target means for its draft."""
    scheme = pair.target.quantisation
    if not scheme or pair.method in LOOKUPS:
        return
    if pair.method is Method.DRAFT_MODEL:
        yield Finding(
            topic="quantisation",
            severity=KNOW,
            text=f"The target is quantised ({scheme}), the draft keeps its own format: vLLM does "
            "not pass the target's on. Harmless, but a bf16 draft is the dearer beside it.",
            remedy="A quantised draft checkpoint makes its passes cheaper.",
            engine="vllm",
            source="vLLM 0.33.0, config/speculative.py; vllm-project/vllm#40849",
        )
        return
    lost = (
        " Exports often leave the MTP layers out: look for them in the weight index."
        if pair.method is Method.MTP
        else ""
    )
    yield Finding(
        topic="quantisation",
        severity=KNOW,
        text=f"The target is quantised ({scheme}); a head trained on unquantised hidden states "
        f"may lose acceptance, as far as to 0.2 % (Gemma 4 MTP), unwarned.{lost}",
        remedy=_QUANTISED_REMEDY,
        source="vllm-project/vllm#41789; vllm-project/vllm-ascend#5974",
    )


def parallel(pair: PairFacts) -> Iterator[Finding]:
    """Keep the draft's tensor parallelism equal to the target's."""
    reason = _bad_heads(pair) or _bad_draft_tp(pair)
    if reason and pair.engine == VLLM:
        yield Finding(
            topic="tensor_parallel",
            severity=MUST,
            text=f"vLLM refuses to start: {reason}.",
            remedy="Leave draft_tensor_parallel_size unset and choose a size that divides the "
            "heads of both.",
            engine="vllm",
            source="vLLM 0.33.0, config/speculative.py and config/model.py",
        )
    elif pair.draft_tensor_parallel == 1 < pair.tensor_parallel:
        yield Finding(
            topic="tensor_parallel",
            severity=MUST,
            text="draft_tensor_parallel_size 1 is refused for draft models on vLLM's V1 runner "
            f"and ignored on V2: all {pair.tensor_parallel} GPUs share the draft.",
            remedy="Leave it unset and plan with the target's size.",
            engine="vllm",
            source="vLLM 0.33.0, v1/spec_decode/draft_model.py; vllm-project/vllm#31345",
        )
    elif pair.tensor_parallel > 1 and pair.method is Method.DRAFT_MODEL:
        yield Finding(
            topic="tensor_parallel",
            severity=KNOW,
            text=f"The draft runs on all {pair.tensor_parallel} GPUs and pays their "
            "all-reduces in each pass: a small one took 5 ms a token at TP 4, 1.5 ms at TP 1.",
            source="vllm-project/vllm#4632 and #31345",
        )


def mtp(pair: PairFacts) -> Iterator[Finding]:
    """Say how far MTP layers draft."""
    layers = pair.target.mtp_layers
    if pair.method is not Method.MTP or not layers:
        return
    reason = _bad_mtp_length(pair)
    if reason:
        yield Finding(
            topic="mtp",
            severity=MUST,
            text=f"vLLM refuses to start: {reason}.",
            remedy=f"Use a multiple of {layers}.",
            engine="vllm",
            source="vLLM 0.33.0, config/speculative.py",
        )
    if (pair.num_speculative_tokens or layers) > layers:
        yield Finding(
            topic="mtp",
            severity=KNOW,
            text=f"N = {pair.num_speculative_tokens} from {layers} MTP "
            f"layer{'s' if layers > 1 else ''} (n_predict {layers}): it drafts again from its own "
            "output, so acceptance falls with each further token.",
            remedy=f"Compare N = {layers}, {2 * layers} and {3 * layers} on your traffic.",
            source="vLLM 0.33.0, config/speculative.py (its own warning)",
        )


def runner(pair: PairFacts) -> Iterator[Finding]:
    """Say what vLLM leaves out for each method."""
    if pair.engine != VLLM:
        return
    if pair.method is Method.DRAFT_MODEL:
        yield Finding(
            topic="engine",
            severity=KNOW,
            text="The V2 runner, the default, runs a draft model without CUDA graphs: N "
            "launch-bound passes a round (VLLM_USE_V2_MODEL_RUNNER=0 takes V1, which graphs it).",
            engine="vllm",
            source="vLLM 0.33.0, V2 runner's standalone speculator",
        )
    unseeing = "; draft models see no images" if pair.method is Method.DRAFT_MODEL else ""
    yield Finding(
        topic="limits",
        severity=KNOW,
        text="Speculation refuses requests with min_p or logit_bias; LoRA adapters reach the "
        f"target only, so their drafts are accepted less{unseeing}.",
        engine="vllm",
        source="vLLM 0.33.0",
    )
