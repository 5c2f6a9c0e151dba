#!/bin/bash
# run.sh [options of whatif.py]: predictions of penstock whatif against runs. DATA: folder of images (default $PST_SHARED_DATA, then
# ../shared/data); its imagenet_folder is used. CPU quotas need root and cpu control groups (version 1 or 2); without them those
# cells are left out, and the table says so.
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one"
exec "${PYTHON:-$root/.venv/bin/python}" "$root/bench/whatif/whatif.py" --images "$data/imagenet_folder" --out "$out" "$@"
