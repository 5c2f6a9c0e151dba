#!/bin/bash
# run.sh [options of dlio.py]: MLPerf Storage's benchmark program drives Penstock, beside its own loader. DLIO: a checkout of
# github.com/argonne-lcf/dlio_benchmark. Its packages are installed in a directory of their own under PEERS_BUILD (default
# build/peers). DATA: folder of images (default $PST_SHARED_DATA, then ../shared/data); its imagenet_folder is used.
source "$(dirname "$0")/../lib.sh"
need "$data/imagenet_folder" "a folder that has one"
[ -f "${DLIO:-}/dlio_benchmark/main.py" ] || { echo "set DLIO to a checkout of github.com/argonne-lcf/dlio_benchmark" >&2; exit 2; }
python=${PYTHON:-$root/.venv/bin/python}
peers=${DLIO_ENVIRONMENT:-$build/dlio}
if [ ! -f "$peers/packages-installed" ]; then
    # PyPI's dlio_benchmark pins a pydftracer that is too old for the source; mpich brings MPI itself, into the environment's lib.
    "$python" -m venv "$peers"
    "$peers/bin/pip" install --quiet hydra-core omegaconf pandas psutil Pillow PyYAML h5py pydftracer mpi4py mpich
    touch "$peers/packages-installed"
fi
# Penstock and torch come from the tree's environment, behind DLIO's own packages.
site='import sysconfig; print(sysconfig.get_path("purelib"))'
paths=$DLIO:$("$peers/bin/python" -c "$site"):$("$python" -c "$site")
PYTHONPATH="$paths${PYTHONPATH:+:$PYTHONPATH}" exec "$peers/bin/python" "$root/bench/dlio/dlio.py" \
    --images "$data/imagenet_folder" --out "$out" "$@"
