"""Facts as rows: short ones for a table, whole ones for JSON and CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from capplan.errors import UnknownIdError
from capplan.facts.catalog import Catalog
from capplan.facts.gpu_names import whole_gpu
from capplan.facts.llms import IncompleteLlm
from capplan.facts.lookup import resolve
from capplan.schema.base import Value
from capplan.schema.gpu import GpuIdentity, GpuSpec
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import AcceptanceFact, Claim, Pairing
from capplan.schema.price import PriceRow
from capplan.schema.provenance import Source
from capplan.units import BYTES_PER_GB, BYTES_PER_GIB

Record = dict[str, Any]
"""One fact as JSON types; ``source`` is a nested object."""

_TERA = 1e12


@dataclass(frozen=True)
class Listing:
    """Facts of one family: whole records, and the cells of a table for people."""

    name: str
    """Key in the JSON: ``gpus``, ``models`` ..."""
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    records: tuple[Record, ...]


def _record(fact: Value | IncompleteLlm) -> Record:
    if isinstance(fact, Value):
        return fact.model_dump(mode="json")
    return {**asdict(fact), "source": fact.source.model_dump(mode="json")}


def _number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _scaled(value: float | None, unit: float, digits: int = 0) -> str:
    return "" if value is None else _number(value / unit, digits)


def _date(source: Source) -> str:
    return source.date or "undated"


def gpu_listing(gpus: Iterable[GpuSpec]) -> Listing:
    """List GPUs; a memory marked ``~`` is the data sheet's, not the driver's."""
    cells: dict[str, Callable[[GpuSpec], str]] = {
        "id": lambda g: g.id,
        "name": lambda g: g.name,
        "GiB": lambda g: (
            ("" if g.memory_is_reported else "~") + _scaled(g.memory_bytes, BYTES_PER_GIB, 1)
        ),
        "GB/s": lambda g: _scaled(g.memory_bytes_per_s, BYTES_PER_GB),
        "bf16 TFLOP/s": lambda g: _scaled(g.bf16_flops_per_s, _TERA),
        "fp8 TFLOP/s": lambda g: _scaled(g.fp8_flops_per_s, _TERA),
        "link": lambda g: g.interconnect,
        "W": lambda g: _number(g.tdp_w),
    }
    return _listing("gpus", cells, gpus)


def llm_listing(llms: Iterable[LlmSpec], incomplete: Iterable[IncompleteLlm] = ()) -> Listing:
    """List LLMs; those with unknown figures name what is missing."""
    cells: dict[str, Callable[[LlmSpec], str]] = {
        "id": lambda m: m.id,
        "parameters B": lambda m: _scaled(m.params_total, 1e9, 2),
        "active B": lambda m: _scaled(m.params_active, 1e9, 2),
        "weights GB": lambda m: _scaled(m.weight_bytes, BYTES_PER_GB, 1),
        "KV B/token": lambda m: _number(m.kv_bytes_per_token) or "unknown",
        "vocabulary": lambda m: _number(m.vocab_size),
        "context": lambda m: _number(m.max_context),
        "dtype": lambda m: m.dtype,
    }
    known = _listing("models", cells, llms)
    partial = tuple(incomplete)
    blanks = ("",) * (len(cells) - 2)
    rows = tuple((m.id, *blanks, f"unknown: {', '.join(m.missing)}") for m in partial)
    return Listing(
        known.name,
        known.headers,
        known.rows + rows,
        known.records + tuple(_record(m) for m in partial),
    )


def pairing_listing(catalog: Catalog, pairings: Iterable[Pairing]) -> Listing:
    """List pairings with the number of published acceptance figures of each."""
    chosen = tuple(pairings)
    figures = [len(catalog.acceptance_for(p.target, p.draft)) for p in chosen]
    headers = ("target", "draft", "method", "draft B", "vocabulary", "acceptance figures")
    rows = tuple(
        (
            p.target,
            p.draft if p.exists else f"{p.draft} (does not exist)",
            p.method.value,
            _scaled(p.draft_params, 1e9, 2),
            p.vocab_check,
            _number(count) if count else "none",
        )
        for p, count in zip(chosen, figures, strict=True)
    )
    records = tuple(
        {**_record(p), "acceptance_figures": count}
        for p, count in zip(chosen, figures, strict=True)
    )
    return Listing("pairings", headers, rows, records)


def acceptance_listing(facts: Iterable[AcceptanceFact]) -> Listing:
    """List published acceptance, in tokens a round with the bonus token."""
    cells: dict[str, Callable[[AcceptanceFact], str]] = {
        "target": lambda f: f.target,
        "draft": lambda f: f.draft,
        "task": lambda f: f.task,
        "temperature": lambda f: (
            "not published" if f.temperature is None else f"{f.temperature:g}"
        ),
        "N": lambda f: str(f.num_speculative_tokens),
        "tokens/round": lambda f: _number(f.tokens_per_round, 2),
    }
    return _listing("acceptance", cells, facts)


def price_listing(prices: Iterable[PriceRow]) -> Listing:
    """List offers, cheapest a GPU hour first."""
    cells: dict[str, Callable[[PriceRow], str]] = {
        "provider": lambda p: p.provider,
        "instance": lambda p: p.instance,
        "gpu": lambda p: p.gpu,
        "GPUs": lambda p: str(p.gpu_count),
        "region": lambda p: p.region,
        "purchase": _purchase,
        "tier": lambda p: p.tier,
        "USD/GPU-h": lambda p: _number(float(p.usd_per_gpu_hour), 2),
        "date": lambda p: _date(p.source),
    }
    ranked = sorted(prices, key=lambda p: (p.gpu, p.usd_per_gpu_hour))
    listing = _listing("prices", cells, ranked)
    records = tuple(
        {**record, "usd_per_gpu_hour": float(price.usd_per_gpu_hour)}
        for record, price in zip(listing.records, ranked, strict=True)
    )
    return Listing(listing.name, listing.headers, listing.rows, records)


def _purchase(price: PriceRow) -> str:
    term = "" if price.term_months is None else f" {price.term_months} months"
    return f"{price.purchase.value}{term}"


def claim_listing(claims: Iterable[Claim]) -> Listing:
    """List what the guide claims, and why not to trust it."""
    cells: dict[str, Callable[[Claim], str]] = {
        "id": lambda c: c.id,
        "subject": lambda c: c.subject,
        "figure": lambda c: c.figure,
        "value": lambda c: f"{c.value:,g} {c.unit}".removesuffix(" 1"),
        "note": lambda c: c.note,
    }
    return _listing("claims", cells, claims)


def _listing(name: str, cells: dict[str, Callable[[Any], str]], facts: Iterable[Any]) -> Listing:
    chosen = tuple(facts)
    rows = tuple(tuple(cell(fact) for cell in cells.values()) for fact in chosen)
    return Listing(name, tuple(cells), rows, tuple(_record(fact) for fact in chosen))


def _meant(catalog: Catalog, name: str, ids: Iterable[str]) -> str:
    """Return the id that a name means: one of these, or that of a whole GPU."""
    answer = catalog.gpu_names.look_up(name)
    if isinstance(answer, GpuIdentity):
        return whole_gpu(answer, name, "capplan facts show")
    try:
        return resolve(name, ids, "id")
    except UnknownIdError:
        if answer.choices:
            raise answer.error() from None
        raise


def show(catalog: Catalog, name: str) -> tuple[Record | None, tuple[Listing, ...]]:
    """Return all that is known of an id: its own record, then what refers to it.

    Raises
    ------
    UnknownIdError
        If no GPU, LLM, head, provider or claim has this name.
    """
    own: dict[str, Value | IncompleteLlm] = {gpu.id: gpu for gpu in catalog.gpus}
    own |= {llm.id: llm for llm in catalog.llms}
    own |= {llm.id: llm for llm in catalog.incomplete_llms}
    claimed: dict[str, Value] = {claim.id: claim for claim in catalog.claims}
    providers = {price.provider for price in catalog.prices}
    paired = (side for p in catalog.pairings for side in (p.target, p.draft))
    # Claims and providers by their full name only: `a100` must not mean a claim about A100s.
    named = {known.lower(): known for known in (*providers, *claimed)}
    names = (*own, *paired, *sorted(providers))
    found = named.get(name.lower()) or _meant(catalog, name, names)
    fact = own.get(found) or claimed.get(found)
    listings = (
        price_listing(p for p in catalog.prices if found in (p.gpu, p.provider)),
        pairing_listing(catalog, (p for p in catalog.pairings if found in (p.target, p.draft))),
        acceptance_listing(f for f in catalog.acceptance if found in (f.target, f.draft)),
    )
    return (_record(fact) if fact else None), tuple(part for part in listings if part.records)
