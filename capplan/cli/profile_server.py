"""``capplan profile --server``: what its options ask of a live server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from capplan.profiles.server_http import ServerAddress
    from capplan.schema.llm import LlmSpec
    from capplan.schema.measured_setup import Device, Draft

_LOOKUP = (2, 4)
_ONLY_HERE = (
    *("observe", "rates", "concurrencies", "max_requests", "max_seconds", "served_model"),
    *("gpu", "thinking", "no_check_text"),
)
_NOT_HERE = (
    *("demo", "backend", "device", "weights", "dtype", "tensor_parallel", "rejection"),
    *("gpu_memory_utilization", "lengths", "batches", "contexts", "num_requests"),
    "budget_minutes",
)
"""Options of the other backends: a server that runs is taken as it is."""


def asks_for_server(options: dict[str, Any]) -> bool:
    """Whether a server is to be profiled; refuse its options without one."""
    if options["server"] is not None:
        return True
    given = [name for name in _ONLY_HERE if options[name] not in (None, (), False)]
    if given:
        shown = ", ".join(_flag(name) for name in given)
        raise click.UsageError(f"{shown} need --server URL.")
    return False


def profile_server(target: str | None, options: dict[str, Any]) -> None:
    """Run the session and print what it shows."""
    from capplan.api.profiles import summarise_profile
    from capplan.cli.observations_shown import show_observations
    from capplan.cli.profile_verdict import refuse_damaged
    from capplan.cli.progress import shown
    from capplan.errors import ServerError
    from capplan.profiles.server_http import parse_address
    from profiler.server_session import ServerRequest, run_server_session

    refused = [_flag(name) for name in _NOT_HERE if _is_given(name)]
    if options["backend"] == "server":
        refused = [flag for flag in refused if flag != "--backend"]
    if refused:
        raise click.UsageError(f"{', '.join(refused)} cannot be chosen for a running server.")
    address = parse_address(options["server"])
    key = os.environ.get(options["api_key_env"])
    request = ServerRequest(
        address=address,
        target=_target(target, address, key, options["served_model"]),
        draft=_draft(options),
        device=_device(options["gpu"], options["gpu_count"]),
        api_key=key,
        observe_minutes=options["observe"],
        rates_per_s=tuple(sorted(set(options["rates"]))),
        concurrencies=tuple(sorted(set(options["concurrencies"]))),
        temperatures=tuple(sorted(set(options["temperatures"]))) or (0.0,),
        check_text=not options["no_check_text"],
        **dict(_given(options)),
    )
    with shown() as show:
        stored = run_server_session(request, on_progress=show)
    show_observations(stored.profile.observations)
    click.echo(summarise_profile(stored))
    refuse_damaged(stored.profile)
    if not stored.profile.complete:
        raise ServerError(
            "The server was lost during the run: windows are missing.",
            f"What was measured is in {request.output}; go on with --resume once it is up.",
        )


def _given(options: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what the request takes over as it is."""
    as_they_are = ("served_model", "prompts", "thinking", "seed", "resume", "force", "output")
    yield from ((name, options[name]) for name in (*as_they_are, "interval_s"))
    bounded = ("max_requests", "max_seconds", "max_tokens")
    yield from ((name, options[name]) for name in bounded if options[name] is not None)


def _target(
    target: str | None, address: ServerAddress, key: str | None, served_model: str | None
) -> LlmSpec:
    """Return the target's facts: of TARGET, else of the name that the server gives its model."""
    from capplan.api.llms import load_llm
    from capplan.errors import CapplanError, UnknownIdError
    from profiler.server_session import ask_facts

    if target is not None:
        return load_llm(target)
    name = ask_facts(address, api_key=key, served_model=served_model).model
    try:
        return load_llm(name)
    except CapplanError as error:
        raise UnknownIdError(
            f"The server calls its model {name!r}, which is no LLM that is known here.",
            f"Say which it is: capplan profile TARGET --server {address}, with an id or a "
            "directory with its config.json.",
        ) from error


def _draft(options: dict[str, Any]) -> Draft | None:
    """Return how the server drafts, as far as it was said; counters do not tell."""
    from capplan.api.llms import load_llm
    from capplan.schema.measured_setup import EngineDraft, ModelDraft, NgramDraft, ProfiledLlm

    draft, method = options["draft"], options["method"]
    if method == "ngram":
        low = options["prompt_lookup_min"] or _LOOKUP[0]
        high = options["prompt_lookup_max"] or max(_LOOKUP[1], low)
        return NgramDraft(prompt_lookup_min=min(low, high), prompt_lookup_max=high)
    if method not in (None, "draft_model"):
        return EngineDraft(method=method, id=draft or method)
    if draft is None:
        return None
    spec = load_llm(draft)
    return ModelDraft(llm=ProfiledLlm(spec=spec, dtype=spec.dtype, quantisation=spec.quantisation))


def _device(gpu: str | None, count: int) -> Device:
    from capplan.facts.catalog import load_catalog
    from capplan.schema.measured_setup import Device

    if gpu is None:
        return Device(kind="unknown", name="unknown")
    spec = load_catalog().gpu(gpu)
    return Device(kind="cuda", name=spec.name, count=count, memory_bytes=spec.memory_bytes)


def _is_given(name: str) -> bool:
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.COMMANDLINE


def _flag(name: str) -> str:
    named = {
        "lengths": "--length",
        "rates": "--rate",
        "concurrencies": "--concurrency",
        "batches": "--batch",
    }
    named |= {"contexts": "--context", "budget_minutes": "--budget-minutes"}
    return named.get(name, "--" + name.replace("_", "-"))
