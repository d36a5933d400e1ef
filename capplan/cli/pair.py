"""``capplan pair``: can this draft work for this target, and what else could."""

from __future__ import annotations

import click

from capplan.cli.numbers import TokenCount

_EXAMPLES = """\b
Examples:
  capplan pair Qwen/Qwen3-32B
  capplan pair Qwen/Qwen3-32B Qwen/Qwen3-0.6B --gpu h100-sxm-80gb --tp 2
  capplan pair Qwen/Qwen2.5-72B-Instruct Qwen/Qwen2.5-0.5B-Instruct --engine llama.cpp
  capplan pair ./my-target ./my-draft --format json
  capplan pair Qwen/Qwen3.5-27B mtp --context 32768
"""


@click.command("pair", epilog=_EXAMPLES)
@click.argument("target")
@click.argument("draft", required=False)
@click.option("--method", help="How to draft (draft_model, eagle3, mtp, ngram ...).")
@click.option(
    "--engine",
    default="vllm==0.33",
    show_default=True,
    help="Engine to run it on: vllm==0.33, sglang, llama.cpp, mlc-llm, tensorrt-llm.",
)
@click.option(
    "--tp",
    "tensor_parallel",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Tensor-parallel size of the target.",
)
@click.option(
    "--draft-tp",
    "draft_tensor_parallel",
    type=click.IntRange(1, 64),
    help="Tensor-parallel size of the draft. Default: the target's.",
)
@click.option(
    "--context",
    "--max-model-len",
    "context",
    type=TokenCount(),
    help="Longest request to serve, in tokens.",
)
@click.option(
    "-n",
    "--num-speculative-tokens",
    type=click.IntRange(1, 64),
    help="Tokens drafted a round. Default: what the pairing was published with, else 3.",
)
@click.option(
    "--heterogeneous-vocab",
    is_flag=True,
    help="Let vLLM map the tokens that both vocabularies have.",
)
@click.option("--gpu", help="Estimate the cost ratio on this GPU from data sheets.")
@click.option("--online", is_flag=True, help="Ask the hub for ids that are not on this machine.")
@click.option(
    "--format",
    "fmt",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to print.",
)
def command(
    target: str,
    draft: str | None,
    method: str | None,
    engine: str,
    tensor_parallel: int,
    draft_tensor_parallel: int | None,
    context: int | None,
    num_speculative_tokens: int | None,
    heterogeneous_vocab: bool,
    gpu: str | None,
    online: bool,
    fmt: str,
) -> int:
    """Say whether DRAFT can draft for TARGET, or what could.

    TARGET and DRAFT are ids or folders with a config.json; two folders that hold their
    tokenizers too are compared token by token. DRAFT may also be ngram, suffix or mtp.

    Exit code 0: the engine runs the pair. 3: it does not, or nobody checked. 1: an error.
    """
    from capplan.api.pairs import pair
    from capplan.reporting.pair_text import render_pair, render_suggestions
    from capplan.schema.pair import PairSuggestions

    answer = pair(
        target,
        draft,
        method=method,
        engine=engine,
        tensor_parallel=tensor_parallel,
        draft_tensor_parallel=draft_tensor_parallel,
        context=context,
        num_speculative_tokens=num_speculative_tokens,
        heterogeneous_vocab=heterogeneous_vocab,
        gpu=gpu,
        online=online,
    )
    if fmt == "json":
        click.echo(answer.model_dump_json(indent=2))
    elif isinstance(answer, PairSuggestions):
        click.echo(render_suggestions(answer), nl=False)
    else:
        click.echo(render_pair(answer), nl=False)
    return 0 if answer.works else 3
