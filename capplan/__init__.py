"""Plan speculative decoding: capacity and cost from measured draft/target pairs.

The public names are loaded on first use, so that ``import capplan`` stays light.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

_PUBLIC = {
    "Arrival": "capplan.schema.arrival",
    "BatchResult": "capplan.jobs.job",
    "CapplanError": "capplan.errors",
    "Catalog": "capplan.facts.catalog",
    "Commitment": "capplan.api.answers",
    "Job": "capplan.jobs.job",
    "LengthSchedule": "capplan.schema.schedule",
    "LlmSpec": "capplan.schema.llm",
    "MemoryRequest": "capplan.schema.memory",
    "MemoryUse": "capplan.schema.memory",
    "Method": "capplan.schema.pairing",
    "NamedWorkload": "capplan.schema.services",
    "Plan": "capplan.api.notebook",
    "PlanAnswers": "capplan.schema.answers",
    "PlanOption": "capplan.schema.plan",
    "PlanRequest": "capplan.schema.plan",
    "Profile": "capplan.schema.profile",
    "Purchase": "capplan.schema.price",
    "Quantity": "capplan.schema.quantity",
    "Questions": "capplan.api.answers",
    "ScenarioGrid": "capplan.planning.scenarios",
    "ScheduleWishes": "capplan.api.schedule_loads",
    "Services": "capplan.schema.services",
    "ServingLoad": "capplan.schema.serving_load",
    "ServingWishes": "capplan.api.serving_wishes",
    "Simulation": "capplan.schema.schedule",
    "SimulationWishes": "capplan.api.replayed_controllers",
    "Slo": "capplan.schema.workload",
    "Spot": "capplan.api.answers",
    "WhatIf": "capplan.api.what_if",
    "Workload": "capplan.schema.workload",
    "answer_what_if": "capplan.api.answers",
    "audit_guide": "capplan.api.guide",
    "calibrate": "capplan.api.calibration",
    "compare_prompts": "capplan.api.prompt_worth",
    "compare_with_apis": "capplan.api.plans",
    "diff": "capplan.api.comparing",
    "guide_points": "capplan.api.guide",
    "import_results": "capplan.api.imports",
    "launch": "capplan.api.launching",
    "launch_parts": "capplan.api.part_launching",
    "load_calibration": "capplan.profiles.calibration_file",
    "load_catalog": "capplan.facts.catalog",
    "load_llm": "capplan.api.llms",
    "load_plan": "capplan.api.notebook",
    "load_profile": "capplan.profiles.store",
    "load_services": "capplan.api.workloads",
    "load_workload": "capplan.api.workloads",
    "migrate": "capplan.api.launching",
    "pair": "capplan.api.pairs",
    "plan_memory": "capplan.api.memory",
    "recommend": "capplan.api.plans",
    "render": "capplan.api.plans",
    "run_batch": "capplan.api.batch",
    "save_workload": "capplan.api.workloads",
    "schedule": "capplan.api.adaptive",
    "simulate": "capplan.api.simulation",
    "simulate_serving": "capplan.api.serving",
    "summarise_profile": "capplan.api.profiles",
    "to_frame": "capplan.reporting.frame",
    "validate": "capplan.api.validation",
    "whatif": "capplan.api.what_if",
    "with_price_files": "capplan.facts.price_file",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> object:  # typed in __init__.pyi; importing typing takes longer
    """Import a public name on first use (PEP 562)."""
    if name not in _PUBLIC:
        msg = f"module 'capplan' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
