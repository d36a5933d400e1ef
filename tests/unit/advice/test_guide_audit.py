from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

import pytest

import capplan
from capplan.advice.guide.audit import UNSPOKEN
from capplan.advice.guide.formula import implied_cost, implied_cost_ratio, standard_tokens
from capplan.advice.guide.measured import published_sweeps
from capplan.advice.guide.names import is_known
from capplan.advice.guide.sheet import Sheet
from capplan.errors import FactsError, UnknownIdError
from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.published import load_published_runs, load_rulings, load_verification_ratios
from capplan.resources import models_db_dir
from capplan.schema.audit import AuditedClaim, ClaimVerdict
from capplan.schema.provenance import Kind

GONE, CONTRA, INCON = (
    ClaimVerdict.DOES_NOT_EXIST,
    ClaimVerdict.CONTRADICTED,
    ClaimVerdict.INCONSISTENT,
)
SAME, UNKNOWN = ClaimVerdict.REPRODUCED, ClaimVerdict.CANNOT_BE_CHECKED


@pytest.fixture(scope="module")
def audit() -> dict[str, AuditedClaim]:
    return {item.claim.id: item for item in capplan.audit_guide()}


def with_values(**changed: float) -> Mapping[str, AuditedClaim]:
    """Audit the guide with other figures in it; ids in the names have _ for -."""
    catalog = load_catalog()
    by_name = {claim.id.replace("-", "_").replace(".", "_"): claim.id for claim in catalog.claims}
    values = {by_name[name]: value for name, value in changed.items()}
    claims = tuple(
        claim.model_copy(update={"value": values.get(claim.id, claim.value)})
        for claim in catalog.claims
    )
    audited = capplan.audit_guide(catalog=replace(catalog, claims=claims))
    return {item.claim.id: item for item in audited}


def test_every_figure_of_the_guide_has_one_verdict(audit: dict[str, AuditedClaim]) -> None:
    assert list(audit) == [claim.id for claim in load_catalog().claims]
    assert len(audit) == 149
    assert all(item.verdict is item.findings[0].verdict for item in audit.values())


@pytest.mark.parametrize(
    ("claim", "verdict", "recomputed"),
    [
        ("formula-example-speedup", SAME, 3.2),
        ("formula-verification-cost", CONTRA, 1.1251),
        ("headline-speedup-title", CONTRA, None),
        ("headline-quality-loss", SAME, None),
        ("rule-size-ratio-high", INCON, None),
        ("rule-n-low", SAME, None),
        ("rule-n-high", UNKNOWN, None),
        ("config-n-default", CONTRA, None),
        ("config-temperature", SAME, None),
        ("method-eagle-acceptance", UNKNOWN, None),
        ("method-medusa-speedup", UNKNOWN, None),
        ("temperature-loss-above", INCON, None),
        ("multilevel-behemoth-size", GONE, None),
        ("multilevel-behemoth-medium-size", UNKNOWN, None),
        ("pair-llama-4-maverick-ratio", INCON, 400 / 3.5),
        ("pair-qwen3.5-72b-ratio", INCON, 24),
        ("pair-deepseek-v4-ratio", SAME, 671 / 236),
        ("pair-llama-4-maverick-target-size", SAME, 400.7),
        ("pair-deepseek-v4-target-size", CONTRA, None),
        ("pair-qwen3.5-72b-speedup", GONE, 295 / 145),
        ("pair-gpt-5.5-acceptance", GONE, None),
        ("pair-claude-opus-4.1-speedup", GONE, None),
        ("a100-none-decode", GONE, None),
        ("a100-n5-speedup", SAME, 285 / 145),
        ("a100-n7-speedup", SAME, 295 / 145),
        ("a100-n7-gain", SAME, 2.03 / 1.97 - 1),
        ("a100-n7-memory-extra", SAME, 2),
        ("a100-best-n", SAME, 5),
        ("task-maths-speedup", CONTRA, None),
        ("task-translation-acceptance", CONTRA, None),
        ("task-code-speedup", INCON, None),
        ("temperature-1.0-speedup", CONTRA, None),
        ("temperature-1.3-speedup", INCON, 1.3835),
        ("adaptive-throughput-gain", GONE, None),
        ("eagle-extra-acceptance", SAME, 0.07),
        ("eagle-extra-speedup", INCON, 0.24),
        ("eagle-year", CONTRA, None),
        ("multilevel-behemoth-speedup", GONE, None),
        ("cost-none-million", INCON, 8000 / (2850 * 730 * 3600) * 1e6),
        ("cost-n5-million", INCON, 8200 / (5100 * 730 * 3600) * 1e6),
        ("cost-eagle-million", INCON, 8500 / (5800 * 730 * 3600) * 1e6),
        ("cost-n5-month", INCON, 8000),
        ("cost-saving", SAME, 1 - 1.28 / 2.31),
        ("config-v2-block-manager", CONTRA, None),
        ("config-draft-tensor-parallel", CONTRA, None),
        ("name-adaptive-scheduler", GONE, None),
        ("name-second-draft", GONE, None),
        ("name-stats-method", GONE, None),
        ("rule-n-default", CONTRA, None),
        ("rule-acceptance-replace", CONTRA, None),
        ("rule-temperature-off", INCON, None),
        ("summary-pair-speedup-low", INCON, 295 / 145),
    ],
)
def test_the_verdict_on_a_figure(
    audit: dict[str, AuditedClaim], claim: str, verdict: ClaimVerdict, recomputed: float | None
) -> None:
    item = audit[claim]
    assert item.verdict is verdict
    if recomputed is not None:
        assert item.recomputed == pytest.approx(recomputed, rel=1e-3)


