"""Invariants over the whole catalogue: what one row alone cannot show."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from capplan.facts.catalog import Catalog
from capplan.facts.instances import InstanceKind
from capplan.schema.gpu import GpuIdentity, GpuSpec
from capplan.schema.llm import LlmSpec
from capplan.schema.provenance import Source

_ISO_DATE = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")
_FULL_DATE_LENGTH = len("2026-09-25")


def check_catalog(catalog: Catalog) -> tuple[str, ...]:
    """Return every violation, in words; empty for a sound catalogue."""
    parts = (_ids, _sources, _gpus, _llms, _pairings, _acceptance, _prices, _gpu_names, _instances)
    return tuple(problem for part in parts for problem in part(catalog))


def _repeated(kind: str, keys: Iterable[object]) -> Iterator[str]:
    for key, count in Counter(keys).items():
        if count > 1:
            yield f"{kind} {key} appears {count} times"


def _ids(catalog: Catalog) -> Iterator[str]:
    yield from _repeated("GPU", (gpu.id for gpu in catalog.gpus))
    llm_ids = [llm.id for llm in catalog.llms] + [llm.id for llm in catalog.incomplete_llms]
    yield from _repeated("LLM", llm_ids)
    yield from _repeated("claim", (claim.id for claim in catalog.claims))
    pairs = ((p.target, p.draft, p.method) for p in catalog.pairings)
    yield from _repeated("pairing", pairs)
    facts = (
        (f.target, f.draft, f.method, f.task, f.temperature, f.num_speculative_tokens)
        for f in catalog.acceptance
    )
    yield from _repeated("acceptance", facts)
    offers = (
        (p.provider, p.instance, p.gpu, p.region, p.purchase, p.tier) for p in catalog.prices
    )
    yield from _repeated("price", offers)


def _every_source(catalog: Catalog) -> Iterator[tuple[str, Source]]:
    yield from ((gpu.id, gpu.source) for gpu in catalog.gpus)
    yield from ((llm.id, llm.source) for llm in catalog.llms)
    yield from ((llm.id, llm.source) for llm in catalog.incomplete_llms)
    yield from ((f"{p.target} with {p.draft}", p.source) for p in catalog.pairings)
    yield from ((f"{f.target} with {f.draft}", f.source) for f in catalog.acceptance)
    yield from ((f"{p.provider} {p.instance}", p.source) for p in catalog.prices)
    yield from ((claim.id, claim.source) for claim in catalog.claims)


def _sources(catalog: Catalog) -> Iterator[str]:
    for name, source in _every_source(catalog):
        if source.date is None and "undated" not in source.note:
            yield f"{name}: no date, and the note does not say that the source is undated"
        if source.date is not None and not _ISO_DATE.fullmatch(source.date):
            yield f"{name}: date {source.date!r} is not YYYY, YYYY-MM or YYYY-MM-DD"


def _gpus(catalog: Catalog) -> Iterator[str]:
    for gpu in catalog.gpus:
        yield from _gpu_rates(gpu)


def _gpu_rates(gpu: GpuSpec) -> Iterator[str]:
    chain = (gpu.bf16_flops_per_s, gpu.fp8_flops_per_s, gpu.fp4_flops_per_s)
    rates = [rate for rate in chain if rate is not None]
    if rates != sorted(rates):
        yield f"{gpu.id}: dense rates must not fall from bf16 to fp8 to fp4, got {rates}"
    # Ridge points of accelerators sold since 2020 lie between 75 and 600 FLOP a byte; those cut
    # down for export (H20: 148 TFLOP/s beside 4 TB/s) and older ones in fp16 begin at 25. A value
    # outside means a slipped unit or a sparse rate.
    rate = gpu.bf16_flops_per_s or gpu.fp16_flops_per_s or 0.0
    ridge = rate / gpu.memory_bytes_per_s
    if not 25 <= ridge <= 600:
        yield f"{gpu.id}: {ridge:.0f} bf16 FLOP a byte is outside 25 to 600"
    if (gpu.bf16_flops_per_s > 0) == (gpu.fp16_flops_per_s is not None):
        yield f"{gpu.id}: an fp16 rate is stated exactly where there is no bf16"


def _llms(catalog: Catalog) -> Iterator[str]:
    for llm in catalog.llms:
        yield from _llm(llm)


def _llm(llm: LlmSpec) -> Iterator[str]:
    if llm.params_active > llm.params_total:
        yield f"{llm.id}: more active parameters than parameters"
    if llm.weight_bytes_active > llm.weight_bytes:
        yield f"{llm.id}: more active weight bytes than weight bytes"
    if not 0.5 <= llm.weight_bytes / llm.params_total <= 4:
        yield f"{llm.id}: {llm.weight_bytes / llm.params_total:.2f} bytes a parameter"
    if (llm.experts is None) != (llm.experts_per_token is None):
        yield f"{llm.id}: experts and experts_per_token go together"
    if llm.is_moe != (llm.params_active < llm.params_total):
        yield f"{llm.id}: only a mixture of experts leaves parameters unread"


def _pairings(catalog: Catalog) -> Iterator[str]:
    known = {llm.id: llm for llm in catalog.llms}
    incomplete = {llm.id for llm in catalog.incomplete_llms}
    for pairing in catalog.pairings:
        target, draft = known.get(pairing.target), known.get(pairing.draft)
        if pairing.exists and not pairing.source.reference:
            yield f"{pairing.target} with {pairing.draft}: no source"
        if not pairing.exists and {pairing.target, pairing.draft} <= set(known) | incomplete:
            yield f"{pairing.target} with {pairing.draft}: marked as not existing, both ids do"
        if target is None or draft is None:
            continue
        same = target.vocab_size == draft.vocab_size
        if same == pairing.vocab_check.startswith("padded"):
            yield (
                f"{pairing.target} with {pairing.draft}: vocab_check {pairing.vocab_check!r}, "
                f"sizes {target.vocab_size} and {draft.vocab_size}"
            )


def _acceptance(catalog: Catalog) -> Iterator[str]:
    pairs = {(p.target, p.draft, p.method) for p in catalog.pairings if p.exists}
    for fact in catalog.acceptance:
        name = f"{fact.target} with {fact.draft}, {fact.task}"
        if (fact.target, fact.draft, fact.method) not in pairs:
            yield f"{name}: acceptance of a pairing that pairings.csv lacks"
        if fact.tokens_per_round > fact.num_speculative_tokens + 1:
            yield f"{name}: {fact.tokens_per_round} tokens a round exceed N + 1"


def _prices(catalog: Catalog) -> Iterator[str]:
    gpus = {gpu.id for gpu in catalog.gpus}
    for price in catalog.prices:
        name = f"{price.provider} {price.instance} ({price.purchase})"
        if price.gpu not in gpus:
            yield f"{name}: GPU {price.gpu!r} is not in gpus.csv"
        if price.source.date is not None and len(price.source.date) != _FULL_DATE_LENGTH:
            yield f"{name}: a price needs the day it was seen, got {price.source.date!r}"
    on_demand = {
        (p.provider, p.instance, p.region): p.usd_per_hour
        for p in catalog.prices
        if p.purchase == "on-demand"
    }
    for price in catalog.prices:
        listed = on_demand.get((price.provider, price.instance, price.region))
        if price.purchase == "spot" and listed is not None and price.usd_per_hour > listed:
            yield f"{price.provider} {price.instance}: spot costs more than on demand"


def _gpu_names(catalog: Catalog) -> Iterator[str]:
    """Every name leads to the GPU that lists it, and every slice to a GPU of the catalogue."""
    names = catalog.gpu_names
    gpus = {gpu.id: gpu for gpu in catalog.gpus}
    for gpu in catalog.gpus:
        for name in (gpu.id, *gpu.device_names):
            answer = names.look_up(name)
            if not isinstance(answer, GpuIdentity) or answer.gpu != gpu.id:
                yield f"{gpu.id}: its name {name!r} does not lead to it"
    for kind, row_gpu in (
        *(("MIG profile", row.gpu) for row in names.mig),
        *(("virtual GPU", row.gpu) for row in names.vgpu),
        *((f"instance {row.instance}", row.gpu) for row in names.instances),
    ):
        if row_gpu not in gpus:
            yield f"{kind}: GPU {row_gpu!r} is not in gpus.csv"
    for row in names.mig:
        if row.memory_slices > row.memory_slices_of or row.compute_slices > row.compute_slices_of:
            yield f"{row.gpu} {row.profile}: more slices than the GPU has"


_LISTED_PROVIDERS = frozenset({"aws", "azure", "gcp", "oci"})
"""Providers whose instance types are facts of their own; others name theirs freely."""


def _instances(catalog: Catalog) -> Iterator[str]:
    """Prices and instance types must say the same of one name."""
    names = catalog.gpu_names
    machines = (i for i in names.instances if i.kind is not InstanceKind.LABEL)
    yield from _repeated("instance", (machine.instance.lower() for machine in machines))
    labels = (i.instance for i in names.instances if i.kind is InstanceKind.LABEL)
    yield from _repeated("label", labels)
    yield from _repeated("MIG profile", (f"{row.profile} of {row.gpu}" for row in names.mig))
    yield from _repeated("virtual GPU board", (row.board for row in names.vgpu))
    for price in catalog.prices:
        name = f"{price.provider} {price.instance}"
        known = names.instance(price.instance)
        if known is None or known.provider != price.provider:
            if price.provider in _LISTED_PROVIDERS:
                yield f"{name}: priced, but not in models_db/instances"
            continue
        if (known.gpu, known.gpu_count) != (price.gpu, price.gpu_count):
            told = f"{known.gpu_count} x {known.gpu}"
            yield f"{name}: priced as {price.gpu_count} x {price.gpu}, is {told}"
