"""One target, one draft: can they work together, on which engine, and what to mind."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.errors import UnknownIdError
from capplan.planning.pairing.acceptance import how_to_measure, summarise
from capplan.planning.pairing.engine_findings import blocking
from capplan.planning.pairing.engine_rules import VLLM_CHECKED, Asked, all_answers, resolve_engine
from capplan.planning.pairing.findings import findings_of
from capplan.planning.pairing.inputs import (
    BUILT_IN,
    LOOKUPS,
    Known,
    PairFacts,
    PairQuestion,
    Side,
)
from capplan.planning.pairing.refusals import refusal
from capplan.planning.pairing.vocabulary import Comparison, sizes_text
from capplan.planning.pairing.vocabulary_findings import vocabularies, vocabulary_findings
from capplan.schema.llm import LlmSpec
from capplan.schema.pair import EngineAnswer, Finding, PairReport, PairVerdict, Severity
from capplan.schema.pairing import Method


def judge(target: Side, draft: Side, question: PairQuestion, known: Known) -> PairReport:
    """Return the verdict on one pair, with findings and what to do.

    Parameters
    ----------
    target, draft
        What is known of both; ``draft.id`` may be ``ngram``, ``suffix`` or ``(built-in)``.
    question
        Engine, parallel sizes, context.
    known
        What models_db adds.

    Raises
    ------
    UnknownIdError
        If nothing but the name of target or draft is known, or no rule of such an engine.
    """
    if target.spec is None or _unknown(draft, known):
        unknown = target.id if target.spec is None else draft.id
        raise UnknownIdError(
            f"models_db does not know the figures of {unknown}, only that it exists.",
            "Give a folder with its config.json instead.",
        )
    engine, _ = resolve_engine(question.engine)
    method = _method(draft, question, known)
    refused = refusal(target, draft, target.spec, method, known)
    if refused:
        return _refused(target, draft, method, question, known, refused)
    compared = vocabularies(target, draft, target.spec, method, known)
    pair = _facts(draft, target.spec, method, compared, question, known)
    asked = Asked(
        method,
        compared.facts,
        heterogeneous=question.heterogeneous_vocabulary,
        other_tokens=compared.verdict is PairVerdict.REFUSE,
    )
    chosen = engine.answer(asked)
    stopped = blocking(pair)
    works = not stopped and _runs(compared.verdict, chosen, asked)
    return PairReport(
        target=target.id,
        draft=draft.id,
        method=method,
        verdict=compared.verdict,
        reason=compared.reason,
        sentence=_sentence(target.id, draft.id, compared, works, chosen, stopped),
        engine=question.engine,
        works=works,
        vocabulary=compared.facts,
        engines=all_answers(asked),
        findings=(
            *_engine_findings(question, chosen, asked),
            *vocabulary_findings(target, draft, method, compared, known),
            *findings_of(pair),
        ),
        acceptance=summarise(known.acceptance),
        params_ratio=_params_ratio(target.spec, pair),
        cost_ratio=known.cost_ratio,
        next_steps=tuple(_next_steps(target, draft, method, works, compared.verdict, known)),
    )


def _unknown(draft: Side, known: Known) -> bool:
    """Whether the draft is a name alone: no configuration, no row of models_db, no lookup."""
    if draft.spec is not None or draft.id == BUILT_IN or draft.id in LOOKUPS:
        return False
    return known.pairing is None and not known.elsewhere


def _refused(
    target: Side, draft: Side, method: Method, question: PairQuestion, known: Known, why: str
) -> PairReport:
    return PairReport(
        target=target.id,
        draft=draft.id,
        method=method,
        verdict=PairVerdict.REFUSE,
        sentence=f"Refused: {why}.",
        reason=why,
        engine=question.engine,
        works=False,
        vocabulary=None,
        next_steps=tuple(_next_steps(target, draft, method, False, PairVerdict.REFUSE, known)),
    )


def _facts(
    draft: Side,
    target: LlmSpec,
    method: Method,
    compared: Comparison,
    question: PairQuestion,
    known: Known,
) -> PairFacts:
    return PairFacts(
        target=target,
        draft=(draft.spec or known.head) if method not in LOOKUPS else None,
        method=method,
        draft_id=draft.id,
        pairing=known.pairing,
        vocabulary=compared.facts,
        engine=resolve_engine(question.engine)[0].name,
        tensor_parallel=question.tensor_parallel,
        draft_tensor_parallel=question.draft_tensor_parallel,
        context=question.context,
        num_speculative_tokens=question.num_speculative_tokens,
        cost_ratio=known.cost_ratio,
    )


def _method(draft: Side, question: PairQuestion, known: Known) -> Method:
    if question.method is not None:
        return question.method
    if draft.id in LOOKUPS:
        return Method(draft.id)
    if draft.id == BUILT_IN:
        return Method.MTP
    if draft.spec is not None and draft.spec.head is not None:
        return draft.spec.head.method
    # what a head is listed for elsewhere tells its method; an LLM may draft for anybody
    rows = (known.pairing,) if known.pairing is not None else known.elsewhere
    return rows[0].method if rows and draft.spec is None else Method.DRAFT_MODEL


def _runs(verdict: PairVerdict, chosen: EngineAnswer, asked: Asked) -> bool:
    if chosen.accepts is False:
        return False
    if verdict is not PairVerdict.REFUSE:
        return True
    # unrelated vocabularies run only through a map of the tokens that both have
    return asked.heterogeneous and chosen.accepts is True and asked.method is Method.DRAFT_MODEL


def _engine_findings(
    question: PairQuestion, chosen: EngineAnswer, asked: Asked
) -> Iterator[Finding]:
    engine, version = resolve_engine(question.engine)
    if chosen.accepts is not True or asked.heterogeneous:
        yield Finding(
            topic="engine",
            severity=Severity.MUST,
            text=f"{chosen.engine}: {chosen.text}",
            remedy=chosen.remedy,
            engine=engine.name,
            source=chosen.source,
        )
    if version and engine.name == "vllm" and not version.startswith(VLLM_CHECKED):
        yield Finding(
            topic="engine",
            severity=Severity.MUST,
            text=f"These rules were checked on vLLM {VLLM_CHECKED}; {version} may differ.",
            remedy="Start it once with --load-format dummy before you rely on it.",
            engine=engine.name,
        )


def _sentence(
    target: str,
    draft: str,
    compared: Comparison,
    works: bool,
    chosen: EngineAnswer,
    stopped: str,
) -> str:
    facts, verdict = compared.facts, compared.verdict
    pair = f"{draft} for {target}"
    if verdict is PairVerdict.REFUSE:
        if works:
            return (
                f"Only through a mapping of shared tokens on {chosen.engine}: {pair}; "
                f"{compared.reason}."
            )
        return f"Refused: {pair}: {compared.reason}."
    opening = {
        PairVerdict.IDENTICAL: f"Compatible, same vocabulary ({facts.target_size:,} tokens)",
        PairVerdict.PADDED: f"Compatible tokenizer, padded embedding ({sizes_text(facts)})",
        PairVerdict.REDUCED_HEAD: "Compatible, reduced head vocabulary",
        PairVerdict.SPECIAL_TOKENS_DIFFER: "Nearly the same vocabulary",
    }[verdict]
    ends = f"works on {chosen.engine}" if works else f"refused by {chosen.engine}"
    if works and chosen.accepts is None:
        ends = f"unchecked on {chosen.engine}"
    why = f" ({stopped})" if stopped else ""
    return f"{opening}: {pair}, {ends}{why}; {compared.reason}."


def _params_ratio(target: LlmSpec, pair: PairFacts) -> float | None:
    return target.params_total / pair.draft_params if pair.draft_params else None


def _next_steps(
    target: Side, draft: Side, method: Method, works: bool, verdict: PairVerdict, known: Known
) -> Iterator[str]:
    if works:
        yield f"Measure before you serve: {how_to_measure(target.id, draft.id, method)}."
        return
    if verdict is PairVerdict.PADDED:
        yield (
            "Take a draft whose embedding has the target's size, or an engine that tolerates "
            "padding (see above)."
        )
    if known.listed:
        yield f"Drafts listed for {target.id}: {', '.join(known.listed)}."
    yield f"See what else could draft for it: capplan pair {target.id}"
