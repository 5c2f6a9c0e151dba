"""The data of bench/endtoend: frames, ImageNet as JPEG and as lossy WebP, photographs with boxes, and sound.

    frames     2048 x 1024, PNG, crops of 768; some copies of each
    imagenet   JPEG, RandomResizedCrop(224)
    webp       the same pixels as lossy WebP of quality WEBP_QUALITY; the PSNR to the JPEG's pixels is measured and printed
    boxes      JPEG with boxes; the recipe of detection of bench/tasks (SSD, 300 x 300)
    audio      clips of 1 s at 8 kHz out of 30 s in stereo at 44.1 kHz, WAV; the clips of bench/audio
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH), *(str(BENCH / name) for name in ("cache", "fed", "tasks", "audio", "records"))]
import runner  # noqa: E402,F401 (it puts bench/loader in reach)
import common  # noqa: E402
import recipes  # noqa: E402

FRAMES, CLIPS, CLIP_S = 24, 24, 30
COPIES = 4  # copies of each JPEG: with one copy an epoch has nine batches, too few to compare rates
WEBP_QUALITY, WEBP_PSNR = 90, "webp-psnr.json"


@dataclass(frozen=True)
class Set:
    name: str
    title: str
    work: common.Work  # for sound only: its folder, and the samples of a batch
    pixels: int  # pixels of a sample as the network gets it; 0: sound

    def files(self) -> list[Path]:
        """Returns the files that hold the set's samples."""
        return sorted(path for path in self.work.root.rglob("*.wav")) if self.name == "audio" else self.work.files()


def sets(data: Path, folder: Path) -> dict[str, Set]:
    def work(name: str, batch: int, size: int, resized: bool, jpeg: bool) -> common.Work:
        return common.Work(name, folder / name, batch, size, resized, jpeg)

    detect = recipes.tasks(data, folder)["detect"]
    found = (Set("frames", "frames, PNG", work("frames", 8, 768, False, False), 768 * 768),
             Set("imagenet", "ImageNet, JPEG", work("imagenet", 64, 224, True, True), 224 * 224),
             Set("webp", "ImageNet, lossy WebP", work("webp", 64, 224, True, False), 224 * 224),
             Set("boxes", "photographs with boxes, JPEG", detect, 300 * 300),
             Set("audio", "sound, WAV", work("audio", 16, 8000, False, False), 0))
    return {each.name: each for each in found}


def make_webp(source: Path, target: Path) -> None:
    """Encodes all JPEGs below `source` as WebP, and writes down the PSNR."""
    import json

    import numpy as np
    from PIL import Image

    squares, n = 0.0, 0
    for path in sorted(source.glob("*/*")):
        image = Image.open(path).convert("RGB")
        out = target / path.parent.name / f"{path.stem}.webp"
        out.parent.mkdir(parents=True, exist_ok=True)
        image.save(out, quality=WEBP_QUALITY, method=4)
        gap = np.asarray(image, np.float64) - np.asarray(Image.open(out).convert("RGB"), np.float64)
        squares, n = squares + float((gap * gap).sum()), n + gap.size
    (target.parent / WEBP_PSNR).write_text(json.dumps(round(float(10 * np.log10(255 * 255 * n / squares)), 2)))


def prepare(data: Path, folder: Path, names: list[str]) -> None:
    """Makes the files of the sets if they do not exist."""
    import make_clips
    import prepare as frames
    from workloads import copy_imagenet

    folder.mkdir(parents=True, exist_ok=True)

    def copied(path: Path) -> None:
        path.mkdir()
        frames.frames(data, path.parent, FRAMES, path.name)

    if "frames" in names:
        common.made(folder / "frames", copied)
    if {"imagenet", "webp"} & set(names):
        common.made(folder / "imagenet", lambda path: copy_imagenet(data, path, COPIES))
    if "webp" in names:
        common.made(folder / "webp", lambda path: make_webp(folder / "imagenet", path))
    if "audio" in names:
        for i in range(CLIPS):
            path = folder / "audio" / str(i % make_clips.CLASSES) / f"{i:04d}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            common.made(path, lambda made, i=i: make_clips.write_wav(made, make_clips.make_sound(i, CLIP_S, 44100), 44100))
