"""The plan file: what was asked, what is recommended, what was rejected and why."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from capplan.schema.base import Value
from capplan.schema.pairing import Method
from capplan.schema.price import Purchase
from capplan.schema.provenance import Kind, Source
from capplan.schema.quantity import Quantity
from capplan.schema.workload import Slo, Workload

PLAN_SCHEMA_VERSION = 1


class Tier(StrEnum):
    """What the step time rests on."""

    DATASHEET = "datasheet"
    ANCHORED = "anchored"
    PROFILED = "profiled"


class PlanRequest(Value):
    """Everything a plan depends on, apart from the facts and profiles."""

    targets: tuple[str, ...] = Field(min_length=1)
    budget_usd_per_month: float = Field(gt=0)
    workload: Workload = Workload()
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
    gpu_price_usd_per_hour: dict[str, float] = Field(default_factory=dict)
    """GPU id, or ``profile`` for the machine a profile was taken on, to dollars an hour."""
    engine: str = "vllm"


class AcceptanceFigure(Value):
    """Acceptance as used for one option, never without its definition."""

    tokens_per_round: Quantity
    """Emitted tokens a target pass, bonus token included, over all rounds."""
    acceptance_rate: Quantity
    """Accepted over drafted tokens at this N."""
    definition: str
    source: Source


class MemoryFigure(Value):
    """Memory of one GPU of a replica."""

    gpu_bytes: float
    usable_bytes: float
    """What the engine may allot (utilisation times capacity)."""
    target_weight_bytes: float
    draft_weight_bytes: float
    overhead_bytes: float
    """Activations, graphs and what the runtime keeps."""
    kv_bytes_per_token: float
    """Target and draft together, on one GPU."""
    kv_tokens: float
    """Tokens that the KV pool of the replica holds."""


class LoadPoint(Value):
    """One option at one number of concurrent requests a replica."""

    concurrency: int
    tpot_ms: Quantity
    baseline_tpot_ms: float
    speedup: Quantity
    guide_speedup: float
    output_tokens_per_s: Quantity
    usd_per_million_output_tokens: Quantity
    best_num_speculative_tokens: int
    """Length that is fastest at this load for this pairing; 0 means: do not speculate."""
    best_speedup: float


class PlanOption(Value):
    """One way to serve the load, with everything needed to buy and launch it."""

    id: str
    target: str
    draft: str | None
    """Draft id; None without speculation; ``ngram`` for prompt lookup."""
    method: Method
    num_speculative_tokens: int = Field(ge=0)
    gpu: str
    gpu_name: str
    tensor_parallel: int = Field(ge=1)
    replicas: int = Field(ge=1)
    gpus_rented: int = Field(ge=1)
    """GPUs on the bill: whole nodes are rented, so this may exceed replicas x TP."""
    provider: str
    instance: str
    region: str
    purchase: Purchase
    price_tier: str
    price_source: Source
    usd_per_gpu_hour: float
    concurrency: int
    """Requests decoded at once by one replica at the planned load."""
    max_concurrency: int
    """Largest number of concurrent requests that memory and the limits allow a replica."""
    utilisation: float
    """Planned output tokens over the largest throughput of the replicas."""
    usd_per_month: Quantity
    usd_per_month_idle: float
    """Part of the bill for GPUs that no replica uses (whole nodes)."""
    usd_per_million_output_tokens: Quantity
    usd_per_million_total_tokens: Quantity
    usd_per_thousand_requests: Quantity
    output_tokens_per_s: Quantity
    """Largest throughput of all replicas together."""
    planned_output_tokens_per_s: float
    """Throughput the plan is made for: the load, or ``utilisation`` times the largest."""
    tpot_ms: Quantity
    ttft_ms: Quantity
    speedup: Quantity
    """Decode phase, against no speculation on the same GPUs at the same concurrency."""
    guide_speedup: float
    """The guide's alpha*N / (1 + N*cost_ratio), shown for comparison only."""
    cost_ratio: Quantity | None
    """One draft pass over one target decode step; None without drafts."""
    round_ratio: Quantity | None
    acceptance: AcceptanceFigure | None
    memory: MemoryFigure
    tier: Tier
    tier_note: str
    """What the step time rests on and its measured error."""
    on_pareto_front: bool = False
    load_curve: tuple[LoadPoint, ...] = ()
    warnings: tuple[str, ...] = ()
    launch: str = ""
    """Text that starts this option on the engine, if the engine can run it."""


class Rejection(Value):
    """Candidates left out for one reason."""

    reason: str
    """Short, stable id: ``memory``, ``tpot``, ``ttft``, ``budget``, ``acceptance_unknown``,
    ``draft_unknown``, ``vocabulary``, ``node_size``, ``kv_unknown``, ``price_unknown``,
    ``engine_unmeasured``."""
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
    profiles: tuple[str, ...] = ()
    """Ids of the profiles used."""
    candidates: int
    """Candidates evaluated."""
