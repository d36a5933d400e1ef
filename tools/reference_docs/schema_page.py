"""The page of file formats: the fields at the top of plans, profiles and calibrations."""

from __future__ import annotations

from capplan.schema.calibration import Calibration
from capplan.schema.plan import Plan
from capplan.schema.profile import Profile
from reference_docs.fields import field_rows

_FILES = (
    (
        "plan",
        Plan,
        "Written by `capplan recommend --plan-json FILE` or `--format json`; read by `report`, "
        "`launch`, `what-if`, `load`, `breakeven` and `diff`.",
    ),
    (
        "profile",
        Profile,
        "Written by `capplan profile -o FILE` and `capplan import -o FILE`, with its arrays in an "
        "`.npz` beside it; read by `recommend`, `schedule`, `simulate`, `calibrate` and `diff`.",
    ),
    (
        "calibration",
        Calibration,
        "Written by `capplan calibrate -o FILE`; read by `recommend --calibration`.",
    ),
)


def schema_page() -> str:
    """Return the page: a table of the top-level fields a format."""
    lines = [
        "# File formats",
        "",
        "JSON with a `schema_version`; files of older versions are read. The whole of a format "
        "is its JSON Schema.",
        "Below are the fields at the top.",
        "",
    ]
    for name, kind, about in _FILES:
        schema = f"[{name}.schema.json](../schema/{name}.schema.json)"
        printed = f"printed by `capplan schema {name}`"
        lines += [f"## {name}", "", f"{about} {schema}, {printed}.", "", *field_rows(kind), ""]
    return "\n".join(lines)
