#!/usr/bin/env python3
"""Checks which room (folder under src/) may include which: compares #include lines, and words that name a processor, with the
tables below.

    scripts/check_rooms.py [--root DIR]

A finding is printed as file:line: what; the exit status is 1 if there is any. The reasons are in ARCHITECTURE.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

# The rooms whose public headers ("doors") each room under src/ may include. Every room may include its own headers and
# <penstock/...>.
FOUNDATION = {"base", "format", "options"}
WALLS = {
    "base": set(),
    # options/ has the tables that describe all options.
    "options": {"base"},
    "format": {"base"},
    "storage": FOUNDATION,
    "stall": FOUNDATION,
    "plan": FOUNDATION | {"stall"},
    "cache": FOUNDATION,
    "fleet": FOUNDATION,
    # containers/ walks over files that other programs wrote.
    "containers": FOUNDATION,
    "dataset": FOUNDATION | {"containers"},
    "order": FOUNDATION,
    # The codec can be used alone: it needs only base/ and format/.
    "pli": {"base"},
    "decode": FOUNDATION | {"pli"},
    "augment": FOUNDATION,
    "sound": FOUNDATION,
    "batch": FOUNDATION,
    "device": FOUNDATION,
    # The client of the host service, and what both ends of its socket share.
    "share": FOUNDATION | {"cache", "dataset"},
    # gpu/ does the work of decode/, augment/ and sound/ on a GPU, by plans that they make.
    "gpu": FOUNDATION | {"pli", "decode", "augment", "sound"},
    "loader": FOUNDATION | {"storage", "cache", "fleet", "dataset", "order", "pli", "decode", "augment", "sound",
                            "batch", "device", "gpu", "share", "stall"},
    "images": FOUNDATION | {"dataset", "cache", "decode", "pli", "share"},
    "writer": FOUNDATION | {"dataset", "pli", "decode"},
    "verify": FOUNDATION | {"dataset", "pli", "decode"},
    "pack": FOUNDATION | {"dataset", "pli", "decode", "augment", "writer", "verify"},
    # The host service: it prepares batches by ordinary loaders, and reads items for the host cache.
    "serve": FOUNDATION | {"share", "cache", "dataset", "storage", "order", "batch", "decode", "loader"},
}
# Folders inside a room, with the other folders of the room that each may include. Folders below them follow the same rule.
PARTS = {
    "pli": {
        "format": set(),
        "decode": {"format"},
        "encode": {"format"},
        "jpegfile": {"format", "encode"},
        "jpegpixels": {"format", "decode", "jpegfile"},
    },
    "decode": {
        "audio": set(),
        "png": set(),
    },
    # The folders of the loader. Files directly in the room are its door, and what all its folders may include: plan, sources,
    # workers.
    "loader": {
        "tiers": {"placement"},
        "rows": {"tiers", "placement"},
        "epoch": {"rows", "tiers", "placement"},
        "placement": {"rows", "tiers", "epoch"},
    },
    "gpu": {
        "work": set(),
        "kernels": {"work"},
    },
}
# Only some files under src/ may name a processor or include its intrinsics: files in folders of kernels for one processor family,
# kernels with a level in their names (in rooms without such folders), base/, and the tables of kernels, which choose a level.
ARCH_WORDS = re.compile(r"\b(__x86_64__|__aarch64__|__ARM_NEON|immintrin\.h|arm_neon\.h)\b")
ARCH_FOLDERS = {"x86", "arm"}
ARCH_NAMES = {"augment": r"augment_kernels_(avx2|avx512|icl|neon)\.c", "decode": r"decode_png_unfilter_(avx2|neon)\.c",
              "images": r"images_colors_avx2\.c", "sound": r"sound_kernels_avx2\.c"}
KERNEL_TABLES = {
    "src/augment/kernels/augment_kernels.c",
    "src/decode/png/decode_png_unfilter_levels.c",
    "src/images/images_colors.c",
    "src/pli/decode/pli_kernels.c",
    "src/pli/encode/pli_encode_kernels.c",
    "src/pli/jpegfile/pli_jpeg_file_kernels.c",
    "src/sound/sound_kernels.c",
}
# The headers that other rooms may include. All headers of base and format are among them. A name that ends with a slash means all
# headers of that folder.
DOORS = {
    "options": {"options_members.h"},
    "storage": {"storage.h"},
    "cache": {"cache.h"},
    "fleet": {"fleet.h"},
    "containers": {"containers_fields.h", "containers_kinds.h", "list/containers_foreign.h", "list/containers_list.h",
                   "containers_walk.h", "containers_writer.h", "record/containers_record.h"},
    "dataset": {"dataset.h", "dataset_members.h"},
    "order": {"order.h"},
    "pli": {"pli.h", "format/"},
    "decode": {"decode.h", "decode_audio.h", "decode_recode.h"},
    "augment": {"augment.h", "augment_recipe.h"},
    "sound": {"sound.h", "sound_features.h"},
    "batch": {"batch.h"},
    "device": {"device.h"},
    "gpu": {"gpu.h"},
    "stall": {"stall_meter.h", "stall_predict.h", "stall_trace.h"},
    "plan": {"plan_solve.h"},
    "loader": {"loader.h", "tiers/loader_training.h"},
    "writer": {"writer.h"},
    "verify": {"verify.h"},
    "pack": set(),
    "share": {"share.h", "share_cache.h", "share_cache_wire.h", "share_control_wire.h", "share_dataset_options.h", "share_host.h",
              "share_life.h", "share_link.h", "share_wire.h"},
    "serve": set(),
}
# Headers that only some files of a room may include, with the paths of these files in the room.
INNER_WALLS = {
    "loader": {
        r"gpu/.*|loader/placement/loader_(gpu|pin)\.h": r"placement/.*",
        r"device/.*": r"placement/.*|loader_environment\.c",
    },
}
# Folders outside src/ that may include only <penstock/...> and their own files.
FRONT_DOOR_ONLY = ("tools", "bench", "examples", "python")
# Benchmarks that may include inner headers: they choose CPU levels in one process, which the public headers do not offer. The
# benchmark of GPU kernels runs them without a loader.
ROOM_BENCHES = {"bench/bench_augment.c": {"base", "augment"},
                "bench/bench_cache.c": {"cache"},
                "bench/bench_fleet.c": {"fleet", "format"},
                "bench/gpu/bench_gpu.c": {"base", "augment", "decode", "device", "gpu", "pli"},
                "bench/gpu/gpu_l3.h": {"gpu"}, "bench/gpu/gpu_timeline.c": {"base"}, "bench/gpu/gpu_timeline.h": {"device", "gpu"},
                "bench/l3/l3.cu": {"gpu"}}
# The Python package calls the solver and the what-if model, which no C program does. They are in the private node of
# src/penstock.map.
ROOM_BINDINGS = {"native_plan.c": {"plan", "stall"}, "native_stall.c": {"stall"}, "native_yaml.c": {"containers"}}
# Folders of tests that belong to no room or need several, with the rooms whose inner headers they may include.
HOUSE_TESTS = {
    "cli": set(), "headers": set(), "install": set(), "scripts": set(), "fuzz_replay": set(),
    "golden": {"base", "format", "decode", "pli"}, "fault": {"base"}, "fuzz": set(WALLS),
    "kernels": {"base", "format", "augment", "decode", "gpu", "pli", "sound"},
    "gpu": {"base", "augment", "decode", "device", "gpu", "pli"},
    "l3": {"l3"},  # bench/l3, a peer's codec
}
# Headers of other libraries that only the named rooms may include, so a library can be replaced in one place.
OWNED = {
    r"semaphore\.h|threads\.h": {"base"},
    r"sys/socket\.h|sys/un\.h": {"fleet", "share", "serve"},
    r"sys/epoll\.h": {"serve"},
    r"sys/eventfd\.h": {"storage", "serve", "fleet"},
    r"xxhash\.h": {"base"},
    r"liburing\.h|linux/io_uring\.h|sys/uio\.h": {"storage"},
    r"zlib\.h": {"base", "pli", "decode"},
    r"libdeflate\.h": {"base", "decode"},
    # GPU lanes emulated on a CPU. Whoever builds kernels for the CPU provides this header: tests/kernels/host.
    r"warp_host\.cuh": {"gpu"},
    r"kissfft/.*": {"sound"},
    r"jpeglib\.h|jerror\.h|turbojpeg\.h|png\.h|webp/.*": {"decode"},
}
# format/ parses and prints (snprintf). It does no file I/O, allocates no memory and starts no threads.
FORMAT_FORBIDDEN = r"stdlib\.h|unistd\.h|fcntl\.h|errno\.h|pthread\.h|malloc\.h|sys/.*"

SOURCES = {".c", ".h", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def system_problem(room: str | None, header: str) -> str | None:
    for pattern, owners in OWNED.items():
        if re.fullmatch(pattern, header) and room is not None and room not in owners:
            return f"<{header}> belongs to {', '.join(sorted(owners))}"
    if room == "format" and re.fullmatch(FORMAT_FORBIDDEN, header):
        return f"format/ is pure: no <{header}>"
    return None


def is_door(other: str, name: str) -> bool:
    return other not in DOORS or name in DOORS[other] or name.partition("/")[0] + "/" in DOORS[other]


def part_problem(room: str, part: str, name: str) -> str | None:
    """Checks an #include of a header of the same room. `part` is the folder of the including file in the room ("": the room's top
    folder).
    """
    parts = PARTS.get(room, {})
    other = name.partition("/")[0]
    if "/" not in name or part not in parts or other == part or other in parts[part]:
        return None
    return f"{room}/{part} may not open {room}/{other}"


def inner_problem(room: str, path: str, header: str) -> str | None:
    """Checks an #include in the file `path` of a header that only some files of its room may include."""
    for headers, files in INNER_WALLS.get(room, {}).items():
        if re.fullmatch(headers, header) and not re.fullmatch(files, path):
            return f'"{header}" is for {files} of {room} alone'
    return None


