"""prepare.py DATA ROOT: makes the groups as folders of one class each.

DATA holds `imagenet_folder/<class>/*.JPEG`, `clic2025/*.png`, `cityscapes/*.png`. The group of a missing part is left out.
Needs Pillow.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from PIL import Image

COPIES = 60  # real copies: few source images, but each file has its own pages in the page cache


def imagenet(data: Path, root: Path) -> None:
    for source in sorted((data / "imagenet_folder").glob("*/*.JPEG")):
        target = root / "imagenet" / source.parent.name / source.name
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def photographs(data: Path, root: Path) -> None:
    sources = sorted((data / "clic2025").glob("*.png"))
    for i in range(COPIES if sources else 0):
        k = i % len(sources)
        target = root / "photographs" / f"c{k}" / f"{i:03d}.jpg"
        if target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if i < len(sources):
            Image.open(sources[k]).convert("RGB").save(target, quality=90, subsampling="4:2:0")
        else:
            shutil.copyfile(root / "photographs" / f"c{k}" / f"{k:03d}.jpg", target)


def frames(data: Path, root: Path) -> None:
    sources = sorted((data / "cityscapes").glob("*.png"))
    for i in range(COPIES if sources else 0):
        target = root / "frames" / f"c{i % len(sources)}" / f"{i:03d}.png"
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(sources[i % len(sources)], target)


def main() -> None:
    data, root = Path(sys.argv[1]), Path(sys.argv[2])
    for make in (imagenet, photographs, frames):
        make(data, root)
        files = sorted((root / make.__name__).glob("*/*"))
        size = sum(f.stat().st_size for f in files)
        print(f"{make.__name__}: {len(files)} files, {size / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
