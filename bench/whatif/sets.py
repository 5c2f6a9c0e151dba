"""The two data sets of the bench, each as a user has it: a folder of files in one form.

    imagenet    ImageNet JPEGs as published; RandomResizedCrop(224)
    frames      windows of 1024 x 512 pixels, cut out of street scenes at drawn places, as PNG; RandomCrop(384)

`pack` makes the other forms of a set with `penstock pack`.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

WINDOW, N_WINDOWS = (1024, 512), 96
SCENES = ("cityscapes", "hrstereo", "nuscenes_png")
OWN = {"imagenet": "jpeg", "frames": "png"}
OTHERS = {"imagenet": ("pli-jpeg", "pli-small", "raw"), "frames": ("pli-fast", "pli-small", "raw")}
BATCHES = {"imagenet": 16, "frames": 8}
CROPS = {"imagenet": ("RandomResizedCrop", 224), "frames": ("RandomCrop", 384)}
PACK = {"pli-jpeg": ["--form", "pli-jpeg"], "pli-fast": ["--form", "pli", "--tier", "fast", "--of-lossy"],
        "pli-small": ["--form", "pli", "--tier", "small", "--of-lossy"], "raw": ["--form", "raw"]}  # fmt: skip
# Bytes of a form as a part of the files' bytes, or of the pixels'. Rates and caches of cells are drawn around them, so they need
# not be right; no prediction knows them.
OF_FILES, OF_PIXELS = {"jpeg": 1.0, "png": 1.0, "pli-jpeg": 0.85}, {"pli-fast": 0.5, "pli-small": 0.45, "raw": 1.0}


@dataclass(frozen=True)
class Set:
    """The facts about a data set that are known before anything is packed.

    Attributes:
        name, own, others: its name, the form of its files, and the forms that are asked about.
        samples: number of files, a multiple of the batch.
        batch: number of samples in a batch.
        nbytes, pixel_nbytes: bytes of all files, and of their decoded pixels.
    """

    name: str
    own: str
    others: tuple[str, ...]
    samples: int
    batch: int
    nbytes: int
    pixel_nbytes: int

    @property
    def forms(self) -> tuple[str, ...]:
        return (self.own, *self.others)

    def about(self, form: str) -> float:
        """Estimates the bytes of the set in a form."""
        return self.nbytes * OF_FILES[form] if form in OF_FILES else self.pixel_nbytes * OF_PIXELS[form]

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def chain_of(name: str) -> list[Any]:
    """Returns the transforms of a set's training."""
    import penstock as ps
    from penstock import transforms as T

    kind, side = CROPS[name]
    return [getattr(T, kind)(side), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]


def loader_of(name: str, data: Path, place: dict[str, Any] | None = None, **options: Any) -> Any:
    """Returns the loader of a set's training, with a worker for each core. place: where batches are made, in the words of a
    configuration.
    """
    import penstock as ps

    given = {"cache": None, "fleet": None, "prefetch": 2, "transforms": chain_of(name), **options}
    return ps.Loader.from_config(place or {"output": "numpy"}, dataset=str(data), batch_size=BATCHES[name], shuffle=True,
                                 fields=["image"], **given)  # fmt: skip


# Folders -------------------------------------------------------------------------------------------------


def make(name: str, data: Path, folder: Path) -> Set:
    """Makes the folder of a set if it does not exist. Returns the facts about it. `data` is the folder of source images."""
    if not folder.exists():
        half = folder.with_name(folder.name + ".part")
        half.mkdir(parents=True, exist_ok=True)
        _make_imagenet(data, half) if name == "imagenet" else _make_frames(data, half)
        half.rename(folder)
    return look(name, folder)


def _make_imagenet(data: Path, folder: Path) -> None:
    files = sorted((data / "imagenet_folder").rglob("*.JPEG"))
    for file in files[: len(files) // BATCHES["imagenet"] * BATCHES["imagenet"]]:
        (folder / file.name).write_bytes(file.read_bytes())


def _make_frames(data: Path, folder: Path) -> None:
    from PIL import Image

    scenes = [file for group in SCENES for file in sorted((data / group).glob("*.png"))]
    draw = random.Random("frames")
    for k, file in enumerate(scenes):
        with Image.open(file) as scene:
            for i in range(k, N_WINDOWS, len(scenes)):
                left, top = (draw.randrange(whole - part + 1) for whole, part in zip(scene.size, WINDOW, strict=True))
                scene.crop((left, top, left + WINDOW[0], top + WINDOW[1])).save(folder / f"{i:03d}.png")


def look(name: str, folder: Path) -> Set:
    """Returns the facts about a folder, from the names, sizes and headers of its files."""
    from PIL import Image

    files = sorted(file for file in folder.iterdir() if file.is_file())
    pixel_nbytes = 0
    for file in files:
        with Image.open(file) as image:
            pixel_nbytes += image.width * image.height * len(image.getbands())
    nbytes = sum(file.stat().st_size for file in files)
    return Set(name, OWN[name], OTHERS[name], len(files), BATCHES[name], nbytes, pixel_nbytes)


# Forms ---------------------------------------------------------------------------------------------------


def stored(name: str, form: str) -> str:
    """Returns the name of a set's packed form below the work folder."""
    return name if form == OWN[name] else f"{name}-{form}.pst"


def pack(name: str, form: str, work: Path) -> dict[str, Any]:
    """Packs a form if it does not exist. Returns the command and its seconds (0: it existed)."""
    target = work / stored(name, form)
    words = ["penstock", "pack", name, target.name, *PACK[form]]
    if target.exists():
        return {"command": " ".join(words), "seconds": 0.0}
    half = target.with_name(target.name + ".part")
    program = Path(sys.executable).with_name("penstock")
    start = time.perf_counter()
    subprocess.run([str(program), "pack", "--quiet", name, half.name, *PACK[form], *(["--resume"] if half.exists() else [])],
                   cwd=work, check=True)  # fmt: skip
    half.rename(target)
    return {"command": " ".join(words), "seconds": round(time.perf_counter() - start, 1)}
