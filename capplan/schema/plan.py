"""The plan file: what was asked, what is recommended, what was rejected and why."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Literal

from pydantic import Field

from capplan.schema.audit import GuidePoint
from capplan.schema.base import Value
from capplan.schema.fleet import ServiceFleet
from capplan.schema.pairing import DraftSampleMethod, Method
from capplan.schema.price import ApiComparison, Electricity, Exact, MonthlyBill, Purchase
from capplan.schema.provenance import Kind, Source
from capplan.schema.quantity import Quantity
from capplan.schema.schedule import LengthSchedule
from capplan.schema.services import NamedWorkload
from capplan.schema.workload import Slo, Workload

PLAN_SCHEMA_VERSION = 1


class Tier(StrEnum):
    """What the step time rests on."""

    DATASHEET = "datasheet"
    ANCHORED = "anchored"
    PROFILED = "profiled"


class SpreadCause(StrEnum):
    """What makes a speedup uncertain."""

    ACCEPTANCE = "acceptance"
    """Tokens a round on this text."""
    DRAFT_PASSES = "draft_passes"
    """What the passes of the draft cost, launches above all."""
    EXPERTS = "experts"
    """Experts that verification reads and decoding does not."""
    VERIFICATION = "verification"
    """Arithmetic of the drafted tokens."""
    EXCHANGE = "exchange"
    """Exchange of the drafted tokens between the GPUs of a group."""
    ROUND = "round"
    """The rest of a round: sampling, bookkeeping, what the model leaves out."""


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


class AcceptanceFigure(Value):
    """Acceptance as used for one option, never without its definition."""

    tokens_per_round: Quantity
    """Emitted tokens a target pass, bonus token included, over all rounds."""
    acceptance_rate: Quantity
    """Accepted tokens a round over N. A round without a draft (lookup that finds nothing) counts
    with none accepted, so for lookup this lies below accepted over drafted."""
    definition: str
    source: Source
    draft_sampling: DraftSampleMethod | None = None
    """How the drafts counted here were drawn; None for lookups, for published figures, which do
    not say, and in plans of older versions."""


class MemoryFigure(Value):
    """Memory of one GPU of a replica."""

    gpu_bytes: float
    """What CUDA hands out: the driver keeps a part of what it reports."""
    usable_bytes: float
    """What the engine may allot (utilisation times capacity)."""
    target_weight_bytes: float
    draft_weight_bytes: float
    overhead_bytes: float
    """Activations, graphs, buffers and what lies outside torch: the sum of the next four."""
    activation_bytes: float | None = None
    """Peak of the engine's trial run. This and the next six: None in plans of older versions."""
    cuda_graph_bytes: float | None = None
    non_torch_bytes: float | None = None
    buffer_bytes: float | None = None
    """State of the sampler and of speculation."""
    kv_pool_bytes: float | None = None
    """What is left for KV."""
    kv_bytes_per_token: float
    """Target and draft together, on one GPU: what every further token takes."""
    kv_tokens: float
    """Tokens that the KV pool holds in requests of ``request_tokens``."""
    request_tokens: int | None = None
    """Counted for each: a whole one of mean length; more where long ones are met often."""
    max_concurrency: float | None = None
    """Requests of the workload that the pool holds at once."""


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
    """Requests decoded at once by one replica at the planned load; at the peak, where known."""
    max_concurrency: int
    """Largest number of concurrent requests that memory and the limits allow a replica."""
    utilisation: float
    """Planned output tokens over the largest throughput of the replicas."""
    utilisation_at_peak: float | None = None
    """The same at the peak that the replicas are for; None where the workload knows no peak."""
    usd_per_month: Quantity
    usd_per_month_idle: float
    """Part of the bill for GPUs that no replica uses (whole nodes)."""
    bill: MonthlyBill | None = None
    """The middle of ``usd_per_month`` line by line, exact; None in plans of older versions."""
    term_months: int | None = None
    """Commitment that the price asks for."""
    usd_per_million_output_tokens: Quantity
    usd_per_million_total_tokens: Quantity
    usd_per_thousand_requests: Quantity
    output_tokens_per_s: Quantity
    """Largest throughput of all replicas together."""
    planned_output_tokens_per_s: float
    """Throughput the plan is made for: the load, or ``utilisation`` times the largest."""
    output_tokens_per_month: Quantity | None = None
    """Planned: the load; without one, what the replicas make. None in older plans."""
    tpot_ms: Quantity
    ttft_ms: Quantity
    speedup: Quantity
    """Decode phase, against no speculation on the same GPUs at the same concurrency."""
    speedup_spread: dict[SpreadCause, float] = Field(default_factory=dict)
    """What makes the speedup uncertain: shares of its interval's variance, 1 together. Empty
    without drafts and in plans of older versions."""
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
    on_cpu: bool = False
    """Whether it runs on a profiled machine without a GPU."""
    dtype: str = ""
    """Number format that a profiled engine ran in; empty for the checkpoint's own."""
    prompt_lookup: tuple[int, int] | None = None
    """Shortest and longest n-gram that was looked up where a profile measured it."""

    @property
    def unit(self) -> str:
        """What is rented by the hour: ``GPU``, or ``CPU host`` for a machine without one."""
        return "CPU host" if self.on_cpu else "GPU"

    @property
    def units(self) -> str:
        """The same of several."""
        return f"{self.unit}s"


class Rejection(Value):
    """Candidates left out for one reason."""

    reason: str
    """Short, stable id: ``memory``, ``tpot``, ``ttft``, ``budget``, ``acceptance_unknown``,
    ``draft_unknown``, ``head_mismatch``, ``vocabulary``, ``vocabulary_padded``, ``node_size``,
    ``tensor_parallel``, ``kv_unknown``, ``price_unknown``, ``engine_unmeasured``."""
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
