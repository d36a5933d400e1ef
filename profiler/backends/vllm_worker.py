"""One vLLM engine in a process of its own; the only module that imports vLLM.

Run as ``python -m profiler.backends.vllm_worker``. It reads one JSON object a line from standard
input and answers each with one line. The first must be ``start``. Whatever vLLM and the libraries
below it print goes to standard error, which the parent keeps in a file.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, TextIO

Ids = list[int]
PARENT_CHECK_S = 1.0
ALIVE_S = 5.0
"""Seconds between two signs of life while requests are served."""
LEAST_NATS = -1e3
"""Stands for the logarithm of a probability that was rounded to 0: JSON has no infinity."""


class Worker:
    """Holds the engine and answers requests."""

    def __init__(self, answers: TextIO) -> None:
        self._answers = answers
        self._llm: Any = None
        self._stats: Any = None
        self._serial = 0

    def run(self, questions: TextIO) -> None:
        """Answer until standard input ends."""
        for line in questions:
            question = json.loads(line)
            try:
                answer = {"ok": True, **getattr(self, question.pop("op"))(**question)}
            except Exception as error:  # noqa: BLE001 - the parent explains whatever it was
                answer = {"ok": False, "error": type(error).__name__, "message": str(error)}
            self._write(answer)

    def _write(self, line: dict[str, Any]) -> None:
        self._answers.write(json.dumps(line) + "\n")
        self._answers.flush()

    def start(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Load the LLMs and report what they took."""
        import vllm

        self._llm = vllm.LLM(**arguments)
        self._watch_steps()
        engine = self._llm.llm_engine
        config = engine.vllm_config
        cache = config.cache_config
        blocks = int(getattr(cache, "num_gpu_blocks", 0) or 0)
        tokens = getattr(cache, "kv_cache_size_tokens", None) or blocks * cache.block_size
        mode = getattr(config.compilation_config, "cudagraph_mode", None)
        return {
            "version": vllm.__version__,
            "kv_capacity_tokens": int(tokens),
            "kv_block_tokens": int(cache.block_size),
            "kv_pool_bytes": getattr(cache, "kv_cache_memory_bytes", None),
            "max_model_len": int(config.model_config.max_model_len),
            "dtype": str(config.model_config.dtype).removeprefix("torch."),
            "cudagraph_mode": getattr(mode, "name", str(mode)),
            "quantization": str(config.model_config.quantization or ""),
        }

    def _watch_steps(self) -> None:
        """Keep the scheduler's own counters of each step beside its outputs."""
        core = self._llm.llm_engine.engine_core
        get_output = core.get_output

        def watched() -> Any:
            outputs = get_output()
            self._stats = getattr(outputs, "scheduler_stats", None)
            return outputs

        core.get_output = watched

    def encode(self, prompts: Sequence[str]) -> dict[str, Any]:
        """Tokenise user prompts through the chat template, if there is one."""
        tokenizer = self._llm.get_tokenizer()
        return {"ids": [_encoded(tokenizer, prompt) for prompt in prompts]}

    def score(self, sequences: Sequence[tuple[Ids, Ids]]) -> dict[str, Any]:
        """Return the log-probability of each generated token, from one prefill a sequence."""
        from vllm import SamplingParams

        sampling = SamplingParams(
            max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False
        )
        prompts = [{"prompt_token_ids": [*prompt, *text]} for prompt, text in sequences]
        outputs = self._llm.generate(prompts, sampling, use_tqdm=False)
        return {
            "log_probs": [
                [
                    max(output.prompt_logprobs[len(prompt) + place][token].logprob, LEAST_NATS)
                    for place, token in enumerate(text)
                ]
                for output, (prompt, text) in zip(outputs, sequences, strict=True)
            ]
        }

    def serve(
        self,
        prompts: Sequence[Ids],
        concurrency: int,
        sampling: dict[str, Any],
        max_steps: int | None,
    ) -> dict[str, Any]:
        """Keep ``concurrency`` requests in the engine until all are done."""
        serving = _Serving(self._llm.llm_engine, prompts, concurrency, sampling)
        steps: list[dict[str, Any]] = []
        whole = 0
        told_s = time.perf_counter()
        while serving.admit(self._next_id):
            started_s = time.perf_counter()
            if started_s - told_s > ALIVE_S:  # between two steps, where nothing is timed
                self._write({"alive": len(steps)})
                told_s = started_s = time.perf_counter()
            outputs = serving.engine.step()
            seconds = time.perf_counter() - started_s
            steps.append({"seconds": seconds, **serving.take(outputs), **self._counters()})
            last = steps[-1]
            is_full = last["starting"] == 0 and last["decoding"] == last["running"] == concurrency
            whole += is_full
            if max_steps is not None and whole >= max_steps:
                serving.drop()
                break
        return {"requests": serving.finished(), "steps": steps}

    def _next_id(self) -> str:
        self._serial += 1
        return f"capplan-{self._serial}"

    def _counters(self) -> dict[str, Any]:
        """Return what the scheduler counted in this step; nothing where it counts no drafts."""
        counted = getattr(self._stats, "spec_decoding_stats", None)
        if counted is None:
            return {"counted": self._stats is not None}
        return {
            "counted": True,
            "drafts": counted.num_drafts,
            "drafted": counted.num_draft_tokens,
            "accepted": counted.num_accepted_tokens,
            "accepted_per_position": list(counted.num_accepted_tokens_per_pos),
        }


