"""Refreshing prices through gpuhunt, offline: what is certain is kept, the rest is counted."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from capplan.errors import FactsError, MissingPackageError, RequestError
from capplan.facts.catalog import load_catalog
from capplan.facts.gpuhunt_tables import LOCAL_CATALOGUE
from capplan.facts.price_file import load_price_file, price_file_text
from capplan.facts.price_refresh import Refreshed, refresh_prices
from capplan.schema.price import PriceRow, Purchase

gpuhunt = pytest.importorskip("gpuhunt")

# gpuhunt leaves the local files open for the garbage collector
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

_HEADER = (
    "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,"
    "gpu_vendor,flags,cpu_arch,provider_data"
)


def line(
    instance: str, region: str, usd: str, count: int, gpu: str, gb: float, *, spot: bool = False
) -> str:
    return f"{instance},{region},{usd},26,200.0,{count},{gpu},{gb},{spot},,nvidia,,x86,{{}}"


TABLES = {
    "lambdalabs": [
        line("gpu_1x_h100_pcie", "us-west-1", "3.49", 1, "H100", 80.0),
        line("gpu_1x_h100_pcie", "us-east-1", "3.29", 1, "H100", 80.0),
        line("gpu_16x_h100_sxm5", "us-east-1", "63.84", 16, "H100", 80.0),
        line("gpu_1x_a100", "us-east-1", "1.29", 1, "A100", 80.0),
        line("gpu_1x_rtx2060", "us-east-1", "0.1", 1, "RTX2060", 12.0),
        line("gpu_1x_h100_sxm5", "us-east-1", "dear", 1, "H100", 80.0),
    ],
    "gcp": [
        line("a2-ultragpu-1g", "us-central1-a", "5.06879789", 1, "A100", 80.0),
        line("a2-ultragpu-1g", "us-central1-a", "2.5", 1, "A100", 80.0, spot=True),
        line("a2-mystery-1g", "us-central1-a", "4", 1, "A100", 40.0),
        line("a2-ultragpu-2g", "us-central1-a", "10.1", 4, "A100", 80.0),
    ],
    "runpod": [
        line("NVIDIA H100 80GB HBM3", "US-TX-3", "3.99", 1, "H100", 80.0),
        line("NVIDIA H100 80GB HBM3", "CA", "2.99", 1, "H100", 80.0),
        line("NVIDIA RTX PRO 6000", "CA", "1.2", 1, "RTXPRO6000", 96.0),
    ],
}


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tables"
    folder.mkdir()
    for provider, lines in TABLES.items():
        (folder / f"{provider}.csv").write_text("\n".join([_HEADER, *lines, ""]))
    monkeypatch.setenv(LOCAL_CATALOGUE, str(folder))
    return folder


def by_instance(found: Refreshed, instance: str) -> list[PriceRow]:
    return [price for price in found.prices if price.instance == instance]


def test_the_instance_tells_the_board_and_no_board_is_guessed(tables: Path) -> None:
    found = refresh_prices(load_catalog())
    assert {(p.instance, p.gpu) for p in found.prices} == {
        ("gpu_1x_h100_pcie", "h100-pcie-80gb"),  # spelled out
        ("gpu_16x_h100_sxm5", "h100-sxm-80gb"),
        ("a2-ultragpu-1g", "a100-sxm-80gb"),  # a known instance type
        ("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),  # the driver's own name
    }


def test_what_is_left_out_is_counted_with_a_reason(tables: Path) -> None:
    skipped = {
        item.reason.partition(" (")[0]: item for item in refresh_prices(load_catalog()).skipped
    }
    assert skipped["board not told apart"].count == 3
    assert "gpu_1x_a100" in skipped["board not told apart"].example or (
        "a2-mystery" in skipped["board not told apart"].example
    )
    assert skipped["GPU is not in the catalogue"].count == 1
    assert skipped["gpuhunt could not read it"].count == 1
    assert "a2-ultragpu-2g" in skipped["not the GPUs that its instance type has"].example
    assert skipped["provider without an offer"].count == 6


def test_the_cheapest_region_is_kept_and_says_so(tables: Path) -> None:
    (price,) = by_instance(refresh_prices(load_catalog()), "gpu_1x_h100_pcie")
    assert (price.region, price.usd_per_hour) == ("us-east-1", Decimal("3.29"))
    assert "cheapest of 2 regions, up to 3.49" in price.note
    every = refresh_prices(load_catalog(), every_region=True)
    assert len(by_instance(every, "gpu_1x_h100_pcie")) == 2


def test_spot_and_community_offers_stay_apart(tables: Path) -> None:
    found = refresh_prices(load_catalog())
    gcp = {p.purchase: p.usd_per_hour for p in by_instance(found, "a2-ultragpu-1g")}
    assert gcp == {
        Purchase.ON_DEMAND: Decimal("5.06879789"), Purchase.SPOT: Decimal("2.5"),
    }  # fmt: skip
    runpod = {p.tier: p.usd_per_hour for p in by_instance(found, "NVIDIA H100 80GB HBM3")}
    assert runpod == {"secure": Decimal("3.99"), "community": Decimal("2.99")}


def test_a_local_folder_has_no_day_unless_it_is_stated(tables: Path) -> None:
    assert {p.source.date for p in refresh_prices(load_catalog()).prices} == {None}
    dated = refresh_prices(load_catalog(), as_of="2026-11-28")
    assert {p.source.date for p in dated.prices} == {"2026-11-28"}
    assert all("gpuhunt" in p.source.reference for p in dated.prices)


def test_what_is_written_is_what_a_plan_reads(tables: Path, tmp_path: Path) -> None:
    found = refresh_prices(load_catalog(), as_of="2026-11-28")
    path = tmp_path / "prices.csv"
    path.write_text(price_file_text(found.prices), encoding="utf-8")
    assert set(load_price_file(path, load_catalog())) == set(found.prices)


def test_providers_are_chosen_by_either_name_and_progress_is_told(tables: Path) -> None:
    told: list[tuple[str, int, int]] = []
    found = refresh_prices(
        load_catalog(),
        providers=["lambda", "gcp"],
        on_provider=lambda name, done, total: told.append((name, done, total)),
    )
    assert {p.provider for p in found.prices} == {"lambda", "gcp"}
    assert told == [("lambdalabs", 0, 2), ("gcp", 1, 2)]


def test_an_unknown_provider_is_an_error_that_lists_the_known(tables: Path) -> None:
    with pytest.raises(RequestError) as caught:
        refresh_prices(load_catalog(), providers=["lambada"])
    assert "lambda" in caught.value.remedy


def test_a_folder_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOCAL_CATALOGUE, "/no/such/folder")
    with pytest.raises(FactsError, match="no folder"):
        refresh_prices(load_catalog())


def test_a_table_that_is_no_text_is_an_error(tables: Path) -> None:
    (tables / "gcp.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FactsError, match="gcp table"):
        refresh_prices(load_catalog(), providers=["gcp"])


def test_without_an_offer_there_is_nothing_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LOCAL_CATALOGUE, str(tmp_path))
    with pytest.raises(FactsError, match="no offer"):
        refresh_prices(load_catalog())


def test_without_gpuhunt_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gpuhunt", None)
    with pytest.raises(MissingPackageError) as caught:
        refresh_prices(load_catalog())
    assert "capplan[prices]" in caught.value.remedy
