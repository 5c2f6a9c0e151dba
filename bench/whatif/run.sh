#!/bin/bash
# run.sh [options of whatif.py]: predictions of penstock whatif against runs. The first call predicts, the second one measures, once
# the file of predictions is committed. DATA: folder of images (default $PST_SHARED_DATA, then ../shared/data); its imagenet_folder,
# cityscapes, hrstereo and nuscenes_png are used. CPU quotas need root and cpu control groups (version 1 or 2); without them other
# cells are drawn, and the tables say so. Cells with an emulated GPU need the tests' stand-ins: STAND_IN, their folder.
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one"
need "$data/cityscapes" "a folder that has one"
stand_in=${STAND_IN:-$root/build/check/tests/device}
[ -e "$stand_in/libpst_fake_kernels.so" ] && set -- --stand-in "$stand_in" "$@"
exec "${PYTHON:-$root/.venv/bin/python}" "$root/bench/whatif/whatif.py" --data "$data" --out "$out" "$@"
