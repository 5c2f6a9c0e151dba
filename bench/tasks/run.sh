#!/bin/bash
# run.sh [options of tasks.py]: the recipes of three tasks (classification, detection, segmentation) through Penstock, torch
# DataLoader with torchvision v2, and NVIDIA DALI, on the same files and cores. Installs the peers as bench/loader/run.sh does
# (PEERS_BUILD, default build/peers). DATA: folder that has imagenet_folder, boxes, cityscapes and labels8 (default
# $PST_SHARED_DATA, then ../shared/data); a task whose files are missing is left out. Table and figures: OUT (default bench/out).
source "$(dirname "$0")/../lib.sh"
need "$data" "a folder that has imagenet_folder, boxes, cityscapes and labels8, or some of them"
exec "${PYTHON:-python3}" "$root/bench/tasks/tasks.py" --data "$data" --build "$build" --out "$out" "$@"
