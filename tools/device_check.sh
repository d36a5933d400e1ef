#!/usr/bin/env bash
# Check capplan on a borrowed CUDA machine without a network; at most 8 minutes.
#
# Before:  make device-wheels            (wheels/, about 30 MiB, for packages that the host may lack)
# There:   tools/device_check.sh         results in ${OUT:-device-check}; PYTHON chooses the Python
# Try it on any machine, without a GPU, in under a minute:  tools/device_check.sh --smoke
#
# The host must have torch and transformers. Whatever else is missing is installed from wheels/
# into the Python in use, so run this on a machine that nobody keeps, or in an environment of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON="${PYTHON:-python3}"
OUT="${OUT:-device-check}"
mkdir -p "$OUT"

missing="$("$PYTHON" - tools/device_requirements.txt <<'PY'
import re
import sys
from importlib import metadata
from pathlib import Path


def release(version):
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


for line in Path(sys.argv[1]).read_text().splitlines():
    name, _, minimum = line.partition(">=")
    if not minimum:
        continue
    try:
        present = release(metadata.version(name)) >= release(minimum)
    except metadata.PackageNotFoundError:
        present = False
    if not present:
        print(line)
PY
)"
if [ -n "$missing" ]; then
    echo "Installing from wheels/:" $missing
    [ -d wheels ] || { echo "There is no wheels/: run make device-wheels where there is a network." >&2; exit 1; }
    # shellcheck disable=SC2086 - one argument a requirement
    PIP_BREAK_SYSTEM_PACKAGES=1 "$PYTHON" -m pip install --quiet --no-index --find-links wheels $missing
fi

export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
exec "$PYTHON" tools/device_check.py --out "$OUT" "$@"
