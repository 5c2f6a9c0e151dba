"""The computed epochs of bench/endtoend, and the tables made of them. Rates are invented."""

import argparse

import pytest

import views_papers
from bench_modules import load

steps, sets, endtoend, cell, sources = (load("endtoend", name) for name in ("steps", "sets", "endtoend", "cell", "sources"))
KNOWN = sets.sets(sets.Path("/nowhere"), sets.Path("/nowhere"))


def found(name, machine, loader, rate, disk=0.0):
    return {"set": name, "machine": machine, "loader": loader, "plan": "100 % pli", "planned_s": 1.0,
            "alone": {"samples_per_s": rate, "disk_mb_per_s": disk, "cpu_ms": 1.0, "foreign_cores": 0.0}}


def test_an_epoch_takes_the_longer_of_loading_and_learning():
    assert endtoend.epoch_of(500, 2000) == {"samples_per_s": 500, "stall": 0.75}
    assert endtoend.epoch_of(3000, 2000) == {"samples_per_s": 2000, "stall": 0}


def test_larger_pictures_take_longer_steps():
    light = steps.Rate("x", "y", 4000, "z")
    assert endtoend.rate_of(light, KNOWN["imagenet"]) == 4000
    assert endtoend.rate_of(light, KNOWN["frames"]) == pytest.approx(4000 * 224**2 / 768**2)
    assert endtoend.rate_of(light, KNOWN["audio"]) == 4000


def test_every_rate_but_those_of_sound_has_a_source():
    assert all(step.source for step in steps.NETWORKS) and not any(step.source for step in steps.SOUND)
    rates = [step.samples_per_second for step in steps.NETWORKS]
    assert rates == sorted(rates, reverse=True)  # from small to large models


def test_what_binds():
    slow = endtoend.MACHINES["slow"]
    assert endtoend.binding(found("imagenet", "slow", "dali", 270, 29), 1000, slow) == "storage"
    assert endtoend.binding(found("imagenet", "slow", "dali", 200, 10), 1000, slow) == "cores"
    assert endtoend.binding(found("imagenet", "slow", "dali", 1000, 10), 1000, slow) == "network"
    assert endtoend.binding(found("imagenet", "few", "dali", 200, 90), 1000, endtoend.MACHINES["few"]) == "cores"


def test_the_mean_of_ratios_is_geometric():
    assert endtoend.geometric_mean([1, 4]) == pytest.approx(2)


@pytest.fixture
def merged():
    cells = [found("imagenet", "few", "dali", 400), found("imagenet", "few", "torchvision", 500),
             found("imagenet", "few", "penstock", 2000),
             {"set": "imagenet", "machine": "slow", "loader": "dali", "absent": "no | wheel"},
             found("imagenet", "slow", "torchvision", 250, 29), found("imagenet", "slow", "penstock", 500, 29)]
    about = {"imagenet": {"files": 3, "mb": 1.0, "batch": 64, "title": "ImageNet, JPEG"}}
    cells[1]["steps"] = [{"step_rate": 1000.0, "samples_per_s": 480.0}]
    return {"machine": {"cpu": "a CPU", "cores": 2, "commit": "abc", "date": "2000-01-02"}, "sets": about, "cells": cells,
            "settings": {"share": 0.5, "seconds": 1}, "epochs": endtoend.epochs(cells, KNOWN["imagenet"])}


def row_of(merged, machine, network):
    return next(row for row in merged["epochs"] if (row["machine"], row["network"]) == (machine, network))


def test_ratios_are_of_epochs_not_of_loaders(merged):
    light = row_of(merged, "few", "MobileNetV3-small, RTX 3090")
    assert light["times"] == {"dali": 5, "torchvision": 4} and light["times_fastest"] == 4
    heavy = row_of(merged, "few", "VGG-11, RTX 3090")
    assert heavy["loaders"]["penstock"] == {"samples_per_s": 954.03, "stall": 0, "binds": "network"}
    assert heavy["times"]["torchvision"] == pytest.approx(954.03 / 500)
    slow = row_of(merged, "slow", "ResNet-18, RTX 3090")
    assert slow["times"] == {"torchvision": 2} and slow["loaders"]["penstock"]["binds"] == "storage"


def test_the_table_says_what_is_reached(merged):
    text = endtoend.table(merged)
    assert "| L3 (ECCV 2022) | up to; ImageNet, beside JPEG (imagenet) | A100 | 1.77 x |" in text
    shown = [line for line in text.splitlines() if line.startswith(("| L3", "| CoorDL"))]
    claims = {line.split("|")[4].strip() + line.split("|")[1]: line for line in shown}
    assert claims["1.77 x L3 (ECCV 2022) "].endswith("| reached |")
    assert "not reached" in claims["5.0 x CoorDL (VLDB 2021) "]
    assert "no / wheel" in text and "computed | measured" in text and "+4.2%" in text  # 500 beside 480
    assert endtoend.picture(merged).count("<rect") > 4


