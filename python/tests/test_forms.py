"""Rows are divided among the forms of their samples; and loaders that get a plan."""

from __future__ import annotations

import pickle
import time

import pytest

import penstock as ps
from flat import keywords
from penstock import transforms as T

np = pytest.importorskip("numpy")
pil = pytest.importorskip("PIL.Image")

N = 50


def chain() -> list[object]:
    return [T.RandomResizedCrop(16), T.RandomHorizontalFlip()]


@pytest.fixture(scope="module")
def upright(tmp_path_factory):
    """A data set of upright pictures, each as PLI and as raw pixels."""
    folder = tmp_path_factory.mktemp("upright")
    random = np.random.default_rng(1)
    with ps.Writer(folder / "all.pst", {"image": ps.Image(["pli", "raw"])}) as writer:
        for _ in range(N):
            pixels = random.integers(0, 255, (24, 24, 3), np.uint8)
            writer.write({"image": pixels})
    return ps.Dataset(folder / "all.pst")


@pytest.fixture(scope="module")
def variants(tmp_path_factory):
    """A data set of photographs as PLI and raw pixels. Every third one is rotated by EXIF."""
    folder = tmp_path_factory.mktemp("forms")
    (folder / "files").mkdir()
    rows = np.add.outer(np.arange(40), np.arange(60))[..., None]
    for i in range(N):
        exif = pil.Exif()
        exif[0x0112] = 6 if i % 3 == 0 else 1
        pixels = ((rows * [3, 2, 1] + 5 * i) % 256).astype(np.uint8)
        pil.fromarray(pixels).save(folder / "files" / f"{i:02d}.jpg", quality=90, exif=exif)
    ps.pack(folder / "files", folder / "all.pst", forms=["pli-jpeg", "pli", "raw"], of_lossy=True)
    return ps.Dataset(folder / "all.pst")


def epoch(loader) -> list[object]:
    return [batch["image"].copy() for batch in loader]


def load(dataset, **options) -> ps.Loader:
    given = {"batch_size": 8, "shuffle": True, "seed": 3, "transforms": chain(), "output": "numpy", "cache": None, **options}
    return ps.Loader(dataset, **keywords(**given))


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("choice", ["batch", "sample", "measured"])
def test_batches_stay_the_same(variants, workers, choice) -> None:
    wanted = epoch(load(variants))
    loader = load(variants, forms={"pli": 0.5, "raw": 0.3, "pli-jpeg": 0.2}, form_choice=choice, num_workers=workers)
    for _ in range(2):
        found = epoch(loader)
    again = load(variants)
    epoch(again)
    wanted = epoch(again)
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
    forms = loader.stats()["forms"]
    rows = {name: row["rows"] for name, row in forms["by_form"].items()}
    assert sum(rows.values()) + forms["other"] == 2 * N
    # Upright copies cannot be compared with a rotated photograph pixel by pixel.
    assert forms["other"] == 0 if choice == "sample" else 0 < forms["other"] <= 2 * (N // 3 + 1)
    if choice == "sample":  # each sample has the same form in both epochs
        assert all(count % 2 == 0 for count in rows.values()) and rows["pli"] > 20


def test_each_batch_has_its_share(upright) -> None:
    loader = load(upright, forms={"pli": 0.3, "raw": 0.7}, num_workers=0, prefetch=1)
    before = 0
    for i, _ in enumerate(loader):
        rows = loader.stats()["forms"]["by_form"]["pli"]["rows"]
        assert abs(rows - 0.3 * min(8 * (i + 1), N)) < 1
        assert rows - before in (2, 3) or i == 6
        before = rows


def test_resume_and_ranks_have_the_same_forms(upright) -> None:
    whole = load(upright, forms={"pli": 1, "raw": 2}, num_workers=0, prefetch=1)
    counts = []
    for _ in whole:
        counts.append(whole.stats()["forms"]["by_form"]["pli"]["rows"])
    for stop in range(1, len(counts)):
        first = load(upright, forms={"pli": 1, "raw": 2}, num_workers=0, prefetch=1)
        batches = iter(first)
        for _ in range(stop):
            next(batches)
        state = first.state_dict()
        rest = load(upright, forms={"pli": 1, "raw": 2}, num_workers=0, prefetch=1)
        rest.load_state_dict(state)
        epoch(rest)
        assert rest.stats()["forms"]["by_form"]["pli"]["rows"] == counts[-1] - counts[stop - 1]
    for world in (2, 3):
        for r in range(world):
            loader = load(upright, forms={"pli": 1, "raw": 1}, rank=r, world_size=world, batch_size=7)
            n = 7 * sum(1 for _ in loader)
            for _ in range(20):
                n += sum(len(batch["index"]) for batch in loader)
            rows = loader.stats()["forms"]["by_form"]
            assert abs(rows["pli"]["rows"] - rows["raw"]["rows"]) <= 2 * 21  # each rank is off by less than a row an epoch


def test_forms_with_a_cache_and_whole_batches(upright) -> None:
    wanted = epoch(load(upright, drop_last=True))
    loader = load(upright, forms={"pli": 0.5, "raw": 0.5}, form_choice="sample", cache="100%", drop_last=True)
    assert all(np.array_equal(a, b) for a, b in zip(epoch(loader), wanted, strict=True))
    epoch(loader)
    epoch(loader)
    cache = loader.stats()["cache"]
    assert cache["items"] <= N  # each sample has one form, so the cache keeps only that form


def test_variants_by_number_and_missing_forms(upright, tmp_path) -> None:
    loader = load(upright, forms={0: 1, "1": 1})
    epoch(loader)
    assert loader.stats()["forms"]["by_form"] == {"0": {"share": 0.5, "rows": 25}, "1": {"share": 0.5, "rows": 25}}
    loader = load(upright, forms={"png": 1, "raw": 1})
    assert len(epoch(loader)) == 7
    assert loader.stats()["forms"]["other"] == 25


def test_forms_with_other_pixels_are_left_alone(tmp_path) -> None:
    random = np.random.default_rng(2)
    (tmp_path / "files").mkdir()
    for i in range(8):
        pil.fromarray(random.integers(0, 255, (16, 16, 3), np.uint8)).save(tmp_path / "files" / f"{i}.png")
    ps.pack(tmp_path / "files", tmp_path / "d.pst", forms=["raw", "pli"], max_error=6)
    plain = load(tmp_path / "d.pst", transforms=None)
    for choice, same in (("batch", True), ("sample", False)):
        loader = load(tmp_path / "d.pst", transforms=None, forms={"pli": 1.0}, form_choice=choice)
        equal = all(np.array_equal(a, b) for a, b in zip(epoch(loader), epoch(plain), strict=True))
        assert equal == same
        assert loader.stats()["forms"]["other"] == (8 if same else 0)


def test_shares_move_away_from_what_is_short(tmp_path) -> None:
    """If storage is slow, the form with fewer bytes gets a larger share. The batches stay the same."""
    with ps.Writer(tmp_path / "d.pst", {"image": ps.Image(["raw", "pli"])}) as writer:
        for i in range(64):
            writer.write({"image": np.full((64, 64, 3), i, np.uint8)})
    options = {"batch_size": 2, "transforms": [T.RandomCrop(60)], "num_workers": 2}
    wanted = epoch(load(tmp_path / "d.pst", **options))
    loader = load(tmp_path / "d.pst", forms={"raw": 0.9, "pli": 0.1}, form_choice="measured", throttle=(4e6, 0.0), **options)
    end = time.monotonic() + 60
    same = all(np.array_equal(a, b) for a, b in zip(epoch(loader), wanted, strict=True))
    while loader.stats()["forms"]["corrections"] == 0 and time.monotonic() < end:
        epoch(loader)
    forms = loader.stats()["forms"]
    assert same and forms["corrections"] > 0
    assert forms["by_form"]["raw"]["share"] < 0.9 and forms["by_form"]["pli"]["share"] > 0.1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"forms": {}}, "forms is a dict"),
        ({"forms": ["pli"]}, "forms is a dict"),
        ({"forms": {"pli": 0}}, "part of a form"),
        ({"forms": {"pli": True}}, "part of a form"),
        ({"forms": {"gif": 1}}, "form is one of"),
        ({"forms": {5: 1}}, "there is no number 5"),
        ({"form_choice": "sample"}, r"give Forms\.parts"),
        ({"forms": {"pli": 1}, "form_choice": "coin"}, r"Forms\.choice"),
        ({"forms": {"pli": 1}, "share": "group"}, "not for loaders that share"),
        ({"forms": {"jpeg": 1}, "variants": {"image": ["raw"]}}, "does not allow it"),
    ],
)
def test_errors(variants, options, words) -> None:
    with pytest.raises(ps.PenstockError, match=words):
        load(variants, **options)


