from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from capplan.errors import DeviceError  # noqa: E402
from capplan.schema.cells import Phase, Role  # noqa: E402
from profiler.backends.torch_llm import memory_errors  # noqa: E402
from profiler.backends.torch_timing import TorchPoint  # noqa: E402
from profiler.protocol import TimingPoint  # noqa: E402


@pytest.fixture(scope="module")
def llm(tiny_pair: tuple[Path, Path], tiny_llms: Any) -> Any:
    return tiny_llms.load(tiny_pair[0])


@pytest.mark.parametrize(
    ("phase", "batch", "new", "context"),
    [
        (Phase.DECODE, 1, 1, 32),
        (Phase.VERIFY, 3, 5, 32),
        (Phase.PREFILL, 2, 40, 0),
        (Phase.DECODE, 1, 1, 0),
    ],
)
def test_every_pass_of_a_point_does_the_same_work(
    llm: Any, phase: Phase, batch: int, new: int, context: int
) -> None:
    point = TorchPoint(llm, TimingPoint(Role.TARGET, phase, batch, new, context))
    first = point._pass()
    assert first.shape == (batch, 1 if phase is Phase.PREFILL else new, 64)
    assert point.run_block(3) > 0
    assert point._cache.length == context + new
    torch.testing.assert_close(point._pass(), first)
    assert not point.cuda_graph
    point.close()


def test_a_context_of_random_numbers_is_really_attended(llm: Any) -> None:
    points = [
        TorchPoint(llm, TimingPoint(Role.TARGET, Phase.DECODE, 1, 1, context))
        for context in (0, 16)
    ]
    # The same first token with and without a context in front of it.
    assert not torch.allclose(points[0]._pass(), points[1]._pass())


def test_what_does_not_fit_is_named() -> None:
    with (
        pytest.raises(DeviceError, match="Not enough memory for 9 elephants"),
        memory_errors("9 elephants"),
    ):
        torch.empty(2**60)


def test_other_failures_keep_their_name() -> None:
    with pytest.raises(RuntimeError, match="shape"), memory_errors("nothing"):
        torch.empty(3).reshape(2)
