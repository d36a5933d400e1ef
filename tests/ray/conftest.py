"""Everything in this folder needs Ray and starts a real cluster: ``make test-ray``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
# Read when Ray is imported and by the nodes that it starts.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (str(ROOT), os.environ.get("PYTHONPATH", "")))
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the folder's tests and skip them where Ray is not installed."""
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        item.add_marker(pytest.mark.ray)
        item.add_marker(pytest.mark.timeout(900))
        item.add_marker(pytest.mark.filterwarnings("default"))  # Ray's own are not ours to mend
        if util.find_spec("ray") is None:
            item.add_marker(pytest.mark.skip(reason="needs Ray: make test-ray"))


START_TRIES = 5
NODE_BYTES = 80 * 2**20


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A head that runs nothing and two nodes of one core: three machines as far as Ray knows."""
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": NODE_BYTES}
    started = _patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
    started.workers = []
    yield started
    ray.shutdown()
    started.shutdown()


@pytest.fixture(autouse=True)
def two_nodes(cluster: Any) -> None:
    """Bring the cluster back to two working nodes, whatever the test before has killed."""
    while len(cluster.workers) < 2:
        node = _patiently(lambda: cluster.add_node(num_cpus=1, object_store_memory=NODE_BYTES))
        cluster.workers.append(node)


def _patiently(start: Callable[[], Any]) -> Any:
    """Try again what Ray gives 30 seconds: on a busy machine a node may need longer."""
    for _ in range(START_TRIES - 1):
        with suppress(Exception):  # Ray raises a bare one
            return start()
    return start()