def test_the_table_of_figures_has_the_loaders_of_the_run():
    cells = [found("imagenet", machine, loader, rate) for machine in ("few", "slow", "balanced")
             for loader, rate in (("dali", 400), ("torchvision", 500), ("ffcv_raw", 1600), ("penstock", 2000))]  # fmt: skip
    cells[2] = {"set": "imagenet", "machine": "few", "loader": "ffcv_raw", "absent": "did not install"}
    run = {"sets": ["imagenet"], "cells": cells, "epochs": endtoend.epochs(cells, KNOWN["imagenet"])}
    head, _, row, _ = (line.split("|")[1:-1] for line in views_papers.endtoend(run))
    assert head[5:9] == ["x FFCV raw: mean", "most", "x the fastest: mean", "most"]
    assert head[9:] == ["stall: DALI", "torch", "FFCV raw", "Penstock"] and (row[2], row[6], row[8]) == ("5.00", "1.25", "4.00")
    assert [line.split("|")[2:7] for line in views_papers.endtoend_plans(run)[2:]][0] == ["100 % pli", "2000", "400", "500", "-"]
    before = {**run, "cells": [cell for cell in cells if cell["loader"] != "ffcv_raw"]}
    assert "x the faster: mean" in views_papers.endtoend(before)[0] and "FFCV" not in views_papers.endtoend(before)[0]


def test_all_loaders_have_the_same_memory(tmp_path):
    (tmp_path / "imagenet" / "c0").mkdir(parents=True)
    for i in range(4):
        (tmp_path / "imagenet" / "c0" / f"{i}.JPEG").write_bytes(bytes(1000))
    each, args = sets.sets(tmp_path, tmp_path)["imagenet"], argparse.Namespace(share=0.25)
    memory = {name: endtoend.memory_of(args, machine, each) for name, machine in endtoend.MACHINES.items()}
    assert memory == {"few": 4000, "slow": 1000, "balanced": 1000}


def test_what_takes_more_than_the_memory_is_not_kept():
    assert cell.kept("dali", 4000, 4000, False) == 1  # keeps the files themselves
    pixels = cell.kept("ffcv_raw", 16000, 4000, False)
    assert 0 < pixels < 0.25 and pixels == cell.cache_epochs.random_replacement(0.25)
    assert cell.kept("penstock", 16000, 4000, True) == 0  # Penstock's own cache has the memory
    assert cell.kept("penstock", 3900, 4000, False) == 1
    assert cell.kept("penstock", 16000, 4000, False) == pixels  # keeps no more pixels in memory than others do


def test_a_part_of_the_samples_stays_in_the_page_cache(tmp_path):
    """Eight samples lie in one file, two pages each. A quarter stays in the page cache; the others are dropped after delivery."""
    page, path = cell.delivered.PAGE, tmp_path / "shard"
    path.write_bytes(bytes(16 * page))
    went = []
    samples = [sources.formats.Sample(i, path, 2 * page * i, 2 * page) for i in range(8)]
    pages = cell.Pages(sources.Source(iter(()), samples, lambda _, runs: went.extend(runs)), 0.25)
    assert len(pages.dropped) == 6 and sorted(first // 2 for first, _ in went) == sorted(pages.dropped)
    for _ in range(2):
        went.clear()
        pages.drop(list(range(8)))
        assert sorted(first // 2 for first, _ in went) == sorted(pages.dropped)
    went.clear()
    pages.drop([number for number in range(8) if number not in pages.dropped])
    assert went == []


def test_a_step_overlaps_the_next_batch(monkeypatch):
    """With a simulated clock: batches of 10 that take 3 s, steps of 2 and of 5 s, and half as long for half a batch."""
    now = 0.0

    def sleep(seconds):
        nonlocal now
        now += seconds

    monkeypatch.setattr(cell.time, "perf_counter", lambda: now)
    monkeypatch.setattr(cell.time, "sleep", sleep)
    for seconds, each in ((2.0, 3.0), (5.0, 5.0)):
        step, now = cell.emulated(10 / seconds), 0.0
        for _ in range(10):
            now += 3.0
            step(10, None)
        assert now == pytest.approx(10 * each, abs=each)
    step, now = cell.emulated(10 / 8.0), 0.0
    for _ in range(10):
        now += 3.0
        step(5, None)
    assert now == pytest.approx(10 * 4.0, abs=4.0)
