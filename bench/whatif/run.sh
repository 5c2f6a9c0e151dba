#!/bin/bash
# run.sh [options of whatif.py]: predictions of penstock whatif against runs. DATA: folder of images (default $PST_SHARED_DATA, then
# ../shared/data); its imagenet_folder is used. CPU quotas need root and cpu control groups (version 1 or 2); without them those
# cells are left out, and the table says so. Cells with an emulated GPU need the tests' stand-ins: STAND_IN, their folder.
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one"
stand_in=${STAND_IN:-$root/build/check/tests/device}
[ -e "$stand_in/libpst_fake_kernels.so" ] && set -- --stand-in "$stand_in" "$@"
exec "${PYTHON:-$root/.venv/bin/python}" "$root/bench/whatif/whatif.py" --images "$data/imagenet_folder" --out "$out" "$@"
