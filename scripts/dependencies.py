#!/usr/bin/env python3
"""Fetches the pinned sources of the libraries that Penstock builds in, and builds them as static libraries.

    scripts/dependencies.py fetch [--sources DIR]
    scripts/dependencies.py build --prefix DIR --work DIR [--sources DIR] [--toolchain FILE] [--cc COMMAND] [--nasm]

third_party/sources.json names each source: a Debian source package, its version, and the SHA-256 of its files. A file with another
sum is refused. `fetch` downloads by apt the files that --sources (build/sources, or PENSTOCK_SOURCES) lacks. It needs Debian and
the network; on other systems the files must be copied there by hand. `build` needs neither: it unpacks, applies Debian's patches,
and installs headers, libraries, their licences and files for pkg-config below --prefix. --toolchain is CMake's; --cc the same
compiler, as a command line. With --nasm the assembler of libjpeg-turbo comes from its pinned source too, and runs on this machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "third_party" / "sources.json"
# A source archive of Penstock contains these sources.
CARRIED = ROOT / "third_party" / "sources"
# tarfile of Python 3.11.2 (Debian 12) has no filters yet. That is safe, because the sums were compared before.
EXTRACTION = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
OPTIONS = {
    "zlib": [],
    "libpng1.6": [],
    "libjpeg-turbo": ["-DENABLE_SHARED=OFF", "-DWITH_TURBOJPEG=OFF", "-DREQUIRE_SIMD=ON"],
    "libwebp": [f"-DWEBP_BUILD_{part}=OFF" for part in
                ("ANIM_UTILS", "CWEBP", "DWEBP", "GIF2WEBP", "IMG2WEBP", "VWEBP", "WEBPINFO", "LIBWEBPMUX", "WEBPMUX", "EXTRAS")],
    "libdeflate": [],
    "liburing": [],
    "xxhash": [],
}


def sources_folder() -> Path:
    named = os.environ.get("PENSTOCK_SOURCES")
    return Path(named) if named else CARRIED if CARRIED.is_dir() else ROOT / "build" / "sources"


def pins() -> dict[str, dict]:
    return json.loads(PINS.read_text())


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> None:
    """Runs a command. Its output is shown only if it fails."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        sys.exit(f"{done.stdout[-8000:]}\nfailed with status {done.returncode}: {' '.join(map(str, command))}")


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def missing(pin: dict, folder: Path) -> list[str]:
    """Returns the files of a source that are missing in the folder. A file with a wrong sum ends the program."""
    absent = []
    for name, wanted in pin["files"].items():
        path = folder / name
        if not path.is_file():
            absent.append(name)
        elif sha256(path) != wanted:
            sys.exit(f"{path}: its SHA-256 is {sha256(path)}, {PINS.name} has {wanted}")
    return absent


def copy_archives(parts: Path, kind: str, codename: str) -> None:
    """Copies this machine's list of apt archives into a folder, changed for that kind of packages and another release of Debian."""
    own = next((line.partition("=")[2].strip() for line in Path("/etc/os-release").read_text().splitlines()
                if line.startswith("VERSION_CODENAME=")), "")
    for path in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]:
        if path.suffix not in (".list", ".sources") or not path.is_file():
            continue
        text = re.sub(r"(?m)^Types:.*$", f"Types: {kind}", re.sub(r"(?m)^deb ", f"{kind} ", path.read_text()))
        if codename and own:
            text = re.sub(rf"\b{own}\b", codename, text)
        (parts / path.name).write_text(text)


def apt_environment(folder: Path, kind: str = "deb-src", codename: str = "", arch: str = "", archive: str = "") -> dict[str, str]:
    """Makes a separate configuration of apt with this machine's archives, and downloads the package lists.

    `kind`: deb-src for sources, deb for packages, of which none counts as installed. `codename`: name of another release of Debian.
    `archive`: a line of sources.list that replaces all archives.
    """
    parts = folder / "parts"
    for name in ("lists/partial", "cache/archives/partial", "parts"):
        (folder / name).mkdir(parents=True)
    if archive:
        (parts / "archive.list").write_text(archive + "\n")
    else:
        copy_archives(parts, kind, codename)
    settings = [f'Dir::State "{folder}";', f'Dir::State::Lists "{folder}/lists";', f'Dir::Cache "{folder}/cache";',
                'Dir::Etc::SourceList "/dev/null";', f'Dir::Etc::SourceParts "{parts}";', 'APT::Sandbox::User "";']
    if kind == "deb":
        (folder / "status").touch()
        settings.append(f'Dir::State::status "{folder}/status";')
    if arch:
        settings += [f'APT::Architecture "{arch}";', f'APT::Architectures "{arch}";']
    (folder / "apt.conf").write_text("\n".join(settings) + "\n")
    environment = {"APT_CONFIG": str(folder / "apt.conf")}
    run("apt-get", "update", **environment)
    return environment


