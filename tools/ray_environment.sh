#!/usr/bin/env bash
# Print the Python of an environment with Ray; build it the first time, less than a minute.
#
#   tools/ray_environment.sh [PYTHON]        the Python to build with, python3 by default
#
# As tools/vllm_environment.sh: in the user's cache, under a name made from its requirements.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON="${1:-python3}"
REQUIREMENTS=constraints/ray.txt

version="$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
digest="$(cat "$REQUIREMENTS" "$0" | sha256sum | cut -c1-12)"
root="${XDG_CACHE_HOME:-$HOME/.cache}/capplan/venvs"
place="$root/ray-py$version-$digest"

if [ ! -e "$place/.complete" ]; then
    mkdir -p "$root"
    # Two builds at once would tread on each other; the second one waits and finds it done.
    exec 9>"$place.lock"
    flock 9
fi
if [ ! -e "$place/.complete" ]; then
    echo "Building $place: about 0.4 GB" >&2
    # Built in place and marked when it is whole; what a killed build left has no mark.
    rm -rf "$place"
    "$PYTHON" -m venv "$place" >&2
    "$place/bin/python" -m pip install --quiet --disable-pip-version-check \
        -r "$REQUIREMENTS" >&2
    "$place/bin/python" -c 'import pydantic, pytest, ray'
    touch "$place/.complete"
fi
echo "$place/bin/python"
