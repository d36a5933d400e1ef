"""Every form of a launch goes through the engine's own parser and configuration classes.

Settings are drawn at random, written as a command, a Python file and manifests, read back by a
shell, by Python and by a YAML parser, and handed to the installed engine: what it would run must
be what the settings say.
"""

from __future__ import annotations

import ast
import json
import shlex
import subprocess
import warnings
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings as hypothesis_settings, strategies as st

from capplan.deploy.command import render_command
from capplan.deploy.fields import SPECULATIVE_KEYS, speculative_key_known
from capplan.deploy.from_option import LaunchChoices, settings_from_option
from capplan.deploy.graph_sizes import graph_sizes
from capplan.deploy.known_flags import flags_of
from capplan.deploy.kubernetes import render_kubernetes
from capplan.deploy.lengths import check_lengths
from capplan.deploy.migrate import migrate_command
from capplan.deploy.old_flags import OLD_FLAGS
from capplan.deploy.python_text import render_python
from capplan.deploy.settings import Settings
from capplan.deploy.versions import EngineVersion, parse_version, runs
from capplan.schema.pairing import Method

pytestmark = pytest.mark.filterwarnings("default")  # the engine's own imports warn

_PARSERS = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.common.cli_args")
_BASE: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
    "rms_norm_eps": 1e-5,
}
_BLOCK = {"dflash_config": {"mask_token_id": 1, "target_layer_ids": [0, 1]}, "block_size": 8}
CONFIGS: dict[str, dict[str, Any]] = {
    "target": _BASE,
    "draft_model": _BASE | {"num_hidden_layers": 1},
    "other_vocabulary": _BASE | {"num_hidden_layers": 1, "vocab_size": 900},
    "eagle": _BASE | {"num_hidden_layers": 1},
    "eagle3": _BASE
    | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": 500,
    },
    "dflash": _BASE
    | _BLOCK
    | {
        "model_type": "qwen3",
        "architectures": ["DFlashDraftModel"],
        "num_hidden_layers": 1,
        "head_dim": 16,
    },
    "medusa": {
        "model_type": "medusa",
        "architectures": ["MedusaModel"],
        "hidden_size": 64,
        "vocab_size": 1000,
        "num_heads": 3,
        "num_hidden_layers": 1,
    },
    "with_mtp": _BASE
    | {
        "model_type": "glm4_moe",
        "architectures": ["Glm4MoeForCausalLM"],
        "num_nextn_predict_layers": 1,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "head_dim": 16,
    },
}
"""Configurations of tiny checkpoints: enough for the engine to judge them, without weights."""

HEADS = {
    Method.DRAFT_MODEL: "draft_model",
    Method.EAGLE: "eagle",
    Method.EAGLE3: "eagle3",
    Method.PEAGLE: "eagle3",
    Method.DFLASH: "dflash",
    Method.MEDUSA: "medusa",
}
_ON_V1 = (Method.NGRAM, Method.EAGLE, Method.EAGLE3, Method.MTP, Method.DRAFT_MODEL)


class Engine:
    """The installed engine, as far as it reads settings."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            vllm = import_module("vllm")
            arguments = import_module("vllm.engine.arg_utils")
            flexible = import_module("vllm.utils.argparse_utils").FlexibleArgumentParser
            self.contexts = import_module("vllm.usage.usage_lib").UsageContext
            self.parser = _parser_maker()(flexible())
            # an architecture is looked at in a process of its own, to keep CUDA out of this one;
            # a CPU build has none to keep out, and every such process imports the engine again
            registry = import_module("vllm.model_executor.models.registry")
            registry._run_in_subprocess = lambda look: look()
        self.version: EngineVersion = parse_version(vllm.__version__.partition("+")[0])
        self.arguments: Any = arguments

    def parsed(self, words: list[str]) -> Any:
        """Return the engine's arguments of a server's command."""
        assert words[:2] == ["vllm", "serve"]
        namespace = self.parser.parse_args(words[2:])
        namespace.model = namespace.model_tag
        return self.arguments.AsyncEngineArgs.from_cli_args(namespace)

    def of_server(self, words: list[str]) -> Any:
        """Return the configuration that a server would run."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.parsed(words).create_engine_config(self.contexts.OPENAI_API_SERVER)

    def offline(self, keywords: dict[str, Any]) -> Any:
        """Return the configuration that ``LLM`` would run."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = self.arguments.EngineArgs(**keywords)
            return made.create_engine_config(self.contexts.LLM_CLASS)


def _parser_maker() -> Any:
    for name in _PARSERS:
        try:
            return import_module(name).make_arg_parser
        except ModuleNotFoundError:
            continue
    pytest.fail(f"the engine's parser is in none of {_PARSERS}")


@pytest.fixture(scope="session")
def engine() -> Engine:
    return Engine()


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("check points; it's")  # a name that wants its quotes
    for name, config in CONFIGS.items():
        (root / name).mkdir()
        (root / name / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return root


def shell_words(command: str) -> list[str]:
    """What a real shell hands to the engine."""
    script = "vllm() { printf '%s\\0' vllm \"$@\"; }\n" + command
    done = subprocess.run(["sh"], input=script, text=True, capture_output=True, check=True)
    return done.stdout.split("\0")[:-1]


def pod_words(manifests: str) -> list[str]:
    deployment = next(yaml.safe_load_all(manifests))
    run = deployment["spec"]["template"]["spec"]["containers"][0]
    return [*run["command"], *run["args"]]


def names_in(text: str) -> dict[str, Any]:
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def methods(version: EngineVersion) -> list[Method]:
    """Every method that a CPU's engine configures without a package of its own."""
    possible = (Method.NONE, Method.NGRAM, Method.MTP, *HEADS)
    return [method for method in possible if runs(method, version)]


