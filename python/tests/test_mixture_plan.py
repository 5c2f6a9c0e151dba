"""analyze, plan, whatif and tune of mixtures: work is counted for each draw of an epoch, storage for each stored sample."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import shlex
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from conftest import encoded, needs_highs
from penstock import transforms as T
from penstock.caching.planned import Planned
from penstock.cli import main
from penstock.errors import ArgumentError, ExistsError
from penstock.loading import draws
from penstock.planning import classes, mixtures, places, tune, ways
from penstock.planning.plan import report_or_data
from penstock.stalls.measure import usual

N = {"folder": 20, "tar": 12, "packed": 8}
WEIGHTS = {"folder": 1, "tar": 2, "packed": 1}
CHAIN = [T.RandomCrop(96), T.RandomHorizontalFlip()]
planned = needs_highs()


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder and a tar of PNGs that are slow to decode, and a data set of JPEGs."""
    place = tmp_path_factory.mktemp("mixed")
    rows, noise = np.add.outer(np.arange(200), np.arange(200))[..., None], np.random.default_rng(1)
    number = itertools.count()
    for name, n in N.items():
        for i in range(n):
            pixels = (rows * [1, 2, 3] // 4 + noise.integers(0, 8, (200, 200, 3)) + next(number)) % 256
            kind = "jpeg" if name == "packed" else "png"
            path = place / f"{name}-files" / "ab"[i % 2] / f"{i:02d}.{kind}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encoded(pixels.astype(np.uint8), kind))
    with tarfile.open(place / "x.tar", "w") as tar:
        for path in sorted((place / "tar-files").rglob("*.png")):
            tar.add(path, path.name)
    ps.pack(place / "packed-files", place / "packed.pst")
    return {"folder": place / "folder-files", "tar": place / "x.tar", "packed": place / "packed.pst"}


def mixture_of(paths: dict[str, Path], **options: Any) -> ps.Mixture:
    return ps.Mixture(paths, fields=["image"], **options)


def make(data: Any, plan: Any) -> ps.Loader:
    return ps.Loader(data, 4, shuffle=True, seed=1, transforms=CHAIN, output="numpy", num_workers=1,
                     cache=None if plan is None else "auto", plan=plan)  # fmt: skip


def sums_of(paths: dict[str, Path]) -> dict[str, str]:
    """Returns a digest of every file of the sources."""
    files = [file for path in paths.values() for file in ([path] if path.is_file() else sorted(path.rglob("*"))) if file.is_file()]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture(scope="module")
def weighted(paths: dict[str, Path]) -> Iterator[ps.report.Report]:
    with make(mixture_of(paths, weights=WEIGHTS), None) as loader:
        yield ps.analyze(loader, budget=1)


# Draws -------------------------------------------------------------------------------------------------------


def test_draws_of_an_epoch(paths: dict[str, Path]) -> None:
    """The folder's 20 samples all come once. The epoch has 80 draws: these 20, 40 of the tar's 12 samples, and 20 of the other
    8.
    """
    with make(mixture_of(paths, weights=WEIGHTS), None) as loader, make(mixture_of(paths), None) as plain:
        assert draws.of(plain) is None
        found = draws.of(loader)
        drawn = np.concatenate([batch["index"] for batch in loader])
    assert found is not None and found.epoch == len(drawn) == 80
    assert np.bincount(drawn, minlength=40).tolist() == pytest.approx(found.rates.tolist(), abs=1)
    for most, wanted in ((1000, [20, 40, 20]), (40, [10, 20, 10]), (10, [2.5, 5, 2.5])):
        chosen = found.chosen(np.random.default_rng(0), most)
        counts = np.histogram(chosen, [0, 20, 32, 40])[0]
        assert counts.tolist() == pytest.approx(wanted, abs=1) and len(chosen) == pytest.approx(min(80, most), abs=1)
        assert np.ptp(np.bincount(chosen, minlength=40)[20:32]) <= 1
    with make(mixture_of(paths, weights={**WEIGHTS, "packed": 0}, stop="endless"), None) as loader:
        endless = draws.of(loader)
        assert endless is not None and endless.epoch == 32 == len(endless.positions)
    view = mixture_of(paths, weights=WEIGHTS).subset(range(0, 40, 2))
    with ps.Loader(view, 4, indices=range(3, 20), output="numpy", cache=None) as loader:
        part = draws.of(loader)
        assert part is not None and part.positions.tolist() == list(range(3, 20))
        assert np.bincount(part.shares, part.rates).tolist() == pytest.approx([part.epoch / 4, part.epoch / 2, part.epoch / 4])


def test_a_report_of_a_mixture(paths: dict[str, Path], weighted: ps.report.Report, tmp_path: Path) -> None:
    subject = weighted.data["subject"]
    assert (subject["samples"], subject["stored_samples"], subject["batches_per_epoch"]) == (80, 40, 20)
    assert [(source["name"], source["samples"], source["draws"]) for source in subject["sources"]] == [
        ("folder", 20, 20), ("tar", 12, 40), ("packed", 8, 20)]  # fmt: skip
    assert [source["kind"] for source in subject["sources"]] == ["folder", "tar", "packed"]
    stored = int(sum(ps.Dataset(path)._native.nbytes() for path in paths.values()))
    assert subject["nbytes"] == pytest.approx(stored, rel=0.02)
    again = ps.report.Report.load(_saved(weighted, tmp_path))
    for report in (weighted, again):
        answer = ps.whatif(report, cores=8, cache="1MiB")
        assert answer.samples_per_second > 0
    assert ps.whatif(weighted, cache=int(1.5 * stored)).hits > 0.99  # an epoch delivers 1.9 times as many samples
    assert weighted.report() and "changed" not in weighted.data


def _saved(report: ps.report.Report, place: Path) -> Path:
    report.to_json(place / "report.json")
    return place / "report.json"


def test_a_mixture_without_weights(paths: dict[str, Path]) -> None:
    """It is analysed as it is given, with the usual loader."""
    report = ps.analyze(mixture_of(paths), budget=1, forms=())
    subject = report.data["subject"]
    assert subject["samples"] == 40 and "stored_samples" not in subject and subject["opening"] is None
    assert [source["draws"] for source in subject["sources"]] == [20, 12, 8]


# Plans -------------------------------------------------------------------------------------------------------


def cost(cpu: float, nbytes: float) -> dict[str, float]:
    return {"cpu_seconds": cpu, "hit_cpu_seconds": cpu, "nbytes": nbytes, "item_nbytes": nbytes, "reads": 1.0, "pack_seconds": 0.01}


@planned
def test_the_programme_counts_draws_and_stores_samples() -> None:
    """100 samples that come nine times each, and 900 of which one in nine comes. A cache for 100 samples admits the 100 that come
    nine times."""
    report = {
        "subject": {"batch_size": 1, "samples": 1000, "form": "jpeg"}, "machine": {"cores": 8, "storage_nbytes_per_second": 1e8},
        "accelerator": {}, "bands": {},
    }  # fmt: skip
    parts: list[classes.Class] = [
        mixtures.Drawn("jpeg", 0, None, drawn, 1e6, forms={"jpeg": {"cpu": cost(1e-4, 1e5)}}, per_draw=n / drawn, sources=(name,))
        for name, n, drawn in (("few", 100, 900), ("many", 900, 100))
    ]
    mixtures.to_draws(parts)
    solution = ways.solve(parts, report, ways.Limits(cache_nbytes=1.0001e7))
    cached = [sum(share for way, share in solution.used() if way.i_class == i and way.cache_form) for i in (0, 1)]
    assert cached == pytest.approx([1, 0], abs=0.02)  # a plan may be 1 % slower than the fastest
    assert solution.answer["samples_per_second"] == pytest.approx(1e4, rel=0.02)  # a tenth of the draws come from storage
    assert solution.answer["stored_nbytes"] == pytest.approx(1e8)
    saves = {"sample": 1.0, "nbyte": 2.0, "pixel": 3.0}
    nbytes = [dict.fromkeys(("stored_nbytes", "cached_nbytes"), 1e5 * part.per_draw) for part in parts]
    sections = [{"samples": part.samples, "ways": [{**each, "saves": saves}]} for part, each in zip(parts, nbytes, strict=True)]
    made = mixtures.to_samples({"classes": sections, "data": {"samples": 1000}}, parts, {"samples": 1000, "stored_samples": 1000})
    assert [(section["samples"], section["draws"], section["sources"]) for section in made["classes"]] == [
        (100, 900, ["few"]), (900, 100, ["many"])]  # fmt: skip
    for section, times in zip(made["classes"], (9, 1 / 9), strict=True):
        way = section["ways"][0]
        assert way["stored_nbytes"] == way["cached_nbytes"] == pytest.approx(1e5)
        assert way["saves"] == pytest.approx({"sample": times, "nbyte": 2.0, "pixel": 3 * times})


@pytest.fixture(scope="module")
def plan(paths: dict[str, Path], weighted: ps.report.Report) -> ps.Plan:
    with make(mixture_of(paths, weights=WEIGHTS), None) as loader:
        return ps.plan(loader, report=weighted, budget=2, cache=0, storage="400%")


@planned
def test_a_plan_of_a_mixture(paths: dict[str, Path], plan: ps.Plan, tmp_path: Path) -> None:
    about = plan.data["data"]
    assert (about["samples"], about["draws"], [source["name"] for source in about["sources"]]) == (40, 80, list(N))
    of_png = {name: [part for part in plan.data["classes"] if part["form"] == "png" and name in part["sources"]] for name in N}
    assert sum(part["samples"] for part in of_png["folder"]) == 20 and sum(part["draws"] for part in of_png["folder"]) == 20
    assert sum(part["samples"] for part in of_png["tar"]) == 12 and sum(part["draws"] for part in of_png["tar"]) == 40
    assert plan.changes_forms and {"folder", "tar"} <= set(mixtures.changed_sources(plan.data))
    text = plan.report()
    assert "layouts were not measured: the samples lie in several data sets" in text
    assert "plan.to_json('tar.json', source='tar')" in text
    for line in text.splitlines():  # the commands pack single sources
        if line.strip().startswith("penstock pack") and "x.tar" in line:
            words = shlex.split(line)
            assert words[:3] == ["penstock", "pack", str(paths["tar"])] and words[-2:] == ["--plan", "tar.json"]
    plan.to_json(tmp_path / "tar.json", source="tar")
    ps.pack(paths["tar"], tmp_path / "tar.pst", plan=tmp_path / "tar.json")
    wanted = {way["store"][0]["form"] for part in of_png["tar"] for way in part["ways"]}
    packed = ps.Dataset(tmp_path / "tar.pst")
    assert {packed.item(i, "image")["form"] for i in range(len(packed))} <= wanted and "png" not in wanted
    with pytest.raises(ArgumentError, match="no source 'tars': it is for 'folder', 'tar', 'packed'"):
        plan.to_json(source="tars")


@planned
def test_the_cache_of_a_plan_tells_sources_apart(paths: dict[str, Path], plan: ps.Plan) -> None:
    """The plan caches the tar's samples and none of the folder's, although they have the same form and size."""
    data = copy.deepcopy(plan.data)
    for part in data["classes"]:
        for way in part["ways"]:
            way.update(store=[{"form": part["form"]}], cache="encoded" if part["sources"] == ["tar"] else "", cached_nbytes=1e5)
    data["loader"].update(cache=1 << 24, cache_nbytes=1 << 24, cache_form="stored")
    chosen = Planned(data)
    assert chosen
    admits = np.asarray(chosen.of(mixture_of(paths, weights=WEIGHTS)).admit)
    assert np.flatnonzero(admits).tolist() == list(range(20, 32))
    with make(mixture_of(paths, weights=WEIGHTS), data) as loader:
        for _ in range(2):
            for _ in loader:
                pass
        assert loader.stats()["cache"]["items"] == 12


@planned
def test_what_plans_of_mixtures_refuse(paths: dict[str, Path], weighted: ps.report.Report) -> None:
    with pytest.raises(ArgumentError, match="the report is of a mixture.* give the mixture"):
        ps.plan(weighted)
    for option in ("copies", "training_size"):
        with pytest.raises(ArgumentError, match=f"{option} is for one data set, and this is a mixture"):
            ps.plan(mixture_of(paths), **{option: True})


# tune --------------------------------------------------------------------------------------------------------


@pytest.fixture
def analysed(weighted: ps.report.Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes tune use that report instead of measuring."""
    monkeypatch.setattr(tune, "analyze", lambda *unused, **options: copy.deepcopy(weighted))


@planned
def test_tune_writes_new_data_sets(paths: dict[str, Path], analysed: None, tmp_path: Path) -> None:
    before, asked = sums_of(paths), []
    mixture, out = mixture_of(paths, weights=WEIGHTS, quota=4), tmp_path / "tuned"
    tuned = ps.tune(mixture, out=out, make=make, ask=lambda text: asked.append(text) or True, budget=2, cache=0, storage="400%")
    assert sums_of(paths) == before and len(asked) == 1 and f"anew to {out}" in asked[0]
    changed = mixtures.changed_sources(tuned.plan.data)
    assert {"folder", "tar"} <= set(changed) and tuned.data == str(out) and tuned.written_seconds > 0
    assert {path.name for path in out.iterdir()} == {
        "loader.json", *(f"{name}.pst{suffix}" for name in changed for suffix in ("", ".plan.json"))}  # fmt: skip
    assert tuned.plan_file == f"{out}.plan.json" and tuned.as_dict()["loader_file"] == str(out / "loader.json")
    assert f"ps.Loader.from_config({str(out / 'loader.json')!r}, plan=" in tuned.report()
    assert ps.Dataset(out / "tar.pst").item(0, "image")["form"] != "png"
    with make(mixture, None) as old, ps.Loader.from_config(out / "loader.json", plan=tuned.plan_file) as new:
        assert list(new.dataset.sources) == list(N) and new.dataset.sources["tar"].path == str(out / "tar.pst")
        for a, b in zip(old, new, strict=True):
            assert a["index"].tolist() == b["index"].tolist() and np.array_equal(a["image"], b["image"])
    with pytest.raises(ExistsError, match="exists: give another out"):
        ps.tune(mixture, out=out, make=make, budget=2)


def test_views_and_mixtures_within_are_kept(paths: dict[str, Path], tmp_path: Path) -> None:
    """Views and inner mixtures are kept. A data set that occurs twice is written once."""
    inner = ps.Mixture({"a": ps.Dataset(paths["tar"]).subset(range(3, 9)), "b": paths["folder"]}, fields=["image"])
    outer = ps.Mixture({"in": inner, "tar": paths["tar"]}, fields=["image"]).subset(range(1, 30))
    draws_of = {"in/a": (paths["tar"], 5), "in/b": (paths["folder"], 20), "tar": (paths["tar"], 4)}
    sources = [{"name": name, "path": str(path), "samples": n, "draws": n} for name, (path, n) in draws_of.items()]
    ways_of = [{"share": 1.0, "store": [{"form": "raw"}]}]
    classes_of = [{"form": "png", "pixels": [0, None], "samples": 29, "ways": ways_of}]
    found = ps.Plan({"kind": "penstock plan", "version": 1, "data": {"sources": sources}, "classes": classes_of, "loader": {}})
    kind = tune.MixturePlaces(outer, outer.path, tmp_path / "out", None, None)
    found.to_json(kind.plan_file)
    kind.write()
    assert sorted(path.name for path in (tmp_path / "out").glob("*.pst")) == ["in-a.pst", "in-b.pst"]
    again = kind.training_data("")
    assert len(again) == 29 and [leaf.path for leaf in again.sources["in"].sources.values()] == [
        str(tmp_path / "out" / name) for name in ("in-a.pst", "in-b.pst")]  # fmt: skip
    assert again.sources["tar"].path == str(tmp_path / "out" / "in-a.pst")
    for i in (0, 7, 28):
        assert np.array_equal(outer[i]["image"], again[i]["image"])


@planned
def test_nothing_is_left_of_what_was_interrupted(
    paths: dict[str, Path], analysed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, out, whole, calls = sums_of(paths), tmp_path / "tuned", places.packing.pack, []

    def ends(*given: Any, **options: Any) -> Any:
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(*given, **options)

    monkeypatch.setattr(places.packing, "pack", ends)
    mixture = mixture_of(paths, weights=WEIGHTS)
    with pytest.raises(KeyboardInterrupt) as caught:
        ps.tune(mixture, out=out, make=make, budget=2, cache=0, storage="400%")
    assert "begin anew, with the same call" in caught.value.__notes__[0]
    assert [path.name for path in tmp_path.iterdir()] == ["tuned.plan.json"] and sums_of(paths) == before
    anew = tune.MixturePlaces(mixture, mixture.path, out, None, None)
    anew.write()  # tune follows the existing plan
    assert anew.training_data("").sources["tar"].path == str(out / "tar.pst")


@planned
def test_what_tune_refuses(paths: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "analyze", lambda *args, **options: pytest.fail("it was measured"))
    listed = ps.Dataset.from_files(sorted(paths["folder"].rglob("*.png")))
    for mixture, options, words in [
        (mixture_of(paths), {}, "stay as they are: name the folder for the new ones by out"),
        (mixture_of(paths), {"out": tmp_path / "no" / "x"}, "is no directory that can be written"),
        (mixture_of(paths), {"out": tmp_path / "x", "training_size": True}, "training_size is for one data set"),
        (ps.Mixture({"listed": listed}), {"out": tmp_path / "x"}, "source 'listed' is a list of files"),
    ]:
        with pytest.raises(ArgumentError, match=words):
            ps.tune(mixture, make=make, **options)
    assert not list(tmp_path.iterdir())


# The command line --------------------------------------------------------------------------------------------


@pytest.fixture
def metadataset(paths: dict[str, Path], tmp_path: Path) -> Path:
    blend = "".join(f"      - {{path: {path}, weight: {WEIGHTS[name]}}}\n" for name, path in paths.items())
    file = tmp_path / "meta.yaml"
    file.write_text(f"__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n{blend}  val: {{path: {paths['folder']}}}\n")
    return file


@planned
def test_commands_take_metadatasets(metadataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r.json"
    given = ["--budget", "1s", "--fields", "image", "--batch-size", "4", "--size", "96"]
    assert main.main(["analyze", str(metadataset), *given, "--forms", "png", "--out", str(out), "--quiet"]) == 0
    subject = json.loads(out.read_text())["subject"]
    assert (subject["samples"], [source["name"] for source in subject["sources"]]) == (80, ["0", "1", "2"])
    assert main.main(["whatif", str(out), "--cores", "4"]) == 0
    with usual.Usual(split="val", output="numpy")(metadataset) as loader:
        assert len(loader.dataset) == 20
    assert report_or_data(metadataset) == metadataset  # metadatasets for penstock plan, without a report
    capsys.readouterr()
    assert main.main(["tune", str(metadataset), "--yes", "--fields", "image"]) != 0
    assert "--out DIR" in capsys.readouterr().err
    assert main.main(["analyze", str(metadataset), "--labels", "x.csv"]) != 0
    assert "is a metadataset, whose data sets are opened as they are" in capsys.readouterr().err

