"""Shared by the peers of the comparison: the groups of images, the crop rule, the clocks.

A peer is a module `peer_<name>.py` with

    NAME, versions() -> dict
    batches(work, store, threads)  -> endless iterator of (images, labels), f32 NCHW, normalised
    evaluate(work, store, files)   -> f32 (n, 3, S, S): the same files by a rule without randomness

and optionally, instead of these defaults,

    prepare(work) -> Path   makes, once, the peer's input (`store`); without it that is the folder of images
    AREA = False            True: its antialiased resize averages areas; else a triangle filter, as Pillow's
    DECODES = True          False: it keeps pixels, so its figures are separate from those of decoders

`evaluate` is compared with Pillow before anything is timed. A peer raises `Unavailable` for work that it cannot do.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import math
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Unavailable(Exception):
    """The peer cannot take part, for the given reason."""


@dataclass(frozen=True)
class Work:
    """One group of images: `root` holds one folder per class; crops are `size` pixels square."""

    name: str
    root: Path
    batch: int
    size: int
    resized: bool  # else RandomCrop(size) without a resize
    jpeg: bool  # else PNG

    def files(self) -> list[Path]:
        return sorted(p for p in self.root.glob("*/*") if p.is_file())

    def labels(self) -> list[int]:
        names = sorted({p.parent.name for p in self.files()})
        return [names.index(p.parent.name) for p in self.files()]

    def store(self, what: str) -> Path:
        """Returns the folder of a peer's own copy of the group. A group that has grown gets another one."""
        return self.root.parent / f"{self.name}-{len(self.files())}.{what}"


def works(root: Path) -> dict[str, Work]:
    return {
        "imagenet": Work("imagenet", root / "imagenet", 64, 224, True, True),
        "photographs": Work("photographs", root / "photographs", 16, 224, True, True),
        "frames": Work("frames", root / "frames", 8, 768, False, False),
    }


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def made(path: Path, make: Callable[[Path], object]) -> Path:
    """Returns `path`, made by make(path) if it does not exist. An incomplete one never has that name."""
    if not path.exists():
        unfinished = path.with_name("unfinished-" + path.name)
        remove(unfinished)
        make(unfinished)
        unfinished.rename(path)
    return path


def random_box(width: int, height: int) -> tuple[int, int, int, int]:
    """Returns left, top, width, height of torchvision's RandomResizedCrop (scale 0.08 to 1, ratio 3/4 to 4/3)."""
    low, high = math.log(3 / 4), math.log(4 / 3)
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(low, high))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    w, h = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
    return (width - w) // 2, (height - h) // 2, w, h


def center_box(width: int, height: int, size: int) -> tuple[int, int, int, int]:
    return round((width - size) / 2), round((height - size) / 2), size, size


def area_means(array, size: int):
    """Resizes the first axis to `size`. Each new sample is the mean of the samples that it covers, also in part."""
    import numpy as np

    sums = np.concatenate([np.zeros_like(array[:1]), np.cumsum(array, axis=0)])
    edges = np.arange(size + 1) * (len(array) / size)
    below = np.minimum(edges.astype(int), len(array) - 1)
    part = (edges - below).reshape(-1, *[1] * (array.ndim - 1))
    return np.diff(sums[below] + part * (sums[below + 1] - sums[below]), axis=0) * (size / len(array))


def resized(image, size: int, area: bool):
    import numpy as np
    from PIL import Image

    if not area:
        return image.resize((size, size), Image.Resampling.BILINEAR)
    rows = area_means(np.asarray(image, np.float64), size)
    return Image.fromarray(np.rint(area_means(rows.swapaxes(0, 1), size).swapaxes(0, 1)).astype(np.uint8))


def reference(work: Work, files: list[Path], area: bool = False):
    """Returns the expected result of `evaluate`: the whole image, decoded by Pillow, resized to size x size, or its centre
    crop."""
    import numpy as np
    from PIL import Image

    out = np.empty((len(files), 3, work.size, work.size), np.float32)
    for i, path in enumerate(files):
        image = Image.open(path).convert("RGB")
        if work.resized:
            image = resized(image, work.size, area)
        left, top, width, height = center_box(*image.size, work.size)
        crop = np.asarray(image.crop((left, top, left + width, top + height)), np.float32)
        crop = (crop / 255 - np.array(MEAN, np.float32)) / np.array(STD, np.float32)
        out[i] = crop.transpose(2, 0, 1)
    return out


