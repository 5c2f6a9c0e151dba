#!/usr/bin/env python3
"""Checks the walls between rooms: compares #include lines, and words that name a processor, with the tables below.

    scripts/check_rooms.py [--root DIR]

A finding is printed as file:line: what; the exit status is 1 if there is any. ARCHITECTURE.md tells the reasons.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

# The rooms whose doors each room under src/ may open. Every room sees itself and <penstock/...>.
FOUNDATION = {"base", "format", "options"}
WALLS = {
    "base": set(),
    # It has the tables that describe all options.
    "options": {"base"},
    "format": {"base"},
    "storage": FOUNDATION,
    "stall": FOUNDATION,
    "plan": FOUNDATION | {"stall"},
    "cache": FOUNDATION,
    "fleet": FOUNDATION,
    # Walks over the files of other people.
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
    # The client of the host service, and what both sides of its socket know.
    "share": FOUNDATION | {"cache", "dataset"},
    # It does the work of decode and augment on a GPU, by their plans.
    "gpu": FOUNDATION | {"pli", "decode", "augment"},
    "loader": FOUNDATION | {"storage", "cache", "fleet", "dataset", "order", "pli", "decode", "augment", "sound",
                            "batch", "device", "gpu", "share", "stall"},
    "images": FOUNDATION | {"dataset", "cache", "decode", "pli", "share"},
    "writer": FOUNDATION | {"dataset", "pli", "decode"},
    "verify": FOUNDATION | {"dataset", "pli", "decode"},
    "pack": FOUNDATION | {"dataset", "pli", "decode", "augment", "writer", "verify"},
    # The host service: it prepares batches by ordinary loaders, and reads items for the host cache.
    "serve": FOUNDATION | {"share", "cache", "dataset", "storage", "order", "batch", "decode", "loader"},
}
# Folders inside a room, with the other folders of the room that each may open. A folder below one of these belongs to it.
PARTS = {
    "pli": {
        "format": set(),
        "decode": {"format"},
        "encode": {"format"},
        "jpegfile": {"format", "encode"},
    },
    "decode": {
        "audio": set(),
        "png": set(),
    },
    # The floors of the loader. Files of the room itself are the door, and what all floors see: plan, sources, workers.
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
# Only some files under src/ may name a processor or include its intrinsics: those in folders of kernels for one family of
# processors, kernels of rooms that have no such folders (they bear the level in their names), base/, and the tables of
# kernels, which choose a level.
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
# The headers that a room shows to others. All headers of base and format are doors. A name that ends with a slash stands for
# all headers of that folder.
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
    "sound": {"sound.h"},
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
# Headers that only some files of a room may include, and these files, by their paths in the room.
INNER_WALLS = {
    "loader": {
        r"gpu/.*|loader/placement/loader_(gpu|pin)\.h": r"placement/.*",
        r"device/.*": r"placement/.*|loader_environment\.c",
    },
}
# Folders outside src/ that see only <penstock/...> and their own files.
FRONT_DOOR_ONLY = ("tools", "bench", "examples", "python")
# Benchmarks of a room's kernels choose CPU levels in one process, which the front door does not offer.
# The one of the kernels for GPUs has no loader around them.
ROOM_BENCHES = {"bench/bench_augment.c": {"base", "augment"},
                "bench/bench_cache.c": {"cache"},
                "bench/bench_fleet.c": {"fleet", "format"},
                "bench/gpu/bench_gpu.c": {"base", "augment", "decode", "device", "gpu", "pli"},
                "bench/gpu/gpu_l3.h": {"gpu"}, "bench/l3/l3.cu": {"gpu"}}
# The Python package calls the solver and the what-if model, which no C program does: functions of the private node of
# src/penstock.map.
ROOM_BINDINGS = {"native_plan.c": {"plan", "stall"}, "native_stall.c": {"stall"}, "native_yaml.c": {"containers"}}
# Folders of tests that belong to no room, or need several: the rooms that they may see, with their inner headers.
HOUSE_TESTS = {
    "cli": set(), "headers": set(), "install": set(), "scripts": set(), "fuzz_replay": set(),
    "golden": {"base", "format", "decode", "pli"}, "fault": {"base"}, "fuzz": set(WALLS),
    "kernels": {"base", "format", "augment", "decode", "gpu", "pli"},
    "gpu": {"base", "augment", "decode", "device", "gpu", "pli"},
    "l3": {"l3"},  # bench/l3, a peer's codec
}
# Headers of other libraries that only the named rooms may include, so that a library can be exchanged in one place.
OWNED = {
    r"semaphore\.h|threads\.h": {"base"},
    r"sys/socket\.h|sys/un\.h": {"fleet", "share", "serve"},
    r"sys/epoll\.h": {"serve"},
    r"sys/eventfd\.h": {"storage", "serve", "fleet"},
    r"xxhash\.h": {"base"},
    r"liburing\.h|linux/io_uring\.h|sys/uio\.h": {"storage"},
    r"zlib\.h": {"base", "pli", "decode"},
    r"libdeflate\.h": {"base", "decode"},
    # Lanes of a CPU, which whoever builds the kernels there brings: tests/kernels/host.
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
    """Checks an #include of a file of the same room, from its folder `part` ("" is the room's own)."""
    parts = PARTS.get(room, {})
    other = name.partition("/")[0]
    if "/" not in name or part not in parts or other == part or other in parts[part]:
        return None
    return f"{room}/{part} may not open {room}/{other}"


def inner_problem(room: str, path: str, header: str) -> str | None:
    """Checks an #include in the file `path` of a room that keeps some headers to a part of itself."""
    for headers, files in INNER_WALLS.get(room, {}).items():
        if re.fullmatch(headers, header) and not re.fullmatch(files, path):
            return f'"{header}" is for {files} of {room} alone'
    return None


def room_problem(room: str, header: str) -> str | None:
    """Checks an #include "..." in src/<room>/, or in tests/<room>/, which has the same walls."""
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
    """Checks an #include "..." of tools, bench, examples, python: only files beside it, or below its own top folder."""
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
