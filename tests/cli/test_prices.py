"""Money on the command line: prices, cost, breakeven, and what recommend takes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from capplan.cli.main import main

RECOMMEND = (
    *("recommend", "--target", "meta-llama/Llama-3.1-8B-Instruct", "--budget", "100000"),
    *("--rate", "2", "--gpu", "h100-sxm-80gb"),
)


BARE = ("breakeven", "--usd-per-month=100", "--api-price=in=1,out=2")


class Outcome:
    """What a run of the command line left behind."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> Outcome:
        monkeypatch.setattr("sys.argv", ["capplan", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        code = caught.value.code
        return Outcome(code if isinstance(code, int) else 1, captured.out, captured.err)

    return call


@pytest.fixture
def price_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text(
        "gpu,provider,gpu_count,usd_per_hour,purchase,term_months,as_of\n"
        "h100-sxm-80gb,acme,8,20.00,on-demand,,2026-11-20\n"
        "h100-sxm-80gb,acme,8,12.00,reserved,12,2026-11-20\n"
    )
    return path


def test_an_hour_at_4_50_for_180_hours_is_810(run: Any) -> None:
    done = run("cost", "--usd-per-hour", "4.50", "--hours-per-month", "180")
    assert done.code == 0
    assert done.out.startswith("810.00 USD a month")
    two = json.loads(run("cost", "--usd-per-hour", "1", "--nodes", "2", "--format", "json").out)
    assert (two["node_hours"], two["hours_per_month"]) == (1460, 730)


def test_an_eight_gpu_machine_for_one_gpu_says_what_stands_idle(run: Any) -> None:
    node = ("cost", "--usd-per-hour", "55.04", "--gpus-per-node", "8", "--gpus-in-use", "1")
    text = run(*node).out
    assert text.startswith("40,179.20 USD a month: 1 node x 730 h x 55.04 USD/h")
    assert "6.88 USD a GPU-hour" in text
    assert "35,156.80 USD of it a month for GPUs that stand idle (7 of 8)" in text
    lines = json.loads(run(*node, "--format", "json").out)["usd_per_month_by_line"]
    assert lines == {"gpus_in_use": 5022.4, "idle_gpus": 35156.8}


def test_a_reservation_is_paid_for_in_hours_that_serve_nobody(run: Any) -> None:
    arguments = (
        *("cost", "--usd-per-hour", "10", "--upfront-usd", "87600", "--term-months", "12"),
        *("--hours-per-month", "146", "--output-tokens-per-s", "1000", "--utilisation", "1"),
    )
    found = json.loads(run(*arguments, "--format", "json").out)
    # 10 + 87,600 / 8,760 = 20 USD an hour for 730 h, of which a fifth serves
    assert found["usd_per_month"] == 14600
    assert found["upfront_usd"] == 87600
    assert found["tokens"]["usd_per_million_output"] == pytest.approx(100 / 3.6)
    assert "87,600.00 USD due on the first day" in run(*arguments).out


def test_break_even_needs_the_prompts_that_come_with_the_answers(run: Any) -> None:
    bare = ("breakeven", "--usd-per-hour", "2.69", "--api-price", "in=0.10,out=0.40")
    load = (*bare, "--output-tokens-per-s", "3653", "--utilisation", "30%")
    assert "--prompt-per-output" in run(*load).err
    done = run(*load, "--prompt-per-output", "3:1", "--cached-share", "50%")
    # 1,963.70 / 0.70 a million: no cached price is listed, so the full one is charged
    assert "equal at 2,805 M output tokens a month, 29.2 % of the 9,600 M" in done.out
    assert "no other is listed" in done.out
    beyond = run(*bare, "--output-tokens-per-s", "1", "--output-tokens-per-month", "1e9",
                 "--prompt-per-output", "0")  # fmt: skip
    assert beyond.code == 2
    assert "more than" in beyond.err


def test_a_node_price_given_for_a_gpu_is_doubted_before_the_plan(run: Any) -> None:
    done = run(*RECOMMEND, "--gpu-price", "h100-sxm-80gb=55.04", "--utilisation", "60%")
    assert "price of a node of 8, not of one GPU?" in done.err
    assert "Mind" not in run(*RECOMMEND, "--gpu-price", "h100-sxm-80gb=2.49").err


def test_the_first_lines_are_the_answer_its_money_its_speed_and_its_trust(
    run: Any, price_file: Path
) -> None:
    done = run(*RECOMMEND, "--price-file", str(price_file), "--price-file-only", "--tp", "1")
    top, figures = done.out.split("\n\n")[:2]
    assert top.startswith(("Serve", "Speculate"))
    flat = " ".join(figures.split())
    assert "14,600 USD a month, 12,775 of it for idle GPUs" in flat
    assert flat.index("a month") < flat.index("output tokens at") < flat.index("TPOT")
    assert "Trust:" in flat
    assert "month's bill" not in flat


def test_a_price_of_tokens_asks_for_the_utilisation(run: Any) -> None:
    arguments = ("cost", "--usd-per-hour", "2.5", "--output-tokens-per-s", "700")
    assert run(*arguments).code == 2
    assert "--utilisation" in run(*arguments).err
    tenth = json.loads(run(*arguments, "--utilisation", "10%", "--format", "json").out)
    assert tenth["tokens"]["usd_per_million_output"] == pytest.approx(9.921, rel=1e-3)
    curve = tenth["usd_per_million_output_by_utilisation"]
    assert curve["1"] == pytest.approx(0.9921, rel=1e-3)
    assert curve["0.1"] == pytest.approx(9.921, rel=1e-3)


def test_every_price_of_a_token_names_its_denominator(run: Any) -> None:
    arguments = (
        *("cost", "--usd-per-hour", "31.45833", "--output-tokens-per-s", "475.1"),
        *("--total-tokens-per-s", "9977.05", "--utilisation", "1", "--input-share", "0.4"),
    )
    text = run(*arguments).out
    for label in ("million output tokens", "million prompt tokens", "prompt and output"):
        assert label in text
    tokens = json.loads(run(*arguments, "--format", "json").out)["tokens"]
    assert tokens["usd_per_million_output"] == pytest.approx(18.393, rel=1e-3)
    assert tokens["usd_per_million_total"] == pytest.approx(0.8759, rel=1e-3)


@pytest.mark.parametrize(
    "arguments",
    [
        ("cost", "--usd-per-hour", "0"),
        ("cost",),
        ("cost", "--usd-per-hour", "2,49"),
        ("cost", "--usd-per-hour", "\u20ac2.49"),
        ("cost", "--usd-per-hour", "-1"),
        ("cost", "--usd-per-hour", "1e30"),
        ("cost", "--usd-per-hour", "1", "--hours-per-month", "8760"),
        ("cost", "--usd-per-hour", "1", "--upfront-usd", "1000"),
        ("cost", "--usd-per-hour", "1", "--gpus-per-node", "8", "--gpus-in-use", "9"),
        ("cost", "--usd-per-hour", "1", "--output-tokens-per-s", "9", "--utilisation", "0"),
        ("cost", "--usd-per-hour", "1", "--output-tokens-per-s", "9", "--utilisation", "1.2"),
        ("cost", "--usd-per-hour", "1", "--output-tokens-per-s", "0", "--utilisation", "1"),
        ("cost", "--usd-per-hour", "1", "--input-tokens-per-s", "1"),
        ("cost", "--usd-per-hour", "1", "--utilisation", "110%"),
        (*RECOMMEND, "--pue", "1.2"),
        (*RECOMMEND, "--hours-per-month", "800"),
        (*RECOMMEND, "--discount", "1.5"),
        (*RECOMMEND, "--discount", "some"),
        (*RECOMMEND, "--price-file-only"),
        ("prices", "list", "--price-file-only"),
        ("prices", "refresh", "-o", "x.csv", "--as-of", "yesterday"),
        ("breakeven",),
        ("breakeven", "--usd-per-month", "1", "--output-tokens-per-month", "1"),
        ("breakeven", "--usd-per-month=1", "--output-tokens-per-month=1", "--api-price=1"),
        (*BARE, "--output-tokens-per-month=1", "--api-price=in=1,out=2,out=3"),
        (*BARE, "--output-tokens-per-month=1", "--api-price=in=1,out=-2"),
        (*BARE, "--output-tokens-per-month=1", "--prompt-per-output=-3"),
        (*BARE, "--utilisation=0.5", "--prompt-per-output=3"),
        (*BARE, "--usd-per-hour=1", "--output-tokens-per-month=1", "--prompt-per-output=3"),
    ],
)  # fmt: skip
def test_misuse_is_explained_with_exit_code_2(run: Any, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.code == 2
    assert "Error" in done.err
    assert "Traceback" not in done.err


def test_prices_are_listed_with_their_age(run: Any) -> None:
    done = run("prices", "list", "--gpu", "h100-sxm-80gb", "--provider", "lambda")
    assert "gpu_8x_h100_sxm5" in done.out
    assert "shipped with capplan" in done.err
    assert "older than 60 days" in done.err


def test_a_price_file_is_checked(run: Any, price_file: Path) -> None:
    done = run("prices", "check", str(price_file))
    assert done.code == 0
    assert "1 on-demand, list; 1 reserved, list" in done.out
    price_file.write_text(price_file.read_text().replace("20.00", "twenty"))
    bad = run("prices", "check", str(price_file))
    assert bad.code == 1
    assert f"{price_file}:2: column usd_per_hour is 'twenty'" in bad.err


def test_a_plan_uses_own_prices_and_says_which_rows_it_left(run: Any, price_file: Path) -> None:
    arguments = (*RECOMMEND, "--price-file", str(price_file), "--price-file-only")
    done = run(*arguments, "--format", "json")
    assert done.code == 0
    assert "add --purchase reserved" in done.err
    plan = json.loads(done.out)
    assert {option["provider"] for option in plan["options"]} == {"acme"}
    assert plan["options"][0]["bill"]["total_usd"] == 14600
    origin = next(item for item in plan["assumptions"] if item["name"] == "Prices")
    assert "mine.csv" in origin["source"]
    kinds = ("--purchase", "reserved", "--purchase", "on-demand")
    both = run(*arguments, *kinds, "--format", "json")
    assert json.loads(both.out)["options"][0]["term_months"] == 12
    assert "Note" not in both.err


def test_own_prices_stand_beside_the_shipped_ones(run: Any, price_file: Path) -> None:
    done = run(*RECOMMEND, "--price-file", str(price_file), "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert {"acme", "lambda"} <= {row["provider"] for row in rows}
    assert all(row["bill_total_usd"] for row in rows)


def test_the_terminal_shows_the_bill_the_use_and_the_api(run: Any, price_file: Path) -> None:
    done = run(
        *RECOMMEND, "--price-file", str(price_file), "--price-file-only", "--tp", "1",
        "--compare-api", "groq:llama-3.1-8b-instant",
    )  # fmt: skip
    assert "for GPUs in use" in done.out
    assert "for idle GPUs" in done.out
    text = " ".join(done.out.split())
    assert "1 node of 8 GPUs at 20.00 USD/h, 730 h" in text
    assert "A million output tokens by utilisation: " in text
    assert "groq: llama-3.1-8b-instant: GPUs 14,600.00 USD > API" in text


def test_break_even_of_a_plan_shows_both_bills(run: Any, tmp_path: Path, price_file: Path) -> None:
    plan = tmp_path / "plan.json"
    run(*RECOMMEND, "--price-file", str(price_file), "--price-file-only", "-o", str(plan))
    arguments = ("breakeven", "--plan", str(plan), "--api-price", "in=1,out=4,cached=0.1")
    text = run(*arguments).out
    assert "GPUs 14,600.00 USD" in text
    cold, warm = (
        json.loads(run(*arguments, "--format", "json", *more).out)["comparisons"][0]
        for more in ((), ("--cached-share", "50%"))
    )
    assert cold["gpu_usd_per_month"] == warm["gpu_usd_per_month"] == 14600
    assert warm["api_usd_per_month"] < cold["api_usd_per_month"]
    by_name = run("breakeven", "--plan", str(plan), "--format", "json")
    assert len(json.loads(by_name.out)["comparisons"]) > 1
    assert run(*arguments, "--option", "999").code == 2


def test_break_even_of_bare_figures(run: Any) -> None:
    done = run(
        *("breakeven", "--usd-per-month", "810", "--output-tokens-per-month", "1e9"),
        *("--prompt-per-output", "4", "--api-price", "in=0.10,out=0.40", "--format", "json"),
    )
    (found,) = json.loads(done.out)["comparisons"]
    assert found["api_usd_per_month"] == 800
    assert found["break_even_output_tokens_per_month"] == 1012500000


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_prices_are_refreshed_offline(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gpuhunt")
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "lambdalabs.csv").write_text(
        "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size\n"
        "gpu_8x_h100_sxm5,us-east-1,31.92,208,1800,8,H100,80,False,\n"
        "gpu_1x_a100,us-east-1,1.29,30,200,1,A100,80,False,\n"
    )
    monkeypatch.setenv("GPUHUNT_CATALOG_DIR", str(tables))
    output = tmp_path / "prices.csv"
    done = run("prices", "refresh", "-o", str(output), "--as-of", "2026-11-28")
    assert done.code == 0
    assert "Left out: 1 x board not told apart" in done.err
    assert "capplan recommend --price-file" in done.err
    plan = run(*RECOMMEND, "--price-file", str(output), "--price-file-only", "--format", "json")
    assert json.loads(plan.out)["options"][0]["usd_per_gpu_hour"] == 3.99
    assert list(tmp_path.glob("*.part")) == []


def test_a_failed_refresh_leaves_the_old_file(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gpuhunt")
    output = tmp_path / "prices.csv"
    output.write_text("as it was")
    monkeypatch.setenv("GPUHUNT_CATALOG_DIR", str(tmp_path / "nowhere"))
    assert run("prices", "refresh", "-o", str(output)).code == 1
    assert output.read_text() == "as it was"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("--usd-per-hour", "2.345"), "1,711.85 USD a month: 1 node x 730 h x 2.345 USD/h"),
        (("--usd-per-hour", "0.8048"), "587.50 USD a month: 1 node x 730 h x 0.8048 USD/h"),
        (("--upfront-usd", "100000", "--term-months", "12"), "x 11.415525 USD/h"),
        (("--usd-per-hour", "4.50"), "x 4.50 USD/h"),
    ],
)
def test_the_bill_is_the_product_of_the_figures_beside_it(
    run: Any, arguments: tuple[str, ...], shown: str
) -> None:
    assert shown in run("cost", *arguments).out


def test_a_price_of_tokens_is_never_shown_as_nothing(run: Any) -> None:
    # 0.0001 USD for 3.6e12 tokens
    tokens = ("--output-tokens-per-s", "1e9", "--utilisation", "1")
    assert "2.78e-11 USD  a million output" in run("cost", "--usd-per-hour", "1e-4", *tokens).out


def test_two_prices_of_one_gpu_are_refused_by_whatever_names(run: Any) -> None:
    plan = ("recommend", "--target", "Qwen/Qwen3-32B", "--budget", "5000")
    again = ("--gpu-price", "h100-sxm-80gb=2.1", "--gpu-price")
    assert "2 times: keep one" in run(*plan, *again, "h100-sxm-80gb=3.1").err
    assert "Two prices are stated for h100-sxm-80gb" in run(*plan, *again, "H100-SXM-80GB=3").err


def test_a_row_that_contradicts_itself_is_explained_in_words(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("gpu,gpu_count,reserved_usd_per_hour\nh100-sxm-80gb,8,10\n", encoding="utf-8")
    said = run("prices", "check", str(file)).err
    assert "prices.csv:2: a reserved price needs its term in months (term_months)." in said