def room_problem(room: str, header: str) -> str | None:
    """Checks an #include "..." of a file in src/<room>/, or in tests/<room>/, for which the same rules hold."""
    other, _, name = header.partition("/")
    if not name:
        return f'"{header}": write "{room}/{header}"'
    if other not in WALLS:
        return f'"{header}": there is no room {other}'
    if other == room:
        return None
    if other not in WALLS[room]:
        return f"{room} may not open {other}'s door"
    if not is_door(other, name):
        return f'"{header}" is inside {other}; its door is {", ".join(sorted(DOORS[other]))}'
    return None


def outside_problem(path: Path, header: str, root: Path) -> str | None:
    """Checks an #include "..." of a file of tools, bench, examples or python: it may only name files beside it or below its own top
    folder.
    """
    top = root / path.relative_to(root).parts[0]
    if (path.parent / header).is_file() or any(found.is_file() for found in top.rglob(Path(header).name)):
        return None
    return f'"{header}": only <penstock/...> and its own files may be seen here'


def include_problem(path: Path, quote: str, header: str, root: Path) -> str | None:
    parts = path.relative_to(root).parts
    if parts[0] == "src":
        room = parts[1]
        if quote == "<" and header.partition("/")[0] not in WALLS:
            return system_problem(room, header)
        inside = part_problem(room, parts[2], header.partition("/")[2]) if header.startswith(room + "/") else None
        return inside or inner_problem(room, "/".join(parts[2:]), header) or room_problem(room, header)
    if parts[0] == "tests":
        if quote == "<" or (path.parent / header).is_file() or (root / "tests" / header).is_file():
            return None
        if parts[1] in WALLS and parts[1] not in HOUSE_TESTS:
            return room_problem(parts[1], header)
        allowed = HOUSE_TESTS.get(parts[1], set())
        room = header.partition("/")[0]
        return None if room in allowed else f"tests/{parts[1]} may not look into {room}"
    if parts[0] in FRONT_DOOR_ONLY:
        room = header.partition("/")[0]
        if room in WALLS:
            where = path.relative_to(root).as_posix()
            known = ROOM_BENCHES.get(where, set()) | (ROOM_BINDINGS.get(path.name, set()) if parts[0] == "python" else set())
            return None if room in known else f"{parts[0]} may not look into {room}"
        return None if quote == "<" else outside_problem(path, header, root)
    if parts[0] == "include" and quote == '"':
        return f'"{header}": public headers include <penstock/...> and the C library only'
    return None


