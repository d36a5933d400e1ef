#!/bin/sh
# Fuzz every reader for SECONDS each:  tools/fuzz/run.sh SECONDS [TARGET...]
#
# Needs Linux and a Python that atheris has a wheel for; it gets an environment of its own
# (${CAPPLAN_FUZZ_VENV:-~/.cache/capplan/venvs/fuzz}). An input that does harm is left under
# ${CAPPLAN_FUZZ_OUT:-fuzz-findings}: once mended, copy it to tools/fuzz/corpus/TARGET/regression-*.
set -eu
seconds=${1:?"usage: tools/fuzz/run.sh SECONDS [TARGET...]"}
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
venv=${CAPPLAN_FUZZ_VENV:-$HOME/.cache/capplan/venvs/fuzz}
out=${CAPPLAN_FUZZ_OUT:-fuzz-findings}
if [ ! -x "$venv/bin/python" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/pip" install --quiet atheris -e "$root"
fi
[ $# -gt 0 ] || set -- $(ls "$root/tools/fuzz/corpus")
status=0
for target in "$@"; do
    mkdir -p "$out/$target"
    grown=$(mktemp -d)
    log=$out/$target/log.txt
    "$venv/bin/python" "$root/tools/fuzz/atheris_target.py" "$target" "$grown" \
        "$root/tools/fuzz/corpus/$target" -max_total_time="$seconds" -timeout=20 \
        -rss_limit_mb=3000 -max_len=65536 -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="$out/$target/" >"$log" 2>&1 && said=nothing || said=HARM
    [ "$said" = nothing ] || status=1
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "$target: ${runs:-?} inputs, found $said"
    rm -rf "$grown"
done
exit $status
