"""The plan file: what was asked, what is recommended, what was rejected and why."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import Field

from capplan.schema.audit import GuidePoint
from capplan.schema.base import Value
from capplan.schema.fleet import ServiceFleet
from capplan.schema.option import (
    AcceptanceFigure,
    LoadPoint,
    MemoryFigure,
    PlanOption,
    SpreadCause,
    Tier,
)
from capplan.schema.pairing import Method
from capplan.schema.price import ApiComparison, Electricity, Exact, Purchase
from capplan.schema.provenance import Kind
from capplan.schema.schedule import LengthSchedule
from capplan.schema.services import NamedWorkload
from capplan.schema.workload import Slo, Workload

__all__ = [
    "PLAN_SCHEMA_VERSION",
    "AcceptanceFigure",
    "Assumption",
    "LoadPoint",
    "MemoryFigure",
    "Plan",
    "PlanOption",
    "PlanRequest",
    "PlanVerdict",
    "Rejection",
    "SpreadCause",
    "Tier",
]

PLAN_SCHEMA_VERSION = 1


class PlanRequest(Value):
    """Everything a plan depends on, apart from the facts and profiles."""

    targets: tuple[str, ...] = Field(min_length=1)
    budget_usd_per_month: float = Field(gt=0)
    workload: Workload = Workload()
    """Without a rate, the most output tokens that the budget buys are asked for."""
    slo: Slo = Slo()
    drafts: tuple[str, ...] = ()
    """Empty: every pairing the catalogue and the profiles know."""
    methods: tuple[Method, ...] = ()
    max_num_speculative_tokens: int = Field(default=8, ge=1, le=16)
    gpus: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    purchases: tuple[Purchase, ...] = (Purchase.ON_DEMAND,)
    price_tiers: tuple[str, ...] = ("list", "secure")
    tensor_parallel: tuple[int, ...] = (1, 2, 4, 8)
    assumed_acceptance: float | None = Field(default=None, ge=0, le=1)
    """Per-token acceptance the caller wants assumed where nothing is measured or cited."""
    gpu_price_usd_per_hour: dict[str, Exact] = Field(default_factory=dict)
    """GPU id, or ``profile`` for the machine a profile was taken on, to dollars an hour."""
    hours_per_month: Exact = Field(default=Decimal(730), gt=0, le=744)
    """Hours of a month in which the load arrives and on-demand GPUs are paid for; 8,760 / 12
    by default. Reservations are paid for all hours. Not a utilisation: that is the share of
    the throughput used within these hours."""
    list_discount: Exact = Field(default=Decimal(0), ge=0, lt=1)
    """Stated discount on list prices on demand; no other price is touched."""
    share_node: bool = False
    """Others use and pay for the rest of a node: only GPUs in use are on the bill."""
    electricity: Electricity | None = None
    """Added to prices stated by the caller, of hardware that is owned; never to a rent."""
    compare_api: tuple[str, ...] = ()
    """Hosted LLMs to compare the bill with, by their names at the provider."""
    cached_input_share: Exact = Field(default=Decimal(0), ge=0, le=1)
    """Share of the prompts that an API would charge at its price for cached input."""
    engine: str = "vllm"
    services: tuple[NamedWorkload, ...] = ()
    """They share the budget; ``workload``, ``targets`` and ``slo`` of the plan are then those
    that its options serve."""


class Rejection(Value):
    """Candidates left out for one reason."""

    reason: str
    """Short, stable id: ``memory``, ``tpot``, ``ttft``, ``budget``, ``acceptance_unknown``,
    ``draft_unknown``, ``head_mismatch``, ``vocabulary``, ``vocabulary_padded``, ``node_size``,
    ``tensor_parallel``, ``kv_unknown``, ``price_unknown``, ``engine_unmeasured``, ``context``."""
    count: int = Field(ge=1)
    example: str
    """One rejected candidate, named, with its numbers."""
    remedy: str


class Assumption(Value):
    """Something the plan rests on."""

    name: str
    value: str
    kind: Kind
    source: str


class PlanVerdict(Value):
    """The answer in one sentence."""

    feasible: bool
    sentence: str
    needed: str = ""
    """Where nothing fits: what it would take."""
    decided: bool = True
    """False where the interval of the recommended speedup holds 1; the sentence then says so."""
    settled_by: str = ""
    """Where it is not decided: the command that measures what it hangs on."""


class Plan(Value):
    """A ranked answer to one request."""

    schema_version: Literal[1] = 1
    created_at: str
    capplan_version: str
    request: PlanRequest
    verdict: PlanVerdict
    options: tuple[PlanOption, ...]
    """Best first."""
    baseline: PlanOption | None
    """The best option without speculation."""
    rejections: tuple[Rejection, ...]
    assumptions: tuple[Assumption, ...]
    advice: tuple[str, ...] = ()
    guide_checklist: tuple[GuidePoint, ...] = ()
    """A popular guide's checklist and troubleshooting table, applied to the recommended option."""
    api_comparisons: tuple[ApiComparison, ...] = ()
    """The recommended option's bill beside hosted LLMs, cheapest API first."""
    schedules: tuple[LengthSchedule, ...] = ()
    """Draft lengths by batch of each target's best option that drafts; empty in plans of older
    versions."""
    fleet: ServiceFleet | None = None
    """Several services: apart and on shared replicas; None for one."""
    profiles: tuple[str, ...] = ()
    """Ids of the profiles used."""
    candidates: int
    """Candidates evaluated."""
