"""What every peer of the comparison shares: the workloads, the crop rule, the clocks.

A peer is a module `peer_<name>.py` with

    NAME, versions() -> dict
    batches(work, threads)  -> endless iterator of (images, labels), f32 NCHW, normalised
    evaluate(work, files)   -> f32 (n, 3, S, S): the same files by a rule without randomness

`evaluate` is compared with Pillow before anything is timed.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Work:
    """One workload: `root` holds one folder per class; crops are `size` pixels square."""

    name: str
    root: Path
    batch: int
    size: int
    resized: bool  # RandomResizedCrop(size); else RandomCrop(size) without a resize

    def files(self) -> list[Path]:
        return sorted(p for p in self.root.glob("*/*") if p.is_file())

    def labels(self) -> list[int]:
        names = sorted({p.parent.name for p in self.files()})
        return [names.index(p.parent.name) for p in self.files()]


def works(root: Path) -> dict[str, Work]:
    return {
        "jpeg": Work("jpeg", root / "jpeg", 64, 224, True),
        "frames": Work("frames", root / "frames", 8, 768, False),
        "photos": Work("photos", root / "photos", 16, 224, True),
    }


def reference(work: Work, files: list[Path]):
    """What `evaluate` must give, by Pillow: the whole image resized to size x size, or its centre crop."""
    import numpy as np
    from PIL import Image

    out = np.empty((len(files), 3, work.size, work.size), np.float32)
    for i, path in enumerate(files):
        image = Image.open(path).convert("RGB")
        if work.resized:
            image = image.resize((work.size, work.size), Image.BILINEAR)
        width, height = image.size
        left, top = round((width - work.size) / 2), round((height - work.size) / 2)
        crop = np.asarray(image.crop((left, top, left + work.size, top + work.size)), np.float32)
        crop = (crop / 255 - np.array(MEAN, np.float32)) / np.array(STD, np.float32)
        out[i] = crop.transpose(2, 0, 1)
    return out


def process_tree() -> dict[int, float]:
    """CPU seconds (own and of reaped children) of this process and all below it."""
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


def cpu_seconds() -> float:
    return sum(process_tree().values())


def machine_seconds() -> tuple[float, float]:
    """Busy and stolen CPU seconds of the whole machine so far."""
    with open("/proc/stat") as stat:
        ticks = [int(x) / CLOCK_TICKS for x in stat.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4] - ticks[7], ticks[7]


def peak_rss_mb() -> float:
    """Sum of the peaks of all processes of the tree (shared pages count once per process)."""
    total = 0
    for pid in process_tree():
        try:
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmHWM"):
                    total += int(line.split()[1])
        except OSError:
            pass
    return total / 1024


def machine() -> dict:
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    commit = subprocess.run(["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"],
                            capture_output=True, text=True, check=False).stdout.strip()
    return {"cpu": model, "cores": os.cpu_count(), "system": platform.platform(), "python": sys.version.split()[0],
            "commit": commit, "date": time.strftime("%Y-%m-%d", time.gmtime())}


def write_json(path: str | None, value: object) -> None:
    if path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(value, indent=1) + "\n")
