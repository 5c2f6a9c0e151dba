#!/bin/bash
# run.sh CARRY OUT: measures on the card of this machine what scripts/gpu_carry.py put together in CARRY; figures go to
# OUT/gpu-*.json. Python must have torch with CUDA for the training figure; without it that one is left out.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
carry=$(cd "$1" && pwd)
out=$2
mkdir -p "$out"
export LD_LIBRARY_PATH=$carry/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} PENSTOCK_CUDA_KERNELS=$carry/lib/libpenstock_cuda.so
export PYTHONPATH=$carry/python${PYTHONPATH:+:$PYTHONPATH}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sets=()
for tier in fast small dense; do
    [ -d "$carry/data/pli-$tier" ] || continue
    sets+=("frames-$tier-fused:$carry/data/pli-$tier:64:fused:512x512" "frames-$tier-resized:$carry/data/pli-$tier:64:resized:224")
done
[ ! -d "$carry/data/pli-jpeg" ] || sets+=("pli-jpeg-resized:$carry/data/pli-jpeg:256:resized:224")
"$carry/bin/bench_gpu" --json "$out/gpu-kernels.json" "${sets[@]}"
if "$carry/bin/bench_nvjpeg" --threads "$(nproc)" --json "$out/gpu-nvjpeg.json" "$carry/data/jpeg"; then
    python3 "$here/jpegs.py" "$carry/data/jpeg" --out "$out/gpu-jpegs.json"
else
    echo "no nvJPEG: its parity and rates are left out" >&2
fi
if python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
    "$carry/bin/penstock" pack --quiet "$carry/data/jpeg" "$work/jpeg.pst"
    python3 "$here/training.py" "$work/jpeg.pst" --out "$out/gpu-training.json"
else
    echo "no torch with CUDA: the training figure is left out" >&2
fi
