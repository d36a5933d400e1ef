"""Options of ``capplan recommend`` to a plan request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource
from pydantic import ValidationError

from capplan.profiles.store import StoredProfile
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanRequest
from capplan.schema.price import Electricity, Purchase
from capplan.schema.services import NamedWorkload
from capplan.schema.workload import Slo, Workload


def build_request(options: Mapping[str, Any], profiles: Sequence[StoredProfile]) -> PlanRequest:
    """Return the request; without ``--target`` the profiles' targets are planned.

    Raises
    ------
    click.UsageError
        For options that make no sense together.
    """
    services = _services(options)
    profiled = tuple(dict.fromkeys(stored.profile.target.spec.id for stored in profiles))
    targets = _own_targets(services) or tuple(options["targets"]) or profiled
    if not targets:
        raise click.UsageError(
            "Name an LLM with --target (or target: in every service of --workload), or give a "
            "profile of one with --profile. "
            "Known LLMs: capplan facts models"
        )
    for name in sorted({"mtp", "ngram", "suffix"} & set(options["drafts"])):
        raise click.UsageError(f"--draft names an LLM or head; {name} is a way: --method {name}")
    if options.get("workload_file") is not None:
        _check_alone()
    if options["rate"] is not None and options["tokens_per_month"] is not None:
        raise click.UsageError("Give either --rate or --tokens-per-month, not both.")
    _check_prices(options["gpu_prices"])
    if not profiles and any(key == "profile" for key, _ in options["gpu_prices"]):
        raise click.UsageError(
            "--gpu-price profile=USD prices the machine of a profile: add --profile FILE."
        )
    try:
        return PlanRequest(
            targets=targets,
            budget_usd_per_month=options["budget_usd"],
            workload=services[0].workload if services else _workload(options),
            slo=Slo(tpot_ms=options["slo_tpot"], ttft_ms=options["slo_ttft"]),
            services=services,
            drafts=options["drafts"],
            methods=tuple(_method(name) for name in options["methods"]),
            max_num_speculative_tokens=options["max_n"],
            gpus=options["gpus"],
            providers=options["providers"],
            purchases=tuple(Purchase(name) for name in options["purchases"]),
            price_tiers=options["tiers"],
            tensor_parallel=tuple(sorted(set(options["tensor_parallel"]))),
            assumed_acceptance=options["assume_acceptance"],
            gpu_price_usd_per_hour=dict(options["gpu_prices"]),
            hours_per_month=options["hours_per_month"],
            list_discount=options["discount"],
            share_node=options["share_node"],
            electricity=_electricity(options),
            compare_api=options["compare_api"],
            cached_input_share=options["cached_share"],
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise click.UsageError(f"{where}: {first['msg']}") from error


def _check_prices(gpu_prices: Sequence[tuple[str, float]]) -> None:
    """Refuse two prices of one GPU: only one of them would be heard."""
    keys = [key for key, _ in gpu_prices]
    for key in keys:
        if keys.count(key) > 1:
            raise click.UsageError(f"--gpu-price states {key} {keys.count(key)} times: keep one.")


_IN_THE_FILE = (
    *("rate", "tokens_per_month", "prompt_tokens", "output_tokens"),
    *("temperature", "task", "utilisation"),
)
"""Options that a workload file answers."""


def _check_alone() -> None:
    """Refuse options that the workload file answers too: one of the two would go unheard."""
    context = click.get_current_context(silent=True)
    if context is None:
        return
    for name in _IN_THE_FILE:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"--{name.replace('_', '-')} and --workload both describe the load: put it into "
                "the file (capplan workload FILE --help changes one and writes it)."
            )


def _services(options: Mapping[str, Any]) -> tuple[NamedWorkload, ...]:
    """Return the services of the workload file; none without one."""
    if options.get("workload_file") is None:
        return ()
    from capplan.api.workloads import load_services

    return load_services(options["workload_file"]).services


def _own_targets(services: Sequence[NamedWorkload]) -> tuple[str, ...]:
    """Return the LLMs that the services name, if every one of them does."""
    named = [one.target for one in services if one.target is not None]
    return tuple(dict.fromkeys(named)) if len(named) == len(services) else ()


def _workload(options: Mapping[str, Any]) -> Workload:
    return Workload(
        requests_per_s=options["rate"],
        output_tokens_per_month=options["tokens_per_month"],
        prompt_tokens=options["prompt_tokens"],
        output_tokens=options["output_tokens"],
        temperature=options["temperature"],
        task=options["task"],
        utilisation=options["utilisation"],
    )


def _electricity(options: Mapping[str, Any]) -> Electricity | None:
    usd_per_kwh, pue, watts = (
        options[name] for name in ("electricity_usd_per_kwh", "pue", "gpu_watts")
    )
    if usd_per_kwh is None:
        if pue is not None or watts is not None:
            raise click.UsageError(
                "--pue and --gpu-watts belong to electricity: add --electricity-usd-per-kwh USD."
            )
        return None
    return Electricity(usd_per_kwh=usd_per_kwh, pue=1 if pue is None else pue, watts_per_gpu=watts)


def _method(name: str) -> Method:
    try:
        return Method(name)
    except ValueError:
        known = ", ".join(method.value for method in Method if method is not Method.NONE)
        raise click.UsageError(f"Unknown method {name!r}; known: {known}.") from None
