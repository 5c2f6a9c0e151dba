#!/bin/bash
# run.sh [options of report.py]: how many emulated accelerators of MLPerf Storage one core feeds, pixels included: Penstock
# from plain files and from pli-jpeg, torch DataLoader + torchvision, DALI's CPU pipeline, and the reader of MLPerf Storage's own
# program if DLIO names a checkout of github.com/argonne-lcf/dlio_benchmark. Installs the peers as bench/loader/run.sh does
# (PEERS_BUILD, default build/peers). DATA: folder of images (default $PST_SHARED_DATA, then ../shared/data); its imagenet_folder
# and clic2025 are used. Figures: OUT (default bench/out).
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one"
exec "${PYTHON:-python3}" "$root/bench/fed/report.py" --data "$data" --build "$build" --out "$out" "$@"
