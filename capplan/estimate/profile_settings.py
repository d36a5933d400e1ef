"""What two profiles differ in without being measured: versions, arguments, machines, memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from capplan.schema.difference import Reported, Setting
from capplan.schema.measured_setup import Draft, ModelDraft, NgramDraft, ProfiledLlm
from capplan.schema.profile import Profile

Group = Literal["pairing", "engine", "machine", "request", "limits", "option"]
_ABSENT = ""


def differing(group: Group, before: Mapping[str, str], after: Mapping[str, str]) -> list[Setting]:
    """Return what two tables of texts differ in; what one of them lacks is empty there."""
    return [
        Setting(
            group=group,
            name=name,
            before=before.get(name, _ABSENT),
            after=after.get(name, _ABSENT),
        )
        for name in dict.fromkeys((*before, *after))
        if before.get(name, _ABSENT) != after.get(name, _ABSENT)
    ]


def settings_changed(before: Profile, after: Profile) -> tuple[Setting, ...]:
    """Return every setting that is not the same in two profiles."""
    return (
        *differing("pairing", _pairing(before), _pairing(after)),
        *differing("engine", _engine(before), _engine(after)),
        *differing("machine", _machine(before), _machine(after)),
        *differing("request", _request(before), _request(after)),
    )


def _pairing(profile: Profile) -> dict[str, str]:
    return {**_llm("target", profile.target), **_draft(profile.draft)}


def _llm(role: str, llm: ProfiledLlm) -> dict[str, str]:
    return {
        role: llm.spec.id,
        f"{role} revision": llm.revision,
        f"{role} weights": llm.weight_sha256[:12] or llm.weights,
        f"{role} number format": llm.dtype,
        f"{role} quantisation": llm.quantisation,
    }


def _draft(draft: Draft | None) -> dict[str, str]:
    if draft is None:
        return {"method": "none"}
    found = {"method": draft.method.value}
    if isinstance(draft, ModelDraft):
        return {**found, **_llm("draft", draft.llm)}
    if isinstance(draft, NgramDraft):
        return {**found, "lookup": f"{draft.prompt_lookup_min} to {draft.prompt_lookup_max}"}
    return {**found, "draft": draft.id}


def _engine(profile: Profile) -> dict[str, str]:
    backend = profile.backend
    return {
        "backend": backend.name,
        "version": backend.version,
        "CUDA graphs": str(backend.cuda_graphs).lower(),
        **{f"argument {name}": value for name, value in backend.arguments.items()},
        "capplan": profile.capplan_version,
    }


def _machine(profile: Profile) -> dict[str, str]:
    environment, device = profile.environment, profile.environment.device
    told = {
        "device": f"{device.count} x {device.name}",
        "driver": device.driver,
        "CUDA": device.cuda,
        "power limit": "" if device.power_limit_w is None else f"{device.power_limit_w:g} W",
        "memory": "" if device.memory_bytes is None else f"{device.memory_bytes:,.0f} bytes",
        "cores": "" if device.cores is None else str(device.cores),
        "MIG": "" if device.mig is None else str(device.mig).lower(),
        "host": environment.host,
        "container": str(environment.container).lower(),
        "python": environment.python,
    }
    return {**told, **{f"library {k}": v for k, v in environment.libraries.items()}}


def _request(profile: Profile) -> dict[str, str]:
    return {
        name.replace("_", " "): _text(value)
        for name, value in profile.request.items()
        if value is not None
    }


def _text(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def reported(before: Profile, after: Profile) -> tuple[Reported, ...]:
    """Return the memory figures that both profiles report and that are not the same.

    They are what an engine or a framework says of itself at one start, so that they have no
    interval: of two starts of one configuration they may differ by what else was on the device.
    """
    first, second = dict(_memory(before)), dict(_memory(after))
    return tuple(
        Reported(name=name, unit=unit, before=first[name, unit], after=second[name, unit])
        for name, unit in first
        if (name, unit) in second and first[name, unit] != second[name, unit]
    )


def _memory(profile: Profile) -> Iterator[tuple[tuple[str, str], float]]:
    for engine in profile.engine_memory:
        at = f", N={engine.num_speculative_tokens}" if engine.num_speculative_tokens else ""
        yield (f"KV capacity{at}", "tokens"), engine.kv_capacity_tokens
        if engine.kv_pool_bytes is not None:
            yield (f"KV pool{at}", "bytes"), engine.kv_pool_bytes
        if engine.model_bytes is not None:
            yield (f"weights{at}", "bytes"), engine.model_bytes
    for record in profile.memory:
        role = record.role.value
        yield (f"{role} weights", "bytes"), record.weight_bytes
        yield (f"{role} KV a token", "bytes"), record.kv_bytes_per_token
        if record.peak_bytes is not None:
            yield (f"{role} peak", "bytes"), record.peak_bytes
