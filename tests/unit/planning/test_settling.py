"""What an undecided answer says to do."""

from __future__ import annotations

from typing import Any

import pytest

from capplan.planning.settling import hangs_on, how_to_settle
from capplan.schema.pairing import Method
from capplan.schema.plan import SpreadCause, Tier


@pytest.mark.parametrize(
    ("tier", "remedy", "cause"),
    [
        (Tier.DATASHEET, "measure it with capplan profile", "a round costs beside its passes"),
        (Tier.PROFILED, "measure longer, on an idle machine: capplan", "scatter in the profile"),
    ],
)
def test_what_was_measured_is_to_be_measured_better_and_the_rest_at_all(
    sample_plans: Any, tier: Tier, remedy: str, cause: str
) -> None:
    option = sample_plans.make_option(
        method=Method.NGRAM, tier=tier, speedup_spread={SpreadCause.ROUND: 1.0}
    )
    assert how_to_settle(option).startswith(remedy)
    assert cause in hangs_on(option)
