"""Launching a fleet: a text for every part, each labelled by the services that it serves."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.api.launching import launch
from capplan.deploy.kubernetes import object_name
from capplan.deploy.text import Form, LaunchText
from capplan.errors import RequestError
from capplan.facts.catalog import Catalog
from capplan.planning.part_plans import part_plans
from capplan.schema.pairing import DraftSampleMethod
from capplan.schema.plan import Plan


def launch_parts(
    plan: Plan,
    *,
    engine: str | None = None,
    form: Form | str = Form.COMMAND,
    rank: int = 1,
    draft_sampling: DraftSampleMethod | None = None,
    max_model_len: int | None = None,
    port: int = 8000,
    catalog: Catalog | None = None,
) -> tuple[LaunchText, ...]:
    """Return the texts that start every part of a fleet, each labelled by what it serves.

    Parameters are those of :func:`launch`; what is of one checkpoint is asked for part by part.

    Raises
    ------
    RequestError, PairingError
        As :func:`launch`; if manifests of two parts would have one name.
    """
    parts = part_plans(plan, rank)
    if Form(form) is Form.KUBERNETES:
        _names_differ([part.label for part in parts])
    return tuple(
        launch(
            plan,
            engine=engine,
            form=form,
            rank=rank,
            service=next(iter(part.services), None),
            draft_sampling=draft_sampling,
            max_model_len=max_model_len,
            port=port,
            catalog=catalog,
        )
        for part in parts
    )


def _names_differ(labels: Sequence[str]) -> None:
    """Refuse two parts of one name: the second would replace the first in the cluster."""
    seen: dict[str, str] = {}
    for label in labels:
        name = object_name(label)
        if name in seen:
            raise RequestError(
                f"{seen[name]} and {label} would both be called {name} in Kubernetes.",
                "Rename a service in the workload file, and plan again.",
            )
        seen[name] = label