def may_name_processors(where: Path) -> bool:
    room = where.parts[1]
    return (where.parts[0] != "src" or room == "base" or not ARCH_FOLDERS.isdisjoint(where.parts[2:-1])
            or where.as_posix() in KERNEL_TABLES or re.fullmatch(ARCH_NAMES.get(room, ""), where.name) is not None)


def check(root: Path) -> list[str]:
    findings = []
    for top in ("src", "include", "tests", *FRONT_DOOR_ONLY):
        for path in sorted(path for path in (root / top).rglob("*.*") if path.suffix in SOURCES):
            where = path.relative_to(root)
            if top == "src" and len(where.parts) > 2 and where.parts[1] not in WALLS:
                findings.append(f"{where}:1: src/{where.parts[1]} is not in the table of rooms")
                continue
            is_kernel = may_name_processors(where)
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                word = None if is_kernel else ARCH_WORDS.search(line)
                if word:
                    findings.append(f"{where}:{number}: {word[0]} is for kernels of one processor and for tables of kernels")
                match = INCLUDE.match(line)
                problem = match and include_problem(path, match[1], match[2], root)
                if problem:
                    findings.append(f"{where}:{number}: {problem}")
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    findings = check(parser.parse_args().root.resolve())
    print("\n".join(findings) if findings else "rooms: no wall is crossed")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
