"""What could draft for a target: its published pairings, its own layers, lookup, its family."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from capplan.planning.pairing.acceptance import how_to_measure, summarise
from capplan.planning.pairing.inputs import BUILT_IN, LOOKUPS, PairQuestion, Side
from capplan.planning.pairing.report import judge
from capplan.planning.pairing.shelf import Shelf
from capplan.planning.pairing.vocabulary import same_line, tokenizer_name
from capplan.schema.llm import LlmSpec
from capplan.schema.pair import Evidence, PairReport, PairSuggestion, PairSuggestions, PairVerdict
from capplan.schema.pairing import Method, Pairing

MOST_OF_TARGET = 1 / 3
"""Drafts that nobody listed for the target are offered up to this share of its parameters, the
guide's upper end. Its lower end, 1/10, is not applied: a smaller draft is cheaper."""

_OFFERED = 3

_ORDER = (
    *(Method.EAGLE3, Method.PEAGLE, Method.DFLASH, Method.DSPARK, Method.MTP, Method.EAGLE),
    *(Method.DRAFT_MODEL, Method.NGRAM, Method.SUFFIX, Method.MEDUSA),
)


def suggest(target: Side, shelf: Shelf, question: PairQuestion) -> PairSuggestions:
    """Return every way to draft for a target, the most promising first.

    What the engine runs comes first, then what has published acceptance, then by method (heads
    before draft models before lookup) and by size. Acceptance of different sources is not
    ranked: tasks, lengths and temperatures differ.
    """
    rows = [row for row in shelf.pairings if row.target == target.id]
    found = [_listed(target, row, shelf, question) for row in rows]
    found.extend(
        _judged(target, Side(draft_id), method, shelf, question)
        for draft_id, method in _always(target)
        if all(row.draft != draft_id for row in rows)
    )
    if target.spec is not None:
        listed = {row.draft for row in rows}
        found.extend(
            _judged(target, Side(llm.id, llm), Method.DRAFT_MODEL, shelf, question)
            for llm in _relatives(target.spec, shelf.llms)
            if llm.id not in listed
        )
    wanted = [item for item in found if question.method in (None, item.method)]
    family = target.spec.family if target.spec is not None else ""
    related = {llm.id for llm in shelf.llms if llm.family == family}
    return PairSuggestions(
        target=target.id,
        engine=question.engine,
        suggestions=tuple(sorted(wanted, key=lambda item: _rank(item, related))),
        notes=tuple(_notes(target, wanted)),
    )


def _rank(
    item: PairSuggestion, related: Collection[str]
) -> tuple[bool, bool, bool, bool, int, bool, float, str]:
    needs_no_list = item.draft == BUILT_IN or item.method in LOOKUPS
    return (
        not item.exists,
        not item.works,
        not item.acceptance,
        not (item.listed or needs_no_list),
        _ORDER.index(item.method),
        item.draft not in related,
        item.draft_params or 0.0,
        item.draft,
    )


def _always(target: Side) -> Iterator[tuple[str, Method]]:
    """Yield what needs no checkpoint: the target's own layers, and lookup in the text."""
    if target.spec is not None and target.spec.mtp_layers:
        yield BUILT_IN, Method.MTP
    if target.spec is not None:
        yield Method.NGRAM.value, Method.NGRAM


def _relatives(target: LlmSpec, llms: Sequence[LlmSpec]) -> Iterator[LlmSpec]:
    """Yield smaller LLMs with the target's tokenizer."""
    for llm in llms:
        if llm.head is None and llm.params_total <= MOST_OF_TARGET * target.params_total:
            named = tokenizer_name(target)
            same = tokenizer_name(llm) == named if named else _alike(target, llm)
            # a coder guesses prose worse than its general sibling, which is on the shelf too
            if same and (_is_coder(target) or not _is_coder(llm)):
                yield llm


def _is_coder(llm: LlmSpec) -> bool:
    return "coder" in llm.id.lower()


def _alike(target: LlmSpec, llm: LlmSpec) -> bool:
    return llm.vocab_size == target.vocab_size and same_line(target, llm)


def _listed(target: Side, row: Pairing, shelf: Shelf, question: PairQuestion) -> PairSuggestion:
    spec = next((llm for llm in shelf.llms if llm.id == row.draft), None)
    if target.spec is None:
        return _unjudged(target, row, shelf)
    return _judged(target, Side(row.draft, spec), row.method, shelf, question, row)


