"""One target, one draft: can they work together, on which engine, and what to mind."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.errors import UnknownIdError
from capplan.planning.pairing.acceptance import how_to_measure, summarise
from capplan.planning.pairing.comparison import Comparison
from capplan.planning.pairing.engine_findings import blocking
from capplan.planning.pairing.engine_rules import (
    HETEROGENEOUS,
    HETEROGENEOUS_COST,
    VLLM_CHECKED,
    Asked,
    all_answers,
    resolve_engine,
)
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
from capplan.planning.pairing.sentence import Answered, opening
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
        return _refused(target, draft, target.spec, method, question.engine, refused)
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
    usable = False if stopped else _runs(compared.verdict, chosen, asked)
    draft_size = compared.facts.head_vocabulary or compared.facts.draft_size
    return PairReport(
        target=target.id,
        draft=draft.id,
        method=method,
        verdict=compared.verdict,
        usable=usable,
        engine=question.engine,
        target_vocab_size=compared.facts.target_size,
        draft_vocab_size=draft_size,
        difference=compared.facts.difference,
        reason=compared.reason,
        sentence=opening(Answered(target.id, draft.id, compared, usable, chosen.engine, stopped)),
        vocabulary=compared.facts,
        engines=all_answers(asked),
        findings=(
            *_engine_findings(question, chosen, asked),
            *vocabulary_findings(target, draft, method, compared, known),
            # what else to mind is noise where the vocabularies forbid the pair
            *(findings_of(pair) if usable or compared.verdict is not PairVerdict.REFUSE else ()),
        ),
        acceptance=summarise(known.acceptance),
        params_ratio=_params_ratio(target.spec, pair),
        cost_ratio=known.cost_ratio,
        next_steps=tuple(_next_steps(target, draft, method, usable)),
    )


def _unknown(draft: Side, known: Known) -> bool:
    """Whether the draft is a name alone: no configuration, no row of models_db, no lookup."""
    if draft.spec is not None or draft.id == BUILT_IN or draft.id in LOOKUPS:
        return False
    return known.pairing is None and not known.elsewhere


def _refused(
    target: Side, draft: Side, spec: LlmSpec, method: Method, engine: str, why: str
) -> PairReport:
    theirs = draft.spec.vocab_size if draft.spec is not None else None
    return PairReport(
        target=target.id,
        draft=draft.id,
        method=method,
        verdict=PairVerdict.REFUSE,
        usable=False,
        engine=engine,
        target_vocab_size=spec.vocab_size,
        draft_vocab_size=theirs,
        difference=None if theirs is None else abs(spec.vocab_size - theirs),
        sentence=f"Refused: {why}.",
        reason=why,
        vocabulary=None,
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
        heterogeneous_vocabulary=question.heterogeneous_vocabulary,
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


def _runs(verdict: PairVerdict, chosen: EngineAnswer, asked: Asked) -> bool | None:
    if chosen.accepts is False:
        return False
    if verdict is PairVerdict.REFUSE:
        # unrelated vocabularies run only through a map of the tokens that both have
        return asked.heterogeneous and chosen.accepts is True
    return chosen.accepts


def _engine_findings(
    question: PairQuestion, chosen: EngineAnswer, asked: Asked
) -> Iterator[Finding]:
    engine, version = resolve_engine(question.engine)
    if chosen.remedy or (asked.heterogeneous and chosen.accepts):
        yield Finding(
            topic="engine",
            severity=Severity.MUST,
            text=chosen.remedy or f"{HETEROGENEOUS}: {HETEROGENEOUS_COST}.",
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


def _params_ratio(target: LlmSpec, pair: PairFacts) -> float | None:
    return target.params_total / pair.draft_params if pair.draft_params else None


def _next_steps(target: Side, draft: Side, method: Method, usable: bool | None) -> Iterator[str]:
    if usable is not False:
        yield f"Measure before you serve: {how_to_measure(target.id, draft.id, method)}"
