#!/bin/bash
# run.sh [options of report.py]: Penstock beside torch DataLoader (torchvision v2, Pillow) and NVIDIA DALI on the same files and
# cores. Installs the peers in environments of their own under build/peers; a peer that does not install is named in
# the table with the reason. DATA: where the images are (default $PST_SHARED_DATA, then ../shared/data).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${PEERS_BUILD:-$root/build/peers}
data=${DATA:-${PST_SHARED_DATA:-$root/../shared/data}}
python=${PYTHON:-python3}
[ -d "$data" ] || { echo "no images at $data: set DATA (see bench/loader/prepare.py)" >&2; exit 2; }
mkdir -p "$build/venv"
log=$build/install.log
: > "$log"
environment() { # environment NAME PACKAGE...: makes it once
    local venv=$build/venv/$1
    shift
    [ -e "$venv/ready" ] && return
    "$python" -m venv "$venv" && "$venv/bin/pip" install -q "$@" >> "$log" 2>&1 && touch "$venv/ready"
}
environment torch torch==2.13.0 pillow==13.0.0 numpy scikit-build-core cmake ninja setuptools wheel ||
    { tail -3 "$log" >&2; echo "the torch environment did not install" >&2; exit 1; }
"$build/venv/torch/bin/pip" install -q --no-deps torchvision==0.28.0 >> "$log" 2>&1 || echo "torchvision did not install" >&2
"$build/venv/torch/bin/pip" install -q --no-build-isolation --no-deps "$root/python" >> "$log" 2>&1 ||
    { tail -5 "$log" >&2; echo "penstock did not install" >&2; exit 1; }
environment dali nvidia-dali-cuda130==2.4.0 numpy pillow==13.0.0 || { rm -rf "$build/venv/dali"; echo "DALI did not install" >&2; }
bash "$here/stand_in_cuda.sh" "$build/venv/torch" "$build/stand_in"
"$build/venv/torch/bin/python" "$here/prepare.py" "$data" "$build/data"
exec "$build/venv/torch/bin/python" "$here/report.py" --build "$build" "$@"