def _judged(
    target: Side,
    draft: Side,
    method: Method,
    shelf: Shelf,
    question: PairQuestion,
    row: Pairing | None = None,
) -> PairSuggestion:
    known = shelf.known(target.id, draft.id, method)
    report = judge(target, draft, question.with_method(method), known)
    params = draft.spec.params_total if draft.spec is not None else None
    if params is None and row is not None:
        params = row.draft_params
    return PairSuggestion(
        draft=draft.id,
        method=method,
        exists=row is None or row.exists,
        listed=row is not None,
        usable=report.usable,
        verdict=report.verdict,
        sentence=_short(report),
        draft_params=params,
        params_ratio=report.params_ratio,
        acceptance=report.acceptance,
        measure="" if report.acceptance else how_to_measure(target.id, draft.id, method),
        licence=_licence(draft, row),
        source=_source(draft, row),
    )


def _short(report: PairReport) -> str:
    """Return the verdict without the names, which the list shows anyway."""
    if report.vocabulary is None or report.verdict is PairVerdict.REFUSE:
        return f"{report.reason}."
    if report.usable is False and report.verdict is PairVerdict.PADDED:
        return f"padded embedding, difference {report.difference:,}."
    if report.usable is False:
        engine = report.engine.partition("==")[0]
        answers = [a for a in report.engines if a.engine.partition("==")[0] == engine]
        # an engine that has the method may still stop at these parallel sizes or lengths
        return next((a.text for a in answers if a.accepts is False), report.sentence)
    named = report.verdict.value.replace("_", " ")
    facts = report.vocabulary
    if facts.evidence is Evidence.OWN:
        reduced = report.verdict is PairVerdict.REDUCED_HEAD
        return f"{named}." if reduced else "the target's own vocabulary."
    by = "by size alone, " if facts.evidence is Evidence.SIZES else ""
    return f"{named}, {by}tokens not compared."


def _licence(draft: Side, row: Pairing | None) -> str:
    licence = draft.spec.licence if draft.spec is not None else ""
    return licence or (row.licence if row is not None else "")


def _source(draft: Side, row: Pairing | None) -> str:
    if row is not None:
        return str(row.source)
    return str(draft.spec.source) if draft.spec is not None else ""


def _unjudged(target: Side, row: Pairing, shelf: Shelf) -> PairSuggestion:
    """List a pairing of a target whose figures are not known."""
    acceptance = summarise(shelf.known(target.id, row.draft, row.method).acceptance)
    return PairSuggestion(
        draft=row.draft,
        method=row.method,
        exists=row.exists,
        listed=True,
        usable=row.exists,
        verdict=PairVerdict.IDENTICAL if row.exists else PairVerdict.REFUSE,
        sentence="published for it; nothing was compared.",
        draft_params=row.draft_params,
        acceptance=acceptance,
        measure="" if acceptance else how_to_measure(target.id, row.draft, row.method),
        licence=row.licence,
        source=str(row.source),
    )


def _notes(target: Side, found: Sequence[PairSuggestion]) -> Iterator[str]:
    padded = [item for item in found if item.verdict is PairVerdict.PADDED and not item.works]
    if padded:
        yield (
            f"Padded drafts ({len(padded)}) are no mismatch: vLLM runs them with "
            "--heterogeneous-vocab, llama.cpp as they are; ask with --engine."
        )
    if target.spec is None:
        yield f"The figures of {target.id} are not all known: verdicts were not computed."
    elif not target.spec.mtp_layers:
        yield f"{target.id} has no MTP layers of its own."
    if any(item.acceptance for item in found):
        yield "Tokens a round of different sources differ in tasks, lengths and temperatures."


def with_alternatives(report: PairReport, found: PairSuggestions) -> PairReport:
    """Add to a pair that the engine does not run what it does run, or that nothing is known."""
    if report.usable:
        return report
    heads = [item for item in found.suggestions if item.works and item.method not in LOOKUPS]
    offered = ", ".join(f"{item.draft} ({item.method.value})" for item in heads[:_OFFERED])
    lookup = any(item.works and item.method in LOOKUPS for item in found.suggestions)
    steps = [f"{report.engine} runs for {report.target}: {offered}."] if heads else []
    if not heads:
        steps.append(
            f"No draft model and no head is known that {report.engine} runs for {report.target}: "
            "look for an EAGLE-3 head trained on it"
            + (", or draft by lookup (ngram), which needs none." if lookup else ".")
        )
    steps.append(f"All of them: capplan pair {report.target}{_engine_flag(report.engine)}")
    return report.model_copy(update={"next_steps": (*report.next_steps, *steps)})


def _engine_flag(engine: str) -> str:
    return "" if engine == PairQuestion().engine else f" --engine {engine}"
