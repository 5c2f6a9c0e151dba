"""prepare.py DATA ROOT: makes the groups as folders of one class each.

DATA holds `imagenet_folder/<class>/*.JPEG`, `clic2025/*.png`, `cityscapes/*.png`. If one of these is missing, its group is left
out. Any other folder can be used, too: if it has none of the three, all JPEGs below it are the group imagenet, and all PNGs below
it of at least 768 x 768 pixels the group frames. Needs Pillow.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from PIL import Image

COPIES = 60  # real copies of few source images: each file has its own pages in the page cache


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


def frames(data: Path, root: Path, copies: int = COPIES, name: str = "frames") -> None:
    sources = sorted((data / "cityscapes").glob("*.png"))
    for i in range(copies if sources else 0):
        target = root / name / f"c{i % len(sources)}" / f"{i:03d}.png"
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(sources[i % len(sources)], target)


def images_below(data: Path, suffixes: tuple[str, ...]) -> list[Path]:
    return sorted(path for path in data.rglob("*") if path.suffix.lower() in suffixes and path.is_file())


def copy_any(sources: list[Path], folder: Path) -> None:
    """Copies files into one class and names them by numbers, because files of different folders may have equal names."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, source in enumerate(sources):
        target = folder / f"{i:06d}{source.suffix}"
        if not target.exists():
            shutil.copyfile(source, target)


def is_frame(path: Path) -> bool:
    with Image.open(path) as image:
        return min(image.size) >= 768


def any_folder(data: Path, root: Path) -> None:
    """Makes the groups from a folder that has none of the known parts."""
    jpegs = images_below(data, (".jpg", ".jpeg"))
    pngs = [path for path in images_below(data, (".png",)) if is_frame(path)]
    if not jpegs and not pngs:
        sys.exit(f"{data}: no JPEG, and no PNG of at least 768 x 768 pixels")
    copy_any(jpegs, root / "imagenet/all")
    copy_any(pngs, root / "frames/all")


def main() -> None:
    data, root = Path(sys.argv[1]), Path(sys.argv[2])
    known = any((data / part).is_dir() for part in ("imagenet_folder", "clic2025", "cityscapes"))
    if not known:
        any_folder(data, root)
    for make in (imagenet, photographs, frames):
        make(data, root)
        files = sorted((root / make.__name__).glob("*/*"))
        size = sum(f.stat().st_size for f in files)
        print(f"{make.__name__}: {len(files)} files, {size / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
