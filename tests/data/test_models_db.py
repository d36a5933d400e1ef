"""The shipped data: one class of invariants a family."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import replace
from decimal import Decimal

import pytest

from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.checks import check_catalog
from capplan.facts.gpus import GPU_COLUMNS
from capplan.facts.rows import read_family
from capplan.resources import models_db_dir
from capplan.schema.pairing import Method
from capplan.schema.price import Purchase
from capplan.schema.provenance import Kind


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def test_the_shipped_catalogue_breaks_no_invariant(catalog: Catalog) -> None:
    assert check_catalog(catalog) == ()


class Family:
    """What holds for every family of facts."""

    name: str
    least: int
    kind = Kind.CITED

    @pytest.fixture
    def facts(self, catalog: Catalog) -> tuple:
        return getattr(catalog, self.name)

    def test_is_as_large_as_was_collected(self, facts: tuple) -> None:
        assert len(facts) >= self.least

    def test_every_fact_names_its_source(self, facts: tuple) -> None:
        assert all(fact.source.reference.strip() for fact in facts)

    def test_every_fact_is_of_one_kind(self, facts: tuple) -> None:
        assert {fact.source.kind for fact in facts} == {self.kind}

    def test_every_number_is_finite(self, facts: tuple) -> None:
        numbers = [
            value
            for fact in facts
            for value in fact.model_dump().values()
            if isinstance(value, float)
        ]
        assert all(map(math.isfinite, numbers))


class TestGpus(Family):
    name = "gpus"
    least = 65

    def test_reported_memory_is_within_7_percent_of_the_nominal_size(self) -> None:
        for row in read_family(models_db_dir() / "gpus", GPU_COLUMNS):
            reported = row.scaled("memory_mib_reported", 2**20)
            nominal = row.scaled("memory_gb_nominal", 1e9)
            assert nominal is not None
            assert reported is None or abs(reported / nominal - 1) < 0.075, row.cells["id"]

    def test_h100_sxm(self, catalog: Catalog) -> None:
        gpu = catalog.gpu("h100-sxm-80gb")
        assert gpu.memory_bytes == 81559 * 2**20
        assert gpu.memory_is_reported
        assert gpu.memory_bytes_per_s == 3.35e12
        assert gpu.bf16_flops_per_s == 989e12
        assert gpu.interconnect_bytes_per_s == 900e9

    def test_an_a100_has_no_fp8(self, catalog: Catalog) -> None:
        assert catalog.gpu("a100-sxm-80gb").fp8_flops_per_s is None

    def test_memory_that_nobody_reported_is_the_nominal_lower_bound(
        self, catalog: Catalog
    ) -> None:
        gpu = catalog.gpu("mi300x")
        assert (gpu.memory_bytes, gpu.memory_is_reported) == (192e9, False)


class TestLlms(Family):
    name = "llms"
    least = 65

    # Counts by hand from the published configs: embeddings, attention with its norms and
    # biases, feed-forward or experts with the router, norms.
    @pytest.mark.parametrize(
        ("llm_id", "params", "kv_bytes"),
        [
            ("Qwen/Qwen3-8B", 8_190_735_360, 36 * 8 * 128 * 2 * 2),
            ("Qwen/Qwen3-0.6B", 596_049_920, 28 * 8 * 128 * 2 * 2),
            ("meta-llama/Llama-3.1-8B-Instruct", 8_030_261_248, 32 * 8 * 128 * 2 * 2),
            ("meta-llama/Llama-3.2-1B-Instruct", 1_235_814_400, 16 * 8 * 64 * 2 * 2),
            ("meta-llama/Llama-3.2-3B-Instruct", 3_212_749_824, 28 * 8 * 128 * 2 * 2),
            ("HuggingFaceTB/SmolLM2-135M-Instruct", 134_515_008, 30 * 3 * 64 * 2 * 2),
            ("Qwen/Qwen3-30B-A3B", 30_532_122_624, 48 * 4 * 128 * 2 * 2),
            ("meta-llama/Llama-3.3-70B-Instruct", 70_553_706_496, 80 * 8 * 128 * 2 * 2),
        ],
    )
    def test_parameters_and_cache_counted_by_hand(
        self, catalog: Catalog, llm_id: str, params: int, kv_bytes: int
    ) -> None:
        llm = catalog.llm(llm_id)
        assert llm.params_total == params
        assert llm.kv_bytes_per_token == kv_bytes
        assert llm.weight_bytes == 2 * params

    def test_latent_attention_caches_one_vector_a_layer(self, catalog: Catalog) -> None:
        llm = catalog.llm("deepseek-ai/DeepSeek-V3")
        assert llm.kv_bytes_per_token == 61 * (512 + 64) * 2
        assert llm.kv_heads == 1
        # one byte a parameter, one more for embedding and output layer (129,280 x 7,168 each),
        # and a 4-byte scale a block of 128 x 128
        assert llm.weight_bytes == pytest.approx(673.15e9, rel=0.001)

    def test_routed_experts_are_most_of_a_mixture(self, catalog: Catalog) -> None:
        llm = catalog.llm("Qwen/Qwen3-30B-A3B")
        unread = 48 * (128 - 8) * 3 * 2048 * 768
        assert llm.params_total - llm.params_active == unread

    @pytest.mark.parametrize(
        ("llm_id", "held_gib"), [("openai/gpt-oss-20b", 13.47), ("openai/gpt-oss-120b", 64.38)]
    )
    def test_mxfp4_weights_are_at_most_what_vllm_holds(
        self, catalog: Catalog, llm_id: str, held_gib: float
    ) -> None:
        # vLLM on H100 pads the experts' matrices (llm-d-planner, empirical memory results).
        assert 0.93 < catalog.llm(llm_id).weight_bytes / 2**30 / held_gib <= 1.0

    @pytest.mark.parametrize(
        ("llm_id", "held_gib"),
        [("meta-llama/Llama-3.1-8B-Instruct", 14.99), ("Qwen/Qwen3-32B", 61.03)],
    )
    def test_bf16_weights_agree_with_what_vllm_holds(
        self, catalog: Catalog, llm_id: str, held_gib: float
    ) -> None:
        assert catalog.llm(llm_id).weight_bytes / 2**30 == pytest.approx(held_gib, rel=0.01)

    def test_no_constant_cache_figure_for_compressed_attention(self, catalog: Catalog) -> None:
        ids = {llm.id for llm in catalog.incomplete_llms}
        assert {"deepseek-ai/DeepSeek-V4-Pro", "deepseek-ai/DeepSeek-V4-Flash"} <= ids


class TestPairings(Family):
    name = "pairings"
    least = 165

    def test_pairs_that_nobody_published_are_marked(self, catalog: Catalog) -> None:
        missing = {(p.target, p.draft) for p in catalog.pairings if not p.exists}
        assert missing == {
            ("Qwen/Qwen3.5-72B", "Qwen/Qwen3.5-0.5B"),
            ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "meta-llama/Llama-4-1B"),
        }

    def test_padded_vocabularies_are_marked_with_both_sizes(self, catalog: Catalog) -> None:
        pairing = next(
            p
            for p in catalog.pairings_for("Qwen/Qwen2.5-7B-Instruct")
            if p.draft == "Qwen/Qwen2.5-0.5B-Instruct"
        )
        assert pairing.vocab_check == "padded draft 151936 target 152064"

    def test_a_draft_model_has_the_size_that_the_catalogue_gives(self, catalog: Catalog) -> None:
        sizes = {llm.id: llm.params_total for llm in catalog.llms}
        drafts = [p for p in catalog.pairings if p.method is Method.DRAFT_MODEL]
        known = [p for p in drafts if p.draft in sizes]
        assert len(known) > 50
        assert all(p.draft_params == sizes[p.draft] for p in known)


class TestAcceptance(Family):
    name = "acceptance"
    least = 310

    def test_acceptance_grows_with_the_length_of_a_chain(self, catalog: Catalog) -> None:
        facts = catalog.acceptance_for(
            "meta-llama/Llama-3.3-70B-Instruct",
            "lmsys/SGLang-EAGLE3-Llama-3.3-70B-Instruct-SpecForge",
        )
        by_length = {
            f.num_speculative_tokens: f.tokens_per_round for f in facts if f.task == "mtbench"
        }
        assert by_length[3] == pytest.approx(2.96, abs=0.005)
        assert by_length[3] < by_length[5] < by_length[7]

    def test_an_unpublished_temperature_stays_unknown(self, catalog: Catalog) -> None:
        bundle = [f for f in catalog.acceptance if "SpecBundle" in f.source.reference]
        assert len(bundle) == 264
        assert {f.temperature for f in bundle} == {None}

    def test_rates_become_tokens_a_round(self, catalog: Catalog) -> None:
        (fact,) = catalog.acceptance_for("Qwen/Qwen3.5-4B", "(built-in)")
        assert (fact.num_speculative_tokens, fact.tokens_per_round) == (1, 1.91)

    def test_every_chain_figure_stands_in_the_published_rows(self, catalog: Catalog) -> None:
        path = models_db_dir() / "published/acceptance.csv"
        with path.open(newline="", encoding="utf-8") as file:
            good = {
                (row["locator"], float(row["tau"]))
                for row in csv.DictReader(file)
                if row["source_key"] == "specbundle"
                and row["quality"] == "ok"
                and row["method"] == "EAGLE3 chain"
            }
        ours = {
            (f.source.reference.rpartition(", ")[2], f.tokens_per_round)
            for f in catalog.acceptance
            if "SpecBundle" in f.source.reference
        }
        assert ours == good


class TestPrices(Family):
    name = "prices"
    least = 97

    def test_an_h100_node_at_aws(self, catalog: Catalog) -> None:
        (price,) = catalog.prices_for(
            "h100-sxm-80gb", providers=["aws"], purchases=[Purchase.ON_DEMAND], tiers=["list"]
        )[:1]
        assert (price.instance, price.gpu_count) == ("p5.48xlarge", 8)
        assert price.usd_per_hour == Decimal("55.04")
        assert price.usd_per_gpu_hour == Decimal("6.88")
        assert price.source.date == "2026-09-25"

    def test_a_row_with_two_prices_is_two_offers(self, catalog: Catalog) -> None:
        offers = [p for p in catalog.prices if p.instance == "p5.48xlarge"]
        assert [(p.purchase, p.usd_per_hour) for p in offers] == [
            (Purchase.ON_DEMAND, Decimal("55.04")),
            (Purchase.SPOT, Decimal("18.6838")),
        ]
        assert sum(p.purchase is Purchase.SPOT for p in catalog.prices) == 17

    def test_marketplace_offers_stand_apart(self, catalog: Catalog) -> None:
        tiers = {p.provider: p.tier for p in catalog.prices if p.provider in ("vast", "lambda")}
        assert tiers == {"vast": "marketplace", "lambda": "list"}


class TestClaims(Family):
    name = "claims"
    least = 80
    kind = Kind.CLAIMED

    def test_models_that_do_not_exist_are_called_out(self, catalog: Catalog) -> None:
        notes = {claim.id: claim.note for claim in catalog.claims}
        assert "neither exists" in notes["pair-qwen3.5-72b-speedup"]
        assert "never published" in notes["pair-llama-4-maverick-acceptance"]

    def test_the_guides_prices_contradict_730_hours_at_full_load(self, catalog: Catalog) -> None:
        values = {claim.id: claim.value for claim in catalog.claims}
        tokens = values["cost-none-throughput"] * 730 * 3600
        full_load = values["cost-none-month"] / tokens * 1e6
        assert full_load == pytest.approx(1.07, abs=0.005)
        assert values["cost-none-million"] == 2.31


class TestApiPrices(Family):
    name = "api_prices"
    least = 570

    def test_a_cached_prompt_is_hardly_ever_dearer(self, catalog: Catalog) -> None:
        # One OpenRouter row of the snapshot lists 0.23 cached against 0.225.
        for price in catalog.api_prices:
            cached = price.cached_input_usd_per_million_tokens
            plain = price.input_usd_per_million_tokens
            assert cached is None or cached <= Decimal("1.03") * plain, price.model


class TestChecksCanFail:
    """Each check finds a planted fault; without this, an empty answer would prove nothing."""

    def _problems(self, catalog: Catalog, **changed: tuple) -> str:
        return "\n".join(check_catalog(replace(catalog, **changed)))

    def test_repeated_id(self, catalog: Catalog) -> None:
        assert "appears 2 times" in self._problems(catalog, gpus=(*catalog.gpus, catalog.gpus[0]))

    def test_rates_out_of_order(self, catalog: Catalog) -> None:
        bad = catalog.gpu("l4").model_copy(update={"id": "x", "fp8_flops_per_s": 1e12})
        assert "must not fall" in self._problems(catalog, gpus=(*catalog.gpus, bad))

    def test_slipped_unit(self, catalog: Catalog) -> None:
        bad = catalog.gpu("l4").model_copy(update={"id": "x", "memory_bytes_per_s": 3e8})
        assert "bf16 FLOP a byte" in self._problems(catalog, gpus=(*catalog.gpus, bad))

    def test_more_active_than_total(self, catalog: Catalog) -> None:
        bad = catalog.llms[0].model_copy(update={"id": "x", "params_active": 9e12})
        assert "more active parameters" in self._problems(catalog, llms=(*catalog.llms, bad))

    def test_price_of_an_unknown_gpu(self, catalog: Catalog) -> None:
        bad = catalog.prices[0].model_copy(update={"gpu": "h1000", "instance": "x"})
        assert "'h1000' is not in" in self._problems(catalog, prices=(*catalog.prices, bad))

    def test_spot_above_on_demand(self, catalog: Catalog) -> None:
        spot = next(p for p in catalog.prices if p.purchase is Purchase.SPOT)
        others = tuple(p for p in catalog.prices if p is not spot)
        bad = spot.model_copy(update={"usd_per_hour": 1e3})
        assert "spot costs more" in self._problems(catalog, prices=(*others, bad))

    def test_acceptance_of_an_unlisted_pairing(self, catalog: Catalog) -> None:
        bad = catalog.acceptance[0].model_copy(update={"draft": "x/y"})
        problems = self._problems(catalog, acceptance=(*catalog.acceptance, bad))
        assert "pairings.csv lacks" in problems

    def test_more_tokens_than_a_round_can_emit(self, catalog: Catalog) -> None:
        bad = catalog.acceptance[0].model_copy(update={"tokens_per_round": 9.0, "task": "x"})
        assert "exceed N + 1" in self._problems(catalog, acceptance=(*catalog.acceptance, bad))

    def test_wrong_vocabulary_verdict(self, catalog: Catalog) -> None:
        good = next(p for p in catalog.pairings if p.vocab_check.startswith("ok"))
        bad = good.model_copy(update={"vocab_check": "padded", "method": Method.SUFFIX})
        assert "vocab_check" in self._problems(catalog, pairings=(*catalog.pairings, bad))

    def test_missing_and_malformed_dates(self, catalog: Catalog) -> None:
        claim = catalog.claims[0]
        undated = claim.source.model_copy(update={"date": None})
        odd = claim.source.model_copy(update={"date": "25/09/2026"})
        bad = tuple(
            claim.model_copy(update={"id": name, "source": source})
            for name, source in (("a", undated), ("b", odd))
        )
        problems = self._problems(catalog, claims=(*catalog.claims, *bad))
        assert "a: no date" in problems
        assert "b: date '25/09/2026'" in problems


def test_no_file_of_the_database_has_odd_line_ends_or_blanks_at_cell_edges() -> None:
    for path in sorted(models_db_dir().rglob("*.csv")):
        if path.parent.name == "published":
            continue
        text = path.read_bytes().decode("utf-8")
        assert "\r" not in text, path
        with path.open(newline="", encoding="utf-8") as file:
            for cells in csv.reader(file):
                assert all(cell == cell.strip() for cell in cells), (path, cells)
                assert not any(re.search(r"\s\s", cell) for cell in cells), (path, cells)
