#!/bin/bash
# run.sh [options of whatif.py]: predictions of penstock whatif against runs. DATA: folder of images (default $PST_SHARED_DATA, then
# ../shared/data); its imagenet_folder is used. CPU quotas need root and cpu control groups (version 1 or 2); without them those
# cells are left out, and the table says so. Cells with an emulated GPU need the tests' stand-ins: STAND_IN, their folder.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
data=${DATA:-${PST_SHARED_DATA:-$root/../shared/data}}
[ -d "$data/imagenet_folder" ] || { echo "no imagenet_folder at $data: set DATA" >&2; exit 2; }
stand_in=${STAND_IN:-$root/build/check/tests/device}
[ -e "$stand_in/libpst_fake_kernels.so" ] && set -- --stand-in "$stand_in" "$@"
exec "${PYTHON:-$root/.venv/bin/python}" "$here/whatif.py" --images "$data/imagenet_folder" --out "${OUT:-$root/bench/out}" "$@"