@st.composite
def drawn(draw: st.DrawFn, root: Path, version: EngineVersion) -> Settings:
    method = draw(st.sampled_from(methods(version)))
    length = 0 if method is Method.NONE else draw(st.integers(1, 7))
    sequences = draw(st.integers(1, 40))
    lengths: list[tuple[int, int, int]] = []
    if method in _ON_V1 and draw(st.booleans()):
        edge = draw(st.integers(1, 30))
        lengths = [(1, edge, length), (edge + 1, edge + 30, draw(st.integers(0, length)))]
    mapped = method is Method.DRAFT_MODEL and draw(st.booleans())
    head = "other_vocabulary" if mapped else HEADS.get(method)
    target = "with_mtp" if method is Method.MTP else "target"
    return Settings(
        target=str(root / target),
        draft=str(root / head) if head else None,
        method=method,
        num_speculative_tokens=length,
        lengths_by_batch=tuple(lengths),
        device="cpu",
        dtype=draw(st.sampled_from(["bfloat16", "float16", "float32"])),
        max_model_len=draw(st.integers(64, 4096)),
        max_num_seqs=sequences,
        max_num_batched_tokens=draw(st.integers(4096, 16384)),
        kv_cache_bytes=draw(st.integers(2**28, 2**34)),
        prefix_caching=draw(st.booleans()),
        seed=draw(st.integers(0, 2**31)),
        draft_sample_method="greedy"
        if mapped
        else draw(st.sampled_from(["greedy", "probabilistic"])),
        prompt_lookup=draw(st.sampled_from([(1, 4), (2, 2), (5, 5)]))
        if method is Method.NGRAM
        else None,
        heterogeneous_vocabulary=mapped,
        port=draw(st.integers(1, 65535)),
    )


def assert_runs(config: Any, settings: Settings) -> None:
    """What the engine would run is what the settings say."""
    model, scheduler, cache = config.model_config, config.scheduler_config, config.cache_config
    parallel = config.parallel_config
    assert model.model == settings.target
    assert str(model.dtype) == f"torch.{settings.dtype}"
    assert (model.max_model_len, model.seed) == (settings.max_model_len, settings.seed)
    assert model.quantization is settings.quantisation
    assert scheduler.max_num_seqs == settings.max_num_seqs
    assert scheduler.max_num_batched_tokens == settings.max_num_batched_tokens
    assert cache.kv_cache_memory_bytes == settings.kv_cache_bytes
    assert cache.cache_dtype == settings.kv_cache_dtype
    assert cache.enable_prefix_caching is settings.prefix_caching
    assert parallel.tensor_parallel_size == settings.tensor_parallel
    assert parallel.data_parallel_size == settings.data_parallel
    if settings.method is Method.NONE:
        assert config.speculative_config is None
    else:
        assert_drafts(config.speculative_config, settings)


