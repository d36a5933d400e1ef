"""The part of models_db that pairs are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capplan.planning.pairing.inputs import BUILT_IN, Known
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import AcceptanceFact, Method, Pairing

_OFFERED = 4


@dataclass(frozen=True)
class Shelf:
    """Pairings, published acceptance and LLMs."""

    pairings: Sequence[Pairing]
    acceptance: Sequence[AcceptanceFact]
    llms: Sequence[LlmSpec]

    def known(
        self,
        target_id: str,
        draft_id: str,
        method: Method | None = None,
    ) -> Known:
        """Return what is known of one pair; ``method`` chooses among several rows of it."""
        rows = [row for row in self.pairings if row.draft == draft_id]
        ours = [row for row in rows if row.target == target_id]
        chosen = next((row for row in ours if method in (None, row.method)), None)
        return Known(
            pairing=chosen or next(iter(ours), None),
            elsewhere=() if draft_id == BUILT_IN else tuple(r for r in rows if r not in ours),
            acceptance=tuple(
                fact
                for fact in self.acceptance
                if fact.target == target_id
                and fact.draft == draft_id
                and (chosen is None or fact.method is chosen.method)
            ),
            listed=tuple(
                row.draft
                for row in self.pairings
                if row.target == target_id and row.exists and row.draft not in (draft_id, BUILT_IN)
            )[:_OFFERED],
        )
