"""Fleets sized for the peak, priced by the mean; and what a plan assumes of its traffic."""

from __future__ import annotations

from dataclasses import replace

from capplan.economics.bill import MONTH_HOURS
from capplan.errors import RequestError
from capplan.estimate.acceptance_mix import part_words, shares_in_proportion, token_shares
from capplan.estimate.traffic import (
    at_peak as workload_at_peak,
    further_context_tokens,
    mean_requests_per_s,
    peak_to_mean,
)
from capplan.planning.planner import Outcome
from capplan.schema.plan import Assumption, PlanOption, PlanRequest
from capplan.schema.provenance import Kind

_STATED = "stated with the request (workload)"


def sized_for_peak(request: PlanRequest) -> PlanRequest:
    """Return the request whose load is its peak; the very same where no peak is known.

    Raises
    ------
    RequestError
        If the week has a shape and the month has other hours than all of them.
    """
    arrival = request.workload.arrival
    if arrival is None:
        return request
    shaped = arrival.hour_of_day is not None or arrival.day_of_week is not None
    if shaped and request.hours_per_month != MONTH_HOURS:
        raise RequestError(
            "The workload's hour_of_day or day_of_week says in which hours the load arrives, and "
            f"--hours-per-month {request.hours_per_month:f} says so too.",
            "Leave out one of them; hours without load have weight 0.",
        )
    load = workload_at_peak(request.workload, float(request.hours_per_month))
    return request.model_copy(update={"workload": load})


def priced_by_mean(option: PlanOption, request: PlanRequest) -> PlanOption:
    """Return an option that was evaluated at the peak, its tokens counted at the mean rate.

    Replicas, bill, latencies and concurrency are those of the peak; the tokens that the bill
    buys arrive at the mean rate.
    """
    if request.workload.arrival is None:
        return option
    ratio = peak_to_mean(request.workload, float(request.hours_per_month))
    tokens = option.output_tokens_per_month
    return option.model_copy(
        update={
            "planned_output_tokens_per_s": option.planned_output_tokens_per_s / ratio,
            "output_tokens_per_month": tokens and tokens.scaled(1.0 / ratio),
            "utilisation": option.utilisation / ratio,
            "utilisation_at_peak": option.utilisation,
            **{
                name: getattr(option, name).scaled(ratio)
                for name in (
                    "usd_per_million_output_tokens",
                    "usd_per_million_total_tokens",
                    "usd_per_thousand_requests",
                )
            },
        }
    )


def outcome_by_mean(outcome: Outcome, request: PlanRequest) -> Outcome:
    """Return what a search at the peak found, every option priced by the mean."""
    baseline = outcome.baseline
    return replace(
        outcome,
        options=tuple(priced_by_mean(option, request) for option in outcome.options),
        baseline=priced_by_mean(baseline, request) if baseline is not None else None,
    )


def traffic_assumptions(request: PlanRequest) -> tuple[Assumption, ...]:
    """List what the workload says beyond means, and what that does to the plan."""
    found = (_peak(request), _lengths(request), _cache(request), _mix(request))
    return tuple(
        Assumption(name=name, value=value, kind=Kind.ASSUMED, source=_STATED)
        for name, value in found
        if value
    )


def _peak(request: PlanRequest) -> tuple[str, str]:
    workload, hours = request.workload, float(request.hours_per_month)
    if workload.arrival is None:
        return "Peak", ""
    ratio, mean = peak_to_mean(workload, hours), mean_requests_per_s(workload, hours)
    rates = "" if mean is None else f" ({mean * ratio:.3g} requests/s against {mean:.3g})"
    return "Peak", (
        f"{ratio:.2f} times the mean{rates}: replicas and latencies are for the peak and stay the "
        "whole month; tokens are counted at the mean"
    )


def _lengths(request: PlanRequest) -> tuple[str, str]:
    workload = request.workload
    further = further_context_tokens(workload)
    if workload.prompt_lengths is None and not further:
        return "Lengths", ""
    return "Lengths", (
        f"a decode step meets {further:+,.0f} tokens of context beyond that of equal requests; "
        "prompts are computed at each length; the KV pool has room for what a batch keeps in 99 % "
        "of its steps, and for whole requests of mean length at least"
    )


def _cache(request: PlanRequest) -> tuple[str, str]:
    share = request.workload.prefix_cache_hit_rate
    if not share:
        return "Prefix cache", ""
    return "Prefix cache", (
        f"{share * 100:g} % of the prompt tokens are not computed again; every request still "
        "keeps its whole KV, and the host's share of a prompt stays"
    )


def _mix(request: PlanRequest) -> tuple[str, str]:
    workload = request.workload
    if not workload.mix:
        return "Mix", ""
    shares = token_shares(workload)
    parts = "; ".join(
        f"{share:.0%} {part_words(part)}" for share, part in zip(shares, workload.mix, strict=True)
    )
    scaled = shares_in_proportion(workload)
    return "Mix", f"of the output tokens: {parts}{f'; {scaled}' if scaled else ''}"
