"""Pairs: whether a draft can work for a target, and what could."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from capplan.deploy.from_option import pair_config
from capplan.errors import RequestError
from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.engines import load_engine
from capplan.facts.find_llm import as_name
from capplan.facts.find_pair import Named, find_draft, find_target
from capplan.planning.heads import head_spec
from capplan.planning.pairing.cost import estimate_cost_ratio
from capplan.planning.pairing.inputs import BUILT_IN, PairQuestion, Side
from capplan.planning.pairing.report import judge
from capplan.planning.pairing.shelf import Shelf
from capplan.planning.pairing.suggestions import suggest, with_alternatives
from capplan.schema.llm import LlmSpec
from capplan.schema.pair import PairReport, PairSuggestions
from capplan.schema.pairing import Method, Pairing


def pair(
    target: Path | str,
    draft: Path | str | None = None,
    *,
    method: Method | str | None = None,
    engine: str = "vllm==0.33",
    tensor_parallel: int = 1,
    draft_tensor_parallel: int | None = None,
    context: int | None = None,
    num_speculative_tokens: int | None = None,
    heterogeneous_vocab: bool = False,
    gpu: str | None = None,
    catalog: Catalog | None = None,
    online: bool = False,
) -> PairReport | PairSuggestions:
    """Say whether a draft can work for a target; without one, what could.

    Parameters
    ----------
    target, draft
        Ids or folders with a ``config.json``; tokenizers beside it are compared token by token.
        The draft may be ``ngram``, ``suffix`` or ``mtp`` (the target's own layers).
    method
        How to draft; by default what the draft is made for.
    engine
        Engine that the answer is about, with its version: ``vllm==0.33``.
    tensor_parallel, draft_tensor_parallel, context, num_speculative_tokens
        How the pair would be run; all but the first may be left open.
    heterogeneous_vocab
        Whether vLLM may map the tokens that both vocabularies have.
    gpu
        Estimate the cost ratio on this GPU from data sheets.
    catalog, online
        Facts, the shipped ones by default; whether to ask the hub for unknown ids.

    Raises
    ------
    UnknownIdError
        If nothing goes by a name, or no rule of the engine is known.
    FactsError, CheckpointError
        If files are there and cannot be used.
    """
    catalog = catalog if catalog is not None else load_catalog()
    question = PairQuestion(
        method=_method(method),
        engine=engine,
        tensor_parallel=tensor_parallel,
        draft_tensor_parallel=draft_tensor_parallel,
        context=context,
        num_speculative_tokens=num_speculative_tokens,
        heterogeneous_vocabulary=heterogeneous_vocab,
    )
    shelf = Shelf(catalog.pairings, catalog.acceptance, catalog.llms)
    ours = find_target(as_name(target), catalog, online=online)
    if draft is None and question.method is not None:
        draft = _DRAFT_OF_METHOD.get(question.method)
    if draft is None:
        return suggest(_side(ours), shelf, question)
    theirs = find_draft(as_name(draft), ours.id, catalog, online=online)
    known = shelf.known(ours.id, theirs.id, question.method)
    target_spec = ours.found.spec if ours.found is not None else None
    if target_spec is not None and known.pairing is not None and theirs.found is None:
        known = replace(known, head=head_spec(target_spec, known.pairing))
    draft_spec = theirs.found.spec if theirs.found is not None else known.head
    if gpu is not None and target_spec is not None and draft_spec is not None:
        ratio = estimate_cost_ratio(
            target_spec,
            draft_spec,
            catalog.gpu(gpu),
            tensor_parallel,
            context,
            load_engine("vllm"),
        )
        known = replace(known, cost_ratio=ratio)
    both_local = _both_read(ours, theirs)
    report = judge(
        _side(ours, with_tokens=both_local), _side(theirs, with_tokens=both_local), question, known
    )
    if not report.usable:
        open_question = replace(
            question, method=None, num_speculative_tokens=None, heterogeneous_vocabulary=False
        )
        report = with_alternatives(report, suggest(_side(ours), shelf, open_question))
    return _with_config(report, question, known.pairing, target_spec)


_DRAFT_OF_METHOD = {
    Method.NGRAM: Method.NGRAM.value,
    Method.SUFFIX: Method.SUFFIX.value,
    Method.MTP: BUILT_IN,
}
"""What a method drafts with where no draft is named."""


_DEFAULT_LENGTH = 3
"""Where to begin where nothing says better: a speculation length for the launch text."""


def _method(name: Method | str | None) -> Method | None:
    if name is None or isinstance(name, Method):
        return name
    try:
        return Method(name)
    except ValueError:
        known = ", ".join(method.value for method in Method if method is not Method.NONE)
        raise RequestError(f"Unknown method {name!r}.", f"Known: {known}.") from None


def _both_read(ours: Named, theirs: Named) -> bool:
    return all(
        named.found is not None and named.found.folder is not None for named in (ours, theirs)
    )


def _side(named: Named, *, with_tokens: bool = False) -> Side:
    return Side(
        named.id,
        named.found.spec if named.found is not None else None,
        named.tokenizer() if with_tokens else None,
        local=named.local,
    )


def _with_config(
    report: PairReport, question: PairQuestion, row: Pairing | None, target: LlmSpec | None
) -> PairReport:
    """Add vLLM's speculative config to a pair that it runs."""
    if not report.works or not report.engine.startswith("vllm"):
        return report
    published = row.default_num_speculative_tokens if row is not None else None
    layers = target.mtp_layers if target is not None and report.method is Method.MTP else 0
    length = question.num_speculative_tokens or published or layers or _DEFAULT_LENGTH
    config = pair_config(
        report.method,
        report.draft,
        length,
        heterogeneous_vocabulary=question.heterogeneous_vocabulary,
    )
    return report.model_copy(update={"speculative_config": config})
