"""``capplan facts``: look up what the shipped catalogue knows, with sources."""

from __future__ import annotations

import click

from capplan.cli.examples import examples
from capplan.cli.facts_check import command as check
from capplan.cli.facts_output import show_listing
from capplan.cli.facts_resolve import resolve as resolve_names
from capplan.cli.facts_show import show
from capplan.facts import listing as rows
from capplan.facts.catalog import load_catalog
from capplan.facts.lookup import resolve
from capplan.schema.pairing import Method
from capplan.schema.price import Purchase

__all__ = ["command", "show_listing"]

_EXAMPLES = """\b
Examples:
  capplan facts gpus
  capplan facts pairings --target qwen3-32b
  capplan facts prices --gpu h100-sxm-80gb --provider lambda
  capplan facts prices --purchase spot --format csv
  capplan facts show h200-sxm-141gb
  capplan facts show ./my-checkpoint
  capplan facts check my-gpu.csv
"""

_format = click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="How to print.",
)


@click.group("facts", epilog=_EXAMPLES)
def command() -> None:
    """Look up GPUs, LLMs, pairings and prices, with their sources."""


@command.command(epilog=examples("facts gpus", "facts gpus --format csv"))
@_format
def gpus(output: str) -> None:
    """List GPUs. A memory marked ~ is nominal, not reported by a driver."""
    show_listing(rows.gpu_listing(load_catalog().gpus), output)


@command.command(
    epilog=examples("facts models --family qwen3", "facts models --all --format json")
)
@click.option("--family", help="Only this family, for example qwen3.")
@click.option("--all", "everything", is_flag=True, help="Also LLMs with unknown figures.")
@_format
def models(family: str | None, everything: bool, output: str) -> None:
    """List LLMs, targets and drafts alike."""
    catalog = load_catalog()
    wanted = family and resolve(family, (llm.family for llm in catalog.llms), "family")
    known = [llm for llm in catalog.llms if wanted in (None, llm.family)]
    partial = [llm for llm in catalog.incomplete_llms if wanted in (None, llm.family)]
    show_listing(rows.llm_listing(known, partial if everything else ()), output)


@command.command(
    epilog=examples("facts pairings --target qwen3-32b", "facts pairings --method eagle3")
)
@click.option("--target", help="Only pairings of this target.")
@click.option("--method", type=click.Choice([m.value for m in Method]), help="Only this method.")
@_format
def pairings(target: str | None, method: str | None, output: str) -> None:
    """List targets with what can draft for them."""
    catalog = load_catalog()
    found = catalog.pairings_for(catalog.target_id(target)) if target else catalog.pairings
    chosen = (p for p in found if method in (None, p.method.value))
    show_listing(rows.pairing_listing(catalog, chosen), output)


@command.command(epilog=examples("facts acceptance --target qwen3-32b"))
@click.option("--target", help="Only figures of this target.")
@_format
def acceptance(target: str | None, output: str) -> None:
    """List published acceptance, in tokens a round with the bonus token."""
    catalog = load_catalog()
    wanted = target and catalog.target_id(target)
    chosen = (fact for fact in catalog.acceptance if wanted in (None, fact.target))
    show_listing(rows.acceptance_listing(chosen), output)


@command.command(
    epilog=examples(
        "facts prices --gpu h100-sxm-80gb --purchase spot",
        "facts prices --provider lambda --format csv",
    )
)
@click.option("--gpu", help="Only this GPU.")
@click.option("--provider", help="Only this provider.")
@click.option(
    "--purchase", type=click.Choice([p.value for p in Purchase]), help="How it is bought."
)
@click.option("--tier", help="Only this tier: list, secure, community, marketplace ...")
@_format
def prices(
    gpu: str | None, provider: str | None, purchase: str | None, tier: str | None, output: str
) -> None:
    """List GPU offers, the cheapest GPU hour first."""
    catalog = load_catalog()
    known_providers = (price.provider for price in catalog.prices)
    known_tiers = (price.tier for price in catalog.prices)
    chosen = catalog.prices_for(
        catalog.gpu(gpu).id if gpu else None,
        providers=[resolve(provider, known_providers, "provider")] if provider else [],
        purchases=[Purchase(purchase)] if purchase else [],
        tiers=[resolve(tier, known_tiers, "tier")] if tier else [],
    )
    show_listing(rows.price_listing(chosen), output)


@command.command(epilog=examples("facts claims --topic cost"))
@click.option("--topic", help="Only this topic: pairs, tasks, temperature, methods, cost ...")
@_format
def claims(topic: str | None, output: str) -> None:
    """List what a popular guide claims, and what speaks against it. Never used for plans."""
    catalog = load_catalog()
    wanted = topic and resolve(topic, (claim.topic for claim in catalog.claims), "topic")
    show_listing(
        rows.claim_listing(c for c in catalog.claims if wanted in (None, c.topic)), output
    )


command.add_command(check)
command.add_command(show)
command.add_command(resolve_names)