def test_a_folder_has_one_form(tmp_path) -> None:
    pil.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    with pytest.raises(ps.errors.ArgumentError, match="packed data sets"):
        load(tmp_path, forms={"png": 1})


# Plans ----------------------------------------------------------------------------------------------

PLAN = {
    "kind": "penstock plan",
    "version": 1,
    "classes": [],
    "loader": {"num_workers": 1, "prefetch": 5, "order": None, "cache": 1 << 24, "cache_form": "raw", "decode": "cpu",
               "form_parts": {"pli-small": 0.25, "raw": 0.75}},
}  # fmt: skip


def test_a_plan_sets_what_was_left_open(variants) -> None:
    loader = load(variants, plan=PLAN, cache="auto")
    wanted = epoch(load(variants))
    assert all(np.array_equal(a, b) for a, b in zip(epoch(loader), wanted, strict=True))
    stats = loader.stats()
    assert stats["workers"] == 1 and stats["cache"]["limit"] == 1 << 24
    assert stats["forms"]["by_form"]["pli-small"]["share"] == 0.25
    assert loader._given["prefetch"] == 5
    own = load(variants, plan=PLAN, prefetch=3, num_workers=2, cache=None, forms={"raw": 1})
    assert own.stats()["workers"] == 2 and own._given["prefetch"] == 3 and own.stats()["cache"]["limit"] == 0
    assert list(own.stats()["forms"]["by_form"]) == ["raw"]
    assert pickle.loads(pickle.dumps(loader))._given["prefetch"] == 5


def test_a_plan_for_another_data_set_is_said(variants, caplog) -> None:
    with caplog.at_level("WARNING", logger="penstock"):
        load(variants, plan={**PLAN, "data": {"path": "x", "samples": N}})
        assert not caplog.records
        load(variants, plan={**PLAN, "data": {"path": "x", "samples": 7}})
    assert "made for 7 samples" in caplog.text


def test_plans_from_files(variants, tmp_path) -> None:
    ps.Plan(PLAN).to_json(tmp_path / "plan.json")
    for plan in (tmp_path / "plan.json", str(tmp_path / "plan.json"), ps.Plan(PLAN), PLAN):
        assert load(variants, plan=plan)._given["prefetch"] == 5
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ps.errors.CorruptError, match="not JSON"):
        load(variants, plan=tmp_path / "broken.json")
    with pytest.raises(ps.errors.ArgumentError, match=r"loader\.form_parts is dict, not 3"):
        load(variants, plan={**PLAN, "loader": {"form_parts": 3}})
    with pytest.raises(FileNotFoundError):
        load(variants, plan=tmp_path / "none.json")
