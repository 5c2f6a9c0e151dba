#!/bin/bash
# run.sh [options of epochs.py]: epochs over a data set that is larger than memory: Penstock's cache, and Penstock and DALI with the
# kernel's page cache, all with the same memory limit (a control group) and the same disk rate. Installs DALI in an environment
# of its own under PEERS_BUILD (default build/peers). DATA: folder of images (default $PST_SHARED_DATA, then ../shared/data); the
# JPEGs of its imagenet_folder are used, or all below it where it has none. Needs root and memory and blkio groups of version 1,
# or both controllers of version 2.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
data=${DATA:-${PST_SHARED_DATA:-$root/../shared/data}}
[ -d "$data" ] || { echo "no images at $data: set DATA to any folder of JPEGs" >&2; exit 2; }
images=$data/imagenet_folder
[ -d "$images" ] || images=$data
exec "${PYTHON:-python3}" "$here/epochs.py" --images "$images" --build "${PEERS_BUILD:-$root/build/peers}" \
    --out "${OUT:-$root/bench/out}" "$@"
