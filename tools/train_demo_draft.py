"""Train the draft that capplan ships for its demo checkpoint.

The target writes on composed prompts, then four of its own layers learn to say the same; only
these layers are written, in bfloat16. On two cores it takes less than 90 minutes. The text is
kept in ``DIR/text`` and an interrupted run goes on from there.

Usage: ``python tools/train_demo_draft.py --out DIR``
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, fields
from itertools import takewhile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

# Two processes of one thread each: threads that wait for each other lose on a shared machine.
os.environ["OMP_NUM_THREADS"] = "1"
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import torch  # noqa: E402 # the number of threads is read when torch is imported
import torch.distributed as dist  # noqa: E402
from demo_draft.data import (  # noqa: E402
    LANES,
    Author,
    Plan,
    chunk_file,
    read_chunk,
    write_chunk,
)
from demo_draft.prompts import near_copy  # noqa: E402
from demo_draft.train import Recipe, Trainer, agreement  # noqa: E402
from demo_draft.writer import Writer, Written  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from profiler.backends.embedded import demo_checkpoint  # noqa: E402
from profiler.prompts import embedded_prompts  # noqa: E402

CHUNKS = 22
LAYERS_FILE = "layers.safetensors"
REPORT_EVERY = 20
HELD_BACK_ROWS = 24
"""Rows of the first chunk that are not trained on, to watch the agreement on."""


def load_target() -> tuple[Any, Any]:
    """Return the demo checkpoint and its tokenizer."""
    folder = demo_checkpoint()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return model, AutoTokenizer.from_pretrained(folder)


def author_of(model: Any, tokenizer: Any) -> Author:
    """Return the target ready to write, without the prompts that it is tested on."""

    def encode(text: str) -> list[int]:
        said = [{"role": "user", "content": text}]
        ids = tokenizer.apply_chat_template(said, add_generation_prompt=True, return_dict=False)
        return list(ids)

    test_set = embedded_prompts().by_task.values()
    is_forbidden = near_copy(prompt.text for prompts in test_set for prompt in prompts)
    beginnings = zip(encode("Yes"), encode("no"), encode("1"), strict=False)
    prefix = [ids[0] for ids in takewhile(lambda ids: len(set(ids)) == 1, beginnings)]
    writer = Writer(model, prefix, [tokenizer.eos_token_id])
    return Author(writer, encode, tokenizer.decode, is_forbidden)


def write_lane(lane: int, plan: Plan, chunks: int, minutes: float, folder: Path) -> None:
    """Write every second chunk until all are there or the time is over."""
    torch.set_num_threads(1)
    author = author_of(*load_target())
    begun = time.monotonic()
    for number in range(lane, chunks, LANES):
        if time.monotonic() - begun > 60 * minutes:
            break
        rows = read_chunk(write_chunk(author, plan, number, folder))
        tokens = sum(len(row.text) for row in rows)
        print(f"text: chunk {number + 1} of {chunks}, {tokens} tokens", flush=True)


def split_rows(folder: Path, chunks: int) -> tuple[list[Written], list[Written]]:
    """Return the rows to learn from and those held back."""
    files = [chunk_file(folder, number) for number in range(chunks)]
    rows = [row for file in files if file.is_file() for row in read_chunk(file)]
    held_back = rows[: HELD_BACK_ROWS * 4 : 4]
    learnt = [row for index, row in enumerate(rows) if index % 4 or index >= HELD_BACK_ROWS * 4]
    return learnt, held_back


def train_rank(rank: int, recipe: Recipe, chunks: int, meeting: str, out: Path) -> None:
    """Train as one of two processes; the first writes the layers."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=LANES)
    torch.manual_seed(recipe.seed)
    model, _ = load_target()
    learnt, held_back = split_rows(out / "text", chunks)
    trainer = Trainer(model, learnt, recipe, rank, LANES)
    losses: list[float] = []

    def report(step: int, progress: float, loss: float) -> None:
        losses.append(loss)
        if rank == 0 and step % REPORT_EVERY == REPORT_EVERY - 1:
            mean = sum(losses[-REPORT_EVERY:]) / REPORT_EVERY
            print(f"train: step {step + 1}, {progress:.0%}, loss {mean:.3f}", flush=True)
        if rank == 0 and step % 200 == 199:
            save_layers(trainer.draft, recipe, learnt, held_back, out)

    trainer.run(report)
    if rank == 0:
        save_layers(trainer.draft, recipe, learnt, held_back, out)
    dist.barrier()
    dist.destroy_process_group()


def save_layers(
    draft: Any, recipe: Recipe, learnt: list[Written], held_back: list[Written], out: Path
) -> None:
    """Write the layers in bfloat16, whole or not at all, and what they were made from."""
    layers = {
        name: weight.detach().to(torch.bfloat16).contiguous()
        for name, weight in draft.state_dict().items()
        if name.startswith("model.layers.")
    }
    counts = agreement(draft, held_back, draft.get_output_embeddings().weight)
    share = sum(hits for hits, _ in counts) / max(1, sum(tokens for _, tokens in counts))
    made_from = {
        "recipe": json.dumps(asdict(recipe)),
        "rows": str(len(learnt)),
        "tokens": str(sum(len(row.text) for row in learnt)),
    }
    aside = out / f"{LAYERS_FILE}.part"
    save_file(layers, aside, metadata={"format": "pt", **made_from})
    aside.replace(out / LAYERS_FILE)
    print(f"train: agreement {share:.1%} on {len(held_back)} rows held back", flush=True)


def run_both(function: Any, *arguments: Any) -> None:
    """Run a function in two processes, with 0 and 1 in front of the arguments."""
    context = get_context("spawn")
    running = [
        context.Process(target=function, args=(number, *arguments)) for number in range(LANES)
    ]
    for process in running:
        process.start()
    for process in running:
        process.join()
    failed = [process.exitcode for process in running if process.exitcode]
    if failed:
        raise SystemExit(f"A process of {function.__name__} ended with status {failed[0]}.")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of text and layers")
    parser.add_argument("--chunks", type=int, default=CHUNKS, help="chunks of text (%(default)s)")
    parser.add_argument("--text-minutes", type=float, default=45.0, help="limit of writing")
    for field in fields(Recipe):
        kind = int if field.name == "layers" else type(field.default)
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=kind,
            nargs="+" if field.name == "layers" else None,
            default=field.default,
            help=f"({field.default})",
        )
    return parser.parse_args()


def main() -> None:
    """Write the text, then train."""
    given = arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    demo_checkpoint()
    plan = Plan(seed=given.seed)
    text = given.out / "text"
    if not all(chunk_file(text, number).is_file() for number in range(given.chunks)):
        run_both(write_lane, plan, given.chunks, given.text_minutes, text)
    values = {field.name: getattr(given, field.name) for field in fields(Recipe)}
    recipe = Recipe(**{**values, "layers": tuple(given.layers)})
    with tempfile.TemporaryDirectory() as folder:
        meeting = (Path(folder) / "meeting").as_uri()
        run_both(train_rank, recipe, given.chunks, meeting, given.out)


if __name__ == "__main__":
    main()
