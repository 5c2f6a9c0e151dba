#!/bin/bash
# run.sh [options of epochs.py]: epochs over a data set that is larger than memory: Penstock's cache, and Penstock and DALI with the
# kernel's page cache, all with the same memory limit (a control group) and the same disk rate. Installs DALI in an environment
# of its own under PEERS_BUILD (default build/peers). DATA: folder of images (default $PST_SHARED_DATA, then ../shared/data); the
# JPEGs of its imagenet_folder are used, or all below it where it has none. Needs root and memory and blkio groups of version 1,
# or both controllers of version 2.
# run.sh recode [options of recode.py]: JPEGs that idle workers re-code into the cache, of a folder and of tars.
# run.sh images [options of images_per_gib.py]: images per GiB of cache, and their speed, beside arrays, PIL and OpenCV.
source "$(dirname "$0")/../lib.sh"
here=$root/bench/cache
if [ "${1:-}" = images ]; then
    shift
    need "$data" "a folder that holds folders of images, and name them by --groups"
    exec "${PYTHON:-$root/.venv/bin/python}" "$here/images_per_gib.py" --data "$data" --build "$build" --out "$out" "$@"
fi
if [ "${1:-}" = recode ]; then
    shift
    need "$data/imagenet_folder" "a folder that has one"
    exec "${PYTHON:-$root/.venv/bin/python}" "$here/recode.py" --data "$data" --build "$build" --out "$out" "$@"
fi
need "$data" "any folder of JPEGs"
images=$data/imagenet_folder
[ -d "$images" ] || images=$data
exec "${PYTHON:-python3}" "$here/epochs.py" --images "$images" --build "$build" --out "$out" "$@"
