"""Flags that vLLM had once: what became of each, and why it may not stand there any more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OldFlag:
    """A flag that the versions of today refuse."""

    reason: str
    values: str = "1"
    """How many followed it: 0 or 1."""
    key: str = ""
    """Key of the speculative configuration that takes its value now."""
    flag: str = ""
    """Flag that takes its value now."""
    words: tuple[str, ...] = ()
    """What to write instead of it and its value."""


def _moved(key: str) -> OldFlag:
    return OldFlag(f'removed: it is "{key}" of --speculative-config now', key=key)


_V0 = "removed with the V0 engine"

OLD_FLAGS: dict[str, OldFlag] = {
    "--speculative-model": _moved("model"),
    "--num-speculative-tokens": _moved("num_speculative_tokens"),
    "--speculative-method": _moved("method"),
    "--speculative-draft-tensor-parallel-size": _moved("draft_tensor_parallel_size"),
    "-spec-draft-tp": _moved("draft_tensor_parallel_size"),
    "--speculative-max-model-len": _moved("max_model_len"),
    "--speculative-model-quantization": _moved("quantization"),
    "--speculative-model-revision": _moved("revision"),
    "--ngram-prompt-lookup-max": _moved("prompt_lookup_max"),
    "--ngram-prompt-lookup-min": _moved("prompt_lookup_min"),
    "--speculative-disable-by-batch-size": OldFlag(
        "removed: a table of lengths by batch size does the same", key="disable_by_batch_size"
    ),
    "--spec-decoding-acceptance-method": OldFlag(
        'removed: it is "rejection_sample_method" of --speculative-config now',
        key="acceptance_method",
    ),
    "--typical-acceptance-sampler-posterior-threshold": OldFlag(
        "removed with typical acceptance", key="posterior_threshold"
    ),
    "--typical-acceptance-sampler-posterior-alpha": OldFlag(
        "removed with typical acceptance", key="posterior_alpha"
    ),
    "--speculative-disable-mqa-scorer": OldFlag(
        "removed: verification is one pass of the target in any case",
        "0",
        key="disable_mqa_scorer",
    ),
    "--disable-logprobs-during-spec-decoding": OldFlag(
        "removed: log-probabilities are returned with speculation too", "?", key="disable_logprobs"
    ),
    "--speculative-model-2": OldFlag("never a flag of vLLM", key="model_2"),
    "--num-speculative-tokens-2": OldFlag("never a flag of vLLM", key="num_speculative_tokens_2"),
    "--use-v2-block-manager": OldFlag(f"{_V0}: there is one block manager", "0"),
    "--enable-v2-block-manager": OldFlag(f"{_V0}: there is one block manager", "0"),
    "--swap-space": OldFlag(f"{_V0}: a preempted request is computed again, nothing is swapped"),
    "--preemption-mode": OldFlag(f"{_V0}: a preempted request is computed again"),
    "--num-scheduler-steps": OldFlag(f"{_V0}: scheduling overlaps with the GPU by itself"),
    "--multi-step-stream-outputs": OldFlag(f"{_V0}, with multi-step scheduling", "?"),
    "--num-lookahead-slots": OldFlag(
        f"{_V0}: lookahead follows from the speculative configuration"
    ),
    "--scheduler-delay-factor": OldFlag(f"{_V0}: prompts are scheduled in chunks"),
    "--disable-async-output-proc": OldFlag(_V0, "0"),
    "--engine-use-ray": OldFlag(_V0, "0"),
    "--worker-use-ray": OldFlag("removed", "0", words=("--distributed-executor-backend", "ray")),
    "--tokenizer-pool-size": OldFlag(_V0),
    "--tokenizer-pool-type": OldFlag(_V0),
    "--tokenizer-pool-extra-config": OldFlag(_V0),
    "--disable-log-requests": OldFlag(
        "refused by 0.32, and no request is logged unless --enable-log-requests asks for it", "0"
    ),
    "--max-seq-len-to-capture": OldFlag(
        f"{_V0}: graphs are captured by tokens of a step (--cudagraph-capture-sizes)"
    ),
    "--max-context-len-to-capture": OldFlag(
        f"{_V0}: graphs are captured by tokens of a step (--cudagraph-capture-sizes)"
    ),
    "--cuda-graph-sizes": OldFlag("renamed", flag="--cudagraph-capture-sizes"),
    "--guided-decoding-backend": OldFlag("renamed", flag="--structured-outputs-config.backend"),
    "--disable-mm-preprocessor-cache": OldFlag(
        "removed: a cache of 0 GB is none", "0", words=("--mm-processor-cache-gb", "0")
    ),
    "--enable-reasoning": OldFlag("removed: --reasoning-parser alone turns it on", "0"),
    "--device": OldFlag("removed: the installed build decides the device"),
    "--task": OldFlag("removed: see --runner and --convert for anything but generation"),
    "--enable-prompt-adapter": OldFlag(_V0, "0"),
    "--max-prompt-adapters": OldFlag(_V0),
    "--max-prompt-adapter-token": OldFlag(_V0),
    "--lora-extra-vocab-size": OldFlag("removed: adapters with tokens of their own are refused"),
    "--long-lora-scaling-factors": OldFlag(_V0),
    "--max-num-partial-prefills": OldFlag("removed with its option of the scheduler"),
    "--max-long-partial-prefills": OldFlag("removed with its option of the scheduler"),
    "--disable-frontend-multiprocessing": OldFlag(_V0, "0"),
    "--quantization-param-path": OldFlag(_V0),
}

OLD_ENVIRONMENT: dict[str, str] = {
    "VLLM_USE_V1": "has no effect any more: there is one engine",
    "VLLM_ATTENTION_BACKEND": "is not read any more: --attention-backend does the same",
}
"""Variables before a command that today's versions do not read; they are kept."""

SHORT_FORMS = {
    "--spec-method": "method",
    "--spec-model": "model",
    "--spec-tokens": "num_speculative_tokens",
}
"""Flags of today that set one key of the speculative configuration."""
