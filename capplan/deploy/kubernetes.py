"""The launch as Kubernetes manifests: a Deployment of all replicas and a Service before them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import yaml

from capplan.deploy.command import comment, server_words
from capplan.deploy.settings import Settings
from capplan.deploy.versions import EngineVersion

IMAGES = {"gpu": "vllm/vllm-openai", "cpu": "vllm/vllm-openai-cpu"}
_LABEL = "app.kubernetes.io/name"
_NAME_LENGTH = 50
_HUB_CACHE = "/hub-cache"
"""Where the container keeps fetched checkpoints, whoever it runs as."""
_SHARED_MEMORY_GIB_PER_GPU = 4
"""NCCL and the engine's processes exchange data there; the default of 64 MiB is too small."""
_START_ATTEMPTS, _START_PERIOD_S = 180, 10
"""Half an hour to fetch weights, load them and capture graphs."""

_NOTES = (
    "HF_TOKEN comes from a secret, needed for gated checkpoints only: "
    "kubectl create secret generic hf-token --from-literal=token=...",
    "The volume hub-cache lasts as long as the pod: a PersistentVolumeClaim there keeps the "
    "weights over restarts.",
)


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key, as manifests are written by hand."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - PyYAML's
        super().increase_indent(flow, False)


def render_kubernetes(
    settings: Settings, version: EngineVersion, notes: Sequence[str] = (), called: str = ""
) -> str:
    """Return the manifests as YAML, with notes on comment lines above them.

    ``called`` names the objects; after the target where it is empty.
    """
    header = "".join(f"{comment(note)}\n" for note in (*notes, *_NOTES))
    name = object_name(called or settings.target)
    documents = [_deployment(name, settings, version), _service(name)]
    body = yaml.dump_all(
        documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000
    )
    return header + body


def object_name(target: str) -> str:
    """Return a name that Kubernetes takes: ``vllm-qwen3-32b``."""
    last = PurePosixPath(target.rstrip("/") or "model").name
    plain = re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-") or "model"
    return f"vllm-{plain}"[:_NAME_LENGTH].rstrip("-")


def _deployment(name: str, settings: Settings, version: EngineVersion) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {_LABEL: name}},
        "spec": {
            "replicas": settings.replicas,
            "selector": {"matchLabels": {_LABEL: name}},
            # one at a time: a surge would wait for GPUs that nobody has paid for
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
            },
            "template": {
                "metadata": {"labels": {_LABEL: name}},
                "spec": {
                    "containers": [_container(settings, version)],
                    "volumes": _volumes(settings),
                },
            },
        },
    }


def _container(settings: Settings, version: EngineVersion) -> dict[str, Any]:
    words = server_words(settings, version)
    container: dict[str, Any] = {
        "name": "vllm",
        "image": f"{IMAGES[settings.device]}:v{version.full}",
        "command": words[:2],
        "args": words[2:],
        "env": [
            {"name": "HF_HOME", "value": _HUB_CACHE},
            {
                "name": "HF_TOKEN",
                "valueFrom": {
                    "secretKeyRef": {"name": "hf-token", "key": "token", "optional": True}
                },
            },
        ],
        "ports": [{"name": "http", "containerPort": settings.port}],
    }
    if settings.device == "gpu":
        gpus = {"nvidia.com/gpu": settings.tensor_parallel * settings.data_parallel}
        container["resources"] = {"requests": dict(gpus), "limits": dict(gpus)}
    return container | {
        "startupProbe": _probe(_START_PERIOD_S, _START_ATTEMPTS),
        "readinessProbe": _probe(5, 3),
        "livenessProbe": _probe(10, 6),
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},
            {"name": "hub-cache", "mountPath": _HUB_CACHE},
            *(
                {"name": volume, "mountPath": path, "readOnly": True}
                for volume, path in _folders(settings)
            ),
        ],
    }


def _probe(period_s: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": "/health", "port": "http"},
        "periodSeconds": period_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _folders(settings: Settings) -> list[tuple[str, str]]:
    """Return checkpoints that are folders of the node, with a name for their volume."""
    paths = [path for path in (settings.target, settings.draft) if path and path.startswith("/")]
    return [(f"checkpoint-{i}", path) for i, path in enumerate(dict.fromkeys(paths))]


def _volumes(settings: Settings) -> list[dict[str, Any]]:
    gib = _SHARED_MEMORY_GIB_PER_GPU * settings.tensor_parallel
    return [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{gib}Gi"}},
        {"name": "hub-cache", "emptyDir": {}},
        *(
            {"name": volume, "hostPath": {"path": path, "type": "Directory"}}
            for volume, path in _folders(settings)
        ),
    ]


def _service(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": {_LABEL: name}},
        "spec": {
            "selector": {_LABEL: name},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }
