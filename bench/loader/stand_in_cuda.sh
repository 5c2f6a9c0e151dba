#!/bin/bash
# stand_in_cuda.sh VENV OUT: lets torchvision's CUDA-linked wheel load beside the CPU build of torch, for measurements only.
# Makes libraries in OUT in which every CUDA symbol that torchvision needs and torch lacks is a function that aborts. The CPU
# operators that the benchmark times are those of the unchanged wheel.
set -euo pipefail
site=$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
out=$2
mkdir -p "$out"
[ ! -e "$site/torch/lib/libtorch_cuda.so" ] || exit 0 # a CUDA build of torch has the real ones
symbols() { nm -D "$@" 2>/dev/null | awk '{print $NF}' | sed 's/@.*//' | grep '^_Z' | sort -u || true; }
for lib in "$site"/torch/lib/*.so "$site"/torchvision.libs/*.so* /usr/lib/*/libstdc++.so.6 /lib/*/libgcc_s.so.1; do
    [ -e "$lib" ] && symbols --defined-only "$lib"
done | sort -u > "$out/defined"
for lib in "$site"/torchvision/image.so "$site"/torchvision/_C*.so; do
    symbols --undefined-only "$lib" | comm -23 - "$out/defined"
done | sort -u > "$out/missing"
{
    echo '#include <stdlib.h>'
    while read -r name; do
        case $name in
            *allocatorE) echo "void *$name = 0;" ;;
            _ZTH*) echo "void $name(void) {}" ;;
            *device_count*) echo "int $name(void) { return 0; }" ;;
            *) echo "void $name(void) { abort(); }" ;;
        esac
    done < "$out/missing"
} > "$out/stand_in.c"
cc -shared -fPIC -w -o "$out/libc10_cuda.so" "$out/stand_in.c"
cc -shared -fPIC -w -o "$out/libtorch_cuda.so" -x c /dev/null
for lib in "$site"/torchvision.libs/libcudart.*.so.*; do
    [ -e "$lib" ] && ln -sf "$lib" "$out/$(basename "$lib" | sed 's/libcudart\.[^.]*\./libcudart./')"
done
exit 0
