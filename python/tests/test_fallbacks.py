"""Every fall-back of a loader is shown in stats(), and an unknown CPU mask is an error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

import penstock as ps
from flat import keywords
from penstock import transforms as T


def after_an_epoch(dataset: Path, **options: object) -> dict:
    with ps.Loader(dataset, **keywords(batch_size=4, num_workers=2, **options)) as loader:
        for _ in loader:
            pass
        return loader.stats()


def machine_less(fallbacks: dict[str, int]) -> dict[str, int]:
    """Returns the fall-backs without those that depend on this machine."""
    return {name: n for name, n in fallbacks.items() if name not in ("huge_pages", "cpu")}


def test_fall_backs_are_named_and_counted(folder: Path):
    stats = after_an_epoch(folder, transforms=[T.Resize((32, 32))], scaled_decode=True)
    assert machine_less(stats["fallbacks"]) == {"scaled": 24}  # no image is kept as pli-jpeg
    assert "scaled_decode has no effect" in stats["fallback_reasons"]["scaled"]
    assert stats["fallbacks"].keys() == stats["fallback_reasons"].keys()
    stats = after_an_epoch(folder, transforms=[T.Resize((32, 32))])
    assert machine_less(stats["fallbacks"]) == {}
    for room in ("augment", "pli", "png"):
        assert f"{room} " in stats["cpu_rooms"]


def test_progressive_jpegs_are_counted(tmp_path: Path):
    for i in range(8):
        pixels = np.random.default_rng(i).integers(0, 256, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{i}.jpg", progressive=i % 2 == 0)
    stats = after_an_epoch(tmp_path, transforms=[T.Resize((32, 32))])
    wanted = {"libjpeg": 4} if "pli c" not in stats["cpu_rooms"] else {}
    assert machine_less(stats["fallbacks"]) == wanted


def test_an_unknown_mask_is_an_error(run):
    run(
        """
        import os
        os.environ["PENSTOCK_CPU_MASK"] = "sse9"
        import penstock as ps
        for wrong in (lambda: ps.Loader(folder), lambda: ps.Dataset(folder)):
            try:
                wrong()
            except ps.errors.ArgumentError as error:
                assert 'PENSTOCK_CPU_MASK is "sse9": c, avx2, avx512 or neon is expected' in str(error), error
            else:
                raise AssertionError("nothing was said")
        """
    )
