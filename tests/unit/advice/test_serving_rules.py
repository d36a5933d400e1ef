"""Rules for a running server, each at the load of the report that it comes from."""

from __future__ import annotations

import pytest

from capplan.advice.serving_rules import RULES, notices_for
from capplan.schema.watching import Expected, ServedFigures


def figures(**changes):
    """A healthy server: N = 3, 70 % acceptance, little load."""
    healthy = {
        "software": "vllm",
        "model": "m",
        "engines": 1,
        "window_s": 60.0,
        "output_tokens": 20_000.0,
        "running": 4.0,
        "waiting": 0.0,
        "batch": 4.0,
        "kv_usage": 0.3,
        "prefix_hit_rate": 0.5,
        "preemptions": 0.0,
        "num_speculative_tokens": 3,
        "drafts": 6000.0,
        "acceptance_rate": 0.7,
        "position_rates": (0.85, 0.7, 0.55),
        "tokens_per_draft_round": 3.1,
        "tokens_per_round": 3.1,
        "draft_share": 1.0,
        "step_s": 0.02,
        "time_per_token_s": 0.00645,
        "ttft_s": 0.2,
    }
    return ServedFigures(**{**healthy, **changes})


def expected(**changes):
    return Expected(source="profile x", baseline_step_s=0.012, **changes)


def checks(**changes):
    return {notice.check for notice in notices_for(figures(**changes))}


def test_a_healthy_server_gets_no_notice():
    assert notices_for(figures()) == ()
    fast = {"expected": expected(round_ratio=1.6), "actual_speedup": 1.9}
    assert notices_for(figures(**fast)) == ()


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        # the guide's threshold, with greedy drafts of EAGLE-like falling positions
        ({"acceptance_rate": 0.599}, "low_acceptance"),
        # Gemma4-31B MTP, quantised with fp8 KV: 0.2 %
        ({"acceptance_rate": 0.002, "position_rates": (0.006, 0, 0)}, "broken_acceptance"),
        # a 1B draft for 70B turns at batch 32
        ({"expected": expected(), "actual_speedup": 0.9, "batch": 32.0}, "slower_than_plain"),
        ({"expected": expected(round_ratio=3.2)}, "below_break_even"),
        ({"expected": expected(), "actual_speedup": 1.3}, "small_speedup"),
        ({"preemptions": 3.0}, "memory_is_short"),
        ({"kv_usage": 0.97, "waiting": 5.0}, "memory_is_short"),
        # vLLM PR 37865 and the like: the queue, not the draft, delays the first token
        ({"ttft_s": 26.0, "waiting": 30.0, "running": 40.0}, "slow_first_token"),
        ({"position_rates": (0.8, 0.4, 0.05)}, "later_positions_idle"),
        ({"draft_share": 0.2, "tokens_per_round": 1.3}, "few_rounds_drafted"),
        # DeepSeek-V4-Flash MTP at temperature 1: 15 % and 6 %
        (
            {"acceptance_rate": 0.103, "position_rates": (0.149, 0.057)},
            "greedy_when_sampling",
        ),
        # default capture ends at 512 tokens: 129 requests of 4
        ({"running": 129.0}, "outside_cuda_graphs"),
        # 3.07 to 2.76 tokens a round over hours
        (
            {"tokens_per_round": 2.76, "earlier_tokens_per_round": 3.07},
            "acceptance_drifts",
        ),
        ({"prefix_hit_rate": 0.72, "earlier_prefix_hit_rate": 0.975}, "prefix_cache_drops"),
        ({"drafts": None, "acceptance_rate": None}, "speculation_is_off"),
    ],
)
def test_each_rule_speaks_at_the_load_it_was_reported_for(changes, check):
    assert check in checks(**changes)


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"acceptance_rate": 0.6}, "low_acceptance"),
        ({"acceptance_rate": 0.2, "drafts": 150.0}, "low_acceptance"),
        ({"expected": expected(), "actual_speedup": 1.0}, "slower_than_plain"),
        ({"running": 128.0}, "outside_cuda_graphs"),
        ({"running": 256.0, "engines": 2}, "outside_cuda_graphs"),
        ({"running": 400.0, "software": "sglang"}, "outside_cuda_graphs"),
        ({"kv_usage": 0.97, "waiting": 0.0}, "memory_is_short"),
        ({"ttft_s": 26.0, "waiting": 0.0}, "slow_first_token"),
        # lookup that finds little is weak, not broken
        ({"acceptance_rate": 0.01, "draft_share": 0.1}, "broken_acceptance"),
        ({"tokens_per_round": 2.9, "earlier_tokens_per_round": 3.07}, "acceptance_drifts"),
    ],
)
def test_and_is_silent_short_of_it(changes, check):
    assert check not in checks(**changes)


def test_the_alarm_on_acceptance_says_that_the_rate_depends_on_the_length():
    (notice,) = notices_for(figures(acceptance_rate=0.45))
    assert "N = 3" in notice.text
    assert "falls with" in notice.text


def test_a_small_speedup_blames_the_draft_only_where_acceptance_is_low():
    low = figures(acceptance_rate=0.4, expected=expected(), actual_speedup=1.2)
    fine = figures(expected=expected(), actual_speedup=1.2)
    texts = [
        next(n.text for n in notices_for(one) if n.check == "small_speedup") for one in (low, fine)
    ]
    assert "same family" in texts[0]
    assert "will not help" in texts[1]


def test_alarms_come_before_advice_and_each_names_its_source_and_remedy():
    found = notices_for(
        figures(acceptance_rate=0.4, position_rates=(0.6, 0.3, 0.05), preemptions=2.0)
    )
    levels = [notice.level for notice in found]
    assert levels == sorted(levels, key=["alarm", "advice"].index)
    assert all(notice.remedy and notice.source for notice in found)


def test_options_that_no_longer_exist_are_not_recommended():
    everything = figures(
        acceptance_rate=0.002, preemptions=1.0, ttft_s=9.0, waiting=9.0, running=9.0
    )
    for notice in notices_for(everything):
        assert "--speculative-draft" not in notice.remedy
        assert "use-v2-block-manager" not in notice.remedy


def test_no_two_rules_share_a_name():
    assert len({rule.__name__ for rule in RULES}) == len(RULES)
