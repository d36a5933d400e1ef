#!/usr/bin/env bash
# Whether the wheel works where the checkout is not: builds it, installs it with the hashed lock into a
# fresh environment and plans from an empty folder.
#
#   tools/check_wheel.sh [PYTHON]     default: python3; hatchling must be installed for it
set -euo pipefail
python=${1:-python3}
root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

(cd "$root" && "$python" -m hatchling build -t wheel -d "$place/dist") >/dev/null 2>&1
(cd "$place/dist" && sha256sum ./*.whl)
"$python" -m venv "$place/venv"
"$place/venv/bin/python" -m pip install --quiet --require-hashes -r "$root/constraints/core.txt"
"$place/venv/bin/python" -m pip install --quiet --no-deps "$place"/dist/*.whl
"$place/venv/bin/python" -m pip check

mkdir "$place/empty"
cd "$place/empty"
unset PYTHONPATH
export PATH="$place/venv/bin:$PATH"
asked=(--target qwen3-32b --budget 20k --rate 2)
set -x
capplan --version
capplan doctor
capplan recommend "${asked[@]}" --plan-json plan.json -o report.html
capplan report plan.json | head -n 2
capplan facts show h100-sxm-80gb | head -n 3
test -s report.html
