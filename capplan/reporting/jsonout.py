"""Plans and schemas as JSON with a stable order of keys."""

from __future__ import annotations

import json
from typing import Any, Literal

from capplan.schema.base import Value
from capplan.schema.calibration import Calibration
from capplan.schema.plan import Plan
from capplan.schema.profile import Profile

SchemaName = Literal["profile", "plan", "calibration"]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ROOTS: dict[str, type[Value]] = {
    "profile": Profile,
    "plan": Plan,
    "calibration": Calibration,
}


def render_json(plan: Plan) -> str:
    """Return the plan file's text: keys in the order of the schema, a newline at the end."""
    return f"{plan.model_dump_json(indent=2)}\n"


def json_schema(name: SchemaName | str) -> dict[str, Any]:
    """Return the JSON Schema of the files that capplan writes."""
    schema = _ROOTS[name].model_json_schema(mode="serialization")
    return {"$schema": _DIALECT, **schema}


def json_schema_text(name: SchemaName | str) -> str:
    """Return the JSON Schema as text, as it lies in ``docs/schema``."""
    return f"{json.dumps(json_schema(name), indent=2, ensure_ascii=False)}\n"
