"""A worker process without an engine, that goes wrong where it is told to.

Run as ``python planted_worker.py FAULT FIRST LAST FOLDER``: it speaks the protocol of the real
worker with made-up text, and meets the fault at requests FIRST to LAST, counted over all workers
that share FOLDER. The standard library alone, so that it starts at once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

LONG_S = 300.0
KV = {"kv_capacity_tokens": 4096, "kv_block_tokens": 16, "kv_pool_bytes": 1e9}


def hang() -> None:
    time.sleep(LONG_S)


def hang_with_a_child() -> None:
    child = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({LONG_S})"])
    with (FOLDER / "children").open("a", encoding="ascii") as file:
        file.write(f"{child.pid}\n")
    time.sleep(LONG_S)


def die() -> None:
    say("RuntimeError: Engine core initialization failed")
    sys.exit(3)


def die_with_a_child() -> None:
    child = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({LONG_S})"])
    with (FOLDER / "children").open("a", encoding="ascii") as file:
        file.write(f"{child.pid}\n")
    os._exit(4)


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def print_garbage() -> None:
    write(b"%PDF-1.7 \x1b[2J \xff\n")


def answer_nothing() -> None:
    write(b'{"ok": true}\n')


def answer_other_types() -> None:
    write(b'{"ok": true, "requests": 7, "steps": "many", "log_probs": [1], "ids": {"a": 1}}\n')


def answer_steps_that_are_none() -> None:
    step = '{"seconds": NaN, "running": 1, "decoding": 1, "starting": 0, "context": 1, '
    write(('{"ok": true, "requests": [], "steps": [' + step + '"counted": true}]}\n').encode())


def answer_a_list() -> None:
    write(b"[1, 2, 3]\n")


def flood_a_line() -> None:
    while True:
        write(b"x" * 65_536)


def flood_lines() -> None:
    while True:
        write(b"INFO still loading\n" * 1_000)


def flood_the_log() -> None:
    for _ in range(400):
        say("x" * 65_536)


def only_live() -> None:
    while True:
        write(b'{"alive": 1}\n')
        time.sleep(0.05)


def lose_the_gpu() -> None:
    refuse("RuntimeError", "CUDA error: unspecified launch failure\nmore")


def refuse_with_the_prompt() -> None:
    refuse("ValueError", f"cannot encode {QUESTION.get('prompts', [''])[0]}")


QUESTION: dict[str, Any] = {}


def write(content: bytes) -> None:
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def refuse(name: str, message: str) -> None:
    write(json.dumps({"ok": False, "error": name, "message": message}).encode() + b"\n")


class Engine:
    """Made-up text, rounds and step times."""

    length = 0

    def start(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.length = arguments["length"]
        return {"version": "1", "max_model_len": 4096, "cudagraph_mode": "NONE", **KV}

    def encode(self, prompts: list[str]) -> dict[str, Any]:
        return {"ids": [list(prompt.encode()) for prompt in prompts]}

    def score(self, sequences: list[Any]) -> dict[str, Any]:
        return {"log_probs": [[-1.0 - token % 7 / 10 for token in text] for _, text in sequences]}

    def serve(
        self, prompts: list[Any], concurrency: int, sampling: dict[str, Any], max_steps: Any
    ) -> dict[str, Any]:
        waiting = [Request(index, prompt, sampling) for index, prompt in enumerate(prompts)]
        live: list[Request] = []
        steps: list[dict[str, Any]] = []
        done: list[Request] = []
        full = 0
        while waiting or live:
            while waiting and len(live) < concurrency:
                live.append(waiting.pop(0))
            steps.append(self.step(live))
            full += steps[-1]["decoding"] == steps[-1]["running"] == concurrency
            done += [one for one in live if one.is_done]
            live = [one for one in live if not one.is_done]
            if max_steps is not None and full >= max_steps:
                break
        done.sort(key=lambda one: one.index)
        return {"requests": [one.answer(self.length) for one in done], "steps": steps}

    def step(self, live: list[Request]) -> dict[str, Any]:
        n, decoding = self.length, [one for one in live if one.text]
        context = sum(len(one.prompt) + len(one.text) for one in decoding)
        fresh = [one for one in live if not one.text]
        accepted = [one.write(n) for one in decoding]
        for one in fresh:
            one.text.append(one.token())
        return {
            "seconds": 0.010 + 2e-4 * len(live) + 1e-3 * n + 1e-4 * len(fresh),
            "running": len(live),
            "decoding": len(decoding),
            "starting": len(fresh),
            "context": context / len(decoding) if decoding else 0.0,
            "emitted": sum(one.per_step[-1] for one in decoding),
            "counted": True,
            "drafts": len(decoding) if n else 0,
            "drafted": n * len(decoding),
            "accepted": sum(accepted),
            "accepted_per_position": [sum(a > place for a in accepted) for place in range(n)],
        }


class Request:
    """One request being served."""

    def __init__(self, index: int, prompt: list[int], sampling: dict[str, Any]) -> None:
        self.index, self.prompt = index, prompt
        self.limit = sampling["max_tokens"]
        warm = sampling["seed"] if sampling["temperature"] > 0 else 0
        self.key = zlib.crc32(bytes(token % 256 for token in prompt)) + warm
        self.text: list[int] = []
        self.per_step: list[int] = []
        self.accepted: list[int] = []

    @property
    def is_done(self) -> bool:
        return len(self.text) >= self.limit

    def token(self) -> int:
        return zlib.crc32(f"{self.key} {len(self.text)}".encode()) % 256

    def write(self, n: int) -> int:
        accepted = (self.key + 3 * len(self.per_step)) % (n + 1)
        room = min(accepted + 1, self.limit - len(self.text))
        for _ in range(room):
            self.text.append(self.token())
        self.per_step.append(room)
        self.accepted.append(accepted)
        return accepted

    def answer(self, n: int) -> dict[str, Any]:
        return {
            "index": self.index,
            "ids": self.text,
            "emitted_per_step": self.per_step,
            "drafted": [n] * len(self.per_step) if n else [],
            "accepted": self.accepted if n else [],
        }


ANSWERED_ALL_THE_SAME = (flood_the_log,)
FAULTS: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        *(hang, hang_with_a_child, die, die_with_a_child, be_killed, print_garbage),
        *(answer_nothing, answer_other_types, answer_steps_that_are_none, answer_a_list),
        *(flood_a_line, flood_lines, flood_the_log, only_live, lose_the_gpu),
        refuse_with_the_prompt,
    )
}


def main(fault: str, first: int, last: int) -> None:
    engine = Engine()
    for line in sys.stdin:
        QUESTION.clear()
        QUESTION.update(json.loads(line))
        with (FOLDER / "asked").open("a", encoding="ascii") as file:
            file.write(".")
        asked = (FOLDER / "asked").stat().st_size
        is_struck = first <= asked <= last
        if is_struck:
            FAULTS[fault]()
        if not is_struck or FAULTS[fault] in ANSWERED_ALL_THE_SAME:
            question = dict(QUESTION)
            answer = getattr(engine, question.pop("op"))(**question)
            write(json.dumps({"ok": True, **answer}).encode() + b"\n")


FOLDER = Path(sys.argv[4]) if len(sys.argv) > 4 else Path()
if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
