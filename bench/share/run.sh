#!/bin/bash
# run.sh [options of report.py]: 1, 2, 4 and 8 jobs on one host that are fed by Penstock's share="name", by loaders of their own
# (Penstock, DALI), by TensorSocket and by tf.data service. Installs the peers in environments of their own under PEERS_BUILD
# (default build/peers). DATA: folder of images (default $PST_SHARED_DATA, then ../shared/data); its imagenet_folder is used.
# TensorSocket and tf.data service run in a network namespace: unshare (as root, or with user namespaces) and ip are needed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
data=${DATA:-${PST_SHARED_DATA:-$root/../shared/data}}
[ -d "$data/imagenet_folder" ] || { echo "no imagenet_folder at $data: set DATA" >&2; exit 2; }
exec "${PYTHON:-python3}" "$here/report.py" --images "$data/imagenet_folder" --build "${PEERS_BUILD:-$root/build/peers}" \
    --out "${OUT:-$root/bench/out}" "$@"
