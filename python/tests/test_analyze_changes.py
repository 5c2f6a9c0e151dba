"""A data set that changes during an analysis causes an error that names the file, or a report that states the change first."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock as ps
from conftest import encoded, picture
from penstock import transforms as T
from penstock.report import Report
from penstock.stalls.measure import survey
from penstock.stalls.measure.loader import LoaderSubject

N, CHANGED = 40, 3  # more images than the probe reads


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    path = tmp_path / "photos"
    path.mkdir()
    for i in range(N):
        (path / f"{i:02d}.jpg").write_bytes(encoded(picture(i, 60 + i, 90 - i), "JPEG"))
    return path


def replaced(file: Path) -> None:
    """Returns another picture in a file of the same length."""
    other = encoded(picture(99, 200, 300), "JPEG", quality=1)
    new = file.with_name("new")
    new.write_bytes(other[: file.stat().st_size].ljust(file.stat().st_size, b"\0"))
    os.replace(new, file)


def shortened(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


CHANGES: dict[str, Callable[[Path], None]] = {"replaced": replaced, "removed": Path.unlink, "shortened": shortened}


def analysed(data: Path, change: Callable[[], object]) -> Report:
    """Analyses data that change after the survey and before the probe of forms."""

    def progress(line: str) -> None:
        if line == "probe of forms":
            change()

    loader = ps.Loader(data, 4, num_workers=1, transforms=[T.RandomResizedCrop(16)])
    return ps.analyze(loader, budget=1, forms=(), progress=progress)


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_whose_head_is_read(photos: Path, change: str) -> None:
    """The changed file must not be combined with the pixels that the survey saw, nor left out without a notice."""
    with ps.Dataset(photos) as dataset:
        look = survey.Look(dataset, "image", list(range(N)))
        CHANGES[change](photos / f"{CHANGED:02d}.jpg")
        found = look.survey(look.main)
        assert sorted(found.numbers) == [i for i in range(N) if i != CHANGED]
        assert len(look.lost) == 1 and f"{CHANGED:02d}.jpg" in look.lost[0]


@pytest.mark.parametrize("change", CHANGES)
def test_the_report_says_first_what_was_lost(photos: Path, change: str) -> None:
    with LoaderSubject(ps.Loader(photos, 4)) as subject:
        assert subject.mean_item_nbytes() > 0 and subject.changed() == ""
        CHANGES[change](photos / f"{CHANGED:02d}.jpg")
        subject.images(8, 1 << 20)
        says = subject.changed()
    assert says.startswith("An image could not be read any more as the data set had listed them; the first: ")
    assert f"{CHANGED:02d}.jpg" in says


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_is_read_whole_is_an_error(photos: Path, change: str) -> None:
    """The analysis reads storage again after the probe of forms."""
    with pytest.raises(ps.PenstockError, match=f"{CHANGED:02d}.jpg"):
        analysed(photos, lambda: CHANGES[change](photos / f"{CHANGED:02d}.jpg"))


def test_a_data_set_that_is_repacked_meanwhile(photos: Path, tmp_path: Path) -> None:
    """Open readers keep the old shards, so all figures are of one state, and the report says that it describes the old state."""
    path = tmp_path / "photos.pst"
    ps.pack(photos, path, forms=["original"])
    report = analysed(path, lambda: ps.repack(path, forms=["pli-jpeg"]))
    subject = report.data["subject"]
    says = "The data set was changed while it was measured, and the figures are those of its old state."
    assert subject["form"] == "jpeg" and subject["nbytes"] == pytest.approx(sum(f.stat().st_size for f in photos.iterdir()), abs=1)
    assert report.data["changed"] == says and report.data["check"]["trusted"] is False
    assert report.data["check"]["reason"].startswith(says)
    assert report.summary().startswith(f"DISTURBED, do not rely on this report. {says}")
    assert "Measure again while nobody changes the data." in report.summary() and says in report.to_html()
    assert "changed" not in analysed(path, lambda: None).data


def test_a_shard_that_is_cut(photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "photos.pst"
    ps.pack(photos, path, forms=["original"])
    shard = next(path.glob("shard-*"))
    with pytest.raises(ps.PenstockError, match=shard.name):
        analysed(path, lambda: shortened(shard))
