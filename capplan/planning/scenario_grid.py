"""Factors on what a plan assumes, and every combination of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from capplan.errors import RequestError


@dataclass(frozen=True)
class ScenarioGrid:
    """Factors on what a plan assumes; every combination is a scenario.

    Attributes
    ----------
    acceptance
        On the drafted tokens that are accepted a round; at most all of them are.
    price
        On every offer.
    load
        On the requests, or the tokens a month.
    lengths
        On prompt and output tokens; requests a second stay, tokens a month too.
    overhead
        On what a round costs beside its passes (sampling, launches of the draft).
    """

    acceptance: tuple[float, ...] = (1.0,)
    price: tuple[float, ...] = (1.0,)
    load: tuple[float, ...] = (1.0,)
    lengths: tuple[float, ...] = (1.0,)
    overhead: tuple[float, ...] = (1.0,)

    def scenarios(self) -> list[Scenario]:
        """Return every combination, the first factor varying slowest.

        Raises
        ------
        RequestError
            If a factor is negative, or one but acceptance and overhead is zero.
        """
        for name in ("acceptance", "price", "load", "lengths", "overhead"):
            may_vanish = name in ("acceptance", "overhead")
            for factor in getattr(self, name):
                if not np.isfinite(factor) or factor < 0 or (factor == 0 and not may_vanish):
                    raise RequestError(
                        f"A factor of {factor:g} on {name} is none, expected more than 0"
                        f"{' or 0' if may_vanish else ''}.",
                        "1 leaves the plan's own value, 0.8 takes 20 % off it.",
                    )
        axes = (self.acceptance, self.price, self.load, self.lengths, self.overhead)
        return [Scenario(*factors) for factors in product(*axes)]


@dataclass(frozen=True)
class Scenario:
    """One set of factors; 1 everywhere is the plan as it is."""

    acceptance: float = 1.0
    price: float = 1.0
    load: float = 1.0
    lengths: float = 1.0
    overhead: float = 1.0
