#!/bin/bash
# run.sh [options of report.py]: how many emulated accelerators of MLPerf Storage one core feeds, pixels included: Penstock
# from plain files and from pli-jpeg, torch DataLoader + torchvision, DALI's CPU pipeline, and the reader of MLPerf Storage's own
# program if DLIO names a checkout of github.com/argonne-lcf/dlio_benchmark. Installs the peers as bench/loader/run.sh does
# (PEERS_BUILD, default build/peers). DATA: folder of images (default $PST_SHARED_DATA, then ../shared/data); its imagenet_folder
# and clic2025 are used. Figures: OUT (default bench/out).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
data=${DATA:-${PST_SHARED_DATA:-$root/../shared/data}}
[ -d "$data/imagenet_folder" ] || { echo "no imagenet_folder at $data: set DATA" >&2; exit 2; }
exec "${PYTHON:-python3}" "$here/report.py" --data "$data" --build "${PEERS_BUILD:-$root/build/peers}" \
    --out "${OUT:-$root/bench/out}" "$@"
