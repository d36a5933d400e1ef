"""The answer on a pair in one sentence."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.planning.pairing.comparison import Comparison, sizes_text
from capplan.planning.pairing.inputs import BUILT_IN
from capplan.schema.pair import Evidence, PairVerdict


@dataclass(frozen=True)
class Answered:
    """A verdict on one pair and what the engine does with it."""

    target: str
    draft: str
    compared: Comparison
    usable: bool | None
    engine: str
    stopped: str = ""
    """Why the engine would not start, whatever the vocabularies."""


def opening(answer: Answered) -> str:
    """Return the verdict, the sizes, the names, and whether the engine runs the pair."""
    pair = f"{answer.draft} for {answer.target}"
    if answer.draft == BUILT_IN:
        pair = f"the MTP layers of {answer.target}"
    if answer.compared.verdict is PairVerdict.REFUSE:
        if answer.usable:
            return f"Only through a mapping of shared tokens on {answer.engine}: {pair}."
        return f"Refused: {pair}: {answer.compared.reason}."
    ends = {
        True: f"works on {answer.engine}",
        False: f"refused by {answer.engine}",
        None: f"unchecked on {answer.engine}",
    }[answer.usable]
    why = f": {answer.stopped}" if answer.stopped else ""
    return f"{_vocabulary(answer.compared)}: {pair}, {ends}{why}."


def _vocabulary(compared: Comparison) -> str:
    facts = compared.facts
    if compared.verdict is PairVerdict.PADDED:
        return f"Compatible tokenizer, padded embedding ({sizes_text(facts)})"
    if compared.verdict is PairVerdict.SPECIAL_TOKENS_DIFFER:
        return f"Compatible but for special tokens ({facts.target_size:,} rows each)"
    if compared.verdict is PairVerdict.REDUCED_HEAD:
        return (
            f"Compatible, reduced head vocabulary ({facts.head_vocabulary:,} of "
            f"{facts.target_size:,} tokens)"
        )
    if facts.evidence is Evidence.SIZES:
        return f"Compatible by size alone ({facts.target_size:,} tokens, not compared)"
    return f"Compatible, same vocabulary ({facts.target_size:,} tokens)"
