"""What a plan would recommend in other circumstances: a grid of scenarios as tidy rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capplan.api.collecting import paused_collection
from capplan.api.plans import plan_inputs
from capplan.economics.decimals import without_noise
from capplan.errors import MissingPackageError
from capplan.estimate.traffic import peak_to_mean
from capplan.facts.catalog import Catalog
from capplan.planning.peaks import sized_for_peak
from capplan.planning.scenarios import Choice, Scenario, ScenarioGrid, best_choices
from capplan.profiles.calibration_file import StoredCalibration
from capplan.profiles.store import StoredProfile
from capplan.schema.plan import Plan, PlanRequest
from capplan.units import MS_PER_S

if TYPE_CHECKING:
    import pandas as pd

Cell = str | float | int | bool | None


@dataclass(frozen=True)
class WhatIfRow:
    """One scenario and its best option; everything of the option is None where nothing fits.

    Attributes
    ----------
    acceptance_factor, price_factor, load_factor, lengths_factor, overhead_factor
        The scenario: factors on what the plan assumes.
    feasible
        Whether anything serves the load within the budget and the limits.
    choice_changes
        Whether the draft, N, the GPUs or the offer differ from the plan's own.
    speculation_changes
        Whether the way to draft differs (method or draft), whatever its N and hardware.
    """

    acceptance_factor: float
    price_factor: float
    load_factor: float
    lengths_factor: float
    overhead_factor: float
    feasible: bool
    target: str | None
    method: str | None
    draft: str | None
    num_speculative_tokens: int | None
    gpu: str | None
    tensor_parallel: int | None
    replicas: int | None
    provider: str | None
    instance: str | None
    region: str | None
    purchase: str | None
    usd_per_month: float | None
    usd_per_million_output_tokens: float | None
    tpot_ms: float | None
    speedup: float | None
    choice_changes: bool
    speculation_changes: bool


@dataclass(frozen=True)
class WhatIf:
    """Scenarios of one plan, a row each, in the order of the grid."""

    rows: tuple[WhatIfRow, ...]
    base: WhatIfRow
    """The plan as it is: every factor 1."""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[WhatIfRow]:
        return iter(self.rows)

    def records(self) -> list[dict[str, Cell]]:
        """Return the rows as dictionaries, units in their keys."""
        return [dict(vars(row)) for row in self.rows]

    def to_frame(self) -> pd.DataFrame:
        """Return a tidy DataFrame, a row a scenario.

        Raises
        ------
        MissingPackageError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingPackageError("A DataFrame", "pandas", "notebook") from error
        return pd.DataFrame.from_records(self.records())


def whatif(
    plan: Plan | PlanRequest,
    scenarios: ScenarioGrid,
    profiles: Sequence[StoredProfile] = (),
    catalog: Catalog | None = None,
    calibrations: Sequence[StoredCalibration] = (),
) -> WhatIf:
    """Return the best option of every scenario of a plan.

    Everything is searched anew in every scenario, so that the answer may be another draft, another
    N, another GPU, or none. With every factor 1 it is the plan's own recommendation.

    Parameters
    ----------
    plan
        A plan, or the request of one.
    scenarios
        Factors to combine.
    profiles, catalog, calibrations
        What the plan was made with; as for :func:`capplan.recommend`.

    Raises
    ------
    RequestError
        If a factor is none, or varies what the plan does not have.
    UnknownIdError, ProfileInvalidError
        As :func:`capplan.recommend`.
    """
    asked = plan.request if isinstance(plan, Plan) else plan
    with paused_collection():
        request, inputs = plan_inputs(asked, profiles, catalog, calibrations)
        wanted = [Scenario(), *scenarios.scenarios()]
        choices = best_choices(inputs, sized_for_peak(request), wanted)
    # what is bought is for the peak, the tokens it is spread over arrive at the mean rate
    to_mean = peak_to_mean(request.workload, float(request.hours_per_month))
    rows = [
        _row(scenario, choice, choices[0], request.targets, to_mean)
        for scenario, choice in zip(wanted, choices, strict=True)
    ]
    return WhatIf(rows=tuple(rows[1:]), base=rows[0])


def _row(
    scenario: Scenario,
    choice: Choice | None,
    base: Choice | None,
    targets: Sequence[str],
    to_mean: float,
) -> WhatIfRow:
    factors = (
        scenario.acceptance,
        scenario.price,
        scenario.load,
        scenario.lengths,
        scenario.overhead,
    )
    if choice is None:
        nothing = (None,) * 15
        changes = base is not None
        return WhatIfRow(*factors, False, *nothing, changes, changes)
    drafting, offer = choice.evaluated.drafting, choice.offer.row
    hardware = choice.evaluated.choices[choice.hardware_index]
    same = base is not None and base.what == choice.what
    drafted = base.evaluated.drafting if base is not None else None
    same_draft = drafted is not None and (
        (drafted.method, drafted.draft_id) == (drafting.method, drafting.draft_id)
    )
    return WhatIfRow(
        *factors,
        feasible=True,
        target=targets[choice.target_index],
        method=drafting.method.value,
        draft=drafting.draft_id,
        num_speculative_tokens=choice.length,
        gpu=hardware.gpu_id,
        tensor_parallel=hardware.tensor_parallel,
        replicas=choice.replicas,
        provider=offer.provider,
        instance=offer.instance,
        region=offer.region,
        purchase=offer.purchase.value,
        usd_per_month=without_noise(choice.usd_month),
        usd_per_million_output_tokens=choice.usd_per_million * to_mean,
        tpot_ms=choice.tpot_s * MS_PER_S,
        speedup=choice.speedup,
        choice_changes=not same,
        speculation_changes=not same_draft,
    )