class _Serving:
    """The requests of one load: waiting, in the engine, finished."""

    def __init__(
        self, engine: Any, prompts: Sequence[Ids], concurrency: int, sampling: dict[str, Any]
    ) -> None:
        self.engine = engine
        self._waiting = deque(enumerate(prompts))
        self._prompts = prompts
        self._concurrency = concurrency
        self._sampling = sampling
        self._live: dict[str, int] = {}
        self._texts: list[Ids] = [[] for _ in prompts]
        self._per_step: list[list[int]] = [[] for _ in prompts]
        self._done: dict[int, Any] = {}

    def admit(self, next_id: Any) -> bool:
        """Fill free places; False once nothing is left to do."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        while self._waiting and len(self._live) < self._concurrency:
            index, prompt = self._waiting.popleft()
            sampling = dict(self._sampling)
            if sampling["temperature"] > 0:
                sampling["seed"] = sampling["seed"] + index
            else:
                sampling["seed"] = None
            name = next_id()
            self.engine.add_request(
                name,
                self._rendered(prompt),
                SamplingParams(**sampling, detokenize=False, output_kind=RequestOutputKind.DELTA),
            )
            self._live[name] = index
        return bool(self._live)

    def _rendered(self, prompt: Ids) -> Any:
        """Return token ids in the form that this version's engine takes."""
        raw = {"prompt_token_ids": list(prompt)}
        renderer = getattr(self.engine, "renderer", None)
        # 0.32 still takes raw prompts and says that later versions will not.
        return raw if renderer is None else renderer.render_cmpl([raw])[0]

    def take(self, outputs: Sequence[Any]) -> dict[str, Any]:
        """Enter the tokens of one step and say who got them."""
        running, decoding, starting, emitted, context = len(self._live), 0, 0, 0, 0
        for output in outputs:
            index = self._live.get(output.request_id)
            if index is None:
                continue
            tokens = list(output.outputs[0].token_ids)
            had = len(self._texts[index])
            if tokens and had:
                decoding += 1
                emitted += len(tokens)
                context += len(self._prompts[index]) + had
                self._per_step[index].append(len(tokens))
            elif tokens:
                starting += 1
            self._texts[index].extend(tokens)
            if output.finished:
                self._done[index] = output.outputs[0]
                del self._live[output.request_id]
        return {
            "running": running,
            "decoding": decoding,
            "starting": starting,
            "emitted": emitted,
            "context": context / decoding if decoding else 0.0,
        }

    def drop(self) -> None:
        """Abort what is unfinished and let the engine forget it."""
        self.engine.abort_request(list(self._live))
        self._live.clear()
        self._waiting.clear()
        while self.engine.has_unfinished_requests():
            self.engine.step()

    def finished(self) -> list[dict[str, Any]]:
        """Return every finished request, in the order of the prompts."""
        return [self._answer(index) for index in sorted(self._done)]

    def _answer(self, index: int) -> dict[str, Any]:
        counted = getattr(self._done[index], "spec_decode_metrics", None)
        return {
            "index": index,
            "ids": self._texts[index],
            "emitted_per_step": self._per_step[index],
            "drafted": list(getattr(counted, "per_step_drafted", ())),
            "accepted": list(getattr(counted, "per_step_accepted", ())),
        }


def _encoded(tokenizer: Any, prompt: str) -> Ids:
    if getattr(tokenizer, "chat_template", None) is None:
        return list(tokenizer(prompt).input_ids)
    chat = [{"role": "user", "content": prompt}]
    return list(tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False))


def _end_with_parent() -> None:
    """End this process and all it started as soon as whoever started it is gone."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Keep standard output for answers; everything else that prints goes to standard error."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    Worker(answers).run(sys.stdin)


if __name__ == "__main__":
    main()
