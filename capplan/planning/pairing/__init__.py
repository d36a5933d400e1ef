"""Can this draft work for this target: vocabularies, engines, sizes, contexts, licences."""

from capplan.planning.pairing.cost import estimate_cost_ratio
from capplan.planning.pairing.inputs import BUILT_IN, LOOKUPS, PairQuestion, Side
from capplan.planning.pairing.report import judge
from capplan.planning.pairing.shelf import Shelf
from capplan.planning.pairing.suggestions import suggest, with_alternatives

__all__ = [
    "BUILT_IN",
    "LOOKUPS",
    "PairQuestion",
    "Shelf",
    "Side",
    "estimate_cost_ratio",
    "judge",
    "suggest",
    "with_alternatives",
]
