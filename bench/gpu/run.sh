#!/bin/bash
# run.sh CARRY OUT [STEP...]: measures on the GPU of this machine what scripts/gpu_carry.py put together in CARRY. Figures go
# to OUT/gpu-*.json, what became of each step to gpu-bench.json and its output to gpu-bench.log. Python must have torch with
# CUDA for the training figure; without it that one is left out.
# All steps have PST_GPU_SECONDS (540) together: scripts/gpu_steps.sh. One that fails ends no other.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
carry=$(cd "$1" && pwd)
out=$2
source "$here/../../scripts/gpu_steps.sh"
steps_begin bench "$carry" "$out" "${@:3}"

kernels_all=""
kernels() { # name, set: its figures are added to gpu-kernels.json, a list
    step "$1" 90 "$carry/bin/bench_gpu" --seconds 0.3 --l3 "$carry/lib/libbench_l3_cuda.so" --json "$steps_work/$1.json" "$1:$2"
    [ "$steps_status" = 0 ] || return
    kernels_all+="${kernels_all:+,}"$'\n'$(cat "$steps_work/$1.json")
    printf '[%s\n]\n' "$kernels_all" >"$out/gpu-kernels.json"
}
data=$carry/data
[ ! -d "$data/pli-jpeg" ] || kernels pli-jpeg "$data/pli-jpeg:256:resized:224"
[ ! -d "$data/pli-jpeg" ] || kernels pli-jpeg-policy "$data/pli-jpeg:256:policy:224"
for tier in small dense fast; do # alone, fused into one launch, and with a resize
    if [ -d "$data/pli-$tier-frames" ]; then
        kernels "frames-$tier" "$data/pli-$tier-frames:64:picture"
        kernels "frames-$tier-fused" "$data/pli-$tier-frames:64:fused:512x512"
        kernels "frames-$tier-resized" "$data/pli-$tier-frames:64:resized:224"
    fi
    [ ! -d "$data/pli-$tier" ] || kernels "images-$tier-resized" "$data/pli-$tier:256:resized:224"
done
for edge in 64 32; do # L3 of the same frames, with its published sizes of tiles
    [ ! -d "$data/pli-small-frames" ] || kernels "frames-l3-t$edge" "$data/pli-small-frames:64:l3:$edge"
done
[ ! -d "$data/pli-small-frames" ] || kernels frames-l3-each "$data/pli-small-frames:64:l3-each:64"
step shares 120 python3 "$here/shares.py" "$data/jpeg" --out "$out/gpu-shares.json"
host=("$data"/pli-jpeg "$data"/pli-*-frames)
[ ! -d "${host[0]}" ] || step host-cpu 90 python3 "$here/host_cpu.py" "${host[@]}" --out "$out/gpu-host-cpu.json"
step jpegs 150 python3 "$here/jpegs.py" "$data/jpeg" --seconds 3 --out "$out/gpu-jpegs.json"
if python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    step pack 60 "$carry/bin/penstock" pack --quiet "$data/jpeg" "$steps_work/jpeg.pst"
    step training 150 python3 "$here/training.py" "$steps_work/jpeg.pst" --seconds 2 --out "$out/gpu-training.json"
else
    echo "no torch with CUDA: the training figure is left out" >&2
fi
steps_finish
