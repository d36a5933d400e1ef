"""The part of models_db that pairs are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capplan.planning.pairing.inputs import BUILT_IN, Known
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import AcceptanceFact, Method, Pairing


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
            trained_on=() if ours else self._of_one_shape(target_id, rows),
        )

    def _of_one_shape(self, target_id: str, rows: Sequence[Pairing]) -> tuple[LlmSpec, ...]:
        """Return other LLMs that the draft is listed for and that are shaped as the target is."""
        others = {row.target for row in rows} - {target_id}
        shapes = {llm.id: (llm.hidden, llm.layers, llm.vocab_size) for llm in self.llms}
        shape = shapes.get(target_id)
        return tuple(llm for llm in self.llms if llm.id in others and shapes[llm.id] == shape)
