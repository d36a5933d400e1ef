"""Types of the public names, for checkers and editors; they load on first use (__init__.py)."""

from capplan.api.adaptive import schedule as schedule
from capplan.api.answers import (
    Commitment as Commitment,
    Questions as Questions,
    Spot as Spot,
    answer_what_if as answer_what_if,
)
from capplan.api.batch import run_batch as run_batch
from capplan.api.calibration import calibrate as calibrate
from capplan.api.comparing import diff as diff
from capplan.api.guide import (
    audit_guide as audit_guide,
    guide_points as guide_points,
)
from capplan.api.imports import import_results as import_results
from capplan.api.launching import (
    launch as launch,
    migrate as migrate,
)
from capplan.api.llms import load_llm as load_llm
from capplan.api.memory import plan_memory as plan_memory
from capplan.api.notebook import (
    Plan as Plan,
    load_plan as load_plan,
)
from capplan.api.pairs import pair as pair
from capplan.api.part_launching import launch_parts as launch_parts
from capplan.api.plans import (
    compare_with_apis as compare_with_apis,
    recommend as recommend,
    render as render,
)
from capplan.api.profiles import summarise_profile as summarise_profile
from capplan.api.prompt_worth import compare_prompts as compare_prompts
from capplan.api.replayed_controllers import SimulationWishes as SimulationWishes
from capplan.api.schedule_loads import ScheduleWishes as ScheduleWishes
from capplan.api.serving import simulate_serving as simulate_serving
from capplan.api.serving_wishes import ServingWishes as ServingWishes
from capplan.api.simulation import simulate as simulate
from capplan.api.validation import validate as validate
from capplan.api.what_if import (
    WhatIf as WhatIf,
    whatif as whatif,
)
from capplan.api.workloads import (
    load_services as load_services,
    load_workload as load_workload,
    save_workload as save_workload,
)
from capplan.errors import CapplanError as CapplanError
from capplan.facts.catalog import (
    Catalog as Catalog,
    load_catalog as load_catalog,
)
from capplan.facts.price_file import with_price_files as with_price_files
from capplan.jobs.job import (
    BatchResult as BatchResult,
    Job as Job,
)
from capplan.planning.scenarios import ScenarioGrid as ScenarioGrid
from capplan.profiles.calibration_file import load_calibration as load_calibration
from capplan.profiles.store import load_profile as load_profile
from capplan.reporting.frame import to_frame as to_frame
from capplan.schema.answers import PlanAnswers as PlanAnswers
from capplan.schema.arrival import Arrival as Arrival
from capplan.schema.llm import LlmSpec as LlmSpec
from capplan.schema.memory import (
    MemoryRequest as MemoryRequest,
    MemoryUse as MemoryUse,
)
from capplan.schema.pairing import Method as Method
from capplan.schema.plan import (
    PlanOption as PlanOption,
    PlanRequest as PlanRequest,
)
from capplan.schema.price import Purchase as Purchase
from capplan.schema.profile import Profile as Profile
from capplan.schema.quantity import Quantity as Quantity
from capplan.schema.schedule import (
    LengthSchedule as LengthSchedule,
    Simulation as Simulation,
)
from capplan.schema.services import (
    NamedWorkload as NamedWorkload,
    Services as Services,
)
from capplan.schema.serving_load import ServingLoad as ServingLoad
from capplan.schema.workload import (
    Slo as Slo,
    Workload as Workload,
)

__version__: str
