"""The launch as a Python file: offline generation, and the server's command as a list."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.deploy.command import comment, server_words
from capplan.deploy.fields import Plain, engine_keywords
from capplan.deploy.settings import Settings
from capplan.deploy.versions import EngineVersion

_TEXT = '''\
"""One replica on {engine}, written by capplan.

    python FILE "A prompt" ...    generate offline and print the texts
    python FILE --serve           become the OpenAI-compatible server, on port {port}
"""

{notes}import os
import sys

ENGINE = {{
{engine_items}
}}

SERVER = [
{server_items}
]


def generate(prompts):
    from vllm import LLM, SamplingParams

    llm = LLM(**ENGINE, disable_log_stats=False)  # keeps llm.get_metrics() at hand
    sampling = SamplingParams(temperature={temperature!r}, max_tokens={max_tokens})
    return [output.outputs[0].text for output in llm.generate(prompts, sampling)]


def main(arguments):
    if arguments == ["--serve"]:
        os.execvp(SERVER[0], SERVER)
    for text in generate(arguments or ["The capital of France is"]):
        print(text)


if __name__ == "__main__":  # the engine's own processes import this file again
    main(sys.argv[1:])
'''


def render_python(
    settings: Settings,
    version: EngineVersion,
    notes: Sequence[str] = (),
    *,
    temperature: float = 0.0,
    max_tokens: int = 256,
) -> str:
    """Return the file.

    Parameters
    ----------
    settings, version, notes
        What to run, on what, and what to mind.
    temperature, max_tokens
        Of offline generation.
    """
    keywords: dict[str, Plain] = {"model": settings.target, **engine_keywords(settings, version)}
    return _TEXT.format(
        engine=version,
        port=settings.port,
        notes="".join(f"{comment(note)}\n" for note in notes) + ("\n" if notes else ""),
        engine_items="\n".join(f"    {key!r}: {value!r}," for key, value in keywords.items()),
        server_items="\n".join(f"    {word!r}," for word in server_words(settings, version)),
        temperature=float(temperature),
        max_tokens=max_tokens,
    )
