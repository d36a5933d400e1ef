"""Which GPU, and how many of it, a row of a price file is about. Certain, or an error."""

from __future__ import annotations

from capplan.errors import FactsError, UnknownIdError
from capplan.facts.catalog import Catalog
from capplan.facts.gpu_names import Unresolved
from capplan.facts.instances import Instance, InstanceKind
from capplan.facts.prices import decimal_cell
from capplan.facts.rows import Row


def gpu_and_count(row: Row, catalog: Catalog) -> tuple[str, int | None]:
    """Return the GPU's id and the GPUs of the node, None where neither cell nor instance tells.

    A cloud's instance type decides where the GPU's name leaves a choice: ``A100`` is one board on
    a p4d.24xlarge and another on a p4de.24xlarge. What contradicts it is an error.

    Raises
    ------
    FactsError
        If the GPU is unknown or ambiguous, or instance and cells do not agree.
    """
    instance = known_instance(catalog, row.cells["provider"], row.cells["instance"])
    if instance is not None and instance.slice:
        raise row.error("instance", f"whole GPUs; this one has {instance.slice} slices")
    return _gpu(row, catalog, instance), _count(row, instance)


def known_instance(catalog: Catalog, provider: str, name: str) -> Instance | None:
    """Return a provider's instance type; any provider's where none is named."""
    found = catalog.gpu_names.instance(name) if name else None
    if found is None or found.kind is not InstanceKind.INSTANCE:
        return None
    return found if provider.lower() in ("", found.provider) else None


def _gpu(row: Row, catalog: Catalog, instance: Instance | None) -> str:
    if instance is not None and not row.cells["gpu"]:
        return instance.gpu
    name = row.required("gpu")
    meant = catalog.gpu_names.look_up(name)
    if instance is None:
        return _catalogued(row, catalog, name)
    known = meant.choices if isinstance(meant, Unresolved) else (meant.gpu,)
    if known and instance.gpu not in known:
        raise row.error("gpu", f"{instance.gpu}, which is what {instance.instance} has")
    return instance.gpu if known else _catalogued(row, catalog, name)


def _catalogued(row: Row, catalog: Catalog, name: str) -> str:
    try:
        return catalog.gpu(name).id
    except UnknownIdError as error:
        raise FactsError(
            f"{row.path}:{row.line}: column gpu: {error.message}", error.remedy
        ) from None


def _count(row: Row, instance: Instance | None) -> int | None:
    count = decimal_cell(row, "gpu_count")
    if count is None:
        return None if instance is None else instance.gpu_count
    if count < 1 or count != int(count):
        raise row.error("gpu_count", "the GPUs of the node, a whole number from 1")
    if instance is not None and count != instance.gpu_count:
        raise row.error("gpu_count", f"{instance.gpu_count}, as {instance.instance} has")
    return int(count)
