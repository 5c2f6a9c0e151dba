#!/bin/bash
# run.sh [options of endtoend.py]: training time per epoch through NVIDIA DALI, torch DataLoader + torchvision, FFCV, and Penstock
# with a planned data set and its cache, over networks of sourced rates, five kinds of data and three machines. Installs the
# peers as bench/loader/run.sh does (PEERS_BUILD, default build/peers). DATA: folder that has imagenet_folder, cityscapes and
# boxes (default $PST_SHARED_DATA, then ../shared/data). Slow disks need root and control groups, as bench/cache. Figures: OUT
# (default bench/out).
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one, and cityscapes and boxes"
exec "$root/.venv/bin/python" "$root/bench/endtoend/endtoend.py" --data "$data" --build "$build" --out "$out" "$@"
