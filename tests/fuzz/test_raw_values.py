"""Whatever stands in a field, the answer is a value or an error of that field, never a crash.

Some fields are computed from others before anything is checked; they meet the raw document.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from capplan.schema.lengths import Lengths
from capplan.schema.workload import Workload

JUNK: tuple[Any, ...] = (
    *(None, True, "", "x", "1e999", b"x", [], [None], [[]], {}, {"kind": "lognormal"}),
    *(-1, 0, 10**400, -(10**400), 1e308, 5e-324, math.nan, math.inf, -math.inf, ...),
)
LOGNORMAL = {"kind": "lognormal", "mean_tokens": 400, "p95_tokens": 1200}
DERIVED = {"requests_per_s": 1.0, "prompt_lengths": LOGNORMAL, "mix": [{"share": 1}]}
STATED = {"requests_per_s": 1.0, "prompt_tokens": 256, "output_tokens": 128}


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_junk_in_a_length_is_refused(junk: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Lengths)
    assert adapter.validate_python(LOGNORMAL).mean_tokens == pytest.approx(400)
    for name in (*LOGNORMAL, "median_tokens", "sigma", "tokens", "probabilities"):
        for document in (LOGNORMAL | {name: junk}, {"kind": "lognormal", name: junk}):
            with pytest.raises(ValidationError):
                adapter.validate_python(document)


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_junk_in_a_workload_is_refused_or_taken(junk: Any) -> None:
    for name in Workload.model_fields:
        for document in (DERIVED, STATED, {}):
            _validate(document | {name: junk})
    for name in ("share", "output_tokens", "temperature", "task", "thinking"):
        _validate(DERIVED | {"mix": [{"share": 1, name: junk}]})


def _validate(document: dict[str, Any]) -> None:
    try:
        workload = Workload.model_validate(document)
    except ValidationError:
        return
    assert workload.prompt_tokens >= 1
    assert math.isfinite(workload.temperature)