def test_the_price_column_implies_three_utilisations(audit: dict[str, AuditedClaim]) -> None:
    reason = audit["cost-none-million"].findings[0].reason
    assert "$1.07 at full load" in reason
    assert "$2.31 implies 46.2 % utilisation" in reason
    assert "It is not one: the three rows imply 46.2, 47.8, 48.5 %" in reason
    assert "42.7 %" in audit["cost-saving"].findings[0].reason


def test_one_utilisation_would_be_reproduced() -> None:
    rows = {"none": (8000, 2850), "n5": (8000, 5100), "eagle": (8000, 5800)}
    prices = {
        f"cost_{row}_million": round(usd / (rate * 730 * 3600) * 1e6 / 0.462, 2)
        for row, (usd, rate) in rows.items()
    }
    audited = with_values(**prices, cost_n5_month=8000, cost_eagle_month=8000)
    assert audited["cost-n5-million"].verdict is SAME
    assert audited["cost-n5-month"].verdict is not INCON


@pytest.mark.parametrize(
    ("changed", "claim", "verdict"),
    [
        ({"a100_n5_decode": 300.0}, "a100-n5-speedup", INCON),
        ({"eagle_extra_speedup": 0.24}, "eagle-extra-speedup", SAME),
        ({"formula_example_cost_ratio": 0.1}, "formula-example-speedup", INCON),
        ({"a100_n7_throughput": 5200.0}, "a100-best-n", INCON),
        ({"pair_qwen3_5_72b_ratio": 8.0}, "pair-qwen3.5-72b-ratio", INCON),
        ({"pair_qwen3_5_72b_ratio": 8.0, "pair_qwen3_5_72b_draft_size": 9.0},
         "pair-qwen3.5-72b-ratio", SAME),
        ({"summary_pair_speedup_low": 1.9}, "summary-pair-speedup-low", SAME),
        ({"headline_speedup_low": 1.2}, "headline-speedup-low", SAME),
        ({"method_eagle_acceptance": 0.97}, "method-eagle-acceptance", CONTRA),
        ({"rule_n_low": 6.0}, "rule-n-low", CONTRA),
        ({"rule_size_ratio_high": 0.2}, "rule-size-ratio-high", SAME),
        ({"rule_n_default": 7.0, "adaptive_throughput_gain": 0.0}, "rule-n-default", CONTRA),
        ({"temperature_1_3_speedup": 1.1}, "temperature-loss-above", INCON),
        ({"formula_verification_cost": 1.125}, "formula-verification-cost", SAME),
        ({"a100_none_decode": 300.0}, "a100-none-decode", GONE),
    ],
)  # fmt: skip
def test_another_figure_gets_another_verdict(
    changed: dict[str, float], claim: str, verdict: ClaimVerdict
) -> None:
    assert with_values(**changed)[claim].verdict is verdict


def test_a_stream_faster_than_the_bandwidth_is_contradicted() -> None:
    found = with_values(a100_none_decode=300.0)["a100-none-decode"].findings
    assert [f.recomputed for f in found if f.verdict is CONTRA] == [
        pytest.approx(4 * 2039e9 / 36e9)
    ]


