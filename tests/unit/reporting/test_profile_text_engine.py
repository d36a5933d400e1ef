"""What `capplan profile` prints of an engine's own steps."""

from __future__ import annotations

from typing import Any

from capplan.reporting.profile_text import render_profile
from capplan.schema.cells import Phase, Role, TimingCell


def test_rounds_are_shown_in_plain_steps(synthetic: Any) -> None:
    base, _ = synthetic.profile(draft="ngram")
    cells = tuple(
        TimingCell(
            role=Role.TARGET,
            phase=Phase.ROUND if n else Phase.DECODE,
            batch=batch,
            tokens_per_sequence=n + 1,
            context=300,
            seconds=(0.010 * (1.0 + 0.25 * n),),
            verdict=synthetic.STABLE,
        )
        for batch in (1, 8)
        for n in (0, 2, 4)
    )
    text = render_profile(base.model_copy(update={"timing": cells, "acceptance": ()}), {})
    lines = [line.split() for line in text.splitlines()]
    assert ["8", "10.00", "1.50x", "2.00x"] in lines
    assert "fit of 6 points" in text
