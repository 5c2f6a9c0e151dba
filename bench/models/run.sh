#!/bin/bash
# run.sh [options of models.py]: networks that train here, and what of their time is a stall. torch and torchvision are installed as
# bench/loader/run.sh does (PEERS_BUILD, default build/peers). DATA: folder of images (default $PST_SHARED_DATA, then
# ../shared/data); its imagenet_folder is used. Figures: OUT (default bench/out).
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one"
here=$root/bench/models
(cd "$here/../loader" && "${PYTHON:-python3}" -c "import environments, pathlib; environments.install(pathlib.Path('$build'), [])")
LD_LIBRARY_PATH=$build/stand_in exec "$build/venv/torch/bin/python" "$here/models.py" --images "$data/imagenet_folder" \
    --work "$build/models" --out "$out" "$@"
