"""Files of every schema version are read as they were meant; formats do not change in silence."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capplan.api.profiles import summarise_profile
from capplan.errors import CapplanError, PlanVersionError, ProfileVersionError
from capplan.profiles.calibration_file import load_calibration
from capplan.profiles.migrate import migrate
from capplan.profiles.store import load_profile, save_profile
from capplan.reporting.jsonout import json_schema, render_json
from capplan.reporting.plan_file import load_plan
from capplan.schema.calibration import CALIBRATION_SCHEMA_VERSION
from capplan.schema.plan import PLAN_SCHEMA_VERSION
from capplan.schema.profile import PROFILE_SCHEMA_VERSION

FOLDER = Path(__file__).parents[1] / "data" / "schema_versions"
PROFILES = sorted(FOLDER.glob("profile-*.json"))
PLANS = sorted(FOLDER.glob("plan-*.json"))
FINGERPRINTS = FOLDER / "fingerprints.json"
VERSIONS = {
    "profile": PROFILE_SCHEMA_VERSION,
    "plan": PLAN_SCHEMA_VERSION,
    "calibration": CALIBRATION_SCHEMA_VERSION,
}


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Yield every value of a document with its place."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        yield path, value
    for key, inner in items:
        yield from leaves(inner, (*path, key))


def lost(old: Path, now: str) -> dict[Any, Any]:
    """Return the values of an old file that are not what they were in the document of today."""
    today = dict(leaves(json.loads(now)))
    before = leaves(json.loads(old.read_text(encoding="utf-8")))
    changed = {place: value for place, value in before if today.get(place, ...) != value}
    return {place: value for place, value in changed.items() if place != ("schema_version",)}


def figures(summary: str) -> list[str]:
    """Return the rows of a summary's tables without their intervals.

    What was measured stays; how far it may be off is today's method's to say.
    """
    rows = [line for line in summary.splitlines() if re.match(r" +(\d|by task|\w+ +\d)", line)]
    return [" ".join(re.sub(r"\+-\S+", "", row).split()) for row in rows]


def test_there_is_a_file_of_every_version() -> None:
    def versions(files: list[Path]) -> set[int]:
        return {json.loads(file.read_text(encoding="utf-8"))["schema_version"] for file in files}

    assert versions(PROFILES) == set(range(1, PROFILE_SCHEMA_VERSION + 1))
    assert versions(PLANS) == set(range(1, PLAN_SCHEMA_VERSION + 1))


@pytest.mark.parametrize("file", PROFILES, ids=lambda file: file.stem)
def test_an_old_profile_keeps_every_value_and_gives_the_same_figures(file: Path) -> None:
    stored = load_profile(file)
    assert stored.profile.schema_version == PROFILE_SCHEMA_VERSION
    assert lost(file, stored.profile.model_dump_json()) == {}
    assert stored.arrays
    before, now = file.with_suffix(".txt").read_text(encoding="utf-8"), summarise_profile(stored)
    assert len(figures(before)) > 15
    assert figures(now)[: len(figures(before))] == figures(before)


@pytest.mark.parametrize("file", PROFILES, ids=lambda file: file.stem)
def test_an_old_profile_is_written_in_the_version_of_today(file: Path, tmp_path: Path) -> None:
    stored = load_profile(file)
    save_profile(tmp_path / "p.json", stored.profile, stored.arrays)
    again = load_profile(tmp_path / "p.json")
    written = json.loads((tmp_path / "p.json").read_text())
    assert written["schema_version"] == PROFILE_SCHEMA_VERSION
    assert summarise_profile(again) == summarise_profile(stored)


@pytest.mark.parametrize("file", PLANS, ids=lambda file: file.stem)
def test_an_old_plan_keeps_every_value(file: Path) -> None:
    plan = load_plan(file)
    assert plan.options
    assert lost(file, render_json(plan)) == {}


@pytest.mark.parametrize(
    ("file", "load", "error"),
    [
        (PROFILES[0], load_profile, ProfileVersionError),
        (PLANS[0], load_plan, PlanVersionError),
    ],
    ids=["profile", "plan"],
)
def test_a_version_of_the_future_is_refused_with_what_to_do(
    file: Path, load: Any, error: type[CapplanError], tmp_path: Path
) -> None:
    document = json.loads(file.read_text(encoding="utf-8"))
    path = tmp_path / "future.json"
    path.write_text(json.dumps({**document, "schema_version": 99, "sidecar": None, "new": []}))
    with pytest.raises(error, match=r"99.*up to \d") as caught:
        load(path)
    assert "pgrade" in caught.value.remedy


def test_a_calibration_of_the_future_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "future.json"
    path.write_text('{"schema_version": 99}')
    with pytest.raises(CapplanError, match=r"99.*up to \d"):
        load_calibration(path)


@pytest.mark.parametrize(("files", "load"), [(PROFILES, load_profile), (PLANS, load_plan)])
def test_a_field_that_no_version_knows_is_an_error_that_names_it(
    files: list[Path], load: Any, tmp_path: Path
) -> None:
    document = json.loads(files[0].read_text(encoding="utf-8"))
    path = tmp_path / "more.json"
    path.write_text(json.dumps({**document, "surprise": 1}))
    with pytest.raises(CapplanError, match="surprise"):
        load(path)


def test_a_step_leads_from_every_version_to_the_next() -> None:
    for version in range(1, PROFILE_SCHEMA_VERSION + 1):
        led_to = migrate({"schema_version": version}, "p")
        assert led_to["schema_version"] == PROFILE_SCHEMA_VERSION


def fingerprint(name: str) -> str:
    """Return a hash of what a format holds, whatever its descriptions say."""
    text = json.dumps(_bare(json_schema(name)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _bare(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    texts = {key for key in ("title", "description") if isinstance(schema.get(key), str)}
    return {key: _bare(value) for key, value in schema.items() if key not in texts}


@pytest.mark.parametrize("name", VERSIONS)
def test_a_format_that_changes_gets_a_new_version(name: str) -> None:
    recorded = json.loads(FINGERPRINTS.read_text()) if FINGERPRINTS.exists() else {}
    version, now = str(VERSIONS[name]), fingerprint(name)
    known = recorded.setdefault(name, {})
    released = recorded.get("released", {}).get(name, 0)
    if os.environ.get("CAPPLAN_UPDATE_GOLDEN") and VERSIONS[name] > released:
        known[version] = now
        FINGERPRINTS.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    remedy = (
        "raise its version, and add a step to capplan/profiles/migrate.py or the plan's reader"
        if VERSIONS[name] <= released
        else "this version is not released: record it with CAPPLAN_UPDATE_GOLDEN=1"
    )
    assert known.get(version) == now, f"not the {name} format of version {version}: {remedy}"