def process_tree() -> dict[int, float]:
    """Returns CPU seconds (own and of reaped children) of this process and all below it."""
    parents: dict[int, tuple[int, float]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            text = Path(f"/proc/{entry}/stat").read_text()
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        parents[int(entry)] = (int(fields[1]), sum(map(int, fields[11:15])) / CLOCK_TICKS)
    keep, grew = {os.getpid()}, True
    while grew:
        new = {p for p, (parent, _) in parents.items() if parent in keep and p not in keep}
        grew = bool(new)
        keep |= new
    return {p: parents[p][1] for p in keep if p in parents}


def end_at_once() -> NoReturn:
    """Ends this process and all below it: some peers hang when they end their threads."""
    for pid in process_tree():
        if pid != os.getpid():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    sys.stdout.flush()
    os._exit(0)


def cpu_seconds() -> float:
    return sum(process_tree().values())


def machine_seconds() -> tuple[float, float]:
    """Returns busy and stolen CPU seconds of the whole machine so far."""
    with open("/proc/stat") as stat:
        ticks = [int(x) / CLOCK_TICKS for x in stat.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4] - ticks[7], ticks[7]


def forget_peak_rss() -> None:
    """Resets the peak of memory, because the comparison of the output is not the loader's."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        print(f"peak memory counts the checks too: {error}", file=sys.stderr)


def peak_rss_mb() -> float:
    """Returns the sum of the peaks of all processes of the tree (shared pages count once per process)."""
    total = 0
    for pid in process_tree():
        try:
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmHWM"):
                    total += int(line.split()[1])
        except OSError:
            pass
    return total / 1024


def stored_mb(store: Path) -> float:
    files = [store] if store.is_file() else [p for p in store.rglob("*") if p.is_file()]
    return sum(p.stat().st_size for p in files) / 1e6


def libraries() -> dict[str, str]:
    """Returns versions of the codec libraries that Penstock links, from pkg-config."""
    versions = {}
    for name in ("libjpeg", "libpng", "zlib", "libdeflate", "libwebp", "libxxhash", "liburing"):
        try:
            found = subprocess.run(["pkg-config", "--modversion", name], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            break
        if found.returncode == 0:
            versions[name] = found.stdout.strip()
    return versions


def chosen(text: str, known) -> list[str]:
    """Returns the known names that match one of the patterns, which commas separate. Each has to match one."""
    for pattern in text.split(","):
        if not fnmatch.filter(known, pattern):
            sys.exit(f"{pattern}: none of {', '.join(known)}")
    return [name for name in known if any(fnmatch.fnmatch(name, pattern) for pattern in text.split(","))]


def disk_nbytes() -> int:
    """Returns the bytes that this process and all below it have read from disks."""
    total = 0
    for pid in process_tree():
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{pid}/io").read_text().split("read_bytes: ")[1].split()[0])
    return total


def run_cell(command: list[str], env: dict[str, str], limit_s: float, join: Callable[[], None] | None = None) -> dict:
    """Returns the figures of one cell, which its process prints as the last line of JSON, or {"absent": reason}. The process
    calls `join` first."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
                               start_new_session=True, preexec_fn=join)
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return {"absent": f"no result within {limit_s:g} s"}
    finally:
        if process.poll() is None:  # and its workers
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if process.returncode or not lines:
        return {"absent": (errors.strip().splitlines() or [f"exit status {process.returncode}"])[-1][:200]}
    return json.loads(lines[-1])


def write(stem: Path, result: dict, table: str) -> None:
    """Writes the figures to <stem>.json and the table to <stem>.md, and prints the table."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    stem.with_suffix(".md").write_text(table)
    print(table)


def machine() -> dict:
    """Describes machine, versions, commit and date of the figures."""
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    commit = subprocess.run(["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"],
                            capture_output=True, text=True, check=False).stdout.strip()
    return {"cpu": model, "cores": os.cpu_count(), "system": platform.platform(), "python": sys.version.split()[0],
            "commit": commit, "libraries": libraries(), "date": time.strftime("%Y-%m-%d", time.gmtime())}
