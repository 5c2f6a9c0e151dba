"""Small copies of the paper's four data sets: files whose mean bytes and pixels are those of the real data sets. Each item is a
real copy.

    imagenet-1k   ImageNet JPEGs, mean of 114,660 bytes (MLPerf Storage's; 146 GB of 1.28 M files)
    imagenet-22k  the same source, smaller files: 1.3 TB of 14.2 M files
    openimages    JPEGs of 1024 x 683, mean of 322,957 bytes (MLPerf Storage's RetinaNet), made of photographs: bench/fed
    fma           stereo WAV of 44.1 kHz, made by bench/audio: 950 GB of 106,574 tracks
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import runner  # noqa: E402,F401 (it puts bench/loader in reach)
import common  # noqa: E402

ITEM_NBYTES = {"imagenet-1k": 114_660, "imagenet-22k": 1.3e12 / 14.2e6, "openimages": 322_957, "fma": 950e9 / 106_574}
COPIES = 2


@dataclass(frozen=True)
class Set:
    name: str
    folder: Path
    samples: int
    nbytes: int
    batch: int

    @property
    def item_nbytes(self) -> float:
        return self.nbytes / self.samples

    def store(self, packed: bool) -> Path:
        return self.folder.with_suffix(".pst") if packed else self.folder


def window_of(sizes: list[int], wanted: float, n: int) -> int:
    """Returns the start of the n neighbouring sizes, of the ascending ones, whose mean is nearest to the wanted mean."""
    sums = [sum(sizes[:n])]
    for i in range(len(sizes) - n):
        sums.append(sums[-1] + sizes[i + n] - sizes[i])
    return min(range(len(sums)), key=lambda i: abs(sums[i] / n - wanted))


def make_imagenet(data: Path, name: str, n: int, folder: Path) -> None:
    files = sorted((data / "imagenet_folder").glob("*/*.JPEG"), key=lambda file: (file.stat().st_size, file.name))
    n = min(n // COPIES, len(files))
    first = window_of([file.stat().st_size for file in files], ITEM_NBYTES[name], n)
    for file in files[first : first + n]:
        for i in range(COPIES):
            target = folder / file.parent.name / f"{file.stem}-{i}.JPEG"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


def make_openimages(data: Path, folder: Path) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fed"))
    import workloads

    workloads.make_retinanet(data, folder)


def make_fma(n: int, folder: Path) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "audio"))
    import make_clips

    rate = 44_100
    for i in range(n):
        target = folder / str(i % make_clips.CLASSES) / f"{i:03d}.wav"
        target.parent.mkdir(parents=True, exist_ok=True)
        make_clips.write_wav(target, make_clips.make_sound(i, ITEM_NBYTES["fma"] / (4 * rate), rate), rate)


def prepare(data: Path, work: Path, name: str, n: int) -> Set | None:
    """Makes a set of about n images (or a few long sounds), and its packed form. Returns None if its source files are missing."""
    if name == "openimages" and not any((data / "clic2025").glob("*.png")):
        return None
    folder = work / f"{name}-{n}"
    makers = {"openimages": lambda path: make_openimages(data, path), "fma": lambda path: make_fma(max(8, n // 32), path)}
    common.made(folder, makers.get(name, lambda path: make_imagenet(data, name, n, path)))
    if name != "fma":
        import penstock as ps

        common.made(folder.with_suffix(".pst"), lambda path: ps.pack(str(folder), str(path), forms=("pli-jpeg",)))
    files = [path for path in folder.glob("*/*") if path.is_file()]
    batch = 16 if name != "fma" else 4
    kept = len(files) // batch * batch
    return Set(name, folder, kept, sum(path.stat().st_size for path in files) * kept // len(files), batch)
