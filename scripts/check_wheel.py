#!/usr/bin/env python3
"""Checks the contents of Penstock's wheels: they must run on the systems that their names state, and have all required files.

    scripts/check_wheel.py WHEEL ...

scripts/wheels.py calls it with the Python that has pyelftools and auditwheel. A finding is printed; the exit status is 1 if there
is any. Checked are the tag, the size, each ELF file (processor, libraries, symbols of glibc, exported names, a stack that is not
executable, no search path of its own), the licences, the command, and what auditwheel thinks of it.
"""

from __future__ import annotations

import importlib.util
import io
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import Symbol, SymbolTableSection

ROOT = Path(__file__).resolve().parent.parent
MAX_MB = 5.0
NEWEST_GLIBC = (2, 17)
LIBRARIES = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2",
             "ld-linux-aarch64.so.1"}
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
NAME = re.compile(r"(penstock(?:_cuda)?)-([\d.]+)-(cp311-abi3|py3-none)-manylinux_2_17_(x86_64|aarch64)\.whl")
EXTENSION = "penstock/_native.abi3.so"
EXPORTS = {EXTENSION: {"PyInit__native"}, "penstock_cuda/libpenstock_cuda.so": {"penstock_cuda_library"}}
# Functions that the extension calls and must take from the system. zig's runtime library has them, too, but slower or rounded
# otherwise.
OF_SYSTEM = {"memcpy", "memmove", "memset", "memcmp", "cos", "exp", "log"}


def needed(elf: ELFFile) -> list[str]:
    return [tag.needed for section in elf.iter_sections() if isinstance(section, DynamicSection)
            for tag in section.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]


def newer_symbols(elf: ELFFile) -> list[str]:
    """Returns the versions of glibc that the file needs and that older systems lack."""
    found = []
    for section in elf.iter_sections():
        if not isinstance(section, GNUVerNeedSection):
            continue
        for _, versions in section.iter_versions():
            for version in versions:
                number = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version.name)
                if not number or (int(number[1]), int(number[2])) > NEWEST_GLIBC:
                    found.append(version.name)
    return found


def dynamic_symbols(elf: ELFFile) -> list[Symbol]:
    table = elf.get_section_by_name(".dynsym")
    assert isinstance(table, SymbolTableSection)
    return list(table.iter_symbols())


def exported(elf: ELFFile) -> set[str]:
    return {symbol.name for symbol in dynamic_symbols(elf)
            if symbol.entry.st_shndx not in ("SHN_UNDEF", "SHN_ABS") and symbol.entry.st_info.bind != "STB_LOCAL"}


def taken_in(elf: ELFFile) -> list[str]:
    """Returns functions of libc and libm that the file has linked in, though it must call the system's."""
    return sorted(OF_SYSTEM - {symbol.name for symbol in dynamic_symbols(elf) if symbol.entry.st_shndx == "SHN_UNDEF"})


def elf_findings(name: str, data: bytes, arch: str) -> list[str]:
    elf = ELFFile(io.BytesIO(data))
    found = []
    if elf.header.e_machine != MACHINES[arch]:
        found.append(f"is for {elf.header.e_machine}")
    found += [f"needs {library}" for library in needed(elf) if library not in LIBRARIES]
    found += [f"needs {version}" for version in newer_symbols(elf)]
    for segment in elf.iter_segments():
        if segment.header.p_type == "PT_GNU_STACK" and segment.header.p_flags & 1:
            found.append("wants an executable stack")
    tags = {tag.entry.d_tag for section in elf.iter_sections() if isinstance(section, DynamicSection)
            for tag in section.iter_tags()}
    found += [f"has {tag}" for tag in tags & {"DT_RPATH", "DT_RUNPATH", "DT_TEXTREL"}]
    if elf.get_section_by_name(".symtab") or elf.get_section_by_name(".debug_info"):
        found.append("is not stripped")
    if name == EXTENSION:
        found += [f"has a {function} of its own" for function in taken_in(elf)]
    if name in EXPORTS and exported(elf) != EXPORTS[name]:
        found.append(f"exports {', '.join(sorted(exported(elf) ^ EXPORTS[name])[:5])} besides what it must, or lacks it")
    return [f"{name}: {what}" for what in found]


def licence_findings(names: list[str], package: str) -> list[str]:
    wanted = {"LICENSE"}
    if package == "penstock":
        wanted.add("LICENSE.kissfft")
        for source, pin in json.loads((ROOT / "third_party" / "sources.json").read_text()).items():
            if not pin.get("tool"):
                wanted |= {f"{source}.{file}" for file in pin["licence"]}
    there = {name.rsplit("/", 1)[1] for name in names if ".dist-info/licenses/" in name}
    return [f"has no licence {name}" for name in sorted(wanted - there)]


def auditwheel_findings(wheel: Path, arch: str) -> list[str]:
    """Asks auditwheel for the oldest platform that the wheel is consistent with."""
    done = subprocess.run([sys.executable, "-m", "auditwheel", "show", str(wheel)], capture_output=True, text=True)
    text = " ".join((done.stdout + done.stderr).split())
    oldest = re.search(rf'platform tag: "manylinux_2_(\d+)_{arch}"', text)
    if done.returncode == 0 and oldest and int(oldest[1]) <= NEWEST_GLIBC[1]:
        return []
    return [f"auditwheel: {text[-600:]}"]


def abi3_findings(wheel: Path) -> list[str]:
    """Runs abi3audit, if it is installed, to check that the extension uses only the limited API."""
    if importlib.util.find_spec("abi3audit") is None:
        return []
    done = subprocess.run([sys.executable, "-m", "abi3audit", "--strict", str(wheel)], capture_output=True, text=True)
    return [] if done.returncode == 0 else [f"abi3audit: {done.stdout}{done.stderr}"]


def findings(wheel: Path) -> list[str]:
    match = NAME.fullmatch(wheel.name)
    if not match:
        return [f"{wheel.name}: not a name of our wheels"]
    package, _, abi, arch = match.groups()
    found = []
    megabytes = wheel.stat().st_size / 1e6
    if package == "penstock" and megabytes > MAX_MB:
        found.append(f"has {megabytes:.2f} MB, {MAX_MB} are allowed")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        elves = {name: archive.read(name) for name in names if archive.open(name).read(4) == b"\x7fELF"}
        if package == "penstock":
            wanted = {EXTENSION, "penstock/py.typed", "penstock/__init__.py"}
            found += [f"has no {name}" for name in sorted(wanted - set(names))]
            if not any(name.endswith(".data/scripts/penstock") for name in elves):
                found.append("has no command")
            for page in ("man/man1/penstock.1", "man/man1/penstock-view.1", "bash-completion/completions/penstock",
                         "zsh/site-functions/_penstock", "fish/vendor_completions.d/penstock.fish"):
                if not any(name.endswith(f".data/data/share/{page}") for name in names):
                    found.append(f"has no share/{page}")
        found += licence_findings(names, package)
        found += [f"carries {name}" for name in names if name.endswith((".c", ".h", ".a")) or "/tests/" in name]
    for name, data in elves.items():
        found += elf_findings(name, data, arch)
    found += auditwheel_findings(wheel, arch) if package == "penstock" else []
    found += abi3_findings(wheel) if abi == "cp311-abi3" else []
    return [f"{wheel.name}: {what}" for what in found]


def main() -> int:
    found = [finding for name in sys.argv[1:] for finding in findings(Path(name))]
    print("\n".join(found) if found else f"wheels: {len(sys.argv) - 1} are as they must be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
