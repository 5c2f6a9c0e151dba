#!/bin/bash
# run.sh CARRY OUT [STEP...]: tests on the GPU of this machine what scripts/gpu_carry.py put together in CARRY. What became
# of each step goes to OUT/gpu-tests.json, its output to gpu-tests.log; the exit status is 0 if none failed.
# compute-sanitizer is used where it is found. Python with numpy is needed, torch is used where it has CUDA.
# All steps have PST_GPU_SECONDS (540) together: scripts/gpu_steps.sh.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
carry=$(cd "$1" && pwd)
source "$here/../../scripts/gpu_steps.sh"
steps_begin tests "$carry" "$2" "${@:3}"

step env 30 "$carry/bin/penstock" env
step batch 120 "$carry/bin/test_gpu_batch" "$here/../golden"
step loader 240 python3 "$here/loader_on_gpu.py" "$carry/data"
step features 120 python3 "$here/features_on_gpu.py" "$carry/data" "$carry/bin/penstock" --report "$2/gpu-analysis.json"
step streams 120 python3 "$here/streams_on_gpu.py" "$carry/data"
# These take many times as long as the test alone, so they come last.
if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck synccheck; do
        options=(--tool "$tool" --error-exitcode 9)
        # Kernels are looked for in one image after the other: memcheck would count those that do not have them as errors.
        [ "$tool" != memcheck ] || options+=(--report-api-errors no)
        step "$tool" 300 compute-sanitizer "${options[@]}" "$carry/bin/test_gpu_batch" "$here/../golden"
    done
fi
steps_finish