def fetch(folder: Path, tools: bool = True) -> None:
    wanted = {name: pin for name, pin in pins().items() if (tools or not pin.get("tool")) and missing(pin, folder)}
    if not wanted:
        return
    if not shutil.which("apt-get"):
        names = [name for pin in wanted.values() for name in missing(pin, folder)]
        sys.exit(f"no apt-get here: put these files into {folder}: {', '.join(names)}")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        environment = apt_environment(Path(name) / "apt")
        for source, pin in wanted.items():
            print(f"fetching the source of {source} {pin['version']}", flush=True)
            run("apt-get", "source", "--download-only", f"{source}={pin['version']}", cwd=Path(name), **environment)
            for file in pin["files"]:
                if not (folder / file).exists():
                    shutil.move(Path(name) / file, folder / file)
            missing(pin, folder)


def unpack(source: str, pin: dict, sources: Path, work: Path) -> Path:
    """Unpacks a source below `work` and applies Debian's patches. Returns the source's folder."""
    absent = missing(pin, sources)
    if absent:
        sys.exit(f"{sources} has no {', '.join(absent)}: `scripts/dependencies.py fetch` gets it")
    tree = work / source
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for name in pin["files"]:
        with tarfile.open(sources / name) as archive:
            archive.extractall(tree, **EXTRACTION)
    [folder] = [path for path in tree.iterdir() if path.name != "debian"]
    shutil.rmtree(folder / "debian", ignore_errors=True)
    patches = tree / "debian" / "patches"
    series = (patches / "series").read_text().splitlines() if (patches / "series").exists() else []
    for line in series:
        words = line.split("#")[0].split()
        if words:
            run("patch", "-p1", "--batch", "--forward", "-i", patches / words[0], cwd=folder)
    ours = ROOT / "third_party" / source / "CMakeLists.txt"
    if ours.exists():
        shutil.copy(ours, folder / "CMakeLists.txt")
    return folder


def build_nasm(folder: Path, prefix: Path) -> None:
    # The archive contains the files that Perl generates. All files get the same time: if these were older than a patched source,
    # make would run Perl.
    for path in folder.rglob("*"):
        os.utime(path, (0, 0), follow_symlinks=False)
    run("sh", "configure", f"--prefix={prefix}", cwd=folder)
    run("make", f"-j{os.cpu_count()}", "nasm", cwd=folder)
    (prefix / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / "nasm", prefix / "bin" / "nasm")


def cmake_command(source: str, folder: Path, prefix: Path, flags: str, toolchain: Path | None) -> list[str]:
    command = ["cmake", "-G", "Ninja", "-S", str(folder), "-B", str(folder / "build"), f"-DCMAKE_INSTALL_PREFIX={prefix}",
               f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_INSTALL_LIBDIR={prefix}/lib", "-DCMAKE_BUILD_TYPE=Release",
               "-DCMAKE_POSITION_INDEPENDENT_CODE=ON", "-DCMAKE_C_VISIBILITY_PRESET=hidden", "-DBUILD_SHARED_LIBS=OFF",
               "-DCMAKE_POLICY_VERSION_MINIMUM=3.5", f"-DCMAKE_C_FLAGS={flags}", *OPTIONS[source]]
    return [*command, f"-DCMAKE_TOOLCHAIN_FILE={toolchain}"] if toolchain else command


def build(arguments: argparse.Namespace) -> None:
    prefix, work = arguments.prefix.resolve(), arguments.work.resolve()
    # The result must not contain paths of this machine.
    flags = f"-ffile-prefix-map={work}=. -ffile-prefix-map={prefix}=."
    environment = {"PKG_CONFIG_PATH": "", "PKG_CONFIG_LIBDIR": str(prefix / "lib" / "pkgconfig"), "CC": arguments.cc}
    every = pins()
    if arguments.nasm:
        nasm = work / "host" / "bin" / "nasm"
        if not nasm.exists():
            build_nasm(unpack("nasm", every["nasm"], arguments.sources, work), work / "host")
        environment["ASM_NASM"] = str(nasm)
    for source in OPTIONS:
        folder = unpack(source, every[source], arguments.sources, work)
        if source == "liburing":
            run("sh", "configure", f"--cc={arguments.cc}", "--cxx=false", cwd=folder)
        toolchain = arguments.toolchain.resolve() if arguments.toolchain else None
        run(*cmake_command(source, folder, prefix, flags, toolchain), **environment)
        run("cmake", "--build", folder / "build", **environment)
        run("cmake", "--install", folder / "build", **environment)
        licences = prefix / "licences"
        licences.mkdir(exist_ok=True)
        for name in every[source]["licence"]:
            shutil.copy(folder / name, licences / f"{source}.{name}")
        print(f"built {source} {every[source]['version']}", flush=True)
    (prefix / "complete").touch()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("fetch", "build"))
    parser.add_argument("--sources", type=Path, default=sources_folder())
    parser.add_argument("--prefix", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--toolchain", type=Path)
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    parser.add_argument("--nasm", action="store_true")
    arguments = parser.parse_args()
    if arguments.what == "fetch":
        fetch(arguments.sources)
    elif not arguments.prefix or not arguments.work:
        parser.error("build needs --prefix and --work")
    else:
        build(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