def assert_drafts(config: Any, settings: Settings) -> None:
    assert config.method == settings.engine_method
    assert config.num_speculative_tokens == settings.num_speculative_tokens
    assert config.model == (settings.draft or _model_of(settings))
    given = config.num_speculative_tokens_per_batch_size
    assert [list(row) for row in given or []] == (settings.lengths or [])
    assert config.rejection_sample_method == settings.rejection_method
    assert config.use_heterogeneous_vocab is settings.heterogeneous_vocabulary
    assert config.parallel_drafting is (settings.method in (Method.PEAGLE, Method.DFLASH))
    if settings.draft_sampling is not None:
        assert config.draft_sample_method == settings.draft_sample_method
    if settings.draft is not None:
        assert config.draft_tensor_parallel_size == settings.tensor_parallel
    if settings.prompt_lookup is not None:
        assert (config.prompt_lookup_min, config.prompt_lookup_max) == settings.prompt_lookup


def _model_of(settings: Settings) -> str | None:
    """What the engine itself writes there where no checkpoint is named."""
    return {Method.NGRAM: "ngram", Method.MTP: settings.target}.get(settings.method)


FORMS = ("command", "python", "offline", "kubernetes")


def configured(engine: Engine, settings: Settings, form: str) -> Any:
    if form == "command":
        return engine.of_server(shell_words(render_command(settings, engine.version, ("mind",))))
    if form == "kubernetes":
        return engine.of_server(pod_words(render_kubernetes(settings, engine.version, ("mind",))))
    written = names_in(render_python(settings, engine.version, ("mind",)))
    if form == "python":
        return engine.of_server(written["SERVER"])
    return engine.offline(written["ENGINE"])


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
@hypothesis_settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_the_engine_would_run_is_what_the_settings_say(
    engine: Engine, checkpoints: Path, form: str, data: st.DataObject
) -> None:
    settings = data.draw(drawn(checkpoints, engine.version))
    assert_runs(configured(engine, settings, form), settings)


@pytest.mark.parametrize("method", list(Method), ids=lambda method: method.value)
def test_every_method_is_taken_in_every_form(
    engine: Engine, checkpoints: Path, method: Method
) -> None:
    if method not in methods(engine.version):
        return  # suffix and dspark: their own tests below
    head = HEADS.get(method)
    settings = Settings(
        target=str(checkpoints / ("with_mtp" if method is Method.MTP else "target")),
        draft=str(checkpoints / head) if head else None,
        method=method,
        num_speculative_tokens=0 if method is Method.NONE else 3,
        device="cpu",
        dtype="bfloat16",
        max_model_len=1024,
        max_num_seqs=8,
        max_num_batched_tokens=8192,
        kv_cache_bytes=2**28,
        prompt_lookup=(2, 4) if method is Method.NGRAM else None,
    )
    for form in FORMS:
        assert_runs(configured(engine, settings, form), settings)


def gpu_settings(root: Path, **changes: Any) -> Settings:
    fields: dict[str, Any] = {
        "target": str(root / "target"),
        "draft": str(root / "draft_model"),
        "method": Method.DRAFT_MODEL,
        "num_speculative_tokens": 3,
        "tensor_parallel": 2,
        "dtype": "bfloat16",
        "max_model_len": 1024,
        "max_num_seqs": 56,
        "max_num_batched_tokens": 8448,
        "gpu_memory_utilization": 0.92,
        "graph_sizes": graph_sizes(56, 3),
    }
    return Settings(**(fields | changes))


@pytest.mark.parametrize("form", ["command", "python", "kubernetes"])
@pytest.mark.parametrize(
    ("method", "draft"),
    [(Method.DSPARK, "org/head"), (Method.SUFFIX, None), (Method.DRAFT_MODEL, "org/draft")],
)
def test_gpu_flags_are_parsed_to_what_was_meant(
    engine: Engine, checkpoints: Path, form: str, method: Method, draft: str | None
) -> None:
    settings = gpu_settings(checkpoints, method=method, draft=draft)
    words = {
        "command": lambda: shell_words(render_command(settings, engine.version)),
        "python": lambda: names_in(render_python(settings, engine.version))["SERVER"],
        "kubernetes": lambda: pod_words(render_kubernetes(settings, engine.version)),
    }[form]()
    parsed = engine.parsed(words)
    assert parsed.gpu_memory_utilization == 0.92
    assert parsed.tensor_parallel_size == 2
    assert parsed.cudagraph_capture_sizes == list(settings.graph_sizes)
    assert parsed.max_cudagraph_capture_size == settings.graph_sizes[-1]
    assert parsed.speculative_config["method"] == method.value
    assert parsed.speculative_config.get("draft_tensor_parallel_size", 2) == 2