def test_rows_of_one_table_imply_one_cost_ratio_or_disagree() -> None:
    # c = acceptance / speedup - 1/N: between rows only acceptance / speedup counts, whatever N
    gap = [implied_cost_ratio(0.42, n, 0.9) - implied_cost_ratio(0.85, n, 2.8) for n in (3, 5, 7)]
    assert gap == pytest.approx([0.1631] * 3, abs=1e-4)
    agreeing = {
        f"temperature_{t}_speedup": round(rate * 5 / (1 + 5 * 0.1), 2)
        for t, rate in (("0_0", 0.85), ("0_3", 0.78), ("0_7", 0.68), ("1_0", 0.55), ("1_3", 0.42))
    }
    audited = with_values(**agreeing)
    verdicts = {f.verdict for f in audited["temperature-0.7-speedup"].findings}
    assert verdicts == {SAME}
    assert "rule-temperature-off" in audited
    assert audited["rule-temperature-off"].verdict is UNKNOWN


def test_the_tasks_share_one_cost_ratio_by_the_standard_formula_and_temperatures_do_not() -> None:
    sheet = Sheet(load_catalog().claims)

    def shared(rows: tuple[str, ...]) -> bool:
        costs = [implied_cost(sheet, row, standard_tokens) for row in rows]
        return max(cost.low for cost in costs) <= min(cost.high for cost in costs)

    tasks = ("code", "qa", "maths", "creative", "translation", "summary")
    assert shared(tuple(f"task-{task}" for task in tasks))
    assert not shared(tuple(f"temperature-{t}" for t in ("0.0", "0.3", "0.7", "1.0", "1.3")))
    # by hand for maths: (1 - 0.65^6) / 0.35 = 2.6417 tokens, 2.6417 / 1.6 = 1 + 5 c
    assert implied_cost(sheet, "task-maths", standard_tokens).mid == pytest.approx(
        0.1302, abs=1e-4
    )


def test_a_table_off_the_standard_formula_is_not_said_to_fit_it() -> None:
    found = with_values(task_maths_speedup=1.2)["task-code-speedup"].findings
    assert not [f for f in found if f.verdict is SAME]


def test_its_three_rules_do_not_give_three_times(audit: dict[str, AuditedClaim]) -> None:
    reasons = " ".join(f.reason for f in audit["summary-easily"].findings)
    assert f"{0.7 * 5 / (1 + 5 * 0.1):.2f}x, not 3x" in reasons


def test_more_speedup_than_accepted_tokens_is_impossible() -> None:
    reason = with_values(task_code_speedup=4.6)["task-code-speedup"].findings[0].reason
    assert "no draft costs less than nothing" in reason


def test_the_memory_of_two_more_tokens_is_computed(audit: dict[str, AuditedClaim]) -> None:
    kv_bytes = 80 * 2 * 8 * 128 * 2  # Qwen2.5-72B: layers, key and value, heads, size, bf16
    assert 2 * 64 * kv_bytes / 1e9 == pytest.approx(0.042, abs=5e-4)
    assert "take 0.04 GB" in " ".join(f.reason for f in audit["a100-n7-memory"].findings)


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("Llama 4 Maverick", "meta-llama/Llama-4-Maverick-17B-128E-Instruct", True),
        ("Qwen3.5-3B", "Qwen/Qwen3.5-35B-A3B", False),
        ("Qwen3.5-72B", "Qwen/Qwen3.5-72B-Instruct-AWQ", True),
        ("Claude Haiku 4", "claude-haiku-4-5", False),
        ("Claude Opus 4.1", "claude-opus-4-1", True),
        ("Claude Opus 4.1", "claude-opus-4-1-20250805", True),
        ("GPT-5.5 mini", "gpt-5.5-pro", False),
        ("GPT-5.5", "gpt-5.5-pro", True),
        ("DeepSeek V4-Lite", "deepseek-ai/DeepSeek-V4-Flash", False),
        ("", "anything", False),
    ],
)
def test_a_name_is_known_by_its_parts(name: str, known: str, found: bool) -> None:
    assert is_known(name, [known]) is found


def test_a_model_that_appears_is_no_longer_said_not_to_exist() -> None:
    catalog = load_catalog()
    born = catalog.llm("Qwen/Qwen3-32B").model_copy(update={"id": "Qwen/Qwen3.5-72B-Instruct"})
    audited = capplan.audit_guide(
        catalog=replace(catalog, llms=(*catalog.llms, born)), topic="pairs"
    )
    by_id = {item.claim.id: item for item in audited}
    assert by_id["pair-qwen3.5-72b-target-size"].verdict is UNKNOWN
    assert by_id["pair-qwen3.5-72b-speedup"].verdict is INCON


def test_no_figure_of_the_guide_is_left_to_nobody(audit: dict[str, AuditedClaim]) -> None:
    assert not [item.claim.id for item in audit.values() if UNSPOKEN in item.findings]
    catalog = load_catalog()
    new = catalog.claims[0].model_copy(update={"id": "new-figure"})
    more = replace(catalog, claims=(*catalog.claims, new))
    assert capplan.audit_guide(catalog=more)[-1].findings == (UNSPOKEN,)


