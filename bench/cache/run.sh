#!/bin/bash
# run.sh [options of epochs.py]: epochs over a data set that is larger than memory: Penstock's cache, and Penstock and DALI with the
# kernel's page cache, all with the same memory limit (a control group) and the same disk rate. Installs DALI in an environment
# of its own under PEERS_BUILD (default build/peers). DATA: folder of images (default $PST_SHARED_DATA, then ../shared/data); its
# imagenet_folder is used. Needs root and memory and blkio groups of version 1, or both controllers of version 2.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
data=${DATA:-${PST_SHARED_DATA:-$root/../shared/data}}
[ -d "$data/imagenet_folder" ] || { echo "no imagenet_folder at $data: set DATA" >&2; exit 2; }
exec "${PYTHON:-python3}" "$here/epochs.py" --images "$data/imagenet_folder" --build "${PEERS_BUILD:-$root/build/peers}" \
    --out "${OUT:-$root/bench/out}" "$@"
