#!/bin/sh
# Makes the virtual environment .venv and installs tools into it.
#
#   scripts/setup_venv.sh build    pip, the build requirements of the Python package, HiGHS, Pillow, cmake and ninja where the
#                                  system's are missing or old
#   scripts/setup_venv.sh check    what tests, the demo and the examples import: pytest, pytest-xdist, numpy, torch, Pillow,
#                                  torchvision, torchaudio, pycocotools, Optuna, Lightning, Transformers; HiGHS for C programs;
#                                  ruff, codespell, clang-tidy, mypy and pre-commit
#   scripts/setup_venv.sh site     what builds the documents as a site: Sphinx, MyST, Furo
#
# PYTHON names the interpreter (3.11 or later); otherwise the first suitable one is taken. torch: on x86-64 Linux PyPI's wheel
# brings CUDA; PIP_EXTRA_INDEX_URL or PIP_INDEX_URL=https://download.pytorch.org/whl/cpu selects the smaller one.
set -eu
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INPUT=1

find_python() {
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3; do
        # ensurepip is a package of its own on Debian.
        if "$candidate" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return 0
        fi
    done
    echo "setup_venv.sh: no Python >= 3.11 with the venv module (PYTHON=... names one)" >&2
    return 1
}

# True if `cmake` in PATH is 3.26 or later.
cmake_is_recent() {
    version=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    [ -n "$version" ] || return 1
    # shellcheck disable=SC2086
    set -- $version
    [ "$1" -gt 3 ] || { [ "$1" -eq 3 ] && [ "$2" -ge 26 ]; }
}

if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
    python=$(find_python)
    "$python" -m venv --clear .venv
fi

install() {
    .venv/bin/python -m pip install --quiet --constraint python/constraints.txt "$@"
}

case "${1:-build}" in
build)
    tools="pip setuptools scikit-build-core"
    # Tools in the virtual environment itself do not count as the system's: once installed, they stay.
    cmake_is_recent || tools="$tools cmake"
    command -v ninja >/dev/null 2>&1 || tools="$tools ninja"
    install $tools
    # Solves plans. `penstock plan` says so where it is missing.
    install highspy || echo "setup_venv.sh: no HiGHS: penstock plan needs it" >&2
    # Draws sheets. `penstock view` says so where it is missing.
    install pillow || echo "setup_venv.sh: no Pillow: penstock view needs it" >&2
    ;;
check)
    install pytest pytest-xdist mypy ruff codespell clang-tidy pre-commit numpy torch pillow prometheus-client
    # The references of tests. Their wheels are linked against the CUDA build of torch, and their import fails beside another
    # one unless it is helped (torchvision_v2 and torchaudio_itself of python/tests/conftest.py). So they have a folder of their
    # own: libraries that find them in the virtual environment, as Lightning and Transformers do, would import them.
    install --no-deps --upgrade --target .venv/references torchvision torchaudio ||
        echo "setup_venv.sh: no torchvision and torchaudio: tests beside them will be skipped" >&2
    install pycocotools || echo "setup_venv.sh: no pycocotools: tests beside it will be skipped" >&2
    # The last wheels of HiGHS that have its library for C programs beside the Python module.
    .venv/bin/python -m pip install --quiet --no-deps --upgrade --target .venv/highs 'highspy==1.15.*' ||
        echo "setup_venv.sh: no library of HiGHS: tests/plan will be skipped" >&2
    install soundfile || echo "setup_venv.sh: no soundfile: tests of FLAC, Ogg and MP3 will be skipped" >&2
    install optuna || echo "setup_venv.sh: no Optuna: test_example_search.py will be skipped" >&2
    install lightning || echo "setup_venv.sh: no Lightning: its test in test_examples_ranks.py will be skipped" >&2
    install transformers accelerate || echo "setup_venv.sh: no Transformers: its page of the guide will be skipped" >&2
    ;;
site)
    install sphinx myst-parser furo
    ;;
*)
    echo "setup_venv.sh: unknown argument '$1' (build, check or site)" >&2
    exit 2
    ;;
esac
