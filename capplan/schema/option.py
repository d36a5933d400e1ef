"""One way to serve a load: what is run, on what, rented from whom, and what that costs."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from capplan.schema.base import Value
from capplan.schema.pairing import DraftSampleMethod, Method
from capplan.schema.price import MonthlyBill, Purchase
from capplan.schema.provenance import Source
from capplan.schema.quantity import Quantity


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


class Placement(Value):
    """What is run, on what, and rented from whom."""

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


class _Identified(Value):
    """Comes last among the bases, so that the id is the first field of a file."""

    id: str


class PlanOption(Placement, _Identified):
    """One way to serve the load, with everything needed to buy and launch it."""

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