@pytest.mark.parametrize(
    ("counted", "asked"),
    [("greedy", "greedy"), ("probabilistic", "probabilistic"), (None, "greedy")],
)
def test_the_engine_is_asked_for_the_drafts_that_the_plan_counted(
    engine: Engine, checkpoints: Path, sample_plans: Any, counted: str | None, asked: str
) -> None:
    figure = sample_plans.make_option().acceptance
    option = sample_plans.make_option(
        acceptance=figure.model_copy(update={"draft_sampling": counted})
    )
    choices = LaunchChoices(
        target=str(checkpoints / "target"), draft=str(checkpoints / "draft_model")
    )
    words = shell_words(render_command(settings_from_option(option, choices), engine.version))
    assert engine.parsed(words).speculative_config["draft_sample_method"] == asked


@pytest.mark.parametrize(
    ("sequences", "length", "lengths"),
    [
        (56, 3, ()),
        (1, 5, ()),
        (129, 3, ()),
        (256, 0, ()),
        (300, 4, ()),
        (64, 7, ((1, 8, 7), (9, 40, 2), (41, 64, 0))),
    ],
)
def test_the_engine_cuts_none_of_the_graph_sizes(
    engine: Engine, sequences: int, length: int, lengths: Any
) -> None:
    table = check_lengths(lengths) if lengths else ()
    sizes = graph_sizes(sequences, length, table)
    compilation = import_module("vllm.config").CompilationConfig(
        cudagraph_capture_sizes=list(sizes), max_cudagraph_capture_size=sizes[-1]
    )
    # only what the engine's own rule reads; a CPU never gets as far with a whole configuration
    stated = SimpleNamespace(
        model_config=SimpleNamespace(enforce_eager=False),
        compilation_config=compilation,
        scheduler_config=SimpleNamespace(max_num_seqs=sequences, max_num_batched_tokens=8192),
        speculative_config=None,
        uniform_decode_query_len=length + 1,
        num_speculative_tokens=length,
        performance_mode="balanced",
    )
    import_module("vllm.config").VllmConfig._set_cudagraph_sizes(stated)
    assert compilation.max_cudagraph_capture_size == sizes[-1]
    assert compilation.cudagraph_capture_sizes == list(sizes)


def test_a_draft_with_other_tokens_is_refused_without_the_map(
    engine: Engine, checkpoints: Path
) -> None:
    settings = Settings(
        target=str(checkpoints / "target"),
        draft=str(checkpoints / "other_vocabulary"),
        method=Method.DRAFT_MODEL,
        num_speculative_tokens=3,
        device="cpu",
        max_num_seqs=8,
        max_num_batched_tokens=8192,
        kv_cache_bytes=2**28,
    )
    with pytest.raises(ValueError, match="same vocabulary size"):
        configured(engine, settings, "command")


@pytest.mark.parametrize("flag", sorted(OLD_FLAGS))
def test_a_migrated_command_is_taken_whatever_it_held(
    engine: Engine, checkpoints: Path, flag: str
) -> None:
    value = {"0": "", "?": "", "1": "4"}[OLD_FLAGS[flag].values]
    value = {"--cuda-graph-sizes": "8", "--guided-decoding-backend": "xgrammar"}.get(flag, value)
    target, draft = (shlex.quote(str(checkpoints / name)) for name in ("target", "draft_model"))
    old = (
        f"python -m vllm.entrypoints.openai.api_server --model {target} --tensor-parallel-size 4 "
        f"--speculative-model {draft} --num-speculative-tokens 5 {flag} {value}"
    )
    words = shell_words(migrate_command(old, engine.version).command)
    parsed = engine.parsed(words)
    known = set(import_module("vllm.config").SpeculativeConfig.__dataclass_fields__)
    assert parsed.model == str(checkpoints / "target")
    assert set(parsed.speculative_config) <= known


_INTERNAL = {
    "target_model_config",
    "target_parallel_config",
    "draft_model_config",
    "draft_parallel_config",
    "tensor_parallel_size",  # only there to be refused
}


def test_the_table_of_keys_is_the_engines_own(engine: Engine) -> None:
    own = set(import_module("vllm.config").SpeculativeConfig.__dataclass_fields__) - _INTERNAL
    assert {key for key in SPECULATIVE_KEYS if speculative_key_known(key, engine.version)} == own


def test_the_recorded_flags_are_the_engines_own(engine: Engine) -> None:
    own = {
        flag: str(1 if action.nargs is None else action.nargs)
        for action in engine.parser._actions
        for flag in action.option_strings
        if flag not in ("-h", "--help")
    }
    recorded = flags_of(engine.version)
    assert {flag: recorded.get(flag) for flag in own} == own
    hidden = {flag for flag in recorded if flag.startswith("--no-")}
    assert recorded.keys() - own.keys() <= hidden