def test_a_claim_that_a_check_needs_is_missed_by_name() -> None:
    catalog = load_catalog()
    rest = tuple(claim for claim in catalog.claims if claim.id != "a100-none-decode")
    with pytest.raises(FactsError, match="no 'a100-none-decode'"):
        capplan.audit_guide(catalog=replace(catalog, claims=rest))


def test_an_unknown_topic_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownIdError):
        capplan.audit_guide(topic="weather")


def test_every_objection_from_outside_names_its_source(audit: dict[str, AuditedClaim]) -> None:
    for item in audit.values():
        for finding in item.findings:
            assert finding.verdict in ClaimVerdict
            if finding.verdict in (GONE, CONTRA):
                assert finding.source is not None, item.claim.id
                assert finding.source.reference
                assert finding.source.kind is not Kind.CLAIMED
            if finding.verdict is INCON:
                assert set(finding.claims) <= set(audit)
                assert finding.claims or "less than nothing" in finding.reason


def test_every_ruling_speaks_of_a_claim_and_no_ruling_is_arithmetic() -> None:
    ids = [claim.id for claim in load_catalog().claims]
    for ruling in load_rulings(models_db_dir() / "claims" / "evidence"):
        for pattern in ruling.claims.split():
            assert any(fnmatchcase(claim, pattern) for claim in ids), pattern
        assert ruling.verdict is not INCON


def _published(name: str) -> list[dict[str, str]]:
    with (models_db_dir() / "published" / name).open(encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["quality"] == "ok"]


def test_translation_is_slowest_in_spec_bench_and_maths_is_not(
    audit: dict[str, AuditedClaim],
) -> None:
    tables: defaultdict[tuple[str, ...], dict[str, float]] = defaultdict(dict)
    for row in _published("speedup.csv"):
        if row["source_key"] == "specbench" and "Overall" not in row["task"]:
            key = (row["target"], row["draft"], row["method"], row["gpu"], row["temperature"])
            tables[key][row["task"]] = float(row["measured_speedup"])
    slowest = Counter(min(table, key=lambda task: table[task]) for table in tables.values())
    assert len(tables) == 41
    assert slowest["Spec-Bench Translation"] > 20 > slowest["Spec-Bench Math"]
    said = f"slowest in {slowest['Spec-Bench Translation']} of 41"
    assert said in audit["task-translation-speedup"].findings[0].reason


def test_five_is_the_best_length_of_a_minority_of_sweeps(audit: dict[str, AuditedClaim]) -> None:
    best_by_load = {
        row["load"]: row
        for row in sorted(
            (r for r in _published("throughput.csv") if r["method"].startswith("fixed k=")),
            key=lambda r: float(r["speedup"]),
        )
    }
    lengths = [
        int(float(row["N"])) for _, row in sorted(best_by_load.items(), key=lambda i: float(i[0]))
    ]
    assert lengths == [6, 5, 3, 5, 3, 3]
    reason = audit["rule-n-default"].findings[0].reason
    assert "6, 5, 3, 5, 3, 3 at 1, 16, 32, 64, 128, 256 requests" in reason


def test_only_sweeps_that_tried_shorter_lengths_tell_of_the_least_one(
    audit: dict[str, AuditedClaim],
) -> None:
    sweeps = published_sweeps(load_published_runs(models_db_dir() / "published")).values()
    tried = [sweep for sweep in sweeps if min(sweep) < 3]
    assert len(tried) == 9 < len(sweeps)
    longer = sum(max(sweep, key=lambda n, s=sweep: s[n]) >= 3 for sweep in tried)  # type: ignore[misc]
    assert f"In {longer} of the 9 published sweeps" in audit["rule-n-low"].findings[0].reason


def test_verification_costs_more_than_a_step_in_every_published_point() -> None:
    ratios = load_verification_ratios(models_db_dir() / "published")
    assert len(ratios) == 89
    assert min(ratios) > 1


def test_no_plan_reads_the_guides_claims(catalog_without_claims: Catalog) -> None:
    request = capplan.PlanRequest(targets=("Qwen/Qwen3-32B",), budget_usd_per_month=20000)
    with_claims = capplan.recommend(request)
    without = capplan.recommend(request, catalog=catalog_without_claims)
    assert [o.id for o in with_claims.options] == [o.id for o in without.options]


@pytest.fixture
def catalog_without_claims() -> Catalog:
    return replace(load_catalog(), claims=())
