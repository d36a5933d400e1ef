"""One reader under libFuzzer's guidance: ``python atheris_target.py TARGET CORPUS [FLAGS]``.

Half of the inputs are broken as the format invites (``mutations``), half as libFuzzer likes. Run
it through ``run.sh``, which sets the limits of time and memory.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import atheris

_ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(_ROOT))

with atheris.instrument_imports(include=["capplan", "profiler", "yaml"]):
    from tools.fuzz.mutations import mutated
    from tools.fuzz.targets import TARGETS, check


def _mutator(data: bytes, max_size: int, seed: int) -> bytes:
    rng = random.Random(seed)
    if rng.random() < 0.5:
        return bytes(atheris.Mutate(data, max_size))
    return mutated(data, rng)[:max_size]


def main() -> None:
    """Run one target until a limit of libFuzzer is reached."""
    target = TARGETS[sys.argv[1]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def one_input(data: bytes) -> None:
            check(target, data, folder)

        atheris.Setup([sys.argv[0], *sys.argv[2:]], one_input, custom_mutator=_mutator)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
