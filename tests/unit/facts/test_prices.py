"""Price files: what may be written, and what a wrong line says of itself."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from capplan.errors import FactsError
from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.price_age import ages
from capplan.facts.price_doubts import doubts
from capplan.facts.price_file import load_price_file, price_file_text, with_price_files
from capplan.facts.prices import PRICE_COLUMNS
from capplan.schema.price import PriceRow, Purchase
from capplan.schema.provenance import Kind

HEADER = ",".join(PRICE_COLUMNS)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def written(tmp_path: Path, text: str, name: str = "prices.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def only(path: Path, catalog: Catalog) -> PriceRow:
    (price,) = load_price_file(path, catalog)
    return price


def test_a_gpu_and_a_price_are_enough(tmp_path: Path, catalog: Catalog) -> None:
    price = only(written(tmp_path, "gpu,usd_per_gpu_hour\nh100-sxm-80gb,2.49\n"), catalog)
    assert price.usd_per_hour == Decimal("2.49")
    assert (price.purchase, price.tier, price.any_count) == (Purchase.ON_DEMAND, "list", True)
    assert price.source.kind is Kind.ASSUMED
    assert "prices.csv, line 2" in price.source.reference
    assert price.source.date is None


def test_a_price_by_the_gpu_of_a_node_is_a_price_of_the_node(
    tmp_path: Path, catalog: Catalog
) -> None:
    text = "gpu,gpu_count,usd_per_gpu_hour,provider\nh100-sxm-80gb,8,2.1,acme\n"
    price = only(written(tmp_path, text), catalog)
    assert (price.gpu_count, price.usd_per_hour, price.any_count) == (8, Decimal("16.8"), False)


def test_a_reservation_has_a_term(tmp_path: Path, catalog: Catalog) -> None:
    text = (
        "gpu,gpu_count,usd_per_hour,purchase,term_months,upfront_share,as_of,source\n"
        "h100-sxm-80gb,8,16.80,reserved,12,0.5,2026-11-20,quote 17\n"
    )
    price = only(written(tmp_path, text), catalog)
    assert (price.term_months, price.upfront_share) == (12, Decimal("0.5"))
    assert price.source.kind is Kind.CITED
    assert price.source.date == "2026-11-20"


def test_json_says_the_same_as_csv(tmp_path: Path, catalog: Catalog) -> None:
    csv = load_price_file(
        written(tmp_path, "gpu,usd_per_gpu_hour,provider,source\nl4,0.444444444444444444,a,s\n"),
        catalog,
    )
    entry = (
        '{"gpu": "l4", "usd_per_gpu_hour": 0.444444444444444444, "provider": "a", "source": "s"}'
    )
    for text in (f"[{entry}]", f'{{"prices": [\n{entry}]}}'):
        assert load_price_file(written(tmp_path, text, "prices.json"), catalog) == csv


def test_the_shipped_prices_survive_being_written_and_read(
    tmp_path: Path, catalog: Catalog
) -> None:
    again = load_price_file(written(tmp_path, price_file_text(catalog.prices)), catalog)
    assert {(p.instance, p.purchase, p.usd_per_hour, p.source.date, p.note) for p in again} == {
        (p.instance, p.purchase, p.usd_per_hour, p.source.date, p.note) for p in catalog.prices
    }


def test_a_reservation_survives_being_written_and_read(tmp_path: Path, catalog: Catalog) -> None:
    row = "acme,a-8x,h100-sxm-80gb,8,eu,20.5,,16.8,12,0.25,list,quote,2026-11-20,"
    text = f"{HEADER}\n{row}\n"
    prices = load_price_file(written(tmp_path, text), catalog)
    assert [p.purchase for p in prices] == [Purchase.ON_DEMAND, Purchase.RESERVED]
    again = load_price_file(written(tmp_path, price_file_text(prices), "again.csv"), catalog)
    assert set(again) == set(prices)


def test_the_instance_type_tells_two_boards_of_one_name_apart(
    tmp_path: Path, catalog: Catalog
) -> None:
    text = f"{NODE}A100,p4d.24xlarge,8,21.96\nA100,p4de.24xlarge,,27.45\n,p5.48xlarge,,55.04\n"
    found = load_price_file(written(tmp_path, text), catalog)
    assert [(p.gpu, p.gpu_count, p.any_count) for p in found] == [
        ("a100-sxm-40gb", 8, False), ("a100-sxm-80gb", 8, False), ("h100-sxm-80gb", 8, False),
    ]  # fmt: skip


def test_a_gpus_price_of_an_instance_type_is_that_of_its_node(
    tmp_path: Path, catalog: Catalog
) -> None:
    text = "gpu,instance,usd_per_gpu_hour\nh100,p5.48xlarge,6.88\n"
    price = only(written(tmp_path, text), catalog)
    assert (price.usd_per_hour, price.gpu_count) == (Decimal("55.04"), 8)


def test_another_providers_machine_of_the_same_name_is_its_own(
    tmp_path: Path, catalog: Catalog
) -> None:
    text = "gpu,provider,instance,gpu_count,usd_per_hour\nl4,acme,p5.48xlarge,1,0.5\n"
    price = only(written(tmp_path, text), catalog)
    assert (price.gpu, price.gpu_count) == ("l4", 1)


def test_an_upfront_payment_is_spread_over_the_hours_of_its_term(
    tmp_path: Path, catalog: Catalog
) -> None:
    text = (
        "instance,usd_per_hour,upfront_usd,purchase,term_months\n"
        "p5.48xlarge,10,175200,reserved,12\np5.48xlarge,,262800,reserved,36\n"
    )
    partly, wholly = load_price_file(written(tmp_path, text), catalog)
    # 175,200 / (12 * 730) = 20 an hour on top of 10; 262,800 / (36 * 730) = 10
    assert partly.usd_per_hour == 30
    assert partly.upfront_share == pytest.approx(Decimal(2) / 3)
    assert (wholly.usd_per_hour, wholly.upfront_share) == (10, 1)


def test_comments_blank_lines_and_a_byte_order_mark_do_no_harm(
    tmp_path: Path, catalog: Catalog
) -> None:
    text = "\ufeff# ours\r\ngpu,usd_per_gpu_hour\r\n\r\nl4, 0.5\r\n"
    assert only(written(tmp_path, text), catalog).usd_per_hour == Decimal("0.5")


NODE = "gpu,instance,gpu_count,usd_per_hour\n"
UPFRONT = "gpu,usd_per_gpu_hour,upfront_usd,purchase,term_months,upfront_share\n"
LEAN = "gpu,usd_per_gpu_hour,purchase,gpu_count,term_months,as_of\n"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("gpu,price\nl4,1\n", 1, "unknown column 'price'"),
        ("gpu,provider\nl4,a\n", 1, "one with a price"),
        ("gpu;usd_per_gpu_hour\nl4;1\n", 1, "unknown column"),
        ("gpu,usd_per_hour,usd_per_hour\nl4,1,2\n", 1, "appears twice"),
        (f"{LEAN}l4,free,,,,\n", 2, "usd_per_gpu_hour is 'free', expected a number"),
        (f"{LEAN}l4,$2.49,,,,\n", 2, "expected a number"),
        (f"{LEAN}l4,nan,,,,\n", 2, "finite"),
        (f"{LEAN}l4,0,,,,\n", 2, "price above 0"),
        (f"{LEAN}l4,-1,,,,\n", 2, "price above 0"),
        (f"{LEAN}l4,,,,,\n", 2, "expected a price"),
        (f"{LEAN},1,,,,\n", 2, "column gpu"),
        (f"{LEAN}h1000,1,,,,\n", 2, "column gpu"),
        (f"{LEAN}a100,1,,,,\n", 2, "column gpu"),
        (f"{LEAN}l4,1,leased,,,\n", 2, "on-demand or spot or reserved"),
        (f"{LEAN}l4,1,,1.5,,\n", 2, "whole number"),
        (f"{LEAN}l4,1,,,12,\n", 2, "only a reserved price"),
        (f"{LEAN}l4,1,reserved,,,\n", 2, "term in months"),
        (f"{LEAN}l4,1,,,,yesterday\n", 2, "expected a day"),
        (f"{LEAN}l4,1,,,,\nl4,1\n", 3, "2 cells, expected 6"),
        (f"{LEAN}l4,1,,,,\nl4,2,,,,\n", 3, "same offer as on line 2"),
        ("gpu,usd_per_hour,gpu_count\nl4,1,\n", 2, "gpu_count"),
        ("gpu,usd_per_gpu_hour\nl4,\u20ac2.49\n", 2, "expected a number"),
        ("gpu,usd_per_gpu_hour,currency\nl4,2,EUR\n", 2, "expected USD"),
        ("gpu,eur_per_gpu_hour\nl4,2\n", 1, "unknown column"),
        ("provider,usd_per_gpu_hour\nacme,2\n", 1, "gpu (or instance)"),
        (f"{NODE}h100-pcie-80gb,p5.48xlarge,8,55.04\n", 2, "expected h100-sxm-80gb"),
        (f"{NODE}a100-sxm-80gb,p4d.24xlarge,8,21.96\n", 2, "expected a100-sxm-40gb"),
        (f"{NODE}h100,p5.48xlarge,1,55.04\n", 2, "expected 8, as p5.48xlarge has"),
        (f"{NODE},a-machine,8,55.04\n", 2, "column gpu"),
        (f"{UPFRONT}l4,1,100,on-demand,,\n", 2, "only a reserved price"),
        (f"{UPFRONT}l4,1,100,reserved,12,0.5\n", 2, "upfront_share left out"),
        (f"{UPFRONT}l4,1,-100,reserved,12,\n", 2, "an amount above 0"),
        (f"{UPFRONT}l4,1,100,reserved,,\n", 2, "whole number of months"),
        ("gpu,usd_per_hour,usd_per_gpu_hour,gpu_count\nl4,1,1,1\n", 2, "gives the price already"),
    ],
)
def test_a_wrong_line_says_where_and_what(
    tmp_path: Path, catalog: Catalog, text: str, line: int, says: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(FactsError) as caught:
        load_price_file(path, catalog)
    assert caught.value.message.startswith(f"{path}:{line}:")
    assert says in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('[{"gpu": "l4",\n  "usd_per_gpu_hour": 1},\n {"gpu": "l4"}]', 3, "one with a price"),
        ('[\n{"gpu": "l4", "usd_per_gpu_hour": [1]}]', 2, "is a list"),
        ('[{"gpu": "l4" "usd_per_gpu_hour": 1}]', 1, "not JSON"),
        ('{"rows": []}', 1, "expected a list of prices"),
        ("[1]", 1, "expected an object"),
        ('[{"gpu": "l4", "usd_per_gpu_hour": NaN}]', 1, "finite"),
    ],
)
def test_a_wrong_json_entry_says_where_and_what(
    tmp_path: Path, catalog: Catalog, text: str, line: int, says: str
) -> None:
    path = written(tmp_path, text, "prices.json")
    with pytest.raises(FactsError) as caught:
        load_price_file(path, catalog)
    assert caught.value.message.startswith(f"{path}:{line}:")
    assert says in caught.value.message


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"gpu,usd_per_gpu_hour\n", b"\xff\xfe"])
def test_a_file_without_a_price_is_an_error(
    tmp_path: Path, catalog: Catalog, content: bytes
) -> None:
    path = tmp_path / "prices.csv"
    path.write_bytes(content)
    with pytest.raises(FactsError, match=r"prices\.csv"):
        load_price_file(path, catalog)


def test_a_missing_file_is_an_error(tmp_path: Path, catalog: Catalog) -> None:
    with pytest.raises(FactsError, match="No such file"):
        load_price_file(tmp_path / "none.csv", catalog)


def test_own_prices_join_the_shipped_ones_and_take_the_place_of_the_same_offer(
    tmp_path: Path, catalog: Catalog
) -> None:
    old = next(p for p in catalog.prices if p.instance == "p5.48xlarge")
    newer = old.model_copy(update={"usd_per_hour": Decimal("50")})
    path = written(tmp_path, price_file_text([newer]))
    joined = with_price_files(catalog, [path])
    assert len(joined.prices) == len(catalog.prices)
    assert Decimal("50") in {p.usd_per_hour for p in joined.prices if p.instance == old.instance}
    assert old not in joined.prices
    assert "prices.csv" in joined.price_origin
    assert len(with_price_files(catalog, [path], only=True).prices) == 1
    assert catalog.prices == load_catalog().prices


def test_prices_over_60_days_and_undated_ones_are_counted(catalog: Catalog) -> None:
    read = [p for p in catalog.prices if p.source.date == "2026-09-25"]
    undated = [p for p in catalog.prices if p.source.date is None]
    assert read
    assert undated
    fresh = ages(read, date(2026, 11, 24))
    assert (fresh.stale, fresh.undated, fresh.warnings()) == (0, 0, ())
    old = ages([*read, *undated], date(2026, 11, 25))
    assert (old.stale, old.undated) == (len(read), len(undated))
    assert "60 days" in old.warnings()[0]
    assert "undated" in old.warnings()[1]


def test_a_price_of_a_day_to_come_is_told(catalog: Catalog) -> None:
    read = [p for p in catalog.prices if p.source.date == "2026-09-25"]
    (warning,) = ages(read, date(2026, 9, 1)).warnings()
    assert "still to come" in warning


def test_the_price_of_a_gpu_in_a_nodes_column_and_the_reverse_are_doubted(
    tmp_path: Path, catalog: Catalog
) -> None:
    def said(text: str) -> tuple[str, ...]:
        return doubts(load_price_file(written(tmp_path, text), catalog), catalog.prices)

    (low,) = said(f"{NODE}h100,p5.48xlarge,8,6.88\n")
    assert "0.86 USD a GPU-hour" in low
    assert "price of one GPU, not of a node of 8?" in low
    (high,) = said("gpu,usd_per_gpu_hour\nh100-sxm-80gb,55.04\n")
    assert "price of a node of 8, not of one GPU?" in high
    assert said("gpu,usd_per_gpu_hour\nh100-sxm-80gb,2.49\n") == ()


def test_an_old_price_of_a_known_machine_is_told_beside_the_newer_one(
    tmp_path: Path, catalog: Catalog
) -> None:
    text = f"provider,{NODE}aws,h100,p5.48xlarge,8,98.32\n"
    (told,) = doubts(load_price_file(written(tmp_path, text), catalog), catalog.prices)
    assert "+79% off 55.04 USD an hour, known as of 2026-09-25" in told
    same = text.replace("98.32", "55.04")
    assert doubts(load_price_file(written(tmp_path, same), catalog), catalog.prices) == ()


def test_every_shipped_price_is_the_number_in_the_file(catalog: Catalog) -> None:
    node = next(p for p in catalog.prices if p.instance == "a3-highgpu-8g")
    assert str(node.usd_per_hour) == "88.490000119"
    assert json.loads(node.model_dump_json())["usd_per_hour"] == 88.490000119


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"purchase": Purchase.RESERVED}, "term in months"),
        ({"term_months": 12}, "commitment"),
        ({"upfront_share": Decimal("0.5")}, "commitment"),
    ],
)
def test_a_commitment_belongs_to_a_reservation(
    catalog: Catalog, fields: dict[str, object], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        PriceRow(**{**dict(catalog.prices[0]), **fields})
