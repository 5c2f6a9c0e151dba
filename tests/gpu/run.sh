#!/bin/bash
# run.sh CARRY OUT: tests on the card of this machine what scripts/gpu_carry.py put together in CARRY. Results go to
# OUT/gpu-tests.json; the exit status is that of the tests. compute-sanitizer is used where it is found. Python with numpy is
# needed, torch is used where it has CUDA.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
carry=$(cd "$1" && pwd)
out=$2
mkdir -p "$out"
export LD_LIBRARY_PATH=$carry/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} PENSTOCK_CUDA_KERNELS=$carry/lib/libpenstock_cuda.so
export PYTHONPATH=$carry/python${PYTHONPATH:+:$PYTHONPATH}

names=() results=()
step() { # name command...: runs it, keeps its output and what became of it
    local name=$1
    shift
    echo "== $name"
    "$@" >"$out/$name.log" 2>&1
    local status=$?
    tail -n 5 "$out/$name.log"
    names+=("$name")
    results+=("$status")
}

"$carry/bin/penstock" env
step batch "$carry/bin/test_gpu_batch" "$here/../golden"
if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck synccheck; do
        step "$tool" timeout 400 compute-sanitizer --tool "$tool" --error-exitcode 9 \
            "$carry/bin/test_gpu_batch" "$here/../golden"
    done
fi
# Interpolated chroma and a rounding of its own: less than a level in the mean.
if python3 -c 'import penstock as ps; ps.cuda.nvjpeg(0)' 2>/dev/null; then
    step nvjpeg "$carry/bin/bench_nvjpeg" --seconds 0.5 --each --most-mean 1 "$carry/data/jpeg"
    step nvjpeg_loader python3 "$here/loader_on_card.py" --nvjpeg "$carry/data/jpeg"
fi
step loader python3 "$here/loader_on_card.py" "$carry/data"

failed=0
{
    printf '{"what": "gpu tests", "card": "%s", "commit": "%s", "steps": {' \
        "$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)" "$(cat "$carry/commit" 2>/dev/null)"
    for i in "${!names[@]}"; do
        [ "$i" -eq 0 ] || printf ', '
        printf '"%s": %d' "${names[$i]}" "${results[$i]}"
        [ "${results[$i]}" -eq 0 ] || failed=1
    done
    printf '}}\n'
} >"$out/gpu-tests.json"
cat "$out/gpu-tests.json"
exit $failed
