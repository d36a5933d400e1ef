"""All facts of models_db at hand, with lookups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from capplan.facts.gpus import load_gpus
from capplan.facts.llms import IncompleteLlm, load_llms
from capplan.facts.lookup import resolve
from capplan.facts.pairings import load_acceptance, load_claims, load_pairings
from capplan.facts.prices import load_prices
from capplan.resources import models_db_dir
from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import AcceptanceFact, Claim, Pairing
from capplan.schema.price import ApiPrice, PriceRow, Purchase

if TYPE_CHECKING:
    from capplan.facts.gpu_names import GpuNames
    from capplan.facts.gpu_names.slices import MigProfile, VgpuBoard
    from capplan.facts.instances import Instance


@dataclass(frozen=True)
class Catalog:
    """Every fact that a plan may use, each with its source.

    ``gpu``, ``llm`` and ``target_id`` forgive case and missing organisations and raise
    ``UnknownIdError`` with the nearest names; the other lookups take exact ids and return
    an empty tuple where nothing is known.
    """

    directory: Path
    gpus: tuple[GpuSpec, ...]
    llms: tuple[LlmSpec, ...]
    incomplete_llms: tuple[IncompleteLlm, ...]
    """LLMs that exist and whose figures are not all known; never planned with."""
    pairings: tuple[Pairing, ...]
    acceptance: tuple[AcceptanceFact, ...]
    prices: tuple[PriceRow, ...]
    claims: tuple[Claim, ...]
    added_names: tuple[Instance | MigProfile | VgpuBoard, ...] = ()
    """What names GPUs beyond the files of the directory."""
    price_origin: str = "shipped with capplan"
    """Which prices these are, for people: the shipped ones, a user's files, or both."""

    @cached_property
    def api_prices(self) -> tuple[ApiPrice, ...]:
        """Token prices of hosted APIs; read when first asked for."""
        from capplan.facts.api_prices import load_api_prices

        return load_api_prices(self.directory / "api_prices")

    @cached_property
    def gpu_names(self) -> GpuNames:
        """What drivers, schedulers, clouds and people call the GPUs; read when first asked for."""
        from capplan.facts.gpu_names import load_gpu_names

        return load_gpu_names(self.directory, self.gpus).adding(self.added_names)

    @cached_property
    def _gpu_by_id(self) -> dict[str, GpuSpec]:
        return {gpu.id: gpu for gpu in self.gpus}

    @cached_property
    def _llm_by_id(self) -> dict[str, LlmSpec]:
        return {llm.id: llm for llm in self.llms}

    @cached_property
    def _pairings_by_target(self) -> dict[str, tuple[Pairing, ...]]:
        grouped: defaultdict[str, list[Pairing]] = defaultdict(list)
        for pairing in self.pairings:
            grouped[pairing.target].append(pairing)
        return {target: tuple(found) for target, found in grouped.items()}

    @cached_property
    def _acceptance_by_pair(self) -> dict[tuple[str, str], tuple[AcceptanceFact, ...]]:
        grouped: defaultdict[tuple[str, str], list[AcceptanceFact]] = defaultdict(list)
        for fact in self.acceptance:
            grouped[fact.target, fact.draft].append(fact)
        return {pair: tuple(found) for pair, found in grouped.items()}

    def gpu(self, gpu_id: str) -> GpuSpec:
        """Return a GPU; ``h200-sxm-141gb``, ``H100 SXM`` or a driver's name for it will do.

        Raises
        ------
        UnknownIdError
            If no GPU has this name, several have, or it names a part of one or a whole machine.
        """
        if gpu_id in self._gpu_by_id:
            return self._gpu_by_id[gpu_id]
        from capplan.facts.gpu_names import whole_gpu

        return self._gpu_by_id[whole_gpu(self.gpu_names.look_up(gpu_id), gpu_id)]

    def llm(self, llm_id: str) -> LlmSpec:
        """Return an LLM; ``qwen3-32b`` or ``Qwen/Qwen3-32B`` will do.

        Raises
        ------
        UnknownIdError
            If no LLM with known figures, or more than one, has this name.
        """
        return self._llm_by_id[resolve(llm_id, self._llm_by_id, "LLM")]

    def target_id(self, name: str) -> str:
        """Return the id of a target, be its figures known or only its pairings.

        Raises
        ------
        UnknownIdError
            If nothing, or more than one thing, has this name.
        """
        targets = (*self._llm_by_id, *self._pairings_by_target)
        return resolve(name, (*targets, *(llm.id for llm in self.incomplete_llms)), "target")

    def pairings_for(self, target: str) -> tuple[Pairing, ...]:
        """Return the pairings of a target, also those marked as not existing."""
        return self._pairings_by_target.get(target, ())

    def acceptance_for(self, target: str, draft: str) -> tuple[AcceptanceFact, ...]:
        """Return published acceptance of exactly this pairing; ``draft`` as in the pairing."""
        return self._acceptance_by_pair.get((target, draft), ())

    def prices_for(
        self,
        gpu: str | None = None,
        *,
        providers: Collection[str] = (),
        purchases: Collection[Purchase] = (),
        tiers: Collection[str] = (),
        regions: Collection[str] = (),
    ) -> tuple[PriceRow, ...]:
        """Return offers; an empty filter lets everything pass."""
        return tuple(
            price
            for price in self.prices
            if (gpu is None or price.gpu == gpu)
            and (not providers or price.provider in providers)
            and (not purchases or price.purchase in purchases)
            and (not tiers or price.tier in tiers)
            and (not regions or price.region in regions)
        )


def load_catalog(directory: Path | None = None) -> Catalog:
    """Load the facts shipped with capplan, or those of another folder of the same layout.

    Raises
    ------
    FactsError
        If a file is missing or a row is wrong; the message names file and line.
    """
    return _shipped() if directory is None else _load(directory)


@lru_cache(maxsize=1)
def _shipped() -> Catalog:
    return _load(models_db_dir())


def _load(directory: Path) -> Catalog:
    llms, incomplete = load_llms(directory / "models")
    return Catalog(
        directory=directory,
        gpus=load_gpus(directory / "gpus"),
        llms=llms,
        incomplete_llms=incomplete,
        pairings=load_pairings(directory / "pairings"),
        acceptance=load_acceptance(directory / "acceptance"),
        prices=load_prices(directory / "prices"),
        claims=load_claims(directory / "claims"),
    )
