#!/bin/bash
# run.sh [options of models.py]: networks that train here, and what of their time is a stall. torch and torchvision are installed as
# bench/loader/run.sh does (PEERS_BUILD, default build/peers). DATA: folder of images (default $PST_SHARED_DATA, then
# ../shared/data); its imagenet_folder is used. Figures: OUT (default bench/out).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
data=${DATA:-${PST_SHARED_DATA:-$root/../shared/data}}
build=${PEERS_BUILD:-$root/build/peers}
[ -d "$data/imagenet_folder" ] || { echo "no imagenet_folder at $data: set DATA" >&2; exit 2; }
mkdir -p "$build"
(cd "$here/../loader" && "${PYTHON:-python3}" - "$build" <<'PYTHON'
import pathlib
import sys

import environments

build = pathlib.Path(sys.argv[1])
sys.exit(environments.prepare(build, "torch") or environments.prepare_penstock(build))
PYTHON
)
bash "$here/../loader/stand_in_cuda.sh" "$build/venv/torch" "$build/stand_in"
LD_LIBRARY_PATH=$build/stand_in exec "$build/venv/torch/bin/python" "$here/models.py" --images "$data/imagenet_folder" \
    --work "$build/models" --out "${OUT:-$root/bench/out}" "$@"
