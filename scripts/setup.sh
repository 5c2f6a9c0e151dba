#!/bin/sh
# Installs the system packages that the build needs, on Debian 12 and Ubuntu 24.04 or later. Does nothing if all are installed.
# Needs root or sudo; without both it prints the missing packages and exits with status 1.
#
#   scripts/setup.sh           what `make build` needs
#   scripts/setup.sh check     and what `make check` needs (cmocka, clang and its sanitizers, memcached, libsndfile)
#   scripts/setup.sh fuzz      and what `make fuzz` and `make check-long` need (llvm, qemu)
set -eu

for_build="gcc libc6-dev make pkg-config git python3 python3-venv python3-dev zlib1g-dev
libjpeg-dev libpng-dev libdeflate-dev libwebp-dev libxxhash-dev liburing-dev"
for_check="g++ libcmocka-dev libsimde-dev clang memcached libsndfile1"
for_fuzz="llvm qemu-user-static"

wanted="$for_build"
case "${1:-build}" in
build) ;;
check) wanted="$wanted $for_check" ;;
fuzz) wanted="$wanted $for_check $for_fuzz" ;;
*)
    echo "setup.sh: unknown argument '$1' (build, check or fuzz)" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "setup.sh: no dpkg here, so packages are not checked. Needed, by their Debian names:" $wanted >&2
    exit 0
fi

is_installed() {
    case "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null || true)" in
    *"ok installed") return 0 ;;
    esac
    return 1
}

missing=""
for package in $wanted; do
    is_installed "$package" || missing="$missing $package"
done
# The runtime of the sanitizers and of libFuzzer is in a package with clang's version number.
if [ "${1:-build}" != build ] && command -v clang >/dev/null 2>&1; then
    version=$(clang -dumpversion | cut -d. -f1)
    is_installed "libclang-rt-$version-dev" || missing="$missing libclang-rt-$version-dev"
fi
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
    # -n: never ask. If a password is needed and there is a terminal, sudo may ask for it.
    if command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        as_root=sudo
    else
        echo "These packages are missing, and there is neither root nor sudo to install them:" >&2
        echo "    apt-get install$missing" >&2
        exit 1
    fi
fi
echo "installing:$missing"
install_missing() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing </dev/null
}
if ! install_missing >/dev/null 2>&1; then
    # Package lists may be old or absent.
    $as_root apt-get update </dev/null
    install_missing
fi
# The name of libclang-rt is known only once clang is installed.
if [ "${1:-build}" != build ]; then
    version=$(clang -dumpversion | cut -d. -f1)
    if ! is_installed "libclang-rt-$version-dev"; then
        missing="libclang-rt-$version-dev"
        install_missing
    fi
fi
