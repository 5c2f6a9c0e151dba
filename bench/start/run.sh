#!/bin/bash
# run.sh [options of install.py]: sizes, imports and first batches of Penstock's wheel, Pillow, simplejpeg, TorchCodec, SPDL, FFCV
# and DALI. `make wheels` comes first. DATA: folder that has imagenet_folder (default $PST_SHARED_DATA, then ../shared/data). Wheels
# and environments: PEERS_BUILD (default build/peers). Figures: OUT (default bench/out).
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one"
exec "$root/.venv/bin/python" "$root/bench/start/install.py" --data "$data/imagenet_folder" --build "$build" --out "$out" "$@"
